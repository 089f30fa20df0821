"""Incidents staged with real clients: their ground truth and the analyses' results.

The truth is the side-car's: times of calls and callbacks, by the same clock as the packets'.
"""

import functools
import struct
from pathlib import Path
from typing import Any

import kdissect
from tests.analysis.from_sidecars import tables_of_sidecar
from tests.analysis.made_tables import MS, Row

# Delay between a packet and the client's callback, or the kernel's record of a process's end.
SLACK = 60 * MS
# How long a Java agent's poll() waits at most before it is called again.
POLL = 60 * MS
ENHANCED_PACKET_BLOCK = 6
HEARTBEAT, BROKER_TIMER = 500 * MS, 500 * MS


@functools.cache
def truth(name: str) -> dict[str, list[Row]]:
    return tables_of_sidecar(name)


def answer(question: str, name: str, **options: Any) -> list[Row]:
    found = kdissect.analyse(question, f"captures/{name}.pcapng", **options).to_arrow()
    rows: list[Row] = found.to_pylist()
    return rows


def operation(name: str, session: str, what: str, number: int = 0) -> Row:
    """The number-th call of a kind that a client made."""
    calls = [row for row in truth(name)["operations"] if row["session"] == session]
    return [row for row in calls if row["operation"] == what][number]


def assigned(name: str, session: str) -> list[Row]:
    rows = truth(name)["rebalances"]
    return [row for row in rows if row["session"] == session and row["event"] == "assigned"]


def chosen(rows: list[Row], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def until(capture: Path, time_ns: int) -> bytes:
    """The packets of a pcapng of nanoseconds, until the first of that time or later."""
    data = capture.read_bytes()
    offset = 0
    while offset < len(data):
        kind, length = struct.unpack_from("<II", data, offset)
        if kind == ENHANCED_PACKET_BLOCK:
            high, low = struct.unpack_from("<II", data, offset + 12)
            if (high << 32 | low) >= time_ns:
                break
        offset += length
    return data[:offset]


def produced_by(name: str, time_ns: int) -> tuple[int, int]:
    """Lower and upper bound of the records produced by a time."""
    records = truth(name)["produced"]
    return (
        sum(row["acknowledged_ns"] <= time_ns for row in records),
        sum(row["sent_ns"] <= time_ns for row in records),
    )
