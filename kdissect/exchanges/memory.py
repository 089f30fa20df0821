"""What has to be remembered of one connection between its frames."""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.exchange import Exchange
from kdissect.frames import Frame
from kdissect.protocol.readers import NULL
from kdissect.streams.events import Connection

MIN_DROPPED: Final = 64  # requests that wait no longer, before the list of them is cut


class FetchPosition:
    """Where a fetch session stands in one partition, and how far the broker said the log goes."""

    __slots__ = ("offset", "high_watermark")

    def __init__(self, offset: i64) -> None:
        self.offset = offset
        self.high_watermark: i64 = NULL


class EarlyResponse:
    """A response whose request was not there yet; `previous_end` is of the answer before it."""

    __slots__ = ("correlation_id", "frame", "previous_end")

    def __init__(self, correlation_id: i64, frame: Frame, previous_end: i64) -> None:
        self.correlation_id = correlation_id
        self.frame = frame
        self.previous_end = previous_end


class ConnectionState:
    """What has to be remembered of one connection between its frames.

    `request_direction` is the direction that carries requests, -1 while it is not known;
    `protocol` is "" while nothing was understood. Requests waiting are ``pending[pending_head:]``.
    """

    __slots__ = (
        "connection", "request_direction", "broker_side_by", "protocol", "pending",
        "pending_head", "last_response_end", "exchange_count", "sasl_mechanism", "sasl_user",
        "software_name", "software_version", "in_sasl_tokens", "tokens_unanswered", "positions",
        "held", "probed", "early", "early_bytes", "last_correlation_id",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.request_direction: i64 = -1
        self.broker_side_by = ""
        self.protocol = ""
        self.pending: list[Exchange] = []
        self.pending_head: i64 = 0
        self.last_response_end: i64 = NULL
        self.exchange_count: i64 = 0
        self.sasl_mechanism = ""
        self.sasl_user = ""
        self.software_name = ""
        self.software_version = ""
        self.in_sasl_tokens: bool = False
        self.tokens_unanswered: i64 = 0
        # Fetch offsets by topic (name or id) and partition, for sessions that leave them out.
        self.positions: dict[object, dict[int, FetchPosition]] = {}
        self.held: list[Frame] = []
        self.early: list[EarlyResponse] = []
        self.early_bytes: i64 = 0
        self.last_correlation_id: i64 = NULL
        # Which directions the sniffer has been asked about, as bits.
        self.probed: i64 = 0


def drop_pending(state: ConnectionState, head: i64) -> None:
    """Requests before `head` wait no longer; the list is cut when most of it is such."""
    state.pending_head = head
    if head >= MIN_DROPPED and head * 2 >= len(state.pending):
        del state.pending[:head]
        state.pending_head = 0


def position_in_pending(state: ConnectionState, data: bytes) -> i64:
    """Which of the requests that wait has the correlation id of a response; -1 for none."""
    if len(data) < 4:
        return -1
    correlation_id = i64(read_i32_be(data, 0))
    pending = state.pending
    at = state.pending_head
    while at < len(pending):
        if pending[at].correlation_id == correlation_id:
            return at
        at += 1
    return -1
