"""Fetch sessions (KIP-227) and topic ids: facts section 8, statement by statement."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.exchanges.connection_state import (
    AT_OFFSET,
    LOST,
    POSITION_WIDTH,
    ConnectionState,
    Positions,
    TopicPositions,
)
from kdissect.exchanges.fetches import (
    SESSION_LIMIT,
    FetchSessions,
    SessionUsers,
    remember_rows,
)
from kdissect.exchanges.pairing import Exchanges
from kdissect.messages.partitions import NO_ID, Partition, partitions_of
from kdissect.protocol.readers import NULL
from kdissect.streams.events import Connection
from tests.conversation import Conversation, conversation
from tests.exchange_builders import ORDERS, PAYMENTS, Found, found_in, request, response
from tests.messages.record_builders import make_batch, make_record

INT32_MAX = 2_147_483_647
RECORDS = make_batch([make_record(value=b"latte")])


def fetch(
    number: int, session: tuple[int, int], offsets: dict[int, int] | None = None, version: int = 11
) -> bytes:
    """Requests partitions of orders; `session` is the session's id and epoch."""
    partitions = [
        {"partition": index, "fetch_offset": offset} for index, offset in (offsets or {}).items()
    ]
    topic: dict[str, Any] = {"partitions": partitions}
    topic |= {"topic_id": ORDERS} if version >= 13 else {"topic": "orders"}
    values = {"session_id": session[0], "session_epoch": session[1], "max_wait_ms": 500}
    return request("Fetch", version, number, topics=[topic] if offsets else [], **values)


def fetched(
    number: int, session_id: int, *partitions: int, version: int = 11, **fields: Any
) -> bytes:
    """Answers with a record in each of these partitions of orders."""
    rows = [{"partition_index": index, "records": RECORDS} for index in partitions]
    topic: dict[str, Any] = {"partitions": rows}
    topic |= {"topic_id": ORDERS} if version >= 13 else {"topic": "orders"}
    values = {"session_id": session_id, "responses": [topic] if rows else [], **fields}
    return response("Fetch", version, number, **values)


def offsets_of(found: Found) -> list[tuple[int, int | None]]:
    return found.columns("partition", "fetch_offset", table="partitions")


def begun(session_id: int = 7, version: int = 11) -> Conversation:
    """A full fetch of partitions 0 and 1, which makes a session."""
    talk = conversation().open().client(fetch(1, (0, 0), {0: 10, 1: 20}, version))
    return talk.broker(fetched(1, session_id, version=version))


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
def test_an_incremental_request_means_the_offsets_of_the_last_mention(version: int) -> None:
    """Section 8: incremental requests list only new or changed partitions."""
    talk = begun(version=version).client(fetch(2, (7, 1), {1: 25}, version))
    talk = talk.broker(fetched(2, 7, 0, 1, version=version))
    assert offsets_of(found_in(talk))[2:] == [(0, 10), (1, 25)]


def test_a_session_goes_on_over_a_new_connection() -> None:
    """Section 8: after a reconnect the Java client continues with the same id."""
    talk = begun().close().port_reuse().client(fetch(1, (7, 1))).broker(fetched(1, 7, 0, 1))
    assert offsets_of(found_in(talk))[2:] == [(0, 10), (1, 20)]


def test_session_continues_on_a_new_connection() -> None:
    talk = begun().close().port_reuse().client(fetch(1, (7, 1), {0: 15})).broker(fetched(1, 7, 0))
    talk = talk.close().port_reuse(client_isn=3_000_000_000).client(fetch(1, (7, 2)))
    found = found_in(talk.broker(fetched(1, 7, 0, 1)))
    assert offsets_of(found)[2:] == [(0, 15), (0, 15), (1, 20)]


