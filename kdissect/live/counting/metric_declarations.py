"""Declarations of the metrics for Prometheus: docs/metrics.md is generated from them."""

from typing import Final, NamedTuple

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
INFO: Final = "info"


class Metric(NamedTuple):
    """One metric; `name` is without the suffix of its kind."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its samples."""
        if self.kind == HISTOGRAM:
            return tuple(f"{self.name}_{suffix}" for suffix in ("bucket", "count", "sum"))
        return (self.name + {COUNTER: "_total", INFO: "_info"}.get(self.kind, ""),)


# With --sample, all others are multiplied by its factor.
UNSCALED: Final = frozenset({
    "kdissect_all_problems", "kdissect_all_shed", "kdissect_group_generation_changes",
    "kdissect_group_generation", "kdissect_group_lag_records", "kdissect_group_lag_partitions",
    "kdissect_findings", "kdissect_packets_received", "kdissect_packets_dropped",
    "kdissect_packets", "kdissect_captured_bytes", "kdissect_problems", "kdissect_mid_streams",
    "kdissect_shed", "kdissect_shedding_level", "kdissect_backlog_ratio", "kdissect_backlog_bytes",
    "kdissect_backlog_seconds", "kdissect_last_packet_timestamp_seconds", "kdissect_label_names",
    "kdissect_label_names_left_out", "kdissect_sample_factor", "process_resident_memory_bytes",
    "process_cpu_seconds",
})  # fmt: skip
METRICS: Final = (
    Metric(
        "kdissect_all_exchanges", COUNTER, (),
        "requests and responses without a request; this and the other totals without labels start "
        "at 0",
    ),
    Metric("kdissect_all_unanswered", COUNTER, (), "requests without a response"),
    Metric("kdissect_all_errors", COUNTER, (), "error codes other than 0 in responses"),
    Metric("kdissect_all_problems", COUNTER, (), "all of `kdissect_problems_total`"),
    Metric("kdissect_all_shed", COUNTER, (), "all of `kdissect_shed_total`"),
    Metric(
        "kdissect_exchanges", COUNTER, ("api", "client", "outcome"),
        "requests and what became of them: answered, unanswered, no_response_expected (produce "
        "with acks=0), orphan (a response without its request)",
    ),
    Metric(
        "kdissect_message_bytes", COUNTER, ("api", "client", "direction"),
        "bytes of requests (to_broker) and responses (to_client), as their size fields say",
    ),
    Metric("kdissect_errors", COUNTER, ("api", "error"), "error codes other than 0 in responses"),
    Metric("kdissect_client_errors", COUNTER, ("client", "error"), "the same, by client"),
    Metric(
        "kdissect_topic_errors", COUNTER, ("topic", "error"),
        "the same, of those that concern a topic",
    ),
    Metric(
        "kdissect_topic_bytes", COUNTER, ("topic", "direction"),
        "bytes of records, produced or fetched, as they are on the wire",
    ),
    Metric(
        "kdissect_topic_records", COUNTER, ("topic", "direction"),
        "records produced or fetched, as batch headers count them, without control records",
    ),
    Metric(
        "kdissect_throttle_seconds", COUNTER, ("client",),
        "throttle time that brokers stated in responses (quotas)",
    ),
    Metric("kdissect_throttled_exchanges", COUNTER, ("client",), "responses with throttle time"),
    Metric(
        "kdissect_group_events", COUNTER, ("group", "event"),
        "events of group members, as in `members`: join, leave, sync, assign, heartbeat (answered "
        "with an error), owned, subscribe, epoch",
    ),
    Metric(
        "kdissect_group_generation_changes", COUNTER, ("group",),
        "rebalances: new generations of classic groups, new epochs of the newer ones; those of "
        "groups that share the label \"other\" are not known",
    ),
    Metric(
        "kdissect_group_generation", GAUGE, ("group",),
        "highest generation, or member epoch, that was seen",
    ),
    Metric(
        "kdissect_group_lag_records", GAUGE, ("group",),
        "records between the offsets that a group committed and the ends of its partitions, as "
        "far as both were seen",
    ),
    Metric(
        "kdissect_group_lag_partitions", GAUGE, ("group",),
        "partitions of which that is the sum",
    ),
    Metric(
        "kdissect_latency_seconds", HISTOGRAM, ("api",),
        "end of the request to the start of its response, where both were captured",
    ),
    Metric(
        "kdissect_queue_seconds", HISTOGRAM, ("api",),
        "part of latency spent behind earlier requests of the connection",
    ),
    Metric("kdissect_service_seconds", HISTOGRAM, ("api",), "latency without queue"),
    Metric(
        "kdissect_work_seconds", HISTOGRAM, ("api",),
        "service without what the request asked to wait (long polls, joins), where that is known",
    ),
    Metric(
        "kdissect_client_latency_seconds", HISTOGRAM, ("client",),
        "latency without what the request asked to wait, where that is known",
    ),
    Metric(
        "kdissect_topic_latency_seconds", HISTOGRAM, ("topic", "direction"),
        "the same of produces and fetches that have records of the topic, or ask for them",
    ),
    Metric("kdissect_open_connections", GAUGE, (), "TCP connections that are open"),
    Metric("kdissect_ended_connections", COUNTER, (), "TCP connections that ended"),
    Metric(
        "kdissect_refused_connections", COUNTER, (),
        "connections whose SYN was answered by a reset: nothing listens on the port",
    ),
    Metric(
        "kdissect_reset_connections", COUNTER, ("side",),
        "other connections that ended by a reset, by the side that sent it: client, broker",
    ),
    Metric(
        "kdissect_retransmitted_segments", COUNTER, ("side",),
        "TCP segments that a side sent again: lost between it and the other one",
    ),
    Metric(
        "kdissect_zero_windows", COUNTER, ("side",),
        "TCP segments that announce a zero window: this side does not read what it gets",
    ),
    Metric(
        "kdissect_client_retransmitted_segments", COUNTER, ("client", "side"),
        "segments sent again by the client, or to it by the broker",
    ),
    Metric(
        "kdissect_client_zero_windows", COUNTER, ("client", "side"),
        "segments with a zero window on the connections of the client",
    ),
    Metric("kdissect_zero_window_seconds", COUNTER, ("side",), "time with such a window"),
    Metric(
        "kdissect_authentication_failures", COUNTER, ("mechanism",),
        "connections on which SASL failed: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, "
        "OAUTHBEARER, other",
    ),
    Metric(
        "kdissect_tls_alerts", COUNTER, ("side", "alert"),
        "connections on which a side ended TLS by an alert that the capture can read",
    ),
    Metric(
        "kdissect_waiting_requests", GAUGE, (),
        "requests without an answer, on connections as they were asked last",
    ),
    Metric(
        "kdissect_waiting_requests_by_age", GAUGE, ("age",),
        "the same by how long they waited then: under 1s, 1s to 10s, 10s to 60s, over 60s",
    ),
    Metric(
        "kdissect_late_connections", GAUGE, (),
        "connections whose oldest request waits longer than the 99.9th percentile of its API, a "
        "second at least: long polls aside, 500 at the most",
    ),
    Metric(
        "kdissect_undecrypted_connections", GAUGE, ("reason",),
        "open TLS connections that are not decrypted, and why: what they say is not in any count",
    ),
    Metric("kdissect_undecrypted_bytes", COUNTER, (), "payload of TLS that was not decrypted"),
    Metric(
        "kdissect_payload_bytes", COUNTER, ("side",),
        "captured TCP payload, encrypted or not, by the side that sent it",
    ),
    Metric(
        "kdissect_findings", GAUGE, ("id", "severity"),
        "with --findings, findings that have begun and are not over: 0 again when they are",
    ),
    Metric("kdissect_packets_received", COUNTER, (), "packets that passed the capture's filter"),
    Metric("kdissect_packets_dropped", COUNTER, (), "of those, packets the capturing host lost"),
    Metric("kdissect_packets", COUNTER, (), "packets that were dissected"),
    Metric("kdissect_captured_bytes", COUNTER, (), "bytes of those packets"),
    Metric("kdissect_problems", COUNTER, ("kind",), "what did not go right, see `problems`"),
    Metric(
        "kdissect_mid_streams", COUNTER, (),
        "directions of connections that had begun before the capture did: bytes up to their first "
        "whole message were skipped, which is no problem",
    ),
    Metric("kdissect_shed", COUNTER, ("what",), "what was not made, for want of time or memory"),
    Metric("kdissect_shedding_level", GAUGE, (), "how much is not made; 0 is nothing"),
    Metric("kdissect_backlog_ratio", GAUGE, (), "how full the capture's buffer is, 0 to 1"),
    Metric(
        "kdissect_backlog_bytes", GAUGE, (),
        "with --follow, bytes of the files that are not read yet",
    ),
    Metric(
        "kdissect_backlog_seconds", GAUGE, (),
        "with --follow, age of the last packet read, while there are such bytes; 0 if not",
    ),
    Metric(
        "kdissect_last_packet_timestamp_seconds", GAUGE, (), "when there was a packet last, to 1 s"
    ),
    Metric(
        "kdissect_sample_factor", GAUGE, (),
        "N with --sample connections=1/N, else 1: what counts of exchanges, messages, topics, "
        "latencies and connections are multiplied by",
    ),
    Metric("kdissect_label_names", GAUGE, ("label",), "names that have a label of their own"),
    Metric(
        "kdissect_label_names_left_out", GAUGE, ("label",),
        'names that came later and share the label "other"; counted up to 10 000',
    ),
    Metric("process_resident_memory_bytes", GAUGE, (), "memory that kdissect has"),
    Metric("process_cpu_seconds", COUNTER, (), "processor time that kdissect took"),
    Metric("kdissect_build", INFO, ("version", "build"), "which kdissect it is; always 1"),
)  # fmt: skip
