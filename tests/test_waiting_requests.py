"""Requests that wait, by the thousand: found by id, layout and time as a look at each finds."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kdissect.exchanges.connection_state import (
    ConnectionState,
    drop_pending,
    find_pending,
    note_pending,
    position_in_pending,
)
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.old_waiting import Asked, OldWaiting
from kdissect.exchanges.pairing import MAX_SHARED, MAX_TRIES
from kdissect.exchanges.topic_name_resolution import NameWait
from kdissect.messages.extracted import FieldSink
from kdissect.messages.interner import Interner
from kdissect.messages.old_extracted import OldFields
from kdissect.messages.old_protocols import OldApi
from kdissect.messages.partitions import Partition, partitions_of
from kdissect.streams.events import Connection
from tests.conversation import conversation
from tests.exchange_builders import Found, found_in, request, response

CONNECTION = Connection(1, 0, bytes(12), 0, 1)
MS = 1_000_000


def exchange_of(correlation_id: int, api_key: int = 1, start: int = 0) -> Exchange:
    exchange = Exchange(CONNECTION, 0, 1, 0)
    exchange.correlation_id = correlation_id
    exchange.api_key = api_key
    exchange.request_start = start
    return exchange


@given(st.integers(0, 1 << 32), st.sampled_from([3, 40, 10_000]))
def test_a_request_is_found_by_its_id_as_by_a_look_at_each(seed: int, ids: int) -> None:
    source = random.Random(seed)
    state = ConnectionState(CONNECTION)
    for _ in range(source.choice((20, 400))):
        for _ in range(source.choice((1, 1, 30))):
            state.pending.append(exchange_of(source.randrange(ids)))
            if state.by_id is not None:
                note_pending(state, len(state.pending) - 1)
        wanted = source.randrange(ids)
        waiting = range(state.pending_head, len(state.pending))
        places = [at for at in waiting if state.pending[at].correlation_id == wanted]
        found = position_in_pending(state, wanted.to_bytes(4, "big"))
        assert found == (places[0] if places else -1)
        if places:
            later = find_pending(state, wanted, places[0] + 1)
            assert later == (places[1] if len(places) > 1 else -1)
        if source.random() < 0.5:
            drop_pending(state, source.randrange(state.pending_head, len(state.pending) + 1))


def test_ids_of_completed_requests_are_forgotten() -> None:
    state = ConnectionState(CONNECTION)
    for number in range(5_000):
        state.pending.append(exchange_of(number))
        if state.by_id is not None:
            note_pending(state, len(state.pending) - 1)
        assert position_in_pending(state, b"\xff\xff\xff\xff") == -1
        drop_pending(state, max(state.pending_head, len(state.pending) - 40))
        assert len(state.pending) <= 2 * 64
        assert state.by_id is None or len(state.by_id) <= 2 * 64


def asked_of(number: int, api: int, start: int) -> Asked:
    facts = OldFields(FieldSink(Interner(), {}))
    return Asked(OldApi(api, "", (), ()), exchange_of(number, api, start), facts)


@given(st.integers(0, 1 << 32))
def test_old_requests_are_found_as_by_a_look_at_each(seed: int) -> None:
    source = random.Random(seed)
    waiting = OldWaiting()
    plain: list[Asked] = []
    for _ in range(200):
        asked = asked_of(source.randrange(5), source.randrange(3), source.randrange(50))
        waiting.add(asked)
        plain.append(asked)
        number, time = source.randrange(6), source.randrange(60)
        same = [at for at, one in enumerate(plain) if one.exchange.correlation_id == number]
        assert waiting.find_id(number) == (same[0] if same else -1)
        newest: dict[int, tuple[int, Asked]] = {}
        for at, one in enumerate(plain):
            if one.exchange.request_start <= time:
                newest[one.api.key] = at, one
        assert waiting.newest(time) == sorted(newest.values(), key=lambda one: -one[0])
        if source.random() < 0.6:
            count = source.randrange(min(3, len(plain)) + 1)
            assert waiting.take_first(count) == plain[:count]
            del plain[:count]
        assert (waiting.rest(), waiting.count) == (plain, len(plain))
    assert waiting.find_id(None) == -1


def shared(count: int) -> Found:
    """So many requests of a round that wait, only the last of them answered, behind a loss."""
    talk = conversation(has_acks=False).client(request("Heartbeat", 0, 11, group_id="g"))
    talk = talk.broker(response("Heartbeat", 0, 11), gap_ns=MS).broker(b"lost")
    lost = len(talk.packets_sent)
    others = [{"topic_name": "others", "partition_index": 0}]
    for _ in range(count - 1):
        talk = talk.client(request("LeaderAndIsr", 0, 11, ungrouped_partition_states=others))
    states: list[dict[str, Any]] = [{"topic_name": "orders", "partition_index": 0}]
    talk = talk.client(request("LeaderAndIsr", 0, 11, ungrouped_partition_states=states))
    answer = response("LeaderAndIsr", 0, 11, partition_errors=states)
    return found_in(talk.broker(answer, gap_ns=MS).lose(lost))


def test_behind_a_loss_a_response_is_compared_with_so_many_requests_of_its_id() -> None:
    outcomes = [shared(count).column("outcome") for count in (MAX_SHARED, MAX_SHARED + 1)]
    assert [set(one) for one in outcomes] == [
        {"answered", None}, {"answered", "orphan", None},
    ]  # fmt: skip


def early(count: int) -> Found:
    """A response that came early, and requests of its id that are not its own before that is."""
    talk = conversation(has_acks=False).client(request("Heartbeat", 0, 1, group_id="g"))
    talk = talk.broker(response("Heartbeat", 0, 1)).broker(response("ListGroups", 0, 70_000))
    for _ in range(count):
        talk = talk.client(request("SaslAuthenticate", 0, 70_000, auth_bytes=b""), gap_ns=0)
    return found_in(talk.client(request("ListGroups", 0, 70_000), gap_ns=0))


def test_an_early_response_is_compared_with_so_many_requests() -> None:
    answered = [
        ("ListGroups", "answered") in early(count).columns("api", "outcome")
        for count in (MAX_TRIES - 1, MAX_TRIES)
    ]
    assert answered == [True, False]


def test_the_first_that_waits_for_a_name_is_looked_through_once() -> None:
    looked: list[bytes] = []

    class Names(dict[bytes, str]):
        def __contains__(self, topic_id: object) -> bool:
            looked.append(topic_id)  # type: ignore[arg-type]
            return super().__contains__(topic_id)

    ids = [bytes([number]) * 16 for number in range(1, 101)]
    rows = [Partition("", topic_id, 0) for topic_id in ids]
    for row in rows:
        row.record_bytes = 5
    waits = exchange_of(1)
    waits.partitions = partitions_of(rows)
    names = Names((topic_id, "t") for topic_id in ids[:-1])
    queue = NameWait(names)
    assert queue.feed(waits) == []
    for number in range(50):
        assert queue.feed(exchange_of(number)) == []
    assert len(looked) <= 100 + 52
    names[ids[-1]] = "last"
    assert len(queue.feed(exchange_of(50))) == 52
    assert queue.waiting() == []
