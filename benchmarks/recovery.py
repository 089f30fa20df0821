"""Recovery from faulty captures, kdissect compared with tshark; writes docs/limits.md.

    python -m benchmarks.recovery [--exchanges 3000] [--seeds 4] [--keep-tshark]

Recorded connections are said anew, longer, in segments of 1448 bytes, and the capture of them is
made faulty in the ways that the tests know (`tests.recovery.faults`). An exchange is found right
when API, version, correlation id and packets of request and response are those of the clean
capture. tshark gets what helps it: two passes, reassembly of segments out of order, Kafka told by
port, and every doubt: see `Found`. Every column of every table is compared with the clean capture
(`tests.recovery.relations` names the columns that describe the capture itself). Without tshark,
`--keep-tshark` leaves its columns as they are on the page: the captures are the same each time.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kdissect.packets.segment import ACK, FIN, SYN
from tests.capture.writers import Captured, make_pcap
from tests.recovery.columns import Wrong
from tests.recovery.judge import judge, plain
from tests.recovery.matching import match
from tests.recovery.seen import Case, Seen, seen_of
from tests.recovery.talks import (
    BROKER,
    BROKER_PORT,
    CLIENT,
    HEADERS,
    Talk,
    TrueExchange,
    Wire,
    dissect,
    generated,
    merged,
    packets_of,
    talks_in,
)
from tests.recovery.wholes import wrong_values

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "limits.md"
START, STOP = "<!-- recovery: start -->", "<!-- recovery: stop -->"
# Of releases whose every version tshark 4.0 knows.
CAPTURES = (
    "admin-2.4.1.pcapng",
    "basics-1.1.1.pcapng",
    "basics-2.4.1.pcapng",
    "cluster-2.4.1.pcapng",
    "groups-2.4.1.pcapng",
    "transactions-0.11.0.3.pcapng",
)
LEAST = 10  # exchanges of a recorded connection that is used
ROUNDS = 8  # how often its exchanges are said
MSS = 1448
SPREAD_NS = 2_000_000_000  # between the first and the last connection's start
HEADER = ("api", "api_version", "correlation_id")
OF_SESSIONS = frozenset(("fetch_offset", "fetch_class", "wait_ns", "work_ns"))
FIELDS = (
    "frame.number",
    "kafka.correlation_id",
    "kafka.request_key",
    "kafka.request.version",
    "kafka.request_frame",
)


# The clean capture


def prolonged(talk: Talk, rounds: int, source: random.Random) -> Talk:
    """The exchanges of a talk repeated, with increasing correlation ids."""
    wires: list[Wire] = list(talk.wires[:3])
    now = wires[-1].time_ns
    at = [0, 0]
    truth = talk.truth
    ids = max(true.row["correlation_id"] for true in truth) + 1
    for count in range(rounds):
        for true in truth if count == 0 else truth[1:]:
            sides = [(CLIENT, true.request, 8)]
            if true.response is not None:
                sides.append((BROKER, true.response, 4))
            for side, frame, place in sides:
                message = bytearray(talk.streams[side][frame.position : frame.end])
                new = (true.row["correlation_id"] + count * ids).to_bytes(4, "big")
                message[place : place + 4] = new
                now += source.randrange(100_000, 3_000_000)
                wire = Wire(0, side, at[side], at[1 - side], ACK, 501, bytes(message), now)
                wires.append(wire)
                at[side] += len(message)
    flags = FIN | ACK
    wires.append(Wire(0, CLIENT, at[CLIENT], at[BROKER], flags, 501, b"", now + 1_000_000))
    wires.append(Wire(0, BROKER, at[BROKER], at[CLIENT] + 1, flags, 501, b"", now + 2_000_000))
    return generated(Talk(talk.name, tuple(wires)), MSS, source)


def usable(talk: Talk) -> bool:
    """Return whether all its frames are of exchanges, so that it can be repeated."""
    frames = len(talk.frames[CLIENT]) + len(talk.frames[BROKER])
    parts = sum(1 if true.response is None else 2 for true in talk.truth)
    return len(talk.truth) >= LEAST and frames == parts


def workload(exchanges: int, seed: int) -> list[Talk]:
    """Talks of at least that many exchanges in all."""
    source = random.Random(seed)
    pool = [talk for name in CAPTURES for talk in talks_in(name) if usable(talk)]
    talks: list[Talk] = []
    count = 0
    while count < exchanges:
        talk = prolonged(source.choice(pool), ROUNDS, source)
        talks.append(talk)
        count += len(talk.truth)
    return talks


# Faults


class Scenario(NamedTuple):
    """A row of the table; `only` is the side that is captured, where not both are."""

    name: str
    apply: Callable[[list[Wire], random.Random], list[Wire]]
    is_rare: bool = False
    only: int | None = None


def lossy(share: float) -> Callable[[list[Wire], random.Random], list[Wire]]:
    """Drop this share of the packets."""
    return lambda wires, source: [wire for wire in wires if source.random() >= share]


def in_bursts(wires: list[Wire], source: random.Random) -> list[Wire]:
    """1 % of the packets is missing, 20 at a time."""
    kept = []
    left = 0
    for wire in wires:
        if left == 0 and source.random() < 0.01 / 20:
            left = 20
        if left > 0:
            left -= 1
        else:
            kept.append(wire)
    return kept


def from_the_middle(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Every connection is seen from some packet in its first half on."""
    counts = Counter(wire.talk for wire in wires)
    skipped = {talk: source.randrange(3, count // 2) for talk, count in sorted(counts.items())}
    kept = []
    for wire in wires:
        skipped[wire.talk] -= 1
        if skipped[wire.talk] < 0:
            kept.append(wire)
    return kept


def snapped(size: int) -> Callable[[list[Wire], random.Random], list[Wire]]:
    """Each packet's first `size` bytes are kept."""
    return lambda wires, _: [wire._replace(captured=size - HEADERS) for wire in wires]


def overtaking(wires: list[Wire], source: random.Random) -> list[Wire]:
    """5 % of the packets come up to 1 ms late."""
    late = [
        wire._replace(time_ns=wire.time_ns + source.randrange(1_000_000))
        if source.random() < 0.05 and not wire.flags & SYN
        else wire
        for wire in wires
    ]
    return sorted(late, key=lambda wire: wire.time_ns)


def of_side(side: int) -> Callable[[list[Wire], random.Random], list[Wire]]:
    """Packets of one direction."""
    return lambda wires, _: [wire for wire in wires if wire.side == side]


SCENARIOS = (
    Scenario("nothing missing", lambda wires, _: wires),
    Scenario("5 % of the packets up to 1 ms late", overtaking),
    Scenario("0.01 % of the packets lost", lossy(0.0001), is_rare=True),
    Scenario("0.1 % lost", lossy(0.001), is_rare=True),
    Scenario("1 % lost", lossy(0.01)),
    Scenario("1 % lost, 20 in a row", in_bursts),
    Scenario("5 % lost", lossy(0.05)),
    Scenario("from the middle of every connection", from_the_middle),
    Scenario("snaplen 256", snapped(256)),
    Scenario("snaplen 128", snapped(128)),
    Scenario("snaplen 96", snapped(96)),
    Scenario("requests only", of_side(CLIENT), only=CLIENT),
    Scenario("responses only", of_side(BROKER), only=BROKER),
)


# Results


@dataclass
class Found:
    """Exchanges of a capture that one program found; `false` counts invented ones."""

    right: int = 0
    partitions: int = 0
    false: int = 0


@dataclass
class Measured:
    """One row of the table: the total, and the results of each program."""

    exchanges: int = 0
    intact: int = 0
    partitions: int = 0
    kdissect: Found = field(default_factory=Found)
    tshark: Found = field(default_factory=Found)


class Place(NamedTuple):
    """A true exchange in the faulty capture: packets that hold bytes of its frames."""

    true: TrueExchange
    asked: frozenset[int]
    answered: frozenset[int]
    is_intact: bool


def places_of(talk: Talk, seen: tuple[Seen, Seen], only: int | None) -> Iterator[Place]:
    """The exchanges of which a packet was captured."""
    for true in talk.truth:
        asked = packets_with(seen[CLIENT], true.request.position, true.request.end)
        answer = true.response
        answered: frozenset[int] = frozenset()
        if answer is not None:
            answered = packets_with(seen[BROKER], answer.position, answer.end)
        is_asked = only == BROKER or seen[CLIENT].is_intact(true.request)
        is_answered = only == CLIENT or answer is None or seen[BROKER].is_intact(answer)
        if asked or answered:
            yield Place(true, asked, answered, is_asked and is_answered)


def packets_with(seen: Seen, start: int, end: int) -> frozenset[int]:
    """Numbers of the packets with bytes between two stream positions."""
    return frozenset(
        number for number, wire in seen.wires if wire.position < end and start < wire.end
    )


def measure(
    scenario: Scenario, talks: Sequence[Talk], seed: int, totals: Measured, has_tshark: bool
) -> None:
    """One capture of a scenario, added to its row."""
    source = random.Random(f"{scenario.name}/{seed}")
    starts = [source.randrange(SPREAD_NS) for _ in talks]
    whole = merged(talks, starts)
    case = Case(talks, scenario.apply(whole, source), BROKER_PORT, loses=True, whole=whole)
    seen = seen_of(case)
    places = [
        place
        for talk, pair in zip(talks, seen, strict=True)
        for place in places_of(talk, pair, scenario.only)
    ]
    totals.exchanges += len(places)
    totals.intact += sum(place.is_intact for place in places)
    totals.partitions += sum(len(place.true.rows.get("partitions", [])) for place in places)
    by_kdissect(case, scenario.only, totals.kdissect)
    if has_tshark:
        by_tshark(case, places, scenario.only, totals.tshark)


def by_kdissect(case: Case, only: int | None, totals: Found) -> None:
    """Add kdissect's results."""
    found = dissect(packets_of(case.wires))
    matches, _ = match(case, found)
    verdict = judge(case, found)
    totals.false += sum(finding.kind in ("phantom", "wrong") for finding in verdict.findings)
    totals.false += sum(not is_of_session(wrong) for _, wrong in wrong_values(case, found))
    for part in matches:
        for one in part:
            row, true = one.row, one.true.row
            names = ("api", "correlation_id") if only == BROKER else HEADER
            same = all(row[name] == true[name] for name in names)
            if same and (only is not None or row["outcome"] == true["outcome"]):
                totals.right += 1
            mine = Counter(map(repr, plain(one.rows, "partitions", True)))
            its = Counter(map(repr, plain(one.true.rows, "partitions", True)))
            totals.partitions += (mine & its).total()


def is_of_session(wrong: Wrong) -> bool:
    """Return whether a value comes from a fetch session.

    Recorded connections are repeated by several at once here, so several have a session of the same
    number at one broker, which no broker assigns twice: each continues where another was.
    """
    return wrong.place.startswith("Fetch ") and wrong.column in OF_SESSIONS


def by_tshark(case: Case, places: list[Place], only: int | None, totals: Found) -> None:
    """Add tshark's results.

    An exchange is right when some packet with bytes of its request has a request with its key,
    version and correlation id, and, where there is a response, some packet with bytes of that has
    its correlation id and a request frame among the packets of the request. For responses alone it
    gives no API. Made up are requests whose stated packets have no bytes of one.
    """
    packets = tshark(case)
    true_requests: dict[int, Counter[tuple[int, int, int]]] = {}
    for place in places:
        row = place.true.row
        asked = (row["correlation_id"], row["api_key"], row["api_version"])
        for number in place.asked:
            true_requests.setdefault(number, Counter())[asked] += 1
        has_request = any(asked in packets[number].requests for number in place.asked)
        is_answered = (
            only == CLIENT
            or place.true.response is None
            or any(
                asked[0] in packets[number].ids and packets[number].answers & place.asked
                for number in place.answered
            )
        )
        totals.right += has_request and is_answered
    for number, packet in packets.items():
        named = true_requests.get(number, Counter())
        totals.false += (Counter(packet.requests) - named).total()


@dataclass
class Listed:
    """One packet as tshark decodes it: requests as id, key and version; ids and request frames."""

    requests: list[tuple[int, int, int]] = field(default_factory=list)
    ids: frozenset[int] = frozenset()
    answers: frozenset[int] = frozenset()


class Packets(dict[int, Listed]):
    """Packets by number; missing ones have no entry."""

    def __missing__(self, number: int) -> Listed:
        return Listed()


def tshark(case: Case) -> Packets:
    """Packets with Kafka as tshark decodes them."""
    packets = packets_of(case.wires)
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        written = [
            Captured(packet.data[packet.start : packet.end], packet.time_ns, packet.original_length)
            for packet in packets
        ]
        file.write(make_pcap(written, magic=0xA1B23C4D))
        file.flush()
        command = ["tshark", "-2", "-r", file.name, *OPTIONS, "-T", "fields"]
        for name in FIELDS:
            command += ["-e", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Packets(listed(line.split("\t")) for line in done.stdout.splitlines())


OPTIONS = (
    "-o", "tcp.reassemble_out_of_order:TRUE",
    "-o", "tcp.desegment_tcp_streams:TRUE",
    "-d", f"tcp.port=={BROKER_PORT},kafka",
    "-Y", "kafka",
)  # fmt: skip


def listed(columns: Sequence[str]) -> tuple[int, Listed]:
    number, ids, keys, versions, answers = (
        [int(value, 0) for value in column.split(",") if value] for column in columns
    )
    # All frames of a packet go one way: requests have a key each.
    requests = list(zip(ids, keys, versions, strict=False)) if keys else []
    return number[0], Listed(requests, frozenset(ids), frozenset(answers))


# The table


def table(rows: Iterable[tuple[str, Measured]]) -> str:
    lines = [
        "| capture | exchanges | all bytes there | kdissect | tshark | partition rows, kdissect "
        "| made up: kdissect | tshark |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows:
        lines.append(
            f"| {name} | {row.exchanges} | {share(row.intact, row.exchanges)} "
            f"| {share(row.kdissect.right, row.exchanges)} "
            f"| {share(row.tshark.right, row.exchanges)} "
            f"| {share(row.kdissect.partitions, row.partitions)} "
            f"| {row.kdissect.false} | {row.tshark.false} |"
        )
    return "\n".join(lines)


def with_columns_of_tshark(text: str, page: str) -> str:
    """The table with tshark's columns of the page, whose captures must be the same."""
    known = {cells[1]: cells for line in page.splitlines() if len(cells := line.split("|")) > 2}
    lines = []
    for line in text.splitlines():
        cells = line.split("|")
        before = known[cells[1]]
        if cells[2:4] != before[2:4]:
            sys.exit(f"{cells[1].strip()}: other captures than those of the page")
        cells[5], cells[8] = before[5], before[8]
        lines.append("|".join(cells))
    return "\n".join(lines)


def share(part: int, whole: int) -> str:
    """Percent; 100 only for all of it."""
    if part == whole:
        return "100 %"
    percent = min(100 * part / whole, 99.99)
    return f"{percent:.2f} %"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--exchanges", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=4, help="captures of a scenario that is rare")
    parser.add_argument("--print", action="store_true", help="print, do not write the page")
    parser.add_argument("--keep-tshark", action="store_true", help="keep its columns of the page")
    options = parser.parse_args()
    if not options.keep_tshark and shutil.which("tshark") is None:
        sys.exit("tshark is not installed; it is the peer to compare with")
    rows = []
    talks = workload(options.exchanges, 1)
    for scenario in SCENARIOS:
        measured = Measured()
        for seed in range(options.seeds if scenario.is_rare else 1):
            measure(scenario, talks, seed, measured, not options.keep_tshark)
        rows.append((scenario.name, measured))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    if not options.print:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(START)
        measured_before, _, after = rest.partition(STOP)
        written = table(rows)
        if options.keep_tshark:
            written = with_columns_of_tshark(written, measured_before)
        PAGE.write_text(f"{before}{START}\n{written}\n{STOP}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
