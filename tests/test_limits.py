"""Each limit is reached: a problem reports it, and decoded data is kept."""

import io
import pickle
import re
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kdissect
from kdissect import KdissectError, Limits, Options, Run
from kdissect.limits import LIMIT_MEANINGS, parse_limits
from kdissect.packets.segment import ACK, SYN, Segment
from kdissect.pipeline import Balance
from kdissect.streams.connections import Streams
from kdissect.tables.schemas import TABLES
from tests.conversation import START_NS
from tests.limit_cases import CASES, asked
from tests.packets.builders import make_flow

MIB = 1 << 20
MEMORY_PAGE = Path(__file__).parent.parent / "docs" / "memory.md"
Row = dict[str, Any]


class Told(NamedTuple):
    """Result of a run: outcomes of exchanges in order, kinds of problems, ends of connections."""

    outcomes: list[str]
    kinds: list[str]
    closed_by: list[str]
    balance: Balance


def run(capture: bytes, limits: Limits) -> Told:
    """All tables of a capture; every byte is accounted for."""
    one_pass = Run(io.BytesIO(capture), Options(tables=list(TABLES), limits=limits))
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    for name, batch in one_pass:
        rows[name] += batch.to_pylist()
    exchanges = sorted(rows["exchanges"], key=lambda row: row["exchange_id"])
    balance = one_pass.balance
    told = balance.framed_bytes + balance.skipped_bytes + balance.duplicate_bytes
    assert told + balance.tls_bytes + balance.encrypted_bytes == balance.payload_bytes
    return Told(
        [row["outcome"] for row in exchanges],
        [row["kind"] for row in rows["problems"]],
        [row["closed_by"] for row in rows["connections"]],
        balance,
    )


def kinds_of(name: str) -> set[str]:
    """The kinds of problems that report a limit, according to their meaning."""
    told = re.search(r"\(([a-z, -]+)\)$", LIMIT_MEANINGS[name])
    return set(told.group(1).split(", ")) if told else set()


@pytest.mark.parametrize("name", Limits._fields)
def test_every_limit_is_reached_and_reported_at_bounded_cost(name: str) -> None:
    case = CASES[name]
    capture = case.capture()
    roomy = run(capture, Limits())
    small = run(capture, Limits()._replace(**{name: case.limit}))
    assert (roomy.outcomes, small.outcomes) == (case.roomy, case.small)
    assert small.kinds == case.kinds
    if name == "idle_seconds":
        assert (roomy.closed_by, small.closed_by) == (["capture-end"], ["idle", "capture-end"])
    elif name == "active_connections":
        assert roomy == small
    else:
        assert kinds_of(name) & set(roomy.kinds) == set()
        assert kinds_of(name) & set(small.kinds) != set()


def test_every_limit_has_a_case_and_no_other_has() -> None:
    assert set(CASES) == set(Limits._fields)


def test_without_limits_in_reach_there_are_no_problems() -> None:
    assert run(asked(1, 2, 3).close().pcap(), Limits())[:2] == (["answered"] * 3, [])


def test_of_too_many_connections_the_longest_silent_ends() -> None:
    streams = Streams(max_connections=2)
    flows = [make_flow("10.0.0.1", "10.0.0.9", port, 9092) for port in (1, 2, 3)]
    for number, flow in enumerate(flows, 1):
        streams.feed(bare_segment(number, flow, SYN))
    assert [problem.kind for problem in streams.problems] == ["connection-limit"]
    assert [connection.flow for connection in streams.connections] == flows[1:]


def test_limits_are_pickled_compared_and_changed_like_any_tuple() -> None:
    limits = Limits(connections=7)
    assert pickle.loads(pickle.dumps(limits)) == limits  # noqa: S301
    assert limits._replace(connections=262_144) == Limits() == Options().limits
    assert kdissect.Limits is Limits


def test_every_limit_has_a_meaning_which_the_documents_repeat() -> None:
    assert tuple(LIMIT_MEANINGS) == Limits._fields
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", MEMORY_PAGE.read_text(), re.M)
    assert dict(rows) == LIMIT_MEANINGS


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("2k", 2048), ("3M", 3 * MIB), ("1G", 1 << 30)]
)
def test_limits_are_read_from_texts(text: str, value: int) -> None:
    assert parse_limits([f"frame_bytes={text}"]) == Limits(frame_bytes=value)


@pytest.mark.parametrize(
    "text", ["", "frames=1", "connections", "connections=", "connections=-1", "connections=M",
             "connections=1.5", "connections=1e9", "connections=9999999999", "connections=\u0663"],
)  # fmt: skip
def test_invalid_limits_are_rejected(text: str) -> None:
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
    """At a small limit, so that both lengths exceed it."""
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


@pytest.mark.slow
def test_hundred_thousand_connections_stay_within_the_default_limit() -> None:
    streams = Streams()
    ended = sum(len(streams.feed(segment)) for segment in half_open(100_000))
    assert len(streams.connections) <= Limits().connections
    assert ended >= 100_000 - Limits().connections
    assert {problem.kind for problem in streams.problems} == {"connection-limit"}
