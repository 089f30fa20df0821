"""Messages cut by the snaplen: tables have captured values, else null, never 0.

Where the cut is in the header, the body is not read: its columns are null, whatever bytes would
follow the client id.
"""

import random

import pytest

from tests.conversation import Conversation, conversation
from tests.exchange_builders import Row, found_in, request, response
from tests.seeds import SEED

# Columns of `exchanges` that a request's body fills.
OF_BODIES = (
    "acks", "group_id", "transactional_id", "producer_id", "producer_epoch", "is_commit",
    "transaction_timeout_ms", "replica_id", "rack_id", "topic_count", "partition_count",
)  # fmt: skip
FIXED_HEADER = 4 + 8 + 2  # bytes of a request before its client id, size field included
TIMES = ("wait_ns", "work_ns")
REQUESTS = (
    ("Produce", 9, {"acks": -1, "timeout_ms": 30_000}),
    ("Produce", 3, {"acks": 1, "timeout_ms": 30_000}),
    ("Fetch", 12, {"max_wait_ms": 500, "min_bytes": 1}),
    ("ListOffsets", 1, {"replica_id": -1}),
    ("InitProducerId", 4, {"transactional_id": "t", "transaction_timeout_ms": 60_000}),
    ("EndTxn", 3, {"transactional_id": "t", "producer_id": 4000, "committed": True}),
    ("JoinGroup", 5, {"group_id": "g", "session_timeout_ms": 10_000}),
)


def talk_of(api: str, version: int, client_id: str, values: Row) -> Conversation:
    """A request with a client id that is not cut, which shows Kafka, and another."""
    talk = conversation(has_acks=False).client(request("Heartbeat", 0, 0, "x"))
    talk = talk.broker(response("Heartbeat", 0, 0)).client(
        request(api, version, 1, client_id, **values)
    )
    return talk.broker(response(api, version, 1))


@pytest.mark.parametrize(("api", "version", "values"), REQUESTS)
def test_the_body_behind_a_cut_header_is_not_read(api: str, version: int, values: Row) -> None:
    source = random.Random(SEED)
    for _ in range(20):
        size = source.randrange(2, 300)
        client_id = "".join(chr(source.randrange(0x21, 0x7F)) for _ in range(size))
        kept = FIXED_HEADER + source.randrange(1, size)
        _, row = found_in(talk_of(api, version, client_id, values).cut(kept)).rows
        told = {name for name in OF_BODIES if row[name] is not None}
        assert (row["api"], row["client_id"], told) == (api, None, set()), f"seed {SEED}"


@pytest.mark.parametrize("kept", range(FIXED_HEADER + len("reader"), 64))
def test_a_fetch_whose_request_is_cut_has_no_time_of_the_broker(kept: int) -> None:
    asked = request(
        "Fetch", 11, 1, "reader", max_wait_ms=500, min_bytes=1, session_id=0, session_epoch=-1
    )
    answer = response("Fetch", 11, 1)
    talk = conversation(has_acks=False).client(asked).broker(answer, gap_ns=500_000_000)
    (whole,) = found_in(talk).rows
    (row,) = found_in(talk.cut(kept)).rows
    for name in TIMES:
        assert row[name] in (None, whole[name])
    if kept < FIXED_HEADER + len("reader") + 8:
        # The wait follows the client id and the replica, 4 bytes each.
        assert [row[name] for name in TIMES] == [None, None]


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_a_join_behind_a_lost_response_has_no_wait_of_its_own(api: str) -> None:
    talk = conversation(has_acks=False)
    for number in (1, 2):
        talk = talk.client(request(api, 3, number, group_id="g"))
        talk = talk.broker(response(api, 3, number), gap_ns=300_000_000)
    whole = found_in(talk).columns("wait_ns", "work_ns")
    assert all(wait and work == 0 for wait, work in whole)
    # Packet 5 is the first response: the second may have waited behind it.
    cut = found_in(talk.lose(5)).columns("outcome", "queue_ns", "wait_ns", "work_ns")
    assert cut == [(None, None, None, None), ("answered", None, None, None)]


def test_counts_of_a_response_that_is_cut_are_null() -> None:
    topics = [
        {"name": "orders", "partitions": [{"partition_index": n, "error_code": 3} for n in (0, 1)]}
    ]
    asked = request("OffsetCommit", 5, 1, group_id="g", topics=[
        {"name": "orders", "partitions": [{"partition_index": n} for n in (0, 1)]}
    ])  # fmt: skip
    answer = response("OffsetCommit", 5, 1, topics=topics)
    talk = conversation(has_acks=False).client(asked).broker(answer)
    names = ("topic_count", "partition_count", "error_count")
    assert found_in(talk).columns(*names) == [(1, 2, 2)]
    for kept in range(FIXED_HEADER + len("shop"), len(answer)):
        assert found_in(talk.cut(kept)).columns(*names) == [(None, None, None)], kept