def test_a_session_that_is_closed_does_not_go_on() -> None:
    """Section 8: id N, epoch -1 closes N; id N, epoch 0 closes N and starts a new one."""
    for epoch in (0, -1):
        talk = begun().client(fetch(2, (7, epoch), {0: 30})).broker(fetched(2, 0, 0))
        talk = talk.close().port_reuse().client(fetch(1, (7, 1))).broker(fetched(1, 7, 1))
        assert offsets_of(found_in(talk))[2:] == [(0, 30), (1, None)]


def test_a_full_fetch_begins_anew_under_a_new_number() -> None:
    talk = begun().client(fetch(2, (7, 0), {1: 40})).broker(fetched(2, 8, 1))
    talk = talk.client(fetch(3, (8, 1))).broker(fetched(3, 8, 0, 1))
    assert offsets_of(found_in(talk))[2:] == [(1, 40), (0, None), (1, 40)]


def test_a_session_of_another_number_has_other_offsets() -> None:
    talk = begun().client(fetch(2, (9, 4))).broker(fetched(2, 9, 0))
    assert offsets_of(found_in(talk))[2:] == [(0, None)]


def test_the_epoch_wraps_to_1() -> None:
    """Section 8: the epoch wraps from 2^31-1 to 1."""
    talk = begun().client(fetch(2, (7, INT32_MAX))).broker(fetched(2, 7, 0))
    talk = talk.client(fetch(3, (7, 1))).broker(fetched(3, 7, 1))
    assert offsets_of(found_in(talk))[2:] == [(0, 10), (1, 20)]


def test_fetch_without_session_has_only_its_own_positions() -> None:
    """Section 8: id 0, epoch -1 is a full fetch without session."""
    talk = begun().client(fetch(2, (0, -1), {0: 11})).broker(fetched(2, 0, 0, 1))
    assert offsets_of(found_in(talk))[2:] == [(0, 11), (1, None)]


@pytest.mark.parametrize("code", [70, 71, 106])
def test_after_an_error_of_the_session_comes_a_full_fetch(code: int) -> None:
    """Section 8: errors 70, 71, 106 are at the top level; the client restarts with a full fetch."""
    talk = begun().client(fetch(2, (7, 1))).broker(fetched(2, 0, error_code=code))
    found = found_in(talk.client(fetch(3, (7, 0), {0: 12})).broker(fetched(3, 8, 0)))
    assert found.column("error_code") == [0, code, 0]
    assert found.column("fetch_class") == ["empty", "error", "data"]
    assert offsets_of(found)[2:] == [(0, 12)]


def test_an_empty_answer_is_an_empty_fetch() -> None:
    """Section 8: empty Topics is a heartbeat-like response."""
    found = found_in(begun().client(fetch(2, (7, 1))).broker(fetched(2, 7)))
    assert found.column("fetch_class") == ["empty", "empty"]
    assert found.column("partition_count") == [2, 0]


def test_partitions_may_come_in_any_order() -> None:
    """Section 8: the order of partitions rotates."""
    talk = begun().client(fetch(2, (7, 1), {0: 11, 1: 21})).broker(fetched(2, 7, 1, 0))
    assert offsets_of(found_in(talk))[2:] == [(1, 21), (0, 11)]


def test_sessions_of_two_brokers_are_separate() -> None:
    sessions = FetchSessions()
    states = [ConnectionState(Connection(0, 0, flow, 0, 0)) for flow in (flow_to(1), flow_to(2))]
    for state in states:
        state.request_direction = 0
    states[0].positions = {"orders": TopicPositions()}
    sessions.made(states[0], 7)
    sessions.go_on(states[1], 7)
    assert set(states[1].positions) == {LOST}
    # From the other side it is the same broker.
    turned = ConnectionState(Connection(0, 0, turned_flow(flow_to(1)), 0, 0))
    turned.request_direction = 1
    sessions.go_on(turned, 7)
    assert turned.positions is states[0].positions


