"""Each limit is reached: a problem says so, and what was decoded is kept."""

import io
import pickle
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

import kdissect
from kdissect import KdissectError, Limits, Options, Run
from kdissect.limits import LIMIT_MEANINGS, parse_limits
from kdissect.packets.segment import ACK, SYN, Segment
from kdissect.pipeline import Balance
from kdissect.streams.connections import Streams
from tests.conversation import START_NS, Conversation, conversation
from tests.exchange_builders import request, response
from tests.packets.builders import make_flow

MIB = 1 << 20
SECOND = 1_000_000_000
Row = dict[str, Any]


def heartbeat(number: int) -> bytes:
    return request("Heartbeat", 0, number, group_id="workers", member_id="m")


def beaten(number: int) -> bytes:
    return response("Heartbeat", 0, number)


def run(talk: Conversation, limits: Limits) -> tuple[list[str], list[str], Balance]:
    """Outcomes of the exchanges, kinds of problems, and the balance."""
    tables = ("exchanges", "problems", "connections")
    one_pass = Run(io.BytesIO(talk.pcap()), Options(tables=tables, limits=limits))
    rows: dict[str, list[Row]] = {name: [] for name in tables}
    for name, batch in one_pass:
        rows[name] += batch.to_pylist()
    exchanges = sorted(rows["exchanges"], key=lambda row: row["exchange_id"])
    kinds = [row["kind"] for row in rows["problems"]]
    balance = one_pass.balance
    told = balance.framed_bytes + balance.skipped_bytes + balance.duplicate_bytes
    assert told == balance.payload_bytes
    return [row["outcome"] for row in exchanges], kinds, balance


def asked(*numbers: int) -> Conversation:
    talk = conversation()
    for number in numbers:
        talk = talk.client(heartbeat(number)).broker(beaten(number))
    return talk


def test_without_limits_in_reach_there_are_no_problems() -> None:
    assert run(asked(1, 2, 3).close(), Limits())[:2] == (["answered"] * 3, [])


def test_of_too_many_connections_the_longest_silent_ends() -> None:
    streams = Streams(max_connections=2)
    flows = [make_flow("10.0.0.1", "10.0.0.9", port, 9092) for port in (1, 2, 3)]
    for number, flow in enumerate(flows, 1):
        streams.feed(bare_segment(number, flow, SYN))
    assert [problem.kind for problem in streams.problems] == ["connection-limit"]
    assert [connection.flow for connection in streams.connections] == flows[1:]


def test_a_silent_connection_is_over_and_keeps_its_exchanges() -> None:
    talk = asked(1).client(heartbeat(2), gap_ns=61 * SECOND).broker(beaten(2))
    outcomes, kinds, balance = run(talk, Limits(idle_seconds=60))
    assert (outcomes, balance.connections) == (["answered", "answered"], 2)
    assert kinds == []
    assert run(talk, Limits(idle_seconds=62))[2].connections == 1


def holed(size: int) -> Conversation:
    """Requests around one that was lost, with nothing acknowledged."""
    talk = conversation(has_acks=False)
    for number in range(1, 2 + size):
        talk = talk.client(heartbeat(number))
    return talk.lose(5).broker(beaten(1))


@pytest.mark.parametrize("name", ["reassembly_bytes", "reassembly_bytes_in_all"])
def test_a_hole_is_given_up_when_too_much_waits_behind_it(name: str) -> None:
    outcomes, kinds, _ = run(holed(20), Limits(**{name: 1000}))
    assert kinds == ["held-limit", "resync"]
    assert outcomes == ["answered"] + ["unanswered"] * 19


def test_a_frame_larger_than_the_limit_is_none_and_others_are_kept() -> None:
    large = request("Heartbeat", 0, 2, group_id="x" * 3000, member_id="m")
    talk = asked(1).client(large).broker(beaten(2)).client(heartbeat(3)).broker(beaten(3))
    outcomes, kinds, _ = run(talk, Limits(frame_bytes=2000))
    assert kinds[0] == "bad-frame-size"
    assert outcomes[0] == "answered"
    assert run(talk, Limits(frame_bytes=4000))[:2] == (["answered"] * 3, [])


def test_of_frames_that_are_too_large_together_the_last_loses_its_end_only() -> None:
    large = request("Heartbeat", 0, 2, group_id="x" * 9000, member_id="m")
    talk = asked(1).client(large).broker(beaten(2)).client(heartbeat(3)).broker(beaten(3))
    outcomes, kinds, _ = run(talk, Limits(frame_bytes_in_all=3000))
    assert kinds == ["frame-held-limit"]
    assert outcomes == ["answered"] * 3


