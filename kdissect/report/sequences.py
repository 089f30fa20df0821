"""Messages between clients and brokers in a range of time, for sequence diagrams.

Around the slowest exchange of a finding, the slowest exchanges of all, a rebalance, or an exchange
or connection that was asked for. Of an exchange: those of its connection and its group, and where a
leader waits for followers, their fetches; all that overlap its time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from kdissect.report.asked import Asked
from kdissect.report.evidence import Evidence
from kdissect.report.rows import Exchanges, shown
from kdissect.text.human import counted

DIAGRAMS: Final = 12  # of findings
SLOWEST: Final = 4
REBALANCES: Final = 4
MESSAGES: Final = 40
MARGIN_NS: Final = 5_000_000
EVER: Final = 1 << 62
# Exchanges in which leaders wait for followers.
OF_FOLLOWERS: Final = ("produce-latency-slow-follower", "broker-stalls", "replicas-missing")
# What a diagram draws of an exchange.
DRAWN: Final = (
    "exchange_id", "api", "api_version", "client_id", "broker", "error", "latency_ns",
    "request_packet", "response_packet", "start_ms", "response_ms",
)  # fmt: skip


@dataclass
class Diagram:
    """Collects the messages of connections, groups and followers in a range of time, in ns."""

    title: str
    first_ns: int
    last_ns: int
    connections: tuple[int, ...] = ()
    group: str = ""
    followers_of: str | None = None  # a broker; "" for those of any
    main: dict[str, Any] | None = None
    finding: int | None = None
    total: int = 0
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, rows: Exchanges) -> None:
        """Look at a batch."""
        mask = (rows.ends >= self.first_ns) & (rows.starts <= self.last_ns)
        if not mask.any():
            return
        chosen = np.isin(rows.numbers("connection_id"), np.array(self.connections, np.int64))
        if self.group:
            chosen |= rows.named("group_id", frozenset({self.group}))
        if self.followers_of is not None:
            followers = rows.numbers("replica_id") >= 0
            if self.followers_of:
                followers &= rows.named("broker", frozenset({self.followers_of}))
            chosen |= followers
        places = np.flatnonzero(mask & chosen)
        self.total += len(places)
        # The first by time of all batches; the main one is kept in any case.
        for place in places[np.argsort(rows.starts[places], kind="stable")][:MESSAGES].tolist():
            row = rows.row(place)
            self.rows.setdefault(row["exchange_id"], row)
        self._bound()

    def data(self) -> dict[str, Any]:
        """The exchanges by time, the main one marked, and the number of those left out."""
        if self.main is not None:
            self.rows[self.main["exchange_id"]] = self.main
            self._bound()
        ordered = sorted(self.rows.values(), key=lambda row: row["start_ns"])
        exchanges = [{name: row[name] for name in DRAWN} for row in map(shown, ordered)]
        return {
            "title": self.title, "finding": self.finding,
            "main": None if self.main is None else self.main["exchange_id"],
            "exchanges": exchanges, "left_out": max(self.total - len(ordered), 0),
        }  # fmt: skip

    def _bound(self) -> None:
        if len(self.rows) <= MESSAGES:
            return
        kept = None if self.main is None else self.main["exchange_id"]
        order = sorted(
            self.rows.values(), key=lambda row: (row["exchange_id"] != kept, row["start_ns"])
        )
        self.rows = {row["exchange_id"]: row for row in order[:MESSAGES]}


class Slowest:
    """The exchange with the longest broker time of each API, and those of chosen packets."""

    def __init__(self, packets: Sequence[int]) -> None:
        self._by_api: dict[str, tuple[int, dict[str, Any]]] = {}
        self._packets = frozenset(packets)
        self.asked: dict[int, dict[str, Any]] = {}  # packet → exchange

    def add(self, rows: Exchanges) -> None:
        """Look at a batch."""
        work = rows.numbers("work_ns")
        names, places = rows.names["api"]
        order = np.lexsort((-work, places))
        for place in order[np.diff(places[order], prepend=-1) != 0].tolist():
            name, time = names[places[place]], int(work[place])
            if time > self._by_api.get(name, (0, {}))[0]:
                self._by_api[name] = time, rows.row(place)
        for packet in self._packets - self.asked.keys():
            is_one = rows.numbers("request_packet") == packet
            is_one |= rows.numbers("response_packet") == packet
            if is_one.any():
                self.asked[packet] = rows.row(int(np.flatnonzero(is_one)[0]))

    def diagrams(self) -> Iterator[Diagram]:
        """Around the slowest exchange of each API, the slowest first."""
        order = sorted(self._by_api.values(), key=lambda one: -one[0])
        for _, row in order[:SLOWEST]:
            yield around(f"slowest {row['api'] or 'exchange'} of {row['client_id']}", row)

    def of_packets(self) -> Iterator[Diagram]:
        """Around the exchanges of chosen packets."""
        for packet, row in self.asked.items():
            yield around(f"packet {packet}", row)


def around(title: str, row: dict[str, Any]) -> Diagram:
    """The diagram around an exchange."""
    margin = MARGIN_NS + (row["end_ns"] - row["start_ns"]) // 10
    waits = row["broker"] if row["api"] == "Produce" else None
    return Diagram(
        title, row["start_ns"] - margin, row["end_ns"] + margin, (row["connection_id"],),
        row["group_id"] or "", waits, row,
    )  # fmt: skip


def of_findings(evidence: Sequence[Evidence]) -> list[Diagram]:
    """One for each of the first findings with exchanges."""
    found = []
    for number, one in enumerate(evidence):
        if one.rows:
            connections = tuple(row["connection_id"] for row in one.rows[:3])
            followers = "" if one.finding.id in OF_FOLLOWERS else None
            made = around(f"finding {number + 1}: {one.finding.id}", one.rows[0])
            found.append(
                replace(made, connections=connections, followers_of=followers, finding=number)
            )
    return found[:DIAGRAMS]


def of_rebalances(longest: Iterable[tuple[str, int, int]]) -> Iterator[Diagram]:
    """Of groups from the first join to the last sync; `longest` are group, start and end in ns."""
    for group, first, last in longest:
        margin = MARGIN_NS + (last - first) // 10
        yield Diagram(f"rebalance of {group}", first - margin, last + margin, group=group)


def of_connections(ids: Iterable[int]) -> Iterator[Diagram]:
    """From the first exchange of connections on."""
    for one in ids:
        yield Diagram(f"connection {one}", -EVER, EVER, connections=(one,))


def not_found(asked: Asked, made: Slowest, diagrams: Iterable[Diagram]) -> Iterator[str]:
    """Sentences about diagrams that were asked for, and have no message."""
    for packet in asked.packets:
        if packet not in made.asked:
            yield f"no exchange has packet {packet}: it has no sequence diagram"
    for one in diagrams:
        if not one.rows:
            yield f"{one.title} has no exchanges: it has no sequence diagram"
        elif one.total > len(one.rows):
            left = counted(one.total - len(one.rows), "exchange")
            yield f"of {one.title}, {left} are not in the sequence diagram"
