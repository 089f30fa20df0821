"""One session captured in several ways: each view reports what is visible there."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.pipeline import Balance
from tests.captures.test_truth import Recording, logged_key

NETWORKS = Path(__file__).parents[2] / "captures" / "networks"
VIEWS = sorted(path.stem for path in (NETWORKS / "views").glob("*.pcapng"))
CLOCK_NS = 2_000_000  # each tcpdump reads the clock for itself, when the kernel gives it the packet
WHOLE = ["any-sll", "any-sll2", "inside", "snap128", "snap256", "snap96"]

Row = dict[str, Any]


class View:
    """A view as kdissect reads it, and the session it is of."""

    def __init__(self, name: str) -> None:
        session, self.view = name.split("-4.3.1-")
        self.of = Recording(f"networks/{session}-4.3.1")
        options = kdissect.Options(tables=("exchanges", "connections", "problems"))
        tables: dict[str, list[Row]] = {table: [] for table in options.tables}
        run = kdissect.Run(str(NETWORKS / "views" / f"{name}.pcapng"), options)
        for table, batch in run:
            tables[table] += batch.to_pylist()
        self.balance: Balance = run.balance
        self.exchanges, self.problems = tables["exchanges"], tables["problems"]
        self.connections = {row["connection_id"]: row for row in tables["connections"]}

    def peer(self, row: Row) -> str:
        """The client's ip:port."""
        connection = self.connections[row["connection_id"]]
        return f"{connection['client_ip']}:{connection['client_port']}"

    def key(self, row: Row) -> tuple[Any, ...]:
        names = ("correlation_id", "api_key", "api_version", "client_id")
        return self.peer(row), *(row[name] for name in names)


def view(name: str) -> View:
    return View(next(view for view in VIEWS if view.endswith(f"4.3.1-{name}")))


@pytest.mark.parametrize("name", VIEWS)
def test_the_side_car_is_about_its_views(name: str) -> None:
    session, view_name = name.split("-4.3.1-")
    sidecar = json.loads((NETWORKS / f"{session}-4.3.1.json").read_text(encoding="utf-8"))
    (told,) = [row for row in sidecar["views"] if row["view"] == view_name]
    data = (NETWORKS / "views" / f"{name}.pcapng").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert (told["file"], told["size"], told["sha256"]) == (f"{name}.pcapng", len(data), digest)
    assert View(name).balance.packets == told["packets"]


@pytest.mark.parametrize("name", WHOLE)
def test_cut_doubled_and_tunnelled_packets_give_every_exchange_with_its_sizes_and_times(
    name: str,
) -> None:
    seen = view(name)
    names = ("correlation_id", "api_key", "api_version", "client_id",
             "request_size", "response_size", "outcome")  # fmt: skip
    if name == "snap96":  # librdkafka-producer does not fit: 30 bytes of payload are left
        names = tuple(each for each in names if each != "client_id")
    found = Counter((seen.peer(row), *(row[each] for each in names)) for row in seen.exchanges)
    whole = Counter(
        (seen.of.key_of(row)[0], *(row[each] for each in names))
        for row in seen.of.tables["exchanges"]
    )
    assert found == whole
    latencies = {seen.of.key_of(row)[:2]: row["latency_ns"] for row in seen.of.tables["exchanges"]}
    for row in seen.exchanges:
        whole_ns = latencies[seen.peer(row), row["correlation_id"]]
        assert abs(row["latency_ns"] - whole_ns) < CLOCK_NS


@pytest.mark.parametrize("name", ["any-sll", "any-sll2"])
def test_packets_seen_at_two_interfaces_are_counted_once_and_retransmissions_are_none_of_them(
    name: str,
) -> None:
    seen = view(name)
    assert seen.problems == []
    assert seen.balance.framed_bytes == seen.of.balance.framed_bytes
    whole = list(seen.of.connections.values())
    for way in ("to_broker", "to_client"):
        packets = [row[f"packets_{way}"] for row in whole]
        doubled = list(seen.connections.values())
        assert [row[f"packets_{way}"] for row in doubled] == [2 * count for count in packets]
        assert [row[f"duplicate_packets_{way}"] for row in doubled] == packets
        again = f"retransmitted_segments_{way}"
        assert [row[again] for row in doubled] == [row[again] for row in whole]
    assert sum(row["retransmitted_segments_to_broker"] for row in whole) == 1


def test_late_capture_has_requests_after_its_start() -> None:
    seen = view("late")
    found = Counter(map(seen.key, seen.exchanges))
    told = Counter(map(logged_key, seen.of.known("exchanges")))
    assert found - told == Counter()
    began = min(row["request_start"].value for row in seen.exchanges) // 1_000_000
    for row in seen.of.known("exchanges"):
        if logged_key(row) in told - found:
            assert row["logged_ms"] - row["total_ms"] <= began
    assert seen.problems == []


def test_requests_alone_are_all_there_and_without_outcome() -> None:
    seen = view("requests")
    assert Counter(map(seen.key, seen.exchanges)) == Counter(
        map(logged_key, seen.of.known("exchanges"))
    )
    assert {row["outcome"] for row in seen.exchanges} == {None}


def test_responses_alone_are_all_there_and_none_is_taken_for_another_api() -> None:
    seen = view("responses")
    told = {logged_key(row)[:2]: row for row in seen.of.known("exchanges")}
    found = {(seen.peer(row), row["correlation_id"]): row for row in seen.exchanges}
    assert found.keys() == told.keys()
    for place, row in found.items():
        assert row["outcome"] == "orphan"
        assert row["api_key"] in (None, told[place]["api_key"])
