"""The law of splits for clients whose requests share correlation ids.

Behind a gap such responses are matched by content, so what was lost before a split counts in it.
The ids of recorded talks are replaced; the rest is as it was captured.
"""

import random
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from kdissect.checkpoint.synchronization import has_same_past
from kdissect.streams.events import PAST_GAPS, PAST_IDS
from tests.checkpoint.law import captured, together, whole
from tests.checkpoint.mutations import written
from tests.recovery.cases import make_case
from tests.recovery.talks import BROKER, CLIENT, Talk, Wire, packets_of
from tests.seeds import SEED

ETHERNET: Final = 1
FAULTS: Final = (
    "untouched", "untouched", "one packet lost", "packets lost", "bursts lost",
    "one direction lossy", "reordered", "snaplen", "no handshake", "combined",
)  # fmt: skip


@pytest.mark.sweep(20)
@pytest.mark.parametrize("number", range(400))
def test_splits_of_requests_with_shared_ids_give_the_rows_of_the_whole(
    number: int, tmp_path: Path
) -> None:
    source = random.Random(f"{SEED} {number}")
    case = make_case(source.choice(FAULTS), source.randrange(10_000))
    wires = with_shared_ids(case.talks, case.wires, source)
    path = written_wires(wires, case.broker_port, tmp_path)
    expected = whole([path])
    for count in (2, 5):
        found, _ = together([path], max(256, Path(path).stat().st_size // count))
        assert found == expected, f"{count} pieces"


def test_connections_with_one_id_are_not_read_again(tmp_path: Path) -> None:
    joins = 0
    for number in range(8):
        case = make_case("untouched", number)
        alike = partial(rewritten, ids=[7] * 10_000)
        path = written_wires(
            [alike(case.talks[wire.talk], wire) for wire in case.wires], 9092, tmp_path
        )
        found, merger = together([path], Path(path).stat().st_size // 3)
        assert found == whole([path])
        distinct = written_wires(case.wires, 9092, tmp_path)
        _, of_distinct = together([distinct], Path(distinct).stat().st_size // 3)
        assert merger.read_again <= of_distinct.read_again
        joins += merger.joins
    assert joins > 0


def test_splits_that_are_taken_over_decided_alike() -> None:
    """All histories with up to two gaps before, and four events after the synchronization."""
    taken = 0
    for gaps, whole_gaps in product((0, 1, 2), repeat=2):
        for repeats, whole_repeats in product((False, True), repeat=2):
            for events in product(("gap", "repeat", "response", "of a round"), repeat=4):
                here, used = decisions(gaps, repeats, events)
                there, _ = decisions(whole_gaps, whole_repeats, events)
                if has_same_past(used, (gaps, repeats), (whole_gaps, whole_repeats)):
                    taken += 1
                    assert here == there, (gaps, whole_gaps, repeats, whole_repeats, events)
    assert taken > 1_000


def decisions(gaps: int, repeats_ids: bool, events: Iterable[str]) -> tuple[list[bool], int]:
    """For each response, whether it is matched by content; and the history that was used."""
    made, used = [], 0
    for event in events:
        if event == "gap":
            gaps += 1
        elif event == "repeat":
            repeats_ids = True
        else:
            is_shared = repeats_ids or event == "of a round"
            made.append(is_shared and gaps > 0)
            if is_shared:
                used |= PAST_GAPS
            elif gaps > 0:
                used |= PAST_IDS
    return made, used


def with_shared_ids(
    talks: Sequence[Talk], wires: Iterable[Wire], source: random.Random
) -> list[Wire]:
    """The wires with other ids: one for all, several in a row, or few that are drawn.

    Some talks begin, or go on, with ids of their own.
    """
    ids = []
    for talk in talks:
        count = len(talk.truth)
        kind = source.randrange(3)
        if kind == 0:
            made = [7] * count
        elif kind == 1:
            each = source.choice((2, 3, 5))
            made = [at // each for at in range(count)]
        else:
            made = [source.randrange(3) for _ in range(count)]
        shared = source.choice(((0, count), (count // 3, count), (0, count // 3)))
        ids.append([made[at] if shared[0] <= at < shared[1] else 1_000 + at for at in range(count)])
    return [rewritten(talks[wire.talk], wire, ids[wire.talk]) for wire in wires]


def rewritten(talk: Talk, wire: Wire, ids: Sequence[int]) -> Wire:
    """A segment whose requests, or responses, have these ids, in the order of the requests."""
    payload = bytearray(wire.payload)
    for exchange, correlation_id in zip(talk.truth, ids, strict=False):
        places = {CLIENT: exchange.request.position + 8}
        if exchange.response is not None:
            places[BROKER] = exchange.response.position + 4
        at = places.get(wire.side, -4) - wire.position
        for offset, value in enumerate(correlation_id.to_bytes(4, "big"), at):
            if 0 <= offset < len(payload):
                payload[offset] = value
    return wire._replace(payload=bytes(payload))


def written_wires(wires: Iterable[Wire], broker_port: int, directory: Path) -> str:
    packets = [captured(packet) for packet in packets_of(wires, broker_port)]
    return written(packets, directory / "ids.pcap", ETHERNET)
