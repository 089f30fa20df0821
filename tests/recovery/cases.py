"""Random cases: a name and a number select the talks, the fault, and how it strikes."""

import random
from collections.abc import Sequence

from tests.recovery.faults import CLASSES, SEGMENTING
from tests.recovery.judge import Verdict, judge
from tests.recovery.seen import Case
from tests.recovery.talks import (
    BROKER_PORT,
    CAPTURES,
    Talk,
    dissect,
    generated,
    merged,
    packets_of,
    talks_in,
)
from tests.recovery.wholes import wrong_values

QUICK = (
    "basics-4.0.1.pcapng",
    "groups-4.3.1.pcapng",
    "retries-4.3.1.pcapng",
    "sasl-0.10.2.2.pcapng",
    "telemetry-4.3.1.pcapng",
    "transactions-4.3.1.pcapng",
)
ALL = tuple(sorted(path.name for path in CAPTURES.glob("*.pcapng")))
# Cases that revealed a defect of kdissect: fault class, number, and captures where not QUICK.
SHOWN: tuple[tuple[str, int, Sequence[str]], ...] = (
    # Raw SASL tokens before their request, or without it, were taken for responses.
    ("reordered", 23, QUICK),
    ("reordered", 55, QUICK),
    ("all that loses nothing", 2, QUICK),
    ("one packet lost", 47, QUICK),
    ("responses only", 12, QUICK),
    ("combined, odd port", 243, QUICK),
    # Responses behind a hole were not found again.
    ("packets lost", 13, QUICK),
    ("bursts lost", 2, QUICK),
    # A frame found by searching began inside another one.
    ("combined, odd port", 19, QUICK),
    ("combined, odd port", 240, QUICK),
    # A response was read as a request of an unknown version, and the broker taken for the client.
    ("no handshake, odd port", 1023, ALL),
    # The responses of lost requests of a controller of 0.8 were paired with others of their round.
    ("bursts lost", 107741, ALL),
    ("bursts lost", 107831, ALL),
    # A request without client id, between unknown ports, was not found.
    ("no handshake, odd port", 100160, ALL),
    # A reordered acknowledgment set the start of a stream whose SYN was lost.
    ("combined, odd port", 100138, ALL),
    # Only the SYN-ACK shows where the client's stream begins.
    ("combined, odd port", 98, QUICK),
    # A request that was sent again seconds later made orphans of responses to later ones.
    ("combined", 115447, ALL),
    # A response that was cut short was read as a Produce request with a client id.
    ("combined, odd port", 400_149, ALL),
    # A response was found in the middle of another one.
    ("combined", 130_448, ALL),
    # Responses before their requests, which have the same correlation id: no fault of kdissect.
    ("reordered", 1009, ALL),
    # The requests' ids go back, so their responses were taken for none.
    ("combined", 602_957, ALL),
    # The first request came after the responses to later ones, which became orphans.
    ("combined", 602_852, ALL),
    # The size and the first offset of records were taken for those of the response around them.
    ("combined", 801_343, ALL),
    # Bytes inside a request were taken for one without client id that ends where another starts.
    ("combined, odd port", 1_101_571, ALL),
)
ODD_PORT = 34_567
SPREAD_NS = 200_000_000  # between the beginnings of the talks of a case


def make_case(name: str, seed: int, captures: Sequence[str] = QUICK) -> Case:
    """The case of a fault class with this number."""
    source = random.Random(f"{name}/{seed}")
    chosen = CLASSES[name]
    talks = [make_talk(source, captures) for _ in range(source.choice((1, 1, 2, 3, 4)))]
    starts = [source.randrange(SPREAD_NS) for _ in talks]
    wires = whole = merged(talks, starts)
    for fault in chosen.drawn(source):
        wires = fault(wires, source)
        if fault in SEGMENTING:
            whole = wires
    port = ODD_PORT if chosen.is_odd_port else BROKER_PORT
    return Case(talks, wires, port, chosen.loses, chosen.mixes, whole)


def make_talk(source: random.Random, captures: Sequence[str]) -> Talk:
    """A recorded connection, or its frames in segments of a given size."""
    talk = source.choice(talks_in(source.choice(captures)))
    if source.random() < 0.5:
        return talk
    return generated(talk, source.choice((1448, 536, 200)), source)


def judged(case: Case) -> Verdict:
    """Judged result of a case: by the bytes, and every value by the whole capture."""
    found = dissect(packets_of(case.wires, case.broker_port))
    verdict = judge(case, found)
    for number, wrong in wrong_values(case, found):
        verdict.add("made up", number, str(wrong))
    return verdict
