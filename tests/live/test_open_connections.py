"""A look at open connections: it gives their rows as of now, and changes nothing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdissect.live.listener import Listener
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.live.replays import CAPTURES, EVERY, SlicedWire, by_packets

SAMPLE = (
    "cluster-3.9.1.pcapng",
    "incident-crashes-4.3.1.pcapng",
    "incident-lossy-network-4.3.1.pcapng",
    "quickstart.pcapng",
    *sorted(path.name for path in CAPTURES.glob("tls*.pcapng"))[:3],
    *sorted(path.name for path in CAPTURES.glob("sasl*.pcapng"))[:3],
)


class Collected(Listener):
    """Keeps all rows."""

    tables = frozenset(EVERY)

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self.rows += [(table, row) for row in batch.to_pylist()]


def look(watcher: Watcher) -> list[dict[str, Any]]:
    rows = watcher.dissector.open_connection_rows()
    builder = BatchBuilder(TABLES["connections"], watcher.packet_source.names, watcher.names)
    return list(builder.batch(rows).to_pylist())


def watched(capture: Path, is_looking: bool) -> tuple[list[Any], list[dict[str, Any]]]:
    """All rows of a capture, and those seen before its end."""
    listener = Collected()
    with SlicedWire(capture, 100) as packet_source:
        watcher = Watcher(packet_source, [listener], Options(), by_packets)
        while watcher.step():
            if is_looking:
                look(watcher)
        seen = look(watcher)
        watcher.finish()
    return listener.rows, seen


@pytest.mark.parametrize("name", SAMPLE)
def test_looking_again_and_again_changes_no_row(name: str) -> None:
    assert watched(CAPTURES / name, True)[0] == watched(CAPTURES / name, False)[0]


@pytest.mark.parametrize("name", SAMPLE)
def test_open_connections_match_their_rows_at_the_end(name: str) -> None:
    rows, seen = watched(CAPTURES / name, False)
    told = {row["connection_id"]: row for table, row in rows if table == "connections"}
    for row in seen:
        assert {**row, "closed_by": ""} == {**told[row["connection_id"]], "closed_by": ""}


def test_connections_of_which_nothing_was_understood_are_seen_too() -> None:
    _, seen = watched(CAPTURES / "cluster-3.9.1.pcapng", False)
    assert {"kafka", "none"} >= {row["protocol"] for row in seen}
    assert seen
