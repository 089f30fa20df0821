"""Exchanges of a capture beside those of its slice."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import kdissect
from kdissect.capture.packet import Packet
from kdissect.slicing.slices import write_slice
from tests.capture.writers import Captured, make_pcapng

Row = dict[str, Any]
# Packet numbers, and values derived from them.
OF_THE_FILE = {"capture", "connection_id", "exchange_id", "request_packet", "response_packet"}
# State known from much earlier packets: docs/export.md.
OF_THE_PAST = {"rtt_ns", "retransmits"}
OF_THE_SESSION = {"wait_ns", "work_ns", "fetch_class"}
# Null where the answer before is not in the slice: how long the request was behind it.
OF_THE_ANSWER_BEFORE = {"queue_ns", "service_ns", "wait_ns", "work_ns"}
KEY = ("request_start", "response_start", "api", "correlation_id", "client_id", "outcome")


def rows_of(path: Path, where: str | None = None, **options: Any) -> list[Row]:
    table = kdissect.read(path, table="exchanges", where=where, **options).to_arrow()
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in table.columns
    ]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def compared(
    source: Path, target: Path, where: str, is_whole: bool = False, **options: Any
) -> tuple[list[Row], list[Row]]:
    """The chosen exchanges, and those of the slice that are the same ones, as far as they must be.

    One that the slice has not is empty.
    """
    write_slice(source, target, where, connections=is_whole, force=True, **options)
    chosen = rows_of(source, where, **options)
    found: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    if chosen:
        for row in rows_of(target, **options):
            found[key_of(row)].append(row)
    same = [found[key_of(row)].pop(0) if found[key_of(row)] else {} for row in chosen]
    if not is_whole:
        chosen = [beside(row, other) for row, other in zip(chosen, same, strict=True)]
    return [lasting(row, is_whole) for row in chosen], [lasting(row, is_whole) for row in same]


def beside(row: Row, other: Row) -> Row:
    """The chosen row as a slice without the answer before it has it: null where that has null."""
    unknown = {name for name in OF_THE_ANSWER_BEFORE if name in other and other[name] is None}
    is_before_unknown = "queue_ns" in unknown
    return {
        name: None if is_before_unknown and name in unknown else value
        for name, value in row.items()
    }


def key_of(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in KEY)


def lasting(row: Row, is_whole: bool) -> Row:
    """The columns that a slice keeps."""
    lost = set(OF_THE_FILE)
    if not is_whole:
        lost |= OF_THE_PAST | (OF_THE_SESSION if row.get("api") == "Fetch" else set())
    return {name: value for name, value in row.items() if name not in lost}


def write_packets(path: Path, packets: Iterable[Packet]) -> None:
    made = [
        Captured(packet.data[packet.start : packet.end], packet.time_ns, packet.original_length)
        for packet in packets
    ]
    path.write_bytes(make_pcapng(made))