def test_of_too_many_requests_that_wait_the_oldest_is_let_go() -> None:
    talk = conversation()
    for number in range(1, 6):
        talk = talk.client(heartbeat(number))
    for number in range(4, 6):
        talk = talk.broker(beaten(number))
    outcomes, kinds, _ = run(talk, Limits(pending_requests=2))
    assert kinds == ["pending-limit"]
    assert outcomes == ["unanswered"] * 3 + ["answered"] * 2


def test_limits_are_pickled_compared_and_changed_like_any_tuple() -> None:
    limits = Limits(connections=7)
    assert pickle.loads(pickle.dumps(limits)) == limits  # noqa: S301
    assert limits._replace(connections=65_536) == Limits() == Options().limits
    assert kdissect.Limits is Limits


def test_every_limit_has_a_meaning() -> None:
    assert tuple(LIMIT_MEANINGS) == Limits._fields


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("2k", 2048), ("3M", 3 * MIB), ("1G", 1 << 30)]
)
def test_limits_are_read_from_texts(text: str, value: int) -> None:
    assert parse_limits([f"frame_bytes={text}"]) == Limits(frame_bytes=value)


@pytest.mark.parametrize(
    "text", ["", "frames=1", "connections", "connections=", "connections=-1", "connections=M",
             "connections=1.5", "connections=1e9", "connections=9999999999", "connections=\u0663"],
)  # fmt: skip
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(KdissectError, match="limit"):
        parse_limits([text])


# Hostile streams: memory and time


def bare_segment(
    number: int, flow: bytes, flags: int, sequence: int = 1, payload: bytes = b""
) -> Segment:
    data = bytes(20) + payload
    return Segment(
        number, number, 0, START_NS + number * 1000, flow, sequence, 0, flags, 501, data, 20,
        len(data), len(payload), 0, -1,
    )  # fmt: skip


def flow_of(number: int) -> bytes:
    high, low = divmod(number, 60_000)
    return bytes([10, 0, 0, high]) + bytes([10, 1, 0, 9]) + (low + 1).to_bytes(2) + b"\x23\x84"


def half_open(count: int) -> Iterator[Segment]:
    """One SYN a connection."""
    for number in range(count):
        yield bare_segment(number, flow_of(number), SYN)


def open_holes(count: int) -> Iterator[Segment]:
    """Connections with a hole each, and data behind it."""
    for number in range(count):
        flow = flow_of(number)
        yield bare_segment(3 * number, flow, ACK, 1, b"one")
        yield bare_segment(3 * number + 1, flow, ACK, 1000, b"x" * 1000)
        yield bare_segment(3 * number + 2, flow, ACK, 3000, b"x" * 1000)


def one_large_hole(count: int) -> Iterator[Segment]:
    """Segments of one connection behind one hole, each with a hole of its own before it."""
    flow = flow_of(1)
    yield bare_segment(0, flow, ACK, 1, b"one")
    for number in range(1, count):
        yield bare_segment(number, flow, ACK, 100 + 20 * number, b"0123456789")


HOSTILE = {"half open": half_open, "open holes": open_holes, "one large hole": one_large_hole}


def small_streams() -> Streams:
    return Streams(max_connections=200, max_held=64 << 10, max_held_in_all=256 << 10)


def feed_all(name: str, count: int, streams: Streams) -> None:
    for segment in HOSTILE[name](count):
        streams.feed(segment)
        streams.problems.clear()


def seconds(name: str, count: int) -> float:
    """Processor time that a hostile stream takes."""
    streams = small_streams()
    began = time.process_time()
    feed_all(name, count, streams)
    return time.process_time() - began


@pytest.mark.parametrize("name", HOSTILE)
def test_memory_of_a_hostile_stream_does_not_grow_with_it(name: str) -> None:
    """At a small limit, so that both lengths are beyond it."""
    peaks = []
    for count in (1_000, 4_000):
        tracemalloc.start()
        feed_all(name, count, small_streams())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0] + 300_000
    assert peaks[1] < 6 * MIB


@pytest.mark.parametrize("name", HOSTILE)
def test_time_of_a_hostile_stream_is_linear(name: str) -> None:
    """Four times as many segments take four times as long, with a margin for a busy machine."""
    one = min(seconds(name, 2_000) for _ in range(2))
    four = min(seconds(name, 8_000) for _ in range(2))
    assert four < 10 * one


def test_a_hundred_thousand_connections_take_what_the_default_allows() -> None:
    streams = Streams()
    ended = sum(len(streams.feed(segment)) for segment in half_open(100_000))
    assert len(streams.connections) <= Limits().connections
    assert ended >= 100_000 - Limits().connections
    assert {problem.kind for problem in streams.problems} == {"connection-limit"}
