"""`Exchange`: output of the exchanges stage, with its constants and status bits."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.framing.frames import Frame
from kdissect.messages.extracted import ErrorFact
from kdissect.messages.partitions import Partitions
from kdissect.messages.request_fields import NOTHING_ASKED, RequestFields
from kdissect.protocol.readers import NULL
from kdissect.streams.events import ZERO_WINDOW, Connection

API_PRODUCE: Final = 0
API_FETCH: Final = 1
API_JOIN_GROUP: Final = 11
API_SYNC_GROUP: Final = 14
API_SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
API_INIT_PRODUCER_ID: Final = 22
API_SASL_AUTHENTICATE: Final = 36
API_HEARTBEAT: Final = 12
API_SHARE_FETCH: Final = 78
GROUP_HEARTBEATS: Final = (68, 76, 88)  # consumer, share and streams groups

# Outcomes. PENDING is also the outcome of an ended exchange if the capture does not show its end.
PENDING: Final = 0
ANSWERED: Final = 1
UNANSWERED: Final = 2
NO_RESPONSE_EXPECTED: Final = 3
ORPHAN: Final = 4
OUTCOMES: Final = ("unknown", "answered", "unanswered", "no_response_expected", "orphan")

# Decode status: parts of the exchange that are not decoded, as bits; 0 is all decoded.
REQUEST_FAILED: Final = 1
RESPONSE_FAILED: Final = 2
UNKNOWN_VERSION: Final = 4
UNKNOWN_API: Final = 8
DAMAGED: Final = 16
NO_REQUEST: Final = 32  # an orphan response contains neither its API nor its version
LEFTOVER: Final = 64  # all fields of a body are present, followed by more bytes
UNSEEN: Final = 128  # nothing of the direction that carries responses was captured
CLOCK_SET: Final = 256  # the capture's clock was set meanwhile: durations are unknown
# A body with those does not end where its layout does, or is incomplete.
MISFIT: Final = REQUEST_FAILED | RESPONSE_FAILED | LEFTOVER
INCOMPLETE: Final = DAMAGED | NO_REQUEST
# An answered exchange with none of these fits on both sides, see `api_mismatches`.
SUSPECT: Final = MISFIT | INCOMPLETE | UNKNOWN_API | UNKNOWN_VERSION
# From this bit on: the number in VARIANTS, counted from 1, of the layout of a body.
VARIANT_SHIFT: Final = 9
# The first release of every layout that was changed under the same version later, and names of
# layouts that belong to no release.
VARIANTS: Final = ("0.8.2-beta", "0.8.2", "2.7", "3.5", "3.7", "3.9", "no-throttle-time")

# Fetch classes.
FETCH_DATA: Final = 1
FETCH_WAITED: Final = 2
FETCH_EMPTY: Final = 3
FETCH_ERROR: Final = 4
FETCH_CLASSES: Final = ("", "data", "waited", "empty", "error")


# Before a group's protocol type and name are known.
NO_PROTOCOL: Final = ("", "")


def is_group_api(key: i64) -> bool:
    """Return whether the API concerns members of a group: 11 to 14 and the heartbeats."""
    return API_JOIN_GROUP <= key <= API_SYNC_GROUP or key in GROUP_HEARTBEATS


@mypyc_attr(acyclic=True)
class Asks:
    """Partitions of a Fetch response with unknown positions, see `fetches`.

    `rows` are their indices among the exchange's partitions, `stated` the previous high watermarks
    (ASK: also unknown); `was_there`: whether one of the others had its data waiting, see
    `long_polls`. `record_bytes` are of all partitions. `is_overtaken`: a later request of the
    session came before the response; `is_lost`: responses of the session were missed in the split.
    """

    __slots__ = ("rows", "stated", "was_there", "record_bytes", "is_overtaken", "is_lost")

    def __init__(
        self,
        rows: list[int],
        stated: list[int],
        was_there: i64,
        record_bytes: i64,
        is_overtaken: bool,
        is_lost: bool,
    ) -> None:
        self.rows = rows
        self.stated = stated
        self.was_there = was_there
        self.record_bytes = record_bytes
        self.is_overtaken = is_overtaken
        self.is_lost = is_lost


@mypyc_attr(acyclic=True, free_list_len=1)
class Exchange:
    """A request and its outcome; times in ns since 1970, NULL if absent.

    `queue_ns` is the part of the latency behind earlier requests, `wait_ns` the part of the service
    time that the request asked for. The frames are kept only on request. `topic_count` is NULL
    while request or response is incomplete: the number of topics and partitions is unknown then.
    `group_protocol` is the protocol type and name that the group of a JoinGroup or SyncGroup agreed
    on. `dialect` is 0, or the protocol of `messages.old_protocols` of API key, version and error
    codes. `candidates` is for orphans: possible APIs, the likeliest first, and `certainty` the
    likelihood of that one, in percent; 100 with a request. `asks` holds what only the past of a
    fetch session can complete, in a split of a capture without it. `asked` are fields of the
    request's body. `vendor` is set for requests with keys that
    Apache Kafka does not have: index in `apis.VENDORS`.
    """

    __slots__ = (
        "capture", "connection_id", "exchange_id", "api_key", "api_version", "correlation_id",
        "client_id", "outcome", "request_start", "request_end", "response_start", "response_end",
        "queue_ns", "wait_ns", "throttle_ms", "request_size", "response_size", "error_code",
        "error_count", "topic_count", "record_count",
        "record_bytes", "fetch_class", "retransmits", "zero_windows", "missing_bytes", "rtt_ns",
        "tcp_events_at_start", "request_packet",
        "response_packet", "status", "partitions", "errors",
        "request_frame", "response_frame", "connection", "request_direction", "group_protocol",
        "dialect", "candidates", "certainty", "asked", "asks",
        "vendor", "steps_at_start",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, direction: i64, exchange_id: i64, capture: i64
    ) -> None:
        self.connection = connection
        self.request_direction = direction
        self.connection_id: i64 = connection.id
        self.exchange_id = exchange_id
        self.capture = capture
        self.dialect: i64 = 0
        self.candidates: str = ""
        self.certainty: i64 = 100
        self.api_key: i64 = NULL
        self.api_version: i64 = NULL
        self.correlation_id: i64 = NULL
        self.client_id: str | None = None
        self.outcome: i64 = PENDING
        self.request_start: i64 = NULL
        self.request_end: i64 = NULL
        self.response_start: i64 = NULL
        self.response_end: i64 = NULL
        self.queue_ns: i64 = NULL
        self.wait_ns: i64 = NULL
        self.throttle_ms: i64 = NULL
        self.request_size: i64 = NULL
        self.response_size: i64 = NULL
        self.error_code: i64 = NULL
        self.error_count: i64 = NULL
        self.topic_count: i64 = 0
        self.record_count: i64 = NULL
        self.record_bytes: i64 = NULL
        self.fetch_class: i64 = 0
        self.retransmits: i64 = 0
        self.zero_windows: i64 = 0
        self.rtt_ns: i64 = -1
        # Of request and response, between their first and last byte.
        self.missing_bytes: i64 = 0
        self.tcp_events_at_start: i64 = 0
        self.request_packet: i64 = NULL
        self.response_packet: i64 = NULL
        self.status: i64 = 0
        self.partitions: Partitions | None = None
        self.errors: list[ErrorFact] | None = None
        self.request_frame: Frame | None = None
        self.response_frame: Frame | None = None
        self.group_protocol: tuple[str, str] = NO_PROTOCOL
        self.asked: RequestFields = NOTHING_ASKED
        self.asks: Asks | None = None
        self.vendor: i64 = 0
        self.steps_at_start: i64 = 0

    def note_tcp_events(self, tcp_events: i64) -> None:
        """Count the connection's TCP events meanwhile; `tcp_events` are its counters at the end."""
        # Less than 0 when the request came late, from behind a hole.
        met = max(0, tcp_events - self.tcp_events_at_start)
        self.retransmits = met & (ZERO_WINDOW - 1)
        self.zero_windows = met // ZERO_WINDOW