def test_a_split_notes_so_many_sessions_at_most() -> None:
    users = SessionUsers(most=2)
    for number in range(2):
        users.close((b"broker", number), 1)
    assert not users.is_unknown
    users.use((b"broker", 1), 2)
    assert users.shared == {1, 2}
    assert not users.is_unknown
    users.close((b"broker", 2), 1)
    assert users.is_unknown
    assert users.closed == {(b"broker", 0), (b"broker", 1)}


def flow_to(broker: int) -> bytes:
    return bytes((10, 0, 0, 99)) + bytes((10, 0, 0, broker)) + b"\xc3\x50" + b"\x23\x84"


def turned_flow(flow: bytes) -> bytes:
    return flow[4:8] + flow[:4] + flow[10:] + flow[8:10]


def test_the_oldest_session_is_forgotten_when_there_are_too_many() -> None:
    sessions = FetchSessions(limit=2)
    state = ConnectionState(Connection(0, 0, flow_to(1), 0, 0))
    state.request_direction = 0
    for number in (1, 2, 3):
        sessions.made(state, number)
    assert [number for _, number in sessions.by_number] == [2, 3]
    assert Exchanges().bodies.sessions.limit == SESSION_LIMIT


def test_names_of_ids_are_put_on_rows_of_all_tables_that_came_before() -> None:
    """Section 8: from Fetch v13 and Produce v13 on there are only ids, names come with Metadata."""
    partition = {"index": 0, "records": RECORDS}
    produced = {"topic_data": [{"topic_id": PAYMENTS, "partition_data": [partition]}]}
    refused = {"responses": [{"topic_id": PAYMENTS, "partition_responses": [
        {"index": 0, "error_code": 6}]}]}  # fmt: skip
    topics = [{"name": "orders", "topic_id": ORDERS}, {"name": "payments", "topic_id": PAYMENTS}]
    talk = (
        begun(version=17).client(fetch(2, (7, 1), version=17)).broker(fetched(2, 7, 0, version=17))
    )
    talk = talk.client(request("Produce", 13, 3, acks=1, **produced))
    talk = talk.broker(response("Produce", 13, 3, **refused))
    talk = talk.client(request("Metadata", 12, 4)).broker(
        response("Metadata", 12, 4, topics=topics)
    )
    found = found_in(talk.close())
    assert sorted(found.column("topic", "partitions")) == ["orders"] * 3 + ["payments"]
    for table in ("batches", "records"):
        assert sorted(found.column("topic", table)) == ["orders", "payments"]
    assert found.columns("topic", "partition", "name", table="errors") == [
        ("payments", 0, "NOT_LEADER_OR_FOLLOWER")
    ]


NUMBERS = st.integers(0, 6) | st.sampled_from([-1, INT32_MAX, NULL])
MANY = st.permutations(range(60)).map(lambda numbers: [(number, number) for number in numbers])
ASKED = st.lists(st.tuples(NUMBERS, st.integers(0, 9)), max_size=8) | MANY


@given(st.lists(st.tuples(st.booleans(), ASKED), max_size=6))
def test_positions_are_those_named_last_in_any_order(
    requests: list[tuple[bool, list[tuple[int, int]]]],
) -> None:
    """A full fetch forgets the others, an incremental one does not."""
    state = ConnectionState(Connection(0, 0, flow_to(1), 0, 0))
    expected: dict[int, int] = {}
    for is_full, asked in requests:
        rows = []
        for number, offset in asked:
            rows.append(Partition("orders", NO_ID, number))
            rows[-1].fetch_offset = offset
        fresh: Positions = {} if is_full else state.positions
        remember_rows(state, partitions_of(rows), fresh)
        state.positions = fresh
        expected = dict(asked) if is_full else expected | dict(asked)
        known = state.positions.get("orders", TopicPositions())
        assert len(known.cells) == POSITION_WIDTH * len(expected)
        for guess, number in enumerate([*expected, 7]):
            for start in (0, guess * POSITION_WIDTH, len(known.cells)):
                place = known.place(number, start)
                found = known.cells[place + AT_OFFSET] if place >= 0 else None
                assert found == expected.get(number)
