"""The state that findings keep of groups is bounded for any groups, members and times."""

import random
from typing import Any

import pyarrow as pa
import pytest

from kdissect.rules.expelled import Expelled
from kdissect.rules.rejoins import Rejoins
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES
from tests.seeds import SEED

MOST = 7
SECOND = 1_000_000_000


def batch(table: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, arrow_schema(TABLES[table]))


def test_rejoins_keep_a_bounded_number_of_groups_and_rebalances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kdissect.rules.rejoins.MOST", MOST)
    draw, found = random.Random(SEED), Rejoins()
    rebalances: set[tuple[str, int]] = set()
    for number in range(200):
        group, generation = f"g{draw.randrange(40)}", draw.randrange(5)
        member = {"group_id": group, "member_id": "m", "protocol": "range"}
        start = number * 10 * SECOND
        found.add(batch("members", [
            member | {"event": "heartbeat", "error": "REBALANCE_IN_PROGRESS", "time": start},
            member | {"event": "join", "time": start + SECOND},
            member | {"event": "sync", "generation": generation, "time": start + 3 * SECOND},
        ]))  # fmt: skip
        if len(rebalances) < MOST:
            rebalances.add((group, generation))
        waits = found.waits()
        assert sum(one.rebalances for one in waits) == len(rebalances)
        assert {one.group for one in waits} == {group for group, _ in rebalances}
    assert len(found._counted) == MOST
    assert len(found._waits) <= MOST
    assert len(found._told) <= MOST


def test_silences_are_kept_of_a_bounded_number_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.rules.expelled.MOST", MOST)
    draw, found = random.Random(SEED), Expelled()
    for number in range(200):
        beat = {"api": "Heartbeat", "group_id": f"g{draw.randrange(40)}", "client_id": "c"}
        refused = {"error": "UNKNOWN_MEMBER_ID"} if draw.random() < 0.5 else {}
        found.add(batch("exchanges", [
            beat | refused | {"request_start": number * 10 * SECOND, "request_packet": number}
        ]))  # fmt: skip
    assert len(found._last) == MOST
    assert 0 < len(found.silences()) <= MOST


def test_a_silence_is_not_reported_where_not_all_leaves_could_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leave of the consumer protocol is known by rows of members alone."""
    monkeypatch.setattr("kdissect.rules.expelled.MOST", MOST)
    beat = {"api": "ConsumerGroupHeartbeat", "group_id": "g", "client_id": "c"}
    refused = beat | {"error": "UNKNOWN_MEMBER_ID", "request_start": 60 * SECOND}
    found = Expelled()
    found.add(batch("exchanges", [beat | {"request_start": 0}, refused]))
    leave = {"event": "leave", "group_id": "g", "client_id": "other"}
    for number in range(MOST):
        found.add_members(batch("members", [leave | {"time": number * SECOND}]))
        assert [one.client for one in found.silences()] == ["c"]
    found.add_members(batch("members", [leave | {"time": MOST * SECOND}]))
    assert found.silences() == []
    assert len(found._left) == MOST
