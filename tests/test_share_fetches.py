"""Long polls of share groups (KIP-932), which name no offsets."""

import json
from pathlib import Path

import pytest

import kdissect
from tests.conversation import START_NS, conversation
from tests.exchange_builders import ORDERS, Row, found_in, request, response
from tests.messages.record_builders import make_batch, make_record

CAPTURES = Path(__file__).parents[1] / "captures"
SHARED = sorted(CAPTURES.glob("*share*.pcapng"))
MS = 1_000_000
SENT_MS = START_NS // MS  # of the request, and of records unless a test specifies others

# Name → ms until the answer, time of the newest record in ms since the request, error code.
POLL_ENDS: dict[str, tuple[int, int | None, int, str, int | None]] = {
    "data that was there": (40, -5_000, 0, "data", 0),
    "data that came": (300, 280, 0, "waited", 300),
    "nothing": (503, None, 0, "empty", 500),
    "nothing, too soon": (100, None, 0, "empty", 100),
    "an error": (30, None, 3, "error", None),
}


def records(since_ms: int | None) -> bytes:
    """Two batches, the newest record `since_ms` after the request; none for None."""
    if since_ms is None:
        return b""
    times = (SENT_MS - 60_000, SENT_MS + since_ms)
    return b"".join(make_batch([make_record(b"k", b"v")], max_time=time) for time in times)


@pytest.mark.parametrize("name", POLL_ENDS)
def test_a_long_poll_of_a_share_group_ends_with(name: str) -> None:
    latency_ms, since_ms, error_code, fetch_class, wait_ms = POLL_ENDS[name]
    asked: Row = {"group_id": "g", "member_id": "m", "max_wait_ms": 500, "min_bytes": 1}
    part: Row = {"partition_index": 0, "error_code": error_code, "records": records(since_ms)}
    topics: list[Row] = [{"topic_id": ORDERS, "partitions": [part]}]
    talk = conversation(has_acks=False).client(request("ShareFetch", 1, 1, **asked))
    talk = talk.broker(response("ShareFetch", 1, 1, responses=topics), gap_ns=latency_ms * MS)
    (row,) = found_in(talk).rows
    expected = (None, None) if wait_ms is None else (wait_ms * MS, (latency_ms - wait_ms) * MS)
    assert (row["fetch_class"], row["wait_ns"], row["work_ns"]) == (fetch_class, *expected)


def test_idle_real_share_consumers_wait_for_their_max_wait() -> None:
    capture = "captures/share-groups-4.3.1.pcapng"
    found = kdissect.read(capture, table="exchanges").to_arrow().to_pylist()
    polls = [row for row in found if row["api"] == "ShareFetch"]
    empty = [row for row in polls if row["record_count"] is None]
    assert {row["wait_ns"] for row in empty} == {500 * MS}
    assert {(row["fetch_class"], row["wait_ns"]) for row in polls if row not in empty} == {
        ("data", 0)
    }


def redelivered(*acquired: tuple[int, int, int]) -> object:
    """Ranges of a fetch: first and last offset, and delivery count."""
    ranges: list[Row] = [
        {"first_offset": first, "last_offset": last, "delivery_count": count}
        for first, last, count in acquired
    ]
    parts: list[Row] = [
        {"partition_index": 0, "acquired_records": ranges},
        {"partition_index": 1, "acquired_records": []},
    ]
    topics: list[Row] = [{"topic_id": ORDERS, "partitions": parts}]
    talk = conversation(has_acks=False).client(request("ShareFetch", 1, 1, group_id="g"))
    talk = talk.broker(response("ShareFetch", 1, 1, responses=topics))
    first, second = found_in(talk).columns("redelivered_count", table="partitions")
    assert second == (None,)
    return first[0]


@pytest.mark.parametrize(
    ("acquired", "count"),
    [
        ((), None),
        (((5, 9, 1),), 0),
        (((5, 9, 2),), 5),
        (((0, 0, 1), (1, 3, 3), (4, 9, 1), (10, 10, 2)), 4),
        (((9, 5, 2),), 0),
        (((-(2**63), 2**63 - 1, 2),), 0),
        (((2**63 - 1, -(2**63), 2),), 0),
        (((2**63 - 1, 2**63 - 1, 2),), 1),
    ],
)
def test_records_that_came_before_are_counted(
    acquired: tuple[tuple[int, int, int], ...], count: int | None
) -> None:
    assert redelivered(*acquired) == count


@pytest.mark.parametrize("capture", SHARED)
def test_redelivered_counts_match_the_whole_messages(capture: Path) -> None:
    """The bodies are read by other code."""
    counts = {}
    for row in kdissect.read(capture, table="bodies").to_arrow().to_pylist():
        if row["api"] != "ShareFetch" or not row["response"]:
            continue
        for topic in json.loads(row["response"])["responses"]:
            for part in topic["partitions"]:
                if acquired := part["acquired_records"]:
                    place = row["exchange_id"], topic["topic_id"], part["partition_index"]
                    counts[place] = sum(
                        one["last_offset"] - one["first_offset"] + 1
                        for one in acquired
                        if one["delivery_count"] > 1
                    )
    rows = kdissect.read(capture, table="partitions").to_arrow().to_pylist()
    found = {
        (row["exchange_id"], row["topic_id"], row["partition"]): row["redelivered_count"]
        for row in rows
        if row["redelivered_count"] is not None
    }
    assert found == counts
    assert counts
