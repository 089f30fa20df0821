"""A coordinator that moves, as the clients of a group saw it."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kdissect.rules.coordinators import ENOUGH, STOP_NS, Coordinators, Move
from kdissect.rules.engine import judge
from kdissect.rules.finding import WARNING
from kdissect.rules.indicators import Indicators
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES
from tests.analysis.made_findings import ids, seen

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
Row = dict[str, Any]


def beats(
    connection: int, *at_ms: int, api: str = "Heartbeat", client: str = "m-1", **more: Any
) -> list[Row]:
    """Exchanges of a member, each answered after a millisecond."""
    return [
        {
            "connection_id": connection, "api": api, "client_id": client, "group_id": "g",
            "outcome": "answered", "request_start": START + ms * 1_000_000,
            "response_end": START + (ms + 1) * 1_000_000, "response_packet": ms,
        } | more
        for ms in at_ms
    ]  # fmt: skip


def signs_of(*rows: Row, brokers: tuple[int, ...] = (1, 2)) -> list[Indicators]:
    """Moves where connection N leads to broker N; its row comes last, or first."""
    ends = [
        {"connection_id": number, "broker_ip": f"10.0.0.{number}", "broker_port": 9092}
        for number in brokers
    ]
    batches = {"exchanges": list(rows), "connections": ends}
    found = []
    for order in (batches, reversed(batches)):
        signs = Indicators()
        for table in order:
            schema = arrow_schema(TABLES[table])
            signs.add(table, pa.RecordBatch.from_pylist(batches[table], schema))
        found.append(signs)
    return found


def moves(*rows: Row, brokers: tuple[int, ...] = (1, 2)) -> list[Move]:
    """Moves found, whichever row came first."""
    last, first = (signs.coordinators.moves() for signs in signs_of(*rows, brokers=brokers))
    assert last == first
    return last


BEFORE = beats(1, 0, 500, 1000)


def test_members_that_get_no_answer_until_another_broker_takes_over() -> None:
    others = [*beats(1, 100, 600, 1100, client="m-2"), *beats(2, 4100, client="m-2")]
    (move,) = moves(*BEFORE, *beats(2, 4500), *others)
    assert (move.group, move.before, move.after) == ("g", "10.0.0.1:9092", "10.0.0.2:9092")
    assert (move.stopped_ns, move.usual_ns) == (3500 * 1_000_000, 500 * 1_000_000)
    assert (move.last_ns, move.first_ns) == (START + 1_001_000_000, START + 4_501_000_000)
    assert move.clients == ("m-1", "m-2")
    assert move.packet == 4500


def test_finding_names_waiting_clients_and_durations() -> None:
    errors = [{"error": "NOT_COORDINATOR", "errors": 9, "exchanges": 9, "clients": 1}]
    (signs, _) = signs_of(*BEFORE, *beats(2, 4500))
    found = judge(replace(seen(errors=errors), signs=signs))
    assert ids(found) == ["coordinator-moved"]
    assert found[0].severity == WARNING
    assert found[0].packet == 4500
    assert found[0].text == (
        "The coordinator of group g moved from 10.0.0.1:9092 to 10.0.0.2:9092: m-1 got no "
        "response for 3.5 s (one every 500 ms before)"
    )


@pytest.mark.parametrize("api", ["OffsetCommit", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"])
def test_any_request_that_only_coordinators_answer_counts(api: str) -> None:
    assert moves(*beats(1, 0, 500, 1000, api=api), *beats(2, 4500, api=api))


@pytest.mark.parametrize(
    "rows",
    [
        # Soon enough: 2 s, and 3 times the usual interval.
        [*BEFORE, *beats(2, 2999)],
        [*beats(1, 0, 2000, 4000), *beats(2, 9999)],
        # Too few answers to know the usual interval.
        [*beats(1, 0, 500), *beats(2, 4500)],
        # Two clients of the name, or two groups: both brokers answered all the time.
        [*beats(1, 0, 500, 5000), *beats(2, 4500)],
        # Another client, without earlier requests.
        [*BEFORE, *beats(2, 4500, client="m-2")],
        # The other broker only refused, or answered requests that any broker answers.
        [*BEFORE, *beats(2, 4500, error="NOT_COORDINATOR")],
        [*BEFORE, *beats(2, 4500, api="FindCoordinator")],
        [*BEFORE, *beats(2, 4500, outcome="unanswered")],
        # The same broker, after a pause of the client.
        [*BEFORE, *beats(1, 9000)],
    ],
)
def test_less_than_that_is_no_finding(rows: list[Row]) -> None:
    assert moves(*rows) == []


def test_connections_with_an_unknown_broker_give_no_coordinator() -> None:
    assert moves(*BEFORE, *beats(2, 4500), brokers=(1,)) == []


def test_the_limits_are_reached_exactly() -> None:
    gap_ms = STOP_NS // 1_000_000
    enough = beats(1, *(500 * number for number in range(ENOUGH)))
    last = 500 * (ENOUGH - 1)
    assert moves(*enough, *beats(2, last + gap_ms))
    assert moves(*enough, *beats(2, last + gap_ms - 1)) == []
    assert moves(*enough[1:], *beats(2, last + gap_ms)) == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.rules.coordinators.MOST", 2)
    found = Coordinators()
    exchanges = pa.RecordBatch.from_pylist(
        [row for number in range(5) for row in beats(number, 0)], arrow_schema(TABLES["exchanges"])
    )
    found.add_exchanges(exchanges)
    assert len(found._answers) == 2
