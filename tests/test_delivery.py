"""However the packets of a real session are delivered, the same values come out.

The TCP segments of captures/quickstart.pcapng are cut, repeated, reordered and lost; kdissect's
result must be that of the capture, except for times, packet numbers and ids; of a capture with
holes a part of it, never anything else.
"""

import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import FIN, SYN, Segment, flow_of
from kdissect.tables.schemas import TABLES, TIME
from tests.exchange_builders import Found, Row, found_in
from tests.packets.builders import make_tcp_packet
from tests.seeds import SEED

CAPTURE = Path(__file__).parents[1] / "captures" / "quickstart.pcapng"
BROKER_PORT = 9092
SMALL = 3_000  # bytes of payload of a connection that may be cut into crumbs
# Values that depend on when and where packets were captured, beside times and durations.
PLACES = {
    "capture", "connection_id", "exchange_id", "request_packet", "response_packet", "retransmits",
}  # fmt: skip
COMPARED = ("exchanges", "partitions", "batches", "records", "errors")
# Values of a request alone, independent of the rest.
REQUEST_COLUMNS = ("api_key", "api", "api_version", "correlation_id", "client_id", "request_size")
# Values of a fetch session depend on its earlier requests and responses.
NOT_CAPTURED = "response-not-captured"
SESSION_COLUMNS = {"fetch_offset", "fetch_class"}


@dataclass(frozen=True)
class Wire:
    """A TCP segment that can be made into a packet again."""

    client_port: int
    is_client: bool
    sequence: int
    acknowledgment: int
    flags: int
    window: int
    payload: bytes
    time_ns: int


def wire_of(segment: Segment) -> Wire:
    source, destination = struct.unpack(">HH", flow_of(segment)[-4:])
    is_client = destination == BROKER_PORT
    return Wire(
        source if is_client else destination,
        is_client,
        segment.sequence,
        segment.acknowledgment,
        segment.flags,
        segment.window,
        segment.data[segment.start : segment.end],
        segment.time_ns,
    )


@cache
def session() -> tuple[Wire, ...]:
    """Every TCP segment of the capture."""
    decoder = PacketDecoder()
    segments = [
        decoder.decode(packet) for packets in open_captures(str(CAPTURE)) for packet in packets
    ]
    return tuple(wire_of(segment) for segment in segments if segment is not None)


@cache
def payload_sizes() -> dict[int, int]:
    sizes: dict[int, int] = {}
    for wire in session():
        sizes[wire.client_port] = sizes.get(wire.client_port, 0) + len(wire.payload)
    return sizes


def of_connections(ports: Iterable[int]) -> list[Wire]:
    wanted = set(ports)
    return [wire for wire in session() if wire.client_port in wanted]


def packets_of(wires: Iterable[Wire]) -> list[Packet]:
    packets = []
    for number, wire in enumerate(wires, 1):
        ports = (wire.client_port, BROKER_PORT)
        source, destination = ports if wire.is_client else ports[::-1]
        data = make_tcp_packet(
            wire.payload, "127.0.0.1", "127.0.0.1", source, destination, wire.sequence,
            wire.acknowledgment, wire.flags, wire.window,
        )  # fmt: skip
        packets.append(Packet(number, wire.time_ns, 1, data, 0, len(data), len(data), number, 0))
    return packets


def in_time(wires: list[Wire]) -> list[Wire]:
    """The same order, with times that do not go back."""
    times = sorted(wire.time_ns for wire in wires)
    return [replace(wire, time_ns=time_ns) for wire, time_ns in zip(wires, times, strict=True)]


# Deliveries


def cut(wire: Wire, places: list[int]) -> list[Wire]:
    """The segment cut at these places; a FIN goes with the last split."""
    bounds = [0, *places, len(wire.payload)]
    splits = []
    for start, end in pairwise(bounds):
        flags = wire.flags if end == len(wire.payload) else wire.flags & ~FIN
        sequence = (wire.sequence + start) % (1 << 32)
        splits.append(
            replace(wire, payload=wire.payload[start:end], sequence=sequence, flags=flags)
        )
    return splits


