"""The incidents of the recorder's own scenarios: committed captures, and the same on Kafka 3.9.1.

The committed captures are the training half; those of the older release are held back.
"""

from benchmarks.causes.incidents.clients import MIDDLE, NEW
from benchmarks.causes.table import RECORDER, Incident, Quiet, Variant
from tools.record.plan import OF_ALL_AGES

OTHER_NEW = "4.0.1"  # for scenarios that need the consumer protocol (KIP-848)


def nothing(_: object) -> None:
    """The recorder plays it."""


def both(scenario: str, *clients: str, held_back: str = MIDDLE) -> tuple[Variant, ...]:
    """The committed capture of the newest release, and one to record."""
    committed = {"capture": f"{scenario}-{NEW}"}
    again = {"scenario": scenario, "clients": clients}
    return (
        Variant(NEW, RECORDER, options=committed),
        Variant(held_back, RECORDER, options=again),
    )


INCIDENTS = (
    Incident(
        "slow-leader", "Broker 3, one of three leaders, was paused for 1 s, three times",
        ("broker-stalls",), ("127.0.0.3",), nothing, both("incident-slow-leader"),
        also=("broker-slow",),
    ),
    Incident(
        "slow-follower", "Follower 3 was paused for 1 s, three times: acks=all waited for it",
        ("produce-latency-slow-follower",), ("broker 3",), nothing,
        both("incident-slow-follower"), also=("broker-stalls",),
    ),
    Incident(
        "lagging-follower", "Broker 3 fell out of the replicas in sync: strict is rejected",
        ("replicas-missing",), ("strict-refused",), nothing, both("incident-lagging-follower"),
        also=("produce-latency-slow-follower",),
    ),
    Incident(
        "leader-killed", "Broker 2, leader of a busy partition, was killed",
        ("failover-blackout",), ("127.0.0.2",), nothing, both("incident-leader-killed"),
        also=("broker-refuses-connections", "requests-unanswered", "produce-sent-again"),
    ),
    Incident(
        "leader-stopped", "Leadership moved from 2 to 3; then 3 was shut down",
        ("failover-blackout",), ("127.0.0.2",), nothing, both("incident-leader-stopped"),
        also=("broker-refuses-connections", "requests-unanswered", "produce-sent-again"),
        is_notice=True,  # leaders are moved, as before a planned restart
    ),
    Incident(
        "lost-answers", "Produce responses were lost; without idempotence batches are in the log "
        "twice",
        ("duplicates-in-log",), ("java-plain",), nothing,
        both("incident-lost-answers", "java", "librdkafka"),
        also=("produce-sent-again", "requests-unanswered"),
    ),
    Incident(
        "lossy-network", "A switch lost 12 % of the packets of sensor-during",
        ("network-makes-p99",), ("sensor-during",), nothing, both("incident-lossy-network"),
    ),
    Incident(
        "killed-member", "Members of groups were killed; their partitions stalled until the "
        "session ended",
        ("session-timeout",), ("tellers",), nothing,
        both("incident-killed-member", held_back=OTHER_NEW),
    ),
    Incident(
        "static-member", "Static members were lost and came back",
        ("session-timeout",), ("desks",), nothing,
        both("incident-static-member", held_back=OTHER_NEW),
    ),
    Incident(
        "slow-poller", "Members exceeded max.poll.interval.ms and left",
        ("max-poll-exceeded",), ("slow-java",), nothing,
        both("incident-slow-poller", held_back=OTHER_NEW),
        also=("consumer-lag-grows", "records-delivered-again", "rebalance-stops-group",
              "member-fenced"),
    ),
    Incident(
        "hanging-transaction", "A producer was killed within a transaction of till",
        ("hanging-transaction",), ("till",), nothing, both("incident-hanging-transaction"),
        also=("transactional-id-taken-over",),
    ),
    Incident(
        "crashes", "Consumers crashed between reading and committing",
        ("session-timeout",), ("commits-first",), nothing,
        both("incident-crashes"),
        also=("records-delivered-again", "commit-skips-records"),
    ),
    Incident(
        "old-clients", "Clients use versions that Kafka 4.0 removed: their requests are refused",
        ("client-breaks-on-4.0",), ("java-0.10.2.2",), nothing,
        (
            Variant(NEW, RECORDER, options={"capture": f"incident-old-clients-{NEW}"}),
            Variant(OTHER_NEW, RECORDER,
                    options={"scenario": "incident-old-clients", "clients": OF_ALL_AGES}),
        ),
        also=("requests-unanswered", "connection-churn", "connections-reset", "metadata-storm"),
    ),
)  # fmt: skip

QUIET_CAPTURES = (
    "telemetry-3.9.1", "networks/bridged-4.3.1", "basics-0.11.0.3", "basics-1.1.1", "basics-2.4.1",
    "basics-2.8.2", "basics-3.4.1", "basics-3.9.1", "basics-4.0.1", "basics-4.3.1",
    "client-latency-4.3.1", "consumer-groups-4.0.1", "consumer-groups-4.3.1", "streams-2.8.2",
    "streams-4.3.1", "streams-groups-4.3.1", "tracing-4.3.1", "incident-group-changes-4.3.1",
    "networks/ipv6-4.3.1", "networks/vxlan-4.3.1",
)  # fmt: skip
QUIETS = (
    Quiet(
        "quiet-committed", "A committed capture of healthy traffic", nothing,
        tuple(
            Variant(name.rpartition("-")[2] if "-" in name else NEW, RECORDER,
                    options={"capture": name})
            for name in QUIET_CAPTURES
        ),
    ),
)  # fmt: skip
