"""Modified checkpoints and boundary states: a value or one error, without side effects."""

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.splits import plan
from kdissect.checkpoint.boundary_state import ENDED, HEAD, BoundaryState
from kdissect.checkpoint.checkpoint import Checkpoint
from kdissect.checkpoint.codec import DECLARED
from kdissect.checkpoint.corrections import Correction, Corrections
from kdissect.checkpoint.jobs_run import find_secrets
from kdissect.checkpoint.left_edge import Ended, Prefix
from kdissect.checkpoint.merger import Merger
from kdissect.checkpoint.spill_transfer import packed, unpacked
from kdissect.checkpoint.split import dissect_split
from kdissect.checkpoint.validation import going_on
from kdissect.dataset.incremental_tap import Followed
from kdissect.dataset.staging import names_bytes, names_in
from kdissect.errors import EncodingError, KdissectError
from tests.checkpoint.law import CAPTURES, OPTIONS
from tests.encoding.documents import sealed

# As in tests/encoding; objects of stages are larger than others, but so are their fields.
MEMORY_RATIO = 256
MEMORY_BASE = 256 << 10
EXTREMES = (
    0, -1, 1, 2, 7, 1000, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 63) - 1,
    -(1 << 63), -(1 << 62), -5,
)  # fmt: skip
# Plain connections, TLS without keys, a protocol from before 0.8, holes and lost segments.
NAMES = (
    "quickstart.pcapng", "tls/tls13-4.3.1.pcapng", "old/kafka-0.7.pcapng",
    "incident-lossy-network-4.3.1.pcapng",
)  # fmt: skip
FIELDS = {**DECLARED, Prefix: HEAD, Ended: ENDED}


class Edge:
    """Checkpoint after one split of a capture, and the boundary state of the next split."""

    def __init__(self, path: Path, count: int = 4) -> None:
        self.path = str(path)
        self.splits = plan([self.path], path.stat().st_size // count)
        boundaries = [self.boundary(split) for split in self.splits]
        merger = self.merger(None)
        self.behind: list[tuple[bytes, bytes]] = []
        for boundary, following in pairwise(boundaries):
            merger.add(BoundaryState.from_bytes(boundary))
            self.behind.append((merger.state().to_bytes(), following))
            merger = self.merger(Checkpoint.from_bytes(self.behind[-1][0]))

    def boundary(self, split: Any) -> bytes:
        return dissect_split(split, OPTIONS, [self.path]).boundary.to_bytes()

    def merger(self, state: Checkpoint | None) -> Merger:
        return Merger(OPTIONS, find_secrets=lambda: find_secrets([self.path]), state=state)

    def go_on(self, state: Checkpoint, boundary: BoundaryState) -> None:
        """Decode as a task does, with the captures of the splits."""
        splits = [*state.splits, boundary.split]
        if not {split.path for split in splits} <= {self.path}:
            raise EncodingError("of another capture")
        with going_on("what was read"):
            merger = self.merger(state)
            merger.add(boundary)
            merger.state().to_bytes()
            merger.finish()


@pytest.fixture(scope="module", params=NAMES)
def edge(request: pytest.FixtureRequest) -> Edge:
    return Edge(CAPTURES / request.param)


@contextmanager
def seeded() -> Iterator[random.Random]:
    seed = random.randrange(1 << 32)
    try:
        yield random.Random(seed)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def edited(document: bytes, chance: random.Random) -> bytes:
    """A document with some changed bytes in its content, and a correct header."""
    content = bytearray(document[20:])
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(content))
        what = chance.randrange(4)
        if what == 0:
            content[at] = chance.choice((0, 1, 2, 3, 0xEF, 0xF0, 0xF1, 0xF8, 0xFF))
        elif what == 1:
            content[at : at + 1] = b"\xf8" + chance.randbytes(8)
        elif what == 2:
            del content[at : at + chance.choice((1, 2, 8, 60))]
        else:
            other = chance.randrange(len(content))
            content[at : at + 8] = content[other : other + 8]
    return sealed(document[:20] + bytes(content))


def renumbered(value: Checkpoint | BoundaryState, chance: random.Random) -> bytes:
    """The document of a value in which some integers have extreme values."""
    made = type(value).from_bytes(value.to_bytes())
    changes = changes_of(made)
    for change in chance.sample(changes, k=chance.choice((1, 2, 3))):
        with suppress(OverflowError):  # compiled attributes of 32 bits
            change(chance.choice(EXTREMES))
    return made.to_bytes()


def changes_of(root: Any) -> list[Callable[[int], None]]:
    """Functions that change an integer each: of an object, or of a list or tuple that it has."""
    found: list[Callable[[int], None]] = []
    seen, left = set(), [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, str | bytes | int | None):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            left += one
        elif type(one) in FIELDS:
            fields = FIELDS[type(one)]
            found += [partial(setattr, one, name) for name in fields.ints]
            values = {name: getattr(one, name) for name in fields.names}
            left += values.values()
            found += [
                partial(change_item, one, name, place)
                for name, items in values.items()
                if isinstance(items, list | tuple)
                for place, item in enumerate(items)
                if type(item) is int
            ]
    return found


def change_item(one: Any, name: str, place: int, number: int) -> None:
    """Change an integer of a list or tuple that an object has."""
    items = getattr(one, name)
    changed = [*items[:place], number, *items[place + 1 :]]
    make = getattr(type(items), "_make", type(items))  # a named tuple takes its items one by one
    setattr(one, name, make(changed))


def class_attributes() -> dict[type, dict[str, Any]]:
    """The attributes of all classes of kdissect."""
    kinds = [one for one in gc.get_objects() if isinstance(one, type)]
    return {one: dict(vars(one)) for one in kinds if str(one.__module__).startswith("kdissect")}


