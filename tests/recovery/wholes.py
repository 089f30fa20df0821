"""A case beside its whole capture: pairs of exchanges, connections and problems to compare."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.exchange_builders import Found, Row
from tests.recovery.columns import Wrong, wrong_connection, wrong_in, wrong_problems
from tests.recovery.matching import Match, match
from tests.recovery.relations import DETAILS, Pair
from tests.recovery.seen import Case, Seen, seen_of
from tests.recovery.talks import BROKER, FIRST_PORT, Wire, dissect, packets_of


def wrong_values(case: Case, found: Found) -> Iterator[tuple[int, Wrong]]:
    """Values of a case that the whole capture lacks, with the number of the talk; -1: of all."""
    whole = case._replace(wires=whole_wires(case))
    truth = dissect(packets_of(whole.wires, case.broker_port))
    known, phantoms = match(whole, truth)
    assert not phantoms
    matches, _ = match(case, found)
    lost = lost_parts(case)
    seen = seen_of(case)
    for number, talk in enumerate(matches):
        true = {one.true.request: one for one in known[number]}
        for one in talk:
            pair = pair_of(one, true[one.true.request], lost[number], seen[number])
            for wrong in wrong_in(pair):
                yield number, wrong
    yield from wrong_connections(found, truth)
    for wrong in wrong_problems(found.tables["problems"], truth.tables["problems"]):
        yield -1, wrong


def whole_wires(case: Case) -> list[Wire]:
    """The packets before anything happened to them, at the times at which they came."""
    times: dict[int, int] = {}
    for wire in case.wires:
        times.setdefault(wire.number, wire.time_ns)
    return [wire._replace(time_ns=times.get(wire.number, wire.time_ns)) for wire in case.whole]


class Part(NamedTuple):
    """Bytes of one direction of a talk."""

    side: int
    start: int
    end: int


def lost_parts(case: Case) -> list[list[Part]]:
    """Bytes captured only as retransmission, by talk."""
    captured = {wire.number for wire in case.wires}
    parts: list[list[Part]] = [[] for _ in case.talks]
    for wire in case.whole:
        if wire.payload and wire.number not in captured:
            parts[wire.talk].append(Part(wire.side, wire.position, wire.end))
    seen = [
        [Part(wire.side, wire.position, wire.end) for wire in case.wires if wire.talk == number]
        for number in range(len(case.talks))
    ]
    return [
        [part for part in lost if any(overlaps(part, one) for one in seen[number])]
        for number, lost in enumerate(parts)
    ]


def overlaps(one: Part, other: Part) -> bool:
    """Return whether they have a byte in common."""
    return one.side == other.side and one.start < other.end and other.start < one.end


def pair_of(one: Match, true: Match, lost: Sequence[Part], seen: tuple[Seen, Seen]) -> Pair:
    return Pair(
        one.row,
        true.row,
        {table: one.rows.get(table, []) for table in DETAILS},
        {table: true.rows.get(table, []) for table in DETAILS},
        is_sent_late=bool(lost),
        may_be_unanswered=not shows_answer(one, seen),
    )


def shows_answer(one: Match, seen: tuple[Seen, Seen]) -> bool:
    """Return whether captured packets show that the response was sent."""
    answer = one.true.response
    if answer is None:
        return False
    broker = seen[BROKER]
    if any(wire.end > answer.position for _, wire in broker.wires):
        return True
    return any(end > answer.position + 1 for end, _ in broker.acknowledged)


def wrong_connections(found: Found, truth: Found) -> Iterator[tuple[int, Wrong]]:
    true = {talk_of(row): row for row in truth.tables["connections"]}
    for row in found.tables["connections"]:
        number = talk_of(row)
        for wrong in wrong_connection(row, true[number]):
            yield number, wrong


def talk_of(row: Row) -> int:
    """The number of the talk that a connection is of, whichever side is which."""
    return int(max(row["client_port"], row["broker_port"])) - FIRST_PORT