def crumbled(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Segments of 1 to 7 bytes."""
    found = []
    for wire in wires:
        places, at = [], source.randint(1, 7)
        while at < len(wire.payload):
            places.append(at)
            at += source.randint(1, 7)
        found += cut(wire, places)
    return found


def resegmented(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Segments cut at up to 5 places."""
    found = []
    for wire in wires:
        count = min(source.randint(0, 5), max(0, len(wire.payload) - 1))
        found += cut(
            wire, sorted(source.sample(range(1, len(wire.payload)), count)) if count else []
        )
    return found


def doubled(wires: list[Wire], _source: random.Random) -> list[Wire]:
    return [wire for wire in wires for _ in range(2)]


def shuffled(wires: list[Wire], source: random.Random) -> list[Wire]:
    """Packets come up to 2 ms later; those that open a connection stay where they are."""
    late = [
        wire.time_ns + (0 if wire.flags & SYN else source.randrange(2_000_000)) for wire in wires
    ]
    order = sorted(range(len(wires)), key=late.__getitem__)
    return in_time([wires[index] for index in order])


def all_of_it(wires: list[Wire], source: random.Random) -> list[Wire]:
    return shuffled(doubled(resegmented(wires, source), source), source)


Delivery = Callable[[list[Wire], random.Random], list[Wire]]
DELIVERIES: dict[str, Delivery] = {
    "resegmented": resegmented,
    "doubled": doubled,
    "shuffled": shuffled,
    "resegmented, doubled and shuffled": all_of_it,
}


# Values


def keys_of(found: Found) -> dict[int, tuple[int, int]]:
    """Client port and correlation id of every exchange: unique in this capture."""
    ports = dict(found.columns("connection_id", "client_port", table="connections"))
    return {
        row["exchange_id"]: (ports[row["connection_id"]], row["correlation_id"])
        for row in found.rows
    }


def is_compared(table: str, column: str) -> bool:
    of_capture = {c.name for c in TABLES[table].columns if c.type == TIME and table == "exchanges"}
    return column not in PLACES | of_capture and not column.endswith("_ns")


Values = dict[str, dict[tuple[int, int], list[Row]]]


def values_of(found: Found) -> Values:
    """The rows of every compared table by exchange, without columns that a delivery may change."""
    keys = keys_of(found)
    values: Values = {}
    for table in COMPARED:
        rows: dict[tuple[int, int], list[Row]] = {}
        for row in found.tables[table]:
            kept = {name: value for name, value in row.items() if is_compared(table, name)}
            rows.setdefault(keys[row["exchange_id"]], []).append(kept)
        values[table] = {key: sorted(part, key=repr) for key, part in rows.items()}
    return values


@cache
def truth() -> Values:
    """Rows of the capture as it is."""
    return values_of(found_in(packets_of(session()), has_payload=True))


def of_ports(values: Values, ports: Iterable[int]) -> Values:
    wanted = set(ports)
    return {
        table: {key: part for key, part in rows.items() if key[0] in wanted}
        for table, rows in values.items()
    }


def assert_same(found: Found, ports: Iterable[int]) -> None:
    values = values_of(found)
    expected = of_ports(truth(), ports)
    for table in COMPARED:
        assert values[table].keys() == expected[table].keys(), table
        for key, rows in expected[table].items():
            assert without_names(values[table][key]) == without_names(rows), (table, key)


def without_names(rows: list[Row]) -> list[Row]:
    """Without topic names of rows that have an id: they may be learnt on another connection."""
    return [
        {name: value for name, value in row.items() if name != "topic" or not row["topic_id"]}
        if "topic_id" in row
        else row
        for row in rows
    ]


def ports_of(source: random.Random, count: int) -> list[int]:
    return source.sample(sorted(payload_sizes()), count)


# Properties


def test_rebuilt_packets_yield_the_rows_of_the_capture() -> None:
    capture = [packet for packets in open_captures(str(CAPTURE)) for packet in packets]
    found = found_in(capture, has_payload=True)
    assert values_of(found) == truth()
    assert {len(rows) for rows in truth()["exchanges"].values()} == {1}


@pytest.mark.parametrize("name", DELIVERIES)
def test_the_whole_session_gives_the_same_values(name: str) -> None:
    source = random.Random(f"{SEED} {name}")
    found = found_in(packets_of(DELIVERIES[name](list(session()), source)), has_payload=True)
    assert_same(found, payload_sizes())
    topics = {row["topic"] for rows in values_of(found)["partitions"].values() for row in rows}
    assert topics == {row["topic"] for rows in truth()["partitions"].values() for row in rows}


@settings(max_examples=20)
@given(st.sampled_from(sorted(DELIVERIES)), st.integers(0, 1 << 32))
def test_some_connections_give_the_same_values(name: str, seed: int) -> None:
    source = random.Random(seed)
    ports = ports_of(source, 8)
    found = found_in(packets_of(DELIVERIES[name](of_connections(ports), source)), has_payload=True)
    assert_same(found, ports)


@settings(max_examples=10)
@given(st.integers(0, 1 << 32))
def test_crumbs_of_small_connections_give_the_same_values(seed: int) -> None:
    source = random.Random(seed)
    small = sorted(port for port, size in payload_sizes().items() if size < SMALL)
    ports = source.sample(small, 3)
    found = found_in(packets_of(crumbled(of_connections(ports), source)), has_payload=True)
    assert_same(found, ports)
    frames = found.columns("framed_bytes_to_broker", "framed_bytes_to_client", table="connections")
    assert sum(map(sum, frames)) == sum(payload_sizes()[port] for port in ports)


def assert_part_of_the_truth(found: Found) -> None:
    """No exchange that was not there, and nothing wrong in those that are."""
    values = values_of(found)
    for key, (row,) in values["exchanges"].items():
        assert key in truth()["exchanges"], f"phantom {key} {row}"
        (true,) = truth()["exchanges"][key]
        if row["outcome"] == "orphan":
            assert row["response_size"] == true["response_size"]
            continue
        for name in REQUEST_COLUMNS:
            if row[name] is not None:
                assert row[name] == true[name], (key, name)
        if row["outcome"] == "answered":
            assert row["response_size"] == true["response_size"]
        status, expected = row["decode_status"], true["decode_status"]
        if status.endswith(NOT_CAPTURED):  # then it is that of the request
            status = status.removesuffix(NOT_CAPTURED).removesuffix("+") or "ok"
            expected = expected.partition("+")[0]
        if status != expected:
            assert "damaged" in status
            continue
        if row["outcome"] == true["outcome"]:
            assert without_session(row) == without_session(true)
            for table in COMPARED[1:]:
                rows = without_names(values[table].get(key, []))
                true_rows = without_names(truth()[table].get(key, []))
                assert list(map(without_session, rows)) == list(map(without_session, true_rows))


def without_session(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in SESSION_COLUMNS}


@settings(max_examples=30)
@given(st.integers(0, 1 << 32), st.sampled_from([0.01, 0.05, 0.2, 0.5]))
@example(seed=15110430, loss=0.5)  # a request with bytes left over, whose response is lost
@example(seed=88225, loss=0.5)  # a client's SYN without the broker's, whose first data is lost
def test_a_capture_with_holes_gives_a_part_of_the_values(seed: int, loss: float) -> None:
    source = random.Random(seed)
    wires = of_connections(ports_of(source, 8))
    kept = [wire for wire in wires if source.random() >= loss]
    assert_part_of_the_truth(found_in(packets_of(kept), has_payload=True))


@settings(max_examples=10)
@given(st.integers(0, 1 << 32), st.floats(0, 1))
def test_a_part_of_a_capture_gives_a_part_of_the_values(seed: int, share: float) -> None:
    source = random.Random(seed)
    wires = of_connections(ports_of(source, 8))
    at = int(share * len(wires))
    for part in (wires[:at], wires[at:]):
        assert_part_of_the_truth(found_in(packets_of(part), has_payload=True))


def test_the_first_packets_give_all_that_was_answered_in_them() -> None:
    whole = list(session())
    half = whole[: len(whole) // 2]
    values = values_of(found_in(packets_of(half), has_payload=True))
    outcomes = {key: row["outcome"] for key, (row,) in values["exchanges"].items()}
    true = {key: row["outcome"] for key, (row,) in truth()["exchanges"].items()}
    assert {true[key] for key, outcome in outcomes.items() if outcome != true[key]} == {"answered"}
    assert list(outcomes.values()).count("unanswered") < 10
    assert "orphan" not in outcomes.values()


@settings(max_examples=10)
@given(st.integers(0, 1 << 32), st.integers(20, 200))
def test_a_capture_of_the_first_bytes_of_packets_gives_a_part_of_the_values(
    seed: int, snap: int
) -> None:
    wires = of_connections(ports_of(random.Random(seed), 8))
    packets = packets_of(wires)
    for packet in packets:
        packet.end = min(packet.end, 54 + snap)  # Ethernet, IPv4 and TCP headers take 54 bytes
    assert_part_of_the_truth(found_in(packets, has_payload=True))