def loaded(load: Callable[[bytes], Any], content: bytes) -> Any:
    """Value of a document, None if it is refused; measures the memory."""
    tracemalloc.start()
    try:
        with suppress(EncodingError):
            return load(content)
        return None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY_BASE + MEMORY_RATIO * len(content)


@pytest.mark.slow
def test_an_edited_state_is_a_state_or_an_error(edge: Edge) -> None:
    before = class_attributes()
    with seeded() as chance:
        for _ in range(25):
            state, boundary = chance.choice(edge.behind)
            found = loaded(Checkpoint.from_bytes, edited(state, chance))
            if found is not None:
                with suppress(KdissectError):
                    edge.go_on(found, BoundaryState.from_bytes(boundary))
    assert class_attributes() == before


@pytest.mark.slow
def test_an_edited_boundary_state_is_a_boundary_state_or_an_error(edge: Edge) -> None:
    before = class_attributes()
    with seeded() as chance:
        for _ in range(25):
            state, boundary = chance.choice(edge.behind)
            found = loaded(BoundaryState.from_bytes, edited(boundary, chance))
            if found is not None:
                with suppress(KdissectError):
                    edge.go_on(Checkpoint.from_bytes(state), found)
    assert class_attributes() == before


@pytest.mark.slow
def test_numbers_that_fit_no_capture_end_in_an_error_at_most(edge: Edge) -> None:
    with seeded() as chance:
        for _ in range(20):
            state, boundary = chance.choice(edge.behind)
            both = Checkpoint.from_bytes(state), BoundaryState.from_bytes(boundary)
            number = chance.randrange(2)
            content = renumbered(both[number], chance)
            with suppress(KdissectError):
                if number:
                    edge.go_on(both[0], BoundaryState.from_bytes(content))
                else:
                    edge.go_on(Checkpoint.from_bytes(content), both[1])


def test_a_document_that_is_cut_short_is_refused(edge: Edge) -> None:
    state, boundary = edge.behind[0]
    with seeded() as chance:
        for _ in range(50):
            for load, content in (
                (Checkpoint.from_bytes, state),
                (BoundaryState.from_bytes, boundary),
            ):
                cut = content[: chance.randrange(len(content))]
                for one in (cut, sealed(cut) if len(cut) >= 20 else cut):
                    with pytest.raises(EncodingError):
                        load(one)


def test_later_failures_name_the_file() -> None:
    with (
        pytest.raises(EncodingError, match=r"^the state does not hold together: IndexError: 5$"),
        going_on("the state"),
    ):
        raise IndexError(5)


def test_errors_of_kdissect_and_of_the_system_are_unchanged() -> None:
    for error in (KdissectError("own"), FileNotFoundError("gone"), KeyboardInterrupt()):
        with pytest.raises(type(error)), going_on("the state"):
            raise error


def test_corrections_and_names_come_back_as_they_were() -> None:
    corrections = Corrections()
    corrections.dropped = {7, 1 << 40}
    corrections.dropped_exchanges = 3
    corrections.synchronized = {9: Correction(1 << 36, [(0, -1), (5, 1000)])}
    again = Corrections.from_bytes(corrections.to_bytes())
    assert vars(again) == vars(corrections)
    names = {bytes(16): "", b"\xff" * 16: "orders"}
    assert names_in(names_bytes(names)) == names


def test_documents_of_one_kind_are_not_taken_for_another(edge: Edge) -> None:
    state, boundary = edge.behind[0]
    followed = Followed(0, ("a.pcap",), state).to_bytes()
    documents = {
        Checkpoint.from_bytes: state,
        BoundaryState.from_bytes: boundary,
        Followed.from_bytes: followed,
        Corrections.from_bytes: Corrections().to_bytes(),
        names_in: names_bytes({}),
    }
    for load in documents:
        for own, content in documents.items():
            if own is load:
                load(content)
            else:
                with pytest.raises(EncodingError, match="something else"):
                    load(content)


def test_a_packed_boundary_state_cannot_say_that_it_is_larger_than_it_is(edge: Edge) -> None:
    _, boundary = edge.behind[0]
    content = packed(boundary)
    for size in (0, len(boundary) - 1, len(boundary) + 1, 1 << 33, (1 << 64) - 1):
        lying = size.to_bytes(8, "little") + content[8:]
        with pytest.raises(EncodingError):
            unpacked(lying)
    for cut in (b"", content[:7], content[:8], content[:-1]):
        with pytest.raises(EncodingError):
            unpacked(cut)


def test_bytes_that_compress_well_are_packed_all_the_same() -> None:
    for content in (b"", bytes(10_000_000), b"ab" * 1000):
        assert unpacked(packed(content)) == content


def test_a_bomb_is_not_unpacked() -> None:
    import pyarrow as pa

    bomb = (1 << 30).to_bytes(8, "little") + bytes(pa.compress(bytes(1 << 26), "zstd"))
    tracemalloc.start()
    try:
        with pytest.raises(EncodingError):
            unpacked(bomb)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BASE
    finally:
        tracemalloc.stop()


def test_a_session_of_tls_with_keys_is_not_written() -> None:
    """Its keys would be in the bytes."""
    from kdissect.checkpoint.codec.tls import NO_KEYS, NO_MASTERS, SESSION
    from kdissect.encoding.documents import Document, dump
    from kdissect.streams.events import Connection
    from kdissect.tls.session import Session

    session = Session(Connection(1, 0, bytes(12), 0, 1), NO_KEYS, NO_MASTERS, (True, True))
    document = Document(77, "test", 1, SESSION)
    assert dump(document, session)
    session._halves[0].epochs = object()  # type: ignore[assignment]
    with pytest.raises(EncodingError):
        dump(document, session)
