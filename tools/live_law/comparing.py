"""Tables of two dissections, compared row by row."""

from collections import Counter
from typing import Any, NamedTuple

from kdissect.tables.schemas import TABLES
from tools.live_law.both import Packets, Tables

# Columns with the origin of packets: an interface or a file.
UNLIKE = ("capture",)
SHOWN = 3


class Compared(NamedTuple):
    """One table: how many rows there are live and in the file, and which only one of them has."""

    table: str
    live: int
    filed: int
    only_live: list[str]
    only_filed: list[str]


def compare(live: Tables, filed: Tables) -> list[Compared]:
    """Every table of both; all columns but `UNLIKE` count, the order of rows does not."""
    found = []
    for table in TABLES:
        ours = Counter(row_text(row) for row in live[table])
        theirs = Counter(row_text(row) for row in filed[table])
        only = [sorted((one - other).elements()) for one, other in ((ours, theirs), (theirs, ours))]
        found.append(Compared(table, ours.total(), theirs.total(), *only))
    return found


def row_text(row: dict[str, Any]) -> str:
    """A row as text."""
    return repr({name: value for name, value in row.items() if name not in UNLIKE})


def page(packets: Packets, compared: list[Compared]) -> str:
    """A line a table, and the first rows that differ."""
    lines = [f"{'':12} {'live':>8} {'file':>8} {'differ':>8}"]
    lines.append(f"{'packets':12} {packets.live:8} {packets.filed:8} {packets.differing:8}")
    for one in compared:
        differ = max(len(one.only_live), len(one.only_filed))
        lines.append(f"{one.table:12} {one.live:8} {one.filed:8} {differ:8}")
    lines.append(f"times of packets differ by {packets.apart_ns} ns at most")
    for one in compared:
        lines += [f"only live: {one.table} {row}" for row in one.only_live[:SHOWN]]
        lines += [f"only in the file: {one.table} {row}" for row in one.only_filed[:SHOWN]]
    return "\n".join(lines)
