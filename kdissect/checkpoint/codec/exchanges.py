"""Values of the exchanges stage."""

from collections.abc import Sequence
from typing import Any, Final

from kdissect.checkpoint.codec.streams import CONNECTION, FRAME, NO_CONNECTION, NO_FRAME, PROBLEM
from kdissect.encoding.choices import Nothing, OneOf
from kdissect.encoding.classes import Fields, Inline, Ref, SharedDict, declare
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    INTS,
    TEXT,
    TEXT_OR_NONE,
    TEXTS,
    Converted,
    Dict,
    Fixed,
    Many,
    Maybe,
)
from kdissect.errors import EncodingError
from kdissect.exchanges.connection_state import (
    POSITION_WIDTH,
    ConnectionState,
    EarlyResponse,
    TopicPositions,
    unpacked_positions,
)
from kdissect.exchanges.exchange import Asks, Exchange
from kdissect.exchanges.old_conversations import OldConversation
from kdissect.exchanges.sasl import Login
from kdissect.messages.batches import Batch
from kdissect.messages.extracted import ErrorFact
from kdissect.messages.partitions import FIELDS as PARTITION_FIELDS
from kdissect.messages.partitions import WIDTH, HeldBatches, Partition, Partitions, unpacked
from kdissect.messages.request_fields import FIELDS, RequestFields

CELL: Final = 8  # bytes of a packed integer

EXCHANGE: Final = Ref(Exchange)
STATE: Final = Ref(ConnectionState)

