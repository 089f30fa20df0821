"""Requests that wait, connections in trouble and groups that rebalance."""

from typing import Any

import pytest

from kdissect.live.counting.grace import MINIMUM_NS
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.snapshot import DegradedConnection, Focus, Grouped
from kdissect.live.counting.waiting import Waiting, Waits
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options, make_dissector
from tests.conversation import START_NS, STEP_NS, Conversation, conversation
from tests.exchange_builders import request, response
from tests.live.made_rows import (
    MS,
    SECOND,
    START,
    GivenWire,
    exchange,
    given,
    handed,
    status,
)

ASKED = [{"topic": "orders", "partitions": [{"partition": 0}]}]
FETCH = request("Fetch", 4, 1, max_wait_ms=500, min_bytes=1, topics=ASKED)
SENT = [{"name": "orders", "partition_data": [{"index": 0, "records": None}]}]
PRODUCE = request("Produce", 7, 2, acks=1, topic_data=SENT)
JOIN = request("JoinGroup", 2, 3, group_id="shoppers", session_timeout_ms=10_000)


def waiting_after(talk: Conversation, **more: Any) -> Waiting:
    dissector = make_dissector(Options(), collects=False, keeps_frames=False)
    dissector.feed(talk.packets())
    waiting = Waiting(dissector.exchanges.states, dissector.exchanges.names, **more)
    waiting.look(START_NS + 60 * SECOND)
    return waiting


def test_a_request_waits_from_its_end_until_it_is_answered() -> None:
    talk = conversation().client(PRODUCE)
    (waits,) = waiting_after(talk).by_connection.values()
    # Handshake of three packets, then the request.
    sent = START_NS + 3 * STEP_NS
    assert waits == Waits(1, sent, sent + MINIMUM_NS, 0, ages=(0, 0, 1, 0))
    assert waiting_after(talk.broker(response("Produce", 7, 2))).by_connection == {}


def test_long_poll_is_late_a_second_after_its_max_wait() -> None:
    dissector = make_dissector(Options(), collects=False, keeps_frames=False)
    dissector.feed(conversation().client(FETCH).packets())
    waiting = Waiting(dissector.exchanges.states, dissector.exchanges.names)
    sent = START_NS + 3 * STEP_NS
    waiting.look(sent + 1_500 * MS)
    assert (waiting.count, waiting.late) == (1, {})
    waiting.look(sent + 1_501 * MS)
    (late,) = waiting.late.values()
    assert (late.client, late.topics, late.waits.api) == ("shop", ("orders",), "Fetch")


def test_connections_are_asked_in_turn_and_those_that_are_late_every_time() -> None:
    dissector = make_dissector(Options(), collects=False, keeps_frames=False)
    states = {}
    for number in range(50):
        talk = conversation().client(PRODUCE)
        one = make_dissector(Options(), collects=False, keeps_frames=False)
        one.feed(talk.packets())
        (states[number],) = one.exchanges.states.values()
    waiting = Waiting(states, dissector.exchanges.names, asked=10)
    counts = []
    for _ in range(5):
        waiting.look(START_NS + SECOND)
        counts.append(waiting.count)
    assert counts == [10, 20, 30, 40, 50]
    del states[3], states[40]
    for _ in range(7):
        waiting.look(START_NS + SECOND)
    assert waiting.count == 48
    assert not {3, 40} & (waiting.late.keys() | waiting.by_connection.keys())


def test_connections_that_end_are_forgotten() -> None:
    dissector = make_dissector(Options(), collects=False, keeps_frames=False)
    dissector.feed(conversation().client(PRODUCE).packets())
    waiting = Waiting(dissector.exchanges.states, dissector.exchanges.names)
    waiting.look(START_NS + SECOND)
    dissector.finish()
    waiting.look(START_NS + SECOND)
    assert (waiting.count, waiting.by_connection, waiting.late) == (0, {}, {})


def snapshot_after(talk: Conversation, after_s: float, focus: Focus = Focus()) -> Any:  # noqa: B008
    """Snapshot at a time after the last packet, while all connections are open."""
    meters = Meters()
    now = [0]
    packet_source = GivenWire(talk.packets(), [])
    watcher = Watcher(packet_source, [meters], clock=lambda: now[0])
    meters.begin(watcher)
    watcher.step()
    now[0] = round(after_s * SECOND)
    watcher.step()
    return meters.snapshot(focus)


def test_a_connection_with_an_overdue_request_is_degraded() -> None:
    talk = conversation().client(FETCH).broker(response("Fetch", 4, 1)).client(PRODUCE, JOIN)
    snapshot = snapshot_after(talk, 5)
    (one,) = snapshot.connections
    assert one == DegradedConnection(
        1, "shop", "10.0.0.1:50000", "10.0.0.9:9092", 0, 0, 0, 0, 2, one.waiting_ns, "Produce"
    )
    assert 5 * SECOND <= one.waiting_ns < 5.001 * SECOND
    assert (snapshot.waiting, snapshot.late) == (2, 1)


