import ast
import inspect
import pickle
import textwrap
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kdissect.capture.splits import plan
from kdissect.checkpoint.boundary_state import VERSION, BoundaryState
from kdissect.checkpoint.codec import DECLARED, fields_of
from kdissect.checkpoint.codec.exchanges import STATE
from kdissect.checkpoint.codec.old import NO_SINK
from kdissect.checkpoint.codec.streams import (
    HAS_64_BITS,
    MARKS,
    NO_BUDGET,
    NO_CONNECTION,
    NO_RECENT,
    RECEIVER,
    make_mark,
)
from kdissect.checkpoint.codec.tls import NO_KEYS, NO_MASTERS
from kdissect.checkpoint.spill_transfer import packed, unpacked
from kdissect.checkpoint.split import dissect_split
from kdissect.encoding.classes import Inline
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import Fixed
from kdissect.errors import EncodingError, KdissectError
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.memory_budget import MemoryBudget
from kdissect.exchanges.old_conversations import Asked, OldConversation
from kdissect.messages.old_extracted import OldFields
from kdissect.messages.old_protocols import KAFKA_07, OLD_APIS
from kdissect.streams.connections import Streams
from kdissect.streams.events import Connection, Event
from kdissect.streams.receiver import Receiver
from kdissect.tls.agreement import Agreement
from kdissect.tls.direction import DirectionDecryptor
from kdissect.tls.hellos import Messages
from kdissect.tls.records import RecordCutter
from kdissect.tls.reports import Reports
from kdissect.tls.session import Session
from kdissect.tls.stage import Watch
from tests.checkpoint.law import CAPTURES, OPTIONS
from tests.encoding.documents import made


def new_conversation() -> OldConversation:
    state = ConnectionState(NO_CONNECTION)
    return OldConversation(state, KAFKA_07, NO_SINK, False, 0, MemoryBudget())


# By their own constructors, as a stage makes them.
MADE: dict[type, Callable[[], Any]] = {
    Agreement: lambda: Agreement(NO_KEYS, NO_MASTERS, Reports(NO_CONNECTION)),
    Asked: lambda: Asked(
        OLD_APIS[KAFKA_07][1], Exchange(NO_CONNECTION, 0, 0, 0), OldFields(NO_SINK)
    ),
    DirectionDecryptor: lambda: DirectionDecryptor(NO_CONNECTION, 0, False),
    Messages: Messages,
    OldConversation: new_conversation,
    OldFields: lambda: OldFields(NO_SINK),
    RecordCutter: lambda: RecordCutter(False),
    Reports: lambda: Reports(NO_CONNECTION),
    Session: lambda: Session(NO_CONNECTION, NO_KEYS, NO_MASTERS, (False, False)),
    Watch: Watch,
}


@pytest.fixture(scope="module")
def boundary() -> BoundaryState:
    path = str(CAPTURES / "cluster-3.9.1.pcapng")
    split = plan([path], 100_000)[1]
    return dissect_split(split, OPTIONS, [path]).boundary


def test_a_boundary_state_is_the_same_after_a_journey(boundary: BoundaryState) -> None:
    again = BoundaryState.from_bytes(boundary.to_bytes())
    assert again.to_bytes() == boundary.to_bytes()
    assert again.version == VERSION
    assert [prefix.flow for prefix in again.prefixes] == [
        prefix.flow for prefix in boundary.prefixes
    ]
    assert again.prefixes
    assert again.open


def test_an_open_connection_is_one_value_in_all_stages(boundary: BoundaryState) -> None:
    for one in BoundaryState.from_bytes(boundary.to_bytes()).open:
        connection = one.opener.connection
        assert one.opener.peer.peer is one.opener
        assert one.state is None or one.state.connection is connection
        for framing in (one.opener_framing, one.accepter_framing):
            assert framing is None or framing.connection is connection


def test_a_boundary_state_is_one_row_of_arrow(boundary: BoundaryState) -> None:
    batch = boundary.to_arrow()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 1
    assert batch["version"][0].as_py() == VERSION
    assert batch["ordinal"][0].as_py() == boundary.split.ordinal
    assert BoundaryState.from_arrow(batch).to_bytes() == boundary.to_bytes()


