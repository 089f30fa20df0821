"""The counts of work and memory detect regressions in each stage.

Code is changed for a test: a function scans all of its earlier input, so its work grows with the
square, or keeps copies of it. The tests of work and memory must fail then.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kdissect.capture.pcap import PcapScanner
from kdissect.capture.pcapng import PcapngScanner
from kdissect.dissection.dissector import Dissector
from kdissect.exchanges import pairing, request_search
from kdissect.exchanges.fetches import FetchSessions
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.response_search import ResponseSearch
from kdissect.exchanges.topic_name_resolution import NameWait
from kdissect.framing import frame_search
from kdissect.framing.frame_search import Waiting
from kdissect.framing.frames import Frames
from kdissect.messages.batches import Batch, Record
from kdissect.messages.interner import Interner
from kdissect.packets.fragments import Fragments
from kdissect.streams.connections import Streams
from kdissect.streams.receiver import Receiver
from kdissect.tables.body_rows import BodyRows
from kdissect.tables.rows import ConnectionRows, ExchangeRows
from kdissect.tls.records import RecordCutter
from tests.hostile import counting
from tests.hostile.counting import IS_COMPILED
from tests.hostile.test_memory import SIZE, check_memory, peak_of
from tests.hostile.test_work import (
    SMALL,
    check_growth,
    check_searched,
    counted,
    growing_counts,
)

UNBOUNDED = 1 << 60
COPIES = 16  # of what was kept before: 128 bytes for each earlier call
MEMORY_SIZES = [SIZE << number for number in range(4)]
SEED = 5
pytestmark = pytest.mark.skipif(IS_COMPILED, reason="compiled code has no lines to count")


class Forgetful(dict[int, int]):
    """Never returns a cached result."""

    def __setitem__(self, key: int, value: int) -> None:
        pass


class Spot(NamedTuple):
    """A method that a generator's capture calls again and again."""

    owner: type
    method: str
    generator: str


SPOTS = {
    "capture, pcap": Spot(PcapScanner, "_confirm", "likely_records"),
    "capture, pcapng": Spot(PcapngScanner, "_read_block", "tiny_blocks"),
    "packets": Spot(Fragments, "add", "fragments_of_eight_bytes"),
    "streams, a segment": Spot(Receiver, "accept", "backwards"),
    "streams, a connection": Spot(Streams, "_open", "syns"),
    "tls": Spot(RecordCutter, "feed", "a_record_byte_by_byte"),
    "framing, a segment": Spot(Waiting, "add", "tiny_segments"),
    "framing, a direction": Spot(Frames, "_cut", "half_requests"),
    "exchanges, requests": Spot(Exchanges, "_request", "never_answered"),
    "exchanges, responses": Spot(Exchanges, "_response", "answers_to_nothing"),
    "exchanges, names": Spot(NameWait, "feed", "names_learnt_late"),
    "exchanges, fetch sessions": Spot(FetchSessions, "note", "many_sessions"),
    "exchanges, response search": Spot(ResponseSearch, "_count", "answers_alone"),
    "messages, texts": Spot(Interner, "_text", "errors"),
    "messages, batches": Spot(Batch, "__init__", "many_batches"),
    "messages, records": Spot(Record, "__init__", "old_messages"),
    "dissection": Spot(Dissector, "_write", "never_answered"),
    "tables, exchanges": Spot(ExchangeRows, "add", "never_answered"),
    "tables, bodies": Spot(BodyRows, "add", "never_answered"),
    "tables, connections": Spot(ConnectionRows, "add", "half_requests"),
}


def changed(
    patch: pytest.MonkeyPatch, spot: Spot, extra: Callable[[list[list[int]]], None]
) -> None:
    """Let each call of the method do additional work with data kept from earlier calls of a run."""
    function = getattr(spot.owner, spot.method)
    start = Dissector.__init__
    kept: list[list[int]] = []

    def begin(*values: Any, **named: Any) -> None:
        kept.clear()
        start(*values, **named)

    def with_more(*values: Any, **named: Any) -> Any:
        extra(kept)
        return function(*values, **named)

    patch.setattr(Dissector, "__init__", begin)
    patch.setattr(spot.owner, spot.method, with_more)


def look_at_all_before(kept: list[list[int]]) -> None:
    kept.append([])
    for _ in (*kept, *kept):  # once is hidden by the work of a few stages
        pass


def keep_copies(kept: list[list[int]]) -> None:
    kept.append([0] * (COPIES * len(kept)))


@pytest.mark.slow
@pytest.mark.parametrize("stage", SPOTS)
def test_work_of_a_stage_that_grows_with_the_square_is_found(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(monkeypatch, SPOTS[stage], look_at_all_before)
    name = SPOTS[stage].generator
    with pytest.raises(AssertionError, match=f"of {name}, KDISSECT_SEED"):
        check_growth(growing_counts(name, SEED), SMALL, name)


# Texts, the smallest and most numerous values, would take gigabytes.
@pytest.mark.slow
@pytest.mark.parametrize("stage", [stage for stage in SPOTS if stage != "messages, texts"])
def test_copies_that_a_stage_keeps_of_all_before_are_found(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(monkeypatch, SPOTS[stage], keep_copies)
    name = SPOTS[stage].generator
    with pytest.raises(AssertionError, match=name):
        check_memory([peak_of(name, SEED, size) for size in MEMORY_SIZES], MEMORY_SIZES[0], name)


def walk_each_chain_again(patch: pytest.MonkeyPatch) -> str:
    """Guesses lead to the same frames; those are looked at for each guess, without any credit."""
    begin = request_search.Judge.__init__

    def begin_forgetful(judge: Any, *values: Any) -> None:
        begin(judge, *values)
        judge._walked = Forgetful()

    patch.setattr(request_search.Judge, "__init__", begin_forgetful)
    unbounded = [(frame_search, name, UNBOUNDED) for name in ("FIRST_CREDIT", "FIRST_STEPS")]
    patch.setattr(counting, "SMALL_BOUNDS", unbounded)
    return "api_versions"


def test_a_search_that_walks_each_chain_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name = walk_each_chain_again(monkeypatch)
    size = 16_000
    with pytest.raises(AssertionError, match=f"{name}, KDISSECT_SEED"):
        check_searched(counted(name, SEED, size, windows=False), size, name)


def compare_with_all_that_share_an_id(patch: pytest.MonkeyPatch) -> str:
    """A response is compared with each waiting request."""
    patch.setattr(counting, "SMALL_BOUNDS", [(pairing, "MAX_SHARED", UNBOUNDED)])
    return "rounds_of_a_controller"


def test_a_response_that_is_compared_with_all_requests_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = compare_with_all_that_share_an_id(monkeypatch)
    counts = [counted(name, SEED, SMALL << n) for n in range(2)]
    with pytest.raises(AssertionError, match=f"of {name}, KDISSECT_SEED"):
        check_growth(counts, SMALL, name)
