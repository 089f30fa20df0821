"""Columns of `exchanges`; those of requests' fields are declared in `messages.request_fields`."""

from typing import Final

from kdissect.messages.columns import INT8, INT16, INT32, INT64, TEXT, TIME, Column
from kdissect.messages.request_fields import FIELDS, RequestField
from kdissect.tables.declarations.table import (
    API_NAME,
    CAPTURE,
    CONNECTION_ID,
    ERROR_NAME,
    EXCHANGE_ID,
    Table,
)


def _request_column(field: RequestField) -> Column:
    """The column of a request's field."""
    value = f"x.asked.{field.name}"
    if field.is_text:
        return field.column._replace(source=f"own.index_or_null({value})")
    sources = {"": value, "-1": f"or_null({value})", "negative": f"count_or_null({value})"}
    return field.column._replace(source=sources[field.none])


REQUEST_COLUMNS: Final = [_request_column(field) for field in FIELDS if field.column.meaning]

EXCHANGES = Table(
    "exchanges",
    "a request with its response, or either of them alone",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "api_key", INT16, "", "API key of the request; its type in Kafka 0.7",
            source="api_code(x)",
        ),
        Column("api", TEXT, "", API_NAME, stored=False),
        Column(
            "api_version", INT16, "", "API version of the request; null in Kafka 0.7",
            source="x.api_version",
        ),
        Column(
            "correlation_id", INT32, "", "correlation id; null in Kafka 0.7",
            source="x.correlation_id",
        ),
        Column(
            "client_id", TEXT, "", "client id of the request header",
            source="own.index_or_none(x.client_id)",
        ),
        Column(
            "outcome", TEXT, "",
            "answered, unanswered (connection or capture ended first), no_response_expected "
            "(produce with acks=0), orphan (a response whose request was not captured); null if "
            "the response may not have been captured",
            source="x.outcome if x.outcome else NULL",
        ),
        Column(
            "request_start", TIME, "", "packet with the first byte of the request",
            source="x.request_start",
        ),
        Column(
            "request_end", TIME, "", "packet with the last byte of the request",
            source="x.request_end",
        ),
        Column(
            "response_start", TIME, "", "packet with the first byte of the response",
            source="x.response_start",
        ),
        Column(
            "response_end", TIME, "", "packet with the last byte of the response",
            source="x.response_end",
        ),
        Column("latency_ns", INT64, "ns", "response_start - request_end", stored=False),
        Column("upload_ns", INT64, "ns", "request_end - request_start", stored=False),
        Column("download_ns", INT64, "ns", "response_end - response_start", stored=False),
        Column(
            "queue_ns", INT64, "ns",
            "part of latency spent behind earlier requests of the connection: response_end of "
            "the previous response - request_end, between 0 and latency; null if that response "
            "may not have been captured",
            source="x.queue_ns",
        ),
        Column("service_ns", INT64, "ns", "latency - queue", stored=False),
        Column(
            "wait_ns", INT64, "ns",
            "part of service that the request asked for: long poll, join wait; null if that was "
            "not captured, or the response is an error that may have ended the wait",
            source="x.wait_ns",
        ),
        Column("work_ns", INT64, "ns", "service - wait", stored=False),
        Column(
            "throttle_ms", INT32, "ms", "throttle time stated by the broker",
            source="x.throttle_ms",
        ),
        Column(
            "request_size", INT64, "bytes", "size field of the request",
            source="x.request_size",
        ),
        Column(
            "response_size", INT64, "bytes", "size field of the response",
            source="x.response_size",
        ),
        Column(
            "error_code", INT16, "",
            "top-level error code; when that is 0 or absent, the first other code in the response",
            source="code_in(x.dialect, x.error_code)",
        ),
        ERROR_NAME,
        Column(
            "error_count", INT32, "",
            "error codes other than 0 anywhere in the response; null unless all of it was "
            "captured",
            source="x.error_count",
        ),
        *REQUEST_COLUMNS,
        Column(
            "topic_count", INT32, "",
            "topics named in request or response, whichever has more; null unless both were "
            "captured whole",
            source="x.topic_count",
        ),
        Column(
            "partition_count", INT32, "",
            "partitions named in request or response: rows in `partitions`, and those beyond "
            "the limit of a message; null as topic_count",
            source="partition_count(x)",
        ),
        Column(
            "record_count", INT64, "",
            "records according to the batch headers, without those of control batches",
            source="x.record_count",
        ),
        Column(
            "record_bytes", INT64, "bytes", "size of the records fields, as on the wire",
            source="x.record_bytes",
        ),
        Column(
            "fetch_class", TEXT, "",
            "Fetch and ShareFetch: data (answered at once), waited (long poll ended by data), "
            "empty (fewer than min_bytes returned), error",
            source="x.fetch_class if x.fetch_class else NULL",
        ),
        Column(
            "retransmits", INT32, "",
                "segments retransmitted on the connection during the exchange",
            source="x.retransmits",
        ),
        Column(
            "zero_windows", INT32, "",
            "zero-window segments on the connection during the exchange",
            source="x.zero_windows",
        ),
        Column(
            "rtt_ns", INT64, "ns",
            "smallest TCP round trip of the connection up to the response, over both sides of "
            "the tap, by the handshake, and by data and its ACK; in a capture taken at the "
            "client, at least this much of latency is the network's",
            source="or_null(x.rtt_ns)",
        ),
        Column(
            "missing_bytes", INT64, "bytes",
            "bytes of request and response missing in the capture, inside frames of known size",
            source="x.missing_bytes",
        ),
        Column(
            "request_packet", INT64, "", "frame number of request_start",
            source="x.request_packet",
        ),
        Column(
            "response_packet", INT64, "", "frame number of response_start",
            source="x.response_packet",
        ),
        Column(
            "decode_status", TEXT, "",
            "ok, or joined with +: request, response (not decoded to its end, see problems), "
            "leftover (bytes after the last field), variant:R (in the layout that release R had "
            "under this version; no-throttle-time: ApiVersions without its last field, as some "
            "brokers answer), unknown-api, unknown-version (only the header is decoded), "
            "damaged (bytes were not captured), clock-set (the capture's clock was set during "
            "the exchange: durations are null), no-request (an orphan response), "
            "response-not-captured (no packet of the broker's direction was captured)",
            source="x.status",
        ),
        Column(
            "candidates", TEXT, "",
            "of an orphan: the APIs and versions that fit its bytes, most likely first",
            source="own.index_or_null(x.candidates)",
        ),
        Column(
            "certainty", INT8, "%",
            "certainty of the API: 100 if the request was captured; of an orphan, the share of "
            "its first candidate, 0 without candidates",
            source="x.certainty",
        ),
    ),
)  # fmt: skip