def test_boundary_state_size_depends_on_crossing_data(boundary: BoundaryState) -> None:
    assert len(boundary.to_bytes()) < 3 * (boundary.split.end - boundary.split.start)


def test_a_boundary_state_that_is_packed_is_smaller_and_the_same_again(
    boundary: BoundaryState,
) -> None:
    content = boundary.to_bytes()
    assert len(packed(content)) < len(content) / 2
    assert unpacked(packed(content)) == content


def test_a_boundary_state_of_another_version_is_refused(boundary: BoundaryState) -> None:
    other = boundary._replace(version=VERSION + 1)
    with pytest.raises(KdissectError, match="version"):
        BoundaryState.from_bytes(other.to_bytes())


def test_pickles_are_refused() -> None:
    for value in (print, pickle.Pickler, len, (VERSION,)):
        with pytest.raises(EncodingError, match="no boundary state of this version"):
            BoundaryState.from_bytes(pickle.dumps(value))


@given(st.binary(max_size=200))
@example(b"K\x00r\x00\x00\x00_")
def test_any_bytes_are_a_boundary_state_or_an_error(content: bytes) -> None:
    for one in (content, made(content, 1, VERSION)):
        with pytest.raises(EncodingError):
            BoundaryState.from_bytes(one)


def test_every_field_of_every_class_travels() -> None:
    for kind, layout in DECLARED.items():
        own = getattr(kind, "__slots__", None) or getattr(kind, "__mypyc_attrs__", None)
        if own is None:
            # A class with a dict of attributes: those that its constructor sets.
            own = attributes_set_in(kind)
        elif issubclass(kind, Event):
            own = {*own, *(getattr(Event, "__slots__", ()) or Event.__mypyc_attrs__)}
        assert {*own} == {*layout.names}, kind
        assert len(layout.names) == len({*layout.names}), kind
        assert fields_of(kind) == tuple(sorted(layout.names))


def attributes_set_in(kind: type) -> set[str]:
    """The attributes that a class gives its values, by its source."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def test_objects_shared_by_streams_are_not_encoded() -> None:
    connection = Connection(7, 0, bytes(12), 5, 6)
    opener = Receiver(connection, 0, 100, NO_BUDGET, Streams().recent)
    both = Document(77, "test", 1, Fixed(RECEIVER, STATE))
    again, state = load(both, dump(both, (opener, ConnectionState(connection))))
    assert again.recent is NO_RECENT
    assert again.held.budget is NO_BUDGET
    assert again.connection is state.connection
    assert again.peer is again
    assert (again.connection.id, again.held_limit) == (7, 100)


def test_marks_of_the_other_build_are_those_of_this_one() -> None:
    packed = 0xFFFF_FFFE_0000_0007  # sequence and acknowledgment number
    for numbers in (packed, packed - (1 << 64)):
        mark = make_mark(6, numbers, 5, 4, 3, 2)
        mine = packed - (1 << 64) if HAS_64_BITS else packed
        assert (mark.stream, mark.numbers, mark.options, mark.time_ns) == (6, mine, 3, 2)
        marks = Document(77, "test", 1, MARKS)
        ((at, again),) = load(marks, dump(marks, ((9, mark),)))
        assert (at, again.numbers, again.identity, again.state) == (9, mine, 5, 4)


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.__qualname__)
def test_every_number_of_a_class_comes_back_in_its_own_field(kind: type) -> None:
    layout = DECLARED[kind]
    value = MADE[kind]() if kind in MADE else layout.blank()
    for number, name in enumerate(layout.ints):
        setattr(value, name, number + 7)
    for number, name in enumerate(layout.bools):
        setattr(value, name, number % 3 == 0)
    document = Document(77, "test", 1, Inline(layout))
    again = load(document, dump(document, value))
    names = (*layout.ints, *layout.bools)
    assert {name: getattr(again, name) for name in names} == {
        name: getattr(value, name) for name in names
    }
    # No field is left without a value.
    assert all(hasattr(again, name) for name in layout.names)
