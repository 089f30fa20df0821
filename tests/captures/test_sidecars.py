"""The committed captures match their README, and side-cars are consistent."""

import hashlib
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tools.record import contents

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = [
    path.relative_to(CAPTURES).as_posix().removesuffix(".pcapng")
    for directory in contents.DIRECTORIES
    for path in sorted(directory.glob("*.pcapng"))
]
TOTAL_LIMIT = 20_000_000
SIDECAR_LIMIT = 1_500_000
SIZE_LIMITS = {"quickstart": 2_000_000}
HEADING_KEYS = {"format", "scenario", "capture", "views", "software", "cluster", "sessions"}
ENHANCED_PACKET_BLOCK = 6

Row = dict[str, Any]


def rows(sidecar: dict[str, Any], table: str) -> list[Row]:
    columns = sidecar[table]["columns"]
    return [dict(zip(columns, row, strict=True)) for row in sidecar[table]["rows"]]


def content(row: Row) -> tuple[Any, ...]:
    names = ("key_size", "value_size", "key_sha256", "value_sha256", "header_count")
    return tuple(row[name] for name in names)


def place(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def sidecar(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def test_there_is_a_quickstart_capture() -> None:
    assert "quickstart" in NAMES


def test_all_captures_together_stay_small() -> None:
    assert sum(path.stat().st_size for path in CAPTURES.rglob("*")) < TOTAL_LIMIT


def test_each_capture_and_side_car_stays_small(name: str) -> None:
    assert (CAPTURES / f"{name}.pcapng").stat().st_size < SIZE_LIMITS.get(name, TOTAL_LIMIT)
    assert (CAPTURES / f"{name}.json").stat().st_size < SIDECAR_LIMIT


def test_every_capture_has_a_side_car_and_both_are_in_the_readme() -> None:
    for directory in contents.DIRECTORIES:
        captures = {path.stem for path in directory.glob("*.pcapng")}
        assert {path.stem for path in directory.glob("*.json")} == captures
        readme = (directory / "README.md").read_text(encoding="utf-8")
        assert contents.table(directory) in readme


def test_the_side_car_describes_its_capture(name: str, sidecar: dict[str, Any]) -> None:
    data = (CAPTURES / f"{name}.pcapng").read_bytes()
    assert sidecar["capture"] == {
        "file": f"{Path(name).name}.pcapng",
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "packets": packet_count(data),
    }


def test_every_row_has_a_value_for_every_column(sidecar: dict[str, Any]) -> None:
    tables = sidecar.keys() - HEADING_KEYS
    assert all(set(sidecar[table]) == {"columns", "rows"} for table in tables)
    assert all(len(rows(sidecar, table)) == len(sidecar[table]["rows"]) for table in tables)


def test_every_row_belongs_to_a_session(sidecar: dict[str, Any]) -> None:
    sessions = [session["session"] for session in sidecar["sessions"]]
    assert len(sessions) == len(set(sessions))
    for table in ("operations", "produced", "consumed", "errors", "rebalances", "commits"):
        assert {row["session"] for row in rows(sidecar, table)} <= set(sessions)


def test_no_two_produced_records_share_an_offset(sidecar: dict[str, Any]) -> None:
    known = [place(row) for row in rows(sidecar, "produced") if row["offset"] is not None]
    assert len(known) == len(set(known))


def test_every_consumed_record_was_produced(sidecar: dict[str, Any]) -> None:
    produced = rows(sidecar, "produced")
    known = {place(row): row for row in produced if row["offset"] is not None}
    contents = {(row["topic"], content(row)) for row in produced}
    for row in rows(sidecar, "consumed"):
        source = known.get(place(row))
        if source is None:  # its producer did not learn the offset, or sent it a second time
            assert (row["topic"], content(row)) in contents
            continue
        assert content(row) == content(source)
        times = {row["timestamp_ms"], source["timestamp_ms"]}
        # Not every library tells the time, and messages of magic 0 have none.
        assert len(times - {None, -1}) <= 1 or sidecar["scenario"] == "topic-configs"


def test_no_consumer_was_given_a_record_twice(sidecar: dict[str, Any]) -> None:
    given = Counter((row["session"], *place(row)) for row in rows(sidecar, "consumed"))
    assert set(given.values()) <= {1}


def test_a_commit_is_the_offset_after_a_consumed_record(sidecar: dict[str, Any]) -> None:
    consumed = {(row["group"], *place(row)) for row in rows(sidecar, "consumed")}
    for row in rows(sidecar, "commits"):
        assert (row["group"], row["topic"], row["partition"], row["offset"] - 1) in consumed


def test_times_go_forward(sidecar: dict[str, Any]) -> None:
    spans = [(row["start_ns"], row["end_ns"]) for row in rows(sidecar, "operations")]
    spans += [(row["start_ns"], row["end_ns"]) for row in rows(sidecar, "pauses")]
    spans += [(row["sent_ns"], row["acknowledged_ns"]) for row in rows(sidecar, "produced")]
    assert all(start <= end for start, end in spans)


def test_exchanges_are_counted_by_api(sidecar: dict[str, Any]) -> None:
    exchanges = rows(sidecar, "exchanges")
    counted = Counter((row["api_key"], row["api_version"]) for row in exchanges)
    told = {
        (row["api_key"], row["api_version"]): row["count"]
        for row in rows(sidecar, "exchange_counts")
    }
    assert counted == told


def test_rows_about_exchanges_point_at_exchanges_of_their_kind(sidecar: dict[str, Any]) -> None:
    exchanges = rows(sidecar, "exchanges")
    for row in rows(sidecar, "memberships"):
        assert exchanges[row["exchange"]]["api_key"] == row["api_key"]
    for row in rows(sidecar, "exchange_partitions"):
        assert exchanges[row["exchange"]]["api_key"] in (0, 1)


def test_quickstart_contains_the_documented_events() -> None:
    sidecar = json.loads((CAPTURES / "quickstart.json").read_text(encoding="utf-8"))
    produced = rows(sidecar, "produced")
    assert {row["codec"] for row in produced} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {row["acks"] for row in produced} == {"0", "1", "all"}
    assert {row["transaction"] for row in produced} == {None, "committed", "aborted"}
    libraries = {session["library"] for session in sidecar["sessions"]}
    assert libraries == {"java", "librdkafka", "kafka_python", "aiokafka"}
    joins = [row for row in rows(sidecar, "memberships") if row["group"] == "order-workers"]
    assert {row["generation"] for row in joins} >= {1, 2, 3}
    codes = {code for row in rows(sidecar, "exchanges") for _, code in row["errors"]}
    assert codes >= {1, 3, 10, 27, 36, 38, 69, 100}
    slow = max(row["acknowledged_ns"] - row["sent_ns"] for row in produced)
    assert slow > 1_000_000_000
    aborted = {place(row) for row in produced if row["transaction"] == "aborted"}
    assert aborted
    assert aborted & {place(row) for row in rows(sidecar, "consumed")} == set()
    keys = [(row["connection"], row["correlation_id"]) for row in rows(sidecar, "exchanges")]
    assert len(keys) == len(set(keys))


def packet_count(pcapng: bytes) -> int:
    """The number of enhanced packet blocks of a little-endian pcapng."""
    count = offset = 0
    while offset < len(pcapng):
        block_type, length = struct.unpack_from("<II", pcapng, offset)
        count += block_type == ENHANCED_PACKET_BLOCK
        offset += length
    return count