@pytest.mark.parametrize(
    ("focus", "late"),
    [
        (Focus(client="shop"), 1), (Focus(client="other"), 0),
        (Focus(api="Produce"), 1), (Focus(api="Fetch"), 0),
        (Focus(topic="orders"), 1), (Focus(topic="payments"), 0),
    ],
)  # fmt: skip
def test_focus_applies_to_pending_requests(focus: Focus, late: int) -> None:
    snapshot = snapshot_after(conversation().client(PRODUCE), 5, focus)
    assert (snapshot.waiting, snapshot.late, len(snapshot.connections)) == (1, late, late)


def test_a_group_with_a_member_waiting_for_others_rebalances() -> None:
    snapshot = snapshot_after(conversation().client(JOIN), 2)
    (group,) = snapshot.groups
    assert (group.group_id, group.last_event, group.is_rebalancing) == (
        "shoppers", "waits: JoinGroup", True,
    )  # fmt: skip
    # Members may take as long as that.
    assert snapshot.connections == ()


def test_losses_of_the_exchanges_of_a_connection_are_summed() -> None:
    meters = Meters()
    rows = [
        exchange(1, retransmits=2, missing_bytes=10),
        exchange(2, retransmits=1, zero_windows=3, client_id="later"),
        exchange(3, connection_id=2),
        exchange(4, connection_id=3, outcome="unanswered", latency_ns=None, response_start=None),
    ]
    given(meters, handed({"exchanges": rows}))
    meters.tick(status(1))
    assert meters.snapshot().connections == (
        DegradedConnection(3, "app", "", "", 0, 0, 0, 1, 0, -1, ""),
        DegradedConnection(1, "later", "", "", 3, 3, 10, 0, 0, -1, ""),
    )


def member(at_s: float, event: str, generation: int | None = 1, **more: Any) -> Any:
    row = {"exchange_id": 1, "time": START + round(at_s * SECOND), "group_id": "shoppers",
           "member_id": "m1", "event": event, "generation": generation}  # fmt: skip
    return row | more


def group_after(*events: Any, now_s: float = 10) -> Grouped:
    meters = Meters()
    given(meters, handed({"exchanges": [exchange(1)], "members": events}))
    meters.tick(status(now_s))
    (group,) = meters.snapshot().groups
    return group


BEAT = {"error_code": 27, "error": "REBALANCE_IN_PROGRESS"}


def test_a_group_rebalances_from_the_first_sign_until_a_member_has_its_assignment() -> None:
    told = member(1, "heartbeat", 1, **BEAT)
    joined, synced = member(2, "join", 2), member(3, "sync", 2)
    assert group_after(told).is_rebalancing
    assert group_after(told).last_event == "heartbeat: REBALANCE_IN_PROGRESS"
    assert group_after(told, joined).is_rebalancing
    whole = group_after(told, joined, member(3, "assign", 2), synced)
    assert whole == Grouped("shoppers", 4, 1, 2, "sync", START + 3 * SECOND, False)
    assert group_after(told, joined, synced, member(4, "heartbeat", 2, **BEAT)).is_rebalancing


def test_a_sync_that_failed_ends_no_rebalance() -> None:
    assert group_after(member(2, "join"), member(3, "sync", **BEAT)).is_rebalancing


def test_unauthorised_join_does_not_count_as_a_rebalance() -> None:
    refused = {"error_code": 30, "error": "GROUP_AUTHORIZATION_FAILED"}
    assert not group_after(member(1, "join", **refused)).is_rebalancing
    required = {"error_code": 79, "error": "MEMBER_ID_REQUIRED"}
    assert group_after(member(1, "join", **required)).is_rebalancing


def test_a_rebalance_of_which_nothing_more_is_seen_is_over_after_a_minute() -> None:
    assert group_after(member(1, "join"), now_s=60).is_rebalancing
    assert not group_after(member(1, "join"), now_s=62).is_rebalancing


def test_members_of_the_new_protocol_end_a_rebalance_with_their_partitions() -> None:
    joined, assigned = member(1, "join", 1), member(2, "assign", 2)
    assert group_after(joined, assigned).is_rebalancing
    assert not group_after(joined, assigned, member(3, "owned", 2)).is_rebalancing


def test_members_that_left_are_none() -> None:
    events = [
        member(1, "sync"), member(1, "sync", member_id="m2"), member(1, "sync", member_id="m3"),
        member(2, "leave", None, member_id="m2"), member(3, "leave", -1, member_id="m3"),
    ]  # fmt: skip
    group = group_after(*events)
    assert (group.members, group.generation, group.events) == (1, 1, 5)


def test_groups_that_rebalance_come_first() -> None:
    meters = Meters()
    calm = [member(at, "sync", group_id="calm") for at in range(5)]
    quiet = [member(9, "join", group_id="anxious")]
    given(meters, handed({"exchanges": [exchange(1)], "members": [*calm, *quiet]}))
    meters.tick(status(10))
    shown = [(group.group_id, group.is_rebalancing) for group in meters.snapshot().groups]
    assert shown == [("anxious", True), ("calm", False)]
