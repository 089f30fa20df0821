"""The table of members agrees with the clients' own listeners (side-cars)."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect

CAPTURES = Path(__file__).parents[2] / "captures"
# For these, each listener call has the whole assignment; others get the additions only.
EAGER = {"range", "roundrobin", "sticky", "RoundRobinAssigner"}


def rebalances(sidecar: dict[str, Any]) -> list[dict[str, Any]]:
    table = sidecar["rebalances"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    return [row for row in rows if row["event"] == "assigned" and row["member_id"]]


def partitions(assignment: str | None) -> frozenset[tuple[str, int]]:
    """The partitions of an assignment as the table writes it."""
    topics = (part.rsplit(":", 1) for part in (assignment or "").split())
    return frozenset(
        (topic, int(number)) for topic, numbers in topics for number in numbers.split(",") if number
    )


def with_rebalances() -> list[Path]:
    return [
        path.with_suffix(".pcapng")
        for path in sorted(CAPTURES.glob("*.json"))
        if rebalances(json.loads(path.read_text()))
    ]


@pytest.mark.parametrize("capture", with_rebalances(), ids=lambda path: path.stem)
def test_every_assignment_received_by_a_client_is_in_the_table(capture: Path) -> None:
    rows = kdissect.read(str(capture), table="members").to_arrow().to_pylist()
    seen: dict[tuple[str, str], set[frozenset[tuple[str, int]]]] = {}
    protocols: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        member = (row["group_id"], row["member_id"])
        if row["event"] in ("join", "sync", "assign"):
            seen.setdefault(member, set()).add(partitions(row["assignment"]))
            protocols.setdefault(member, set()).add(row["protocol"] or "")
    for told in rebalances(json.loads(capture.with_suffix(".json").read_text())):
        member = (told["group"], told["member_id"])
        wanted = frozenset((topic, number) for topic, number in told["partitions"])
        if protocols[member] <= EAGER:
            assert wanted in seen[member], told
        else:
            assert any(wanted <= found for found in seen[member]), told


@pytest.mark.parametrize("name", ["share-groups-4.3.1", "streams-groups-4.3.1", "streams-2.8.2"])
def test_members_share_all_partitions_in_the_end(name: str) -> None:
    rows = kdissect.read(str(CAPTURES / f"{name}.pcapng"), table="members").to_arrow().to_pylist()
    last: dict[str, str] = {}
    for row in rows:
        if row["event"] in ("sync", "assign") and row["assignment"]:
            last[row["member_id"]] = row["assignment"].removeprefix("active ")
    numbers = [number for assignment in last.values() for _, number in partitions(assignment)]
    assert len(last) == 2
    assert sorted(numbers) == list(range(len(numbers)))
