import pickle

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kdissect import stage_values
from kdissect.capture.pieces import plan
from kdissect.errors import KdissectError
from kdissect.exchanges.memory import ConnectionState
from kdissect.seams.piece import dissect_piece
from kdissect.seams.seam import VERSION, Seam
from kdissect.seams.travelling import packed, unpacked
from kdissect.streams.connections import Streams
from kdissect.streams.events import Connection
from kdissect.streams.receiver import Receiver
from tests.seams.law import CAPTURES, OPTIONS


@pytest.fixture(scope="module")
def seam() -> Seam:
    path = str(CAPTURES / "cluster-3.9.1.pcapng")
    piece = plan([path], 100_000)[1]
    return dissect_piece(piece, OPTIONS, [path]).seam


def test_a_seam_is_the_same_after_a_journey(seam: Seam) -> None:
    again = Seam.from_bytes(seam.to_bytes())
    assert again.to_bytes() == seam.to_bytes()
    assert again.version == VERSION
    assert [head.flow for head in again.heads] == [head.flow for head in seam.heads]
    assert again.heads
    assert again.open


def test_an_open_connection_is_one_value_in_all_stages(seam: Seam) -> None:
    for one in Seam.from_bytes(seam.to_bytes()).open:
        connection = one.opener.connection
        assert one.opener.peer.peer is one.opener
        assert one.state is None or one.state.connection is connection
        for cutting in (one.opener_cutting, one.accepter_cutting):
            assert cutting is None or cutting.connection is connection


def test_a_seam_is_one_row_of_arrow(seam: Seam) -> None:
    batch = seam.to_arrow()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 1
    assert batch["version"][0].as_py() == VERSION
    assert batch["ordinal"][0].as_py() == seam.piece.ordinal
    assert Seam.from_arrow(batch).to_bytes() == seam.to_bytes()


def test_the_size_of_a_seam_is_that_of_what_crosses(seam: Seam) -> None:
    assert len(seam.to_bytes()) < 3 * (seam.piece.end - seam.piece.start)


def test_a_seam_that_is_packed_is_smaller_and_the_same_again(seam: Seam) -> None:
    content = seam.to_bytes()
    assert len(packed(content)) < len(content) / 2
    assert unpacked(packed(content)) == content


def test_a_seam_of_another_version_is_refused(seam: Seam) -> None:
    other = seam._replace(version=VERSION + 1)
    with pytest.raises(KdissectError, match="version"):
        Seam.from_bytes(other.to_bytes())


def test_bytes_that_call_something_are_refused() -> None:
    for value in (print, pickle.Pickler, len):
        with pytest.raises(KdissectError, match="no seam"):
            Seam.from_bytes(pickle.dumps(value))


@given(st.binary(max_size=200))
@example(b"K\x00r\x00\x00\x00_")
def test_any_bytes_are_a_seam_or_an_error(content: bytes) -> None:
    with pytest.raises(KdissectError):
        Seam.from_bytes(content)


def test_every_field_of_every_class_travels() -> None:
    for kind, make in stage_values.BLANKS:
        value = make()
        names = stage_values.fields_of(kind)
        assert names, kind
        for name in names:
            assert hasattr(value, name), f"{kind.__name__}.{name}"


def test_what_belongs_to_the_streams_stays_there() -> None:
    connection = Connection(7, 0, bytes(12), 5, 6)
    streams = Streams()
    opener = Receiver(connection, 0, 100, stage_values.NO_ALLOWANCE, streams.recent)
    again, state = stage_values.load(stage_values.dump((opener, ConnectionState(connection))))
    assert again.recent is stage_values.NO_RECENT
    assert again.connection is state.connection
    assert (again.connection.id, again.held_limit) == (7, 100)


def test_marks_of_the_other_build_are_those_of_this_one() -> None:
    packed = 0xFFFF_FFFE_0000_0007  # sequence and acknowledgment number
    for numbers in (packed, packed - (1 << 64)):
        mark = stage_values.make_mark(6, numbers, 5, 4, 3, 2)
        mine = packed - (1 << 64) if stage_values.HAS_64_BITS else packed
        assert (mark.stream, mark.numbers, mark.options, mark.time_ns) == (6, mine, 3, 2)


def test_what_is_made_at_once_has_all_its_fields() -> None:
    for kind, make in stage_values.BLANKS:
        names = stage_values.MADE_FIELDS.get(stage_values.NUMBERS[kind])
        if names is not None:
            # Cells are packed; what is counted or indexed from them is not said again.
            left = (
                {"cells", "count", "places", "is_ascending", "owns_topics", "_named"}
                if "packed" in names
                else set()
            )
            assert {*names} - {"packed"} | left >= {*stage_values.fields_of(kind)}
            value = make()
            for number, name in enumerate(names):
                if isinstance(getattr(value, name), int):
                    setattr(value, name, number + 7)
            again = stage_values.load(stage_values.dump(value))
            assert [getattr(again, name) for name in names] == [
                getattr(value, name) for name in names
            ]