BATCH: Final = Fields(
    Batch,
    lambda: Batch(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ints="start end records_start compressed_size uncompressed_size magic attributes codec "
    "timestamp_type base_offset last_offset record_count base_time_ms max_time_ms producer_id "
    "producer_epoch base_sequence leader_epoch crc aborted",
)
BATCHES: Final = Many(Inline(BATCH))
PARTITION: Final = Fields(
    Partition,
    lambda: Partition("", b"", 0),
    ints=" ".join(field.name for field in PARTITION_FIELDS),
    topic=TEXT,
    topic_id=BYTES,
    batches=Maybe(BATCHES),
    records=BYTES,
)
ERROR_FACT: Final = Fields(
    ErrorFact,
    lambda: ErrorFact("", 0),
    ints="code partition",
    path=TEXT,
    message=TEXT,
    topic=TEXT,
    topic_id=BYTES,
    group=TEXT,
    resource=TEXT,
)
ERRORS: Final = Many(Inline(ERROR_FACT))
HELD_BATCHES: Final = Fields(
    HeldBatches, lambda: HeldBatches([], b""), batches=BATCHES, records=BYTES
)


def split_partitions(value: Partitions) -> Sequence[Any]:
    """Fields of partitions as encoded."""
    return value.topics, value.topic_ids, value.packed, value.held, int(value.unkept)


def made_partitions(fields: Sequence[Any]) -> Partitions:
    """Restore the partitions; raise EncodingError for cells that do not fit the topics."""
    topics, topic_ids, packed, held, unkept = fields
    check_cells(packed, WIDTH)
    named = memoryview(packed).cast("q")[::WIDTH]
    if len(topics) != len(topic_ids) or not all(0 <= topic < len(topics) for topic in named):
        raise EncodingError("a partition of a topic that is not there")
    if held is not None and not all(0 <= row < len(named) for row in held):
        raise EncodingError("batches of a partition that is not there")
    return unpacked(topics, topic_ids, packed, held, unkept)


def made_positions(packed: bytes) -> TopicPositions:
    """Positions from packed cells; raise EncodingError if they are not rows."""
    check_cells(packed, POSITION_WIDTH)
    return unpacked_positions(packed)


def check_cells(packed: bytes, width: int) -> None:
    """Raise EncodingError for bytes that are not rows of so many cells."""
    if len(packed) % (width * CELL):
        raise EncodingError(f"{len(packed)} bytes are no rows of {width} integers")


PARTITIONS: Final = Converted(
    Fixed(TEXTS, Many(BYTES), BYTES, Maybe(Dict(INT, Inline(HELD_BATCHES))), INT),
    split_partitions,
    made_partitions,
)
# Shared by a connection and the sessions of the broker.
OF_POSITIONS: Final = SharedDict(
    OneOf(none=(type(None), Nothing()), name=(str, TEXT), id=(bytes, BYTES), lost=(bool, BOOL)),
    Converted(BYTES, lambda value: value.packed, made_positions),
)
POSITIONS: Final = Ref(dict)

ASKS: Final = Fields(
    Asks,
    lambda: Asks([], [], 0, 0, False, False),
    bools="is_overtaken is_lost",
    ints="was_there record_bytes",
    rows=INTS,
    stated=INTS,
)
ASKED_TEXTS: Final[dict[str, Any]] = {field.name: TEXT for field in FIELDS if field.is_text}
ASKED: Final = Fields(
    RequestFields,
    RequestFields,
    ints=" ".join(field.name for field in FIELDS if not field.is_text),
    **ASKED_TEXTS,
)
OF_EXCHANGE: Final = Fields(
    Exchange,
    lambda: Exchange(NO_CONNECTION, 0, 0, 0),
    ints="capture connection_id exchange_id api_key api_version correlation_id outcome "
    "request_start request_end response_start response_end queue_ns wait_ns throttle_ms "
    "request_size response_size error_code error_count topic_count record_count "
    "record_bytes fetch_class retransmits zero_windows missing_bytes rtt_ns tcp_events_at_start "
    "request_packet response_packet status request_direction dialect "
    "certainty vendor steps_at_start",
    client_id=TEXT_OR_NONE,
    candidates=TEXT,
    group_protocol=Fixed(TEXT, TEXT),
    partitions=Maybe(PARTITIONS),
    errors=Maybe(ERRORS),
    request_frame=Ref(*FRAME.kinds, or_none=True),
    response_frame=Ref(*FRAME.kinds, or_none=True),
    connection=CONNECTION,
    asks=Maybe(Inline(ASKS)),
    asked=Inline(ASKED),
)
EARLY_RESPONSE: Final = Fields(
    EarlyResponse,
    lambda: EarlyResponse(0, NO_FRAME, 0),
    ints="correlation_id previous_end tries",
    frame=FRAME,
)
LOGIN: Final = Fields(
    Login,
    Login,
    ints="count",
    bools="is_open in_tokens saw_token is_past is_missed",
    mechanism=TEXT,
    user=TEXT,
    outcome=TEXT,
    proven_mechanism=TEXT,
    proven_user=TEXT,
)
OF_STATE: Final = Fields(
    ConnectionState,
    lambda: ConnectionState(NO_CONNECTION),
    ints="request_direction pending_head last_response_end exchange_count session_id probed "
    "unheld last_correlation_id last_request_ns spoken_low spoken_high dialect refused "
    "proxied_port vendor last_response_steps newest_fetch",
    bools="has_overflowed has_let_go is_told is_unproved has_proxy_header repeats_ids "
    "misses_answers",
    connection=CONNECTION,
    broker_side_by=TEXT,
    protocol=TEXT,
    pending=Many(EXCHANGE),
    login=Inline(LOGIN),
    software_name=TEXT,
    software_version=TEXT,
    positions=POSITIONS,
    held=Many(FRAME),
    early=Many(Inline(EARLY_RESPONSE)),
    last_client_id=TEXT_OR_NONE,
    client_id_bytes=BYTES,
    old=Ref(OldConversation, or_none=True),
    refusal=Maybe(PROBLEM),
    proxied_ip=BYTES,
    left_out={"by_id": None},  # rebuilt when needed
)

EXCHANGE_VALUES: Final = (
    BATCH, PARTITION, ERROR_FACT, HELD_BATCHES, ASKS, ASKED, OF_EXCHANGE, EARLY_RESPONSE,
    LOGIN, OF_STATE,
)  # fmt: skip
declare(6, OF_EXCHANGE)
declare(7, OF_STATE)
declare(8, OF_POSITIONS)
