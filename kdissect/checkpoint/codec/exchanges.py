"""Values of the exchanges stage."""

from collections.abc import Sequence
from typing import Any, Final

from kdissect.checkpoint.codec.streams import CONNECTION, FRAME, NO_CONNECTION, NO_FRAME, PROBLEM
from kdissect.encoding.choices import Nothing, OneOf
from kdissect.encoding.classes import Fields, Inline, Ref, SharedDict, declare, fields_by_value
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
from kdissect.messages.partitions import WIDTH, HeldBatches, Partition, Partitions, unpacked
from kdissect.messages.request_fields import RequestFields

CELL: Final = 8  # bytes of a packed integer

EXCHANGE: Final = Ref(Exchange)
STATE: Final = Ref(ConnectionState)

BATCH: Final = fields_by_value(
    Batch,
    lambda: Batch(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
)
BATCHES: Final = Many(Inline(BATCH))
PARTITION: Final = fields_by_value(
    Partition,
    lambda: Partition("", b"", 0),
    batches=Maybe(BATCHES),
)
ERROR_FACT: Final = fields_by_value(
    ErrorFact,
    lambda: ErrorFact("", 0),
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

ASKS: Final = fields_by_value(
    Asks,
    lambda: Asks([], [], 0, 0, False, False),
    rows=INTS,
    stated=INTS,
)
ASKED: Final = fields_by_value(RequestFields, RequestFields)
OF_EXCHANGE: Final = fields_by_value(
    Exchange,
    lambda: Exchange(NO_CONNECTION, 0, 0, 0),
    client_id=TEXT_OR_NONE,
    group_protocol=Fixed(TEXT, TEXT),
    partitions=Maybe(PARTITIONS),
    errors=Maybe(ERRORS),
    request_frame=Ref(*FRAME.kinds, or_none=True),
    response_frame=Ref(*FRAME.kinds, or_none=True),
    connection=CONNECTION,
    asks=Maybe(Inline(ASKS)),
    asked=Inline(ASKED),
)
EARLY_RESPONSE: Final = fields_by_value(
    EarlyResponse,
    lambda: EarlyResponse(0, NO_FRAME, 0),
    frame=FRAME,
)
LOGIN: Final = fields_by_value(
    Login,
    Login,
)
OF_STATE: Final = fields_by_value(
    ConnectionState,
    lambda: ConnectionState(NO_CONNECTION),
    connection=CONNECTION,
    pending=Many(EXCHANGE),
    login=Inline(LOGIN),
    positions=POSITIONS,
    held=Many(FRAME),
    early=Many(Inline(EARLY_RESPONSE)),
    last_client_id=TEXT_OR_NONE,
    old=Ref(OldConversation, or_none=True),
    refusal=Maybe(PROBLEM),
    left_out={"by_id": None},  # rebuilt when needed
)

EXCHANGE_VALUES: Final = (
    BATCH, PARTITION, ERROR_FACT, HELD_BATCHES, ASKS, ASKED, OF_EXCHANGE, EARLY_RESPONSE,
    LOGIN, OF_STATE,
)  # fmt: skip
declare(6, OF_EXCHANGE)
declare(7, OF_STATE)
declare(8, OF_POSITIONS)
