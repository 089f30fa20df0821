"""Protocols that are not Kafka: named by their first bytes, counted, and never more than that."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.exchanges.other_protocols import RECOGNISERS, foreign_protocol
from kdissect.protocol.apis import APIS, ApiKey
from tests.conversation import conversation
from tests.exchange_builders import found_in, request, response, sized


def zookeeper_connect(
    session: int = 0, timeout: int = 18_000, zxid: int = 0, tail: bytes = b"\0"
) -> bytes:
    """A ConnectRequest; `tail` is the read-only flag, which servers before 3.4 do not know."""
    fields = struct.pack(">iqiqi", 0, zxid, timeout, session, 16)
    return sized(fields + bytes(16) + tail)


def zookeeper_connected(session: int = 0x0100_0189_8B5C_0000, tail: bytes = b"\0") -> bytes:
    return sized(struct.pack(">iiqi", 0, 18_000, session, 16) + b"p" * 16 + tail)


DNS_QUESTION = b"\0\0\1\0\0\1\0\0\0\0\0\0\6broker\4shop\0\0\1\0\1"
CLIENTS = {
    "tls": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), b"\x15\x03\x03\0\2\2\x28"],
    "http": [
        method + b" / HTTP/1.1\r\nHost: broker\r\n\r\n"
        for method in (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH",
                       b"CONNECT", b"TRACE")
    ],
    "http2": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"],
    "ssh": [b"SSH-2.0-OpenSSH_9.6\r\n"],
    "zookeeper": [
        zookeeper_connect(), zookeeper_connect(tail=b""), zookeeper_connect(timeout=6000, zxid=981),
        zookeeper_connect(session=0x0100_0189_8B5C_0000, zxid=1 << 33), b"ruok", b"mntr\n",
        b"stat\r\n",
    ],
    "rmi": [b"JRMI\0\2K"],
    "postgresql": [
        bytes.fromhex("0000000804d2162f"), bytes.fromhex("0000000804d21630"),
        bytes.fromhex("0000001004d2162e 00000007 0000002a"),
        sized(b"\0\3\0\0user\0postgres\0database\0shop\0\0")[:3] + b"\x2a"
        + b"\0\3\0\0user\0postgres\0database\0shop\0\0",
    ],
    "redis": [b"*1\r\n$4\r\nPING\r\n", b"PING\r\n"],
    "amqp": [b"AMQP\0\0\x09\1", b"AMQP\0\1\0\0", b"AMQP\3\1\0\0", b"AMQP\1\1\0\x0a"],
    "mqtt": [b"\x10\x10\0\4MQTT\4\2\0\x3c\0\4shop", b"\x10\x92\1\0\6MQIsdp\3\2\0\x3c" + bytes(30)],
    "dns": [
        struct.pack(">H", len(DNS_QUESTION)) + DNS_QUESTION,
        struct.pack(">H", len(DNS_QUESTION) + 16) + DNS_QUESTION[:2] + b"\x81\x80\0\1\0\1"
        + DNS_QUESTION[8:] + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\1",
    ],
}  # fmt: skip
SERVERS = {
    "http": [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"HTTP/1.0 200 OK\r\n"],
    "ssh": [b"SSH-1.99-Cisco-1.25\n"],
    "zookeeper": [zookeeper_connected(), zookeeper_connected(tail=b""), b"imok"],
    "mysql": [
        b"\x4a\0\0\0\n8.0.39\0" + bytes(40), b"\x5b\0\0\0\n5.5.5-10.11.8-MariaDB\0" + bytes(60)
    ],
    "redis": [b"+PONG\r\n"],
    "amqp": [b"AMQP\0\0\x09\1"],
}  # fmt: skip
SAID = [(name, True, first) for name, firsts in CLIENTS.items() for first in firsts]
SAID += [(name, False, first) for name, firsts in SERVERS.items() for first in firsts]


@pytest.mark.parametrize(("name", "is_client", "first"), SAID)
def test_first_bytes_of_either_side_name_the_protocol(
    name: str, is_client: bool, first: bytes
) -> None:
    talk = conversation().client(first) if is_client else conversation().broker(first)
    for captured in (talk, talk.close(), talk.start_late(3)):
        found = found_in(captured)
        assert found.columns("protocol", "exchanges", table="connections") == [(name, 0)]
        assert found.rows == []
        assert found.tables["problems"] == []
        (row,) = found.tables["connections"]
        for way in ("to_broker", "to_client"):
            parts = [row[f"{part}_bytes_{way}"] for part in ("skipped", "tls", "encrypted")]
            assert sum(parts) == row[f"payload_bytes_{way}"]


@pytest.mark.parametrize(
    "first",
    [
        b"", b"GE", b"GETS", b"SSH", b"HTTP", b"AMQP", b"JRMI\0\1K", b"\x16\x03\x09\0\1",
        b"+OK\r\n", b"*\r\n", b"PINGPONG", b"\x10\x10\0\4MQTT\x09", b"ruok?",
        zookeeper_connect(timeout=0), zookeeper_connect(session=5), zookeeper_connect() + b"\0",
        zookeeper_connected(session=0), sized(b"\0\3\0\0nobody\0x\0\0"),
        b"\x4a\0\0\1\n8.0.39\0",
    ],
)  # fmt: skip
def test_uncertain_protocols_have_no_name(first: bytes) -> None:
    assert foreign_protocol(first, 0, len(first)) == ""


def test_the_first_bytes_may_lie_anywhere_in_a_buffer() -> None:
    for name, _, first in SAID:
        around = b"junk" + first + b"junk"
        assert foreign_protocol(around, 4, 4 + len(first)) == name


@given(st.binary(max_size=400))
def test_any_bytes_have_a_name_or_none(first: bytes) -> None:
    assert foreign_protocol(first, 0, len(first)) in {"", *CLIENTS, *SERVERS}


@given(
    st.one_of(
        st.sampled_from([first for _, _, first in SAID]), st.binary(min_size=4, max_size=400)
    ),
    st.sampled_from([b"", bytes(1), bytes(2), bytes(3)]),
)
def test_the_bytes_of_a_small_size_are_recognised_as_by_all(first: bytes, zeros: bytes) -> None:
    first = zeros + first[len(zeros) :]
    named = [name for name, is_spoken in RECOGNISERS if is_spoken(first[:300])]
    assert foreign_protocol(first, 0, len(first)) == (named[0] if named else "")


@given(
    st.sampled_from(list(APIS.values())),
    st.data(),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text("abcXYZ-_.0123456789", max_size=40),
)
def test_no_request_of_kafka_has_another_name(
    api: ApiKey, data: st.DataObject, correlation_id: int, client_id: str | None
) -> None:
    version = data.draw(st.integers(api.lowest, api.highest))
    asked = request(api.name, version, correlation_id, client_id)
    assert foreign_protocol(asked, 0, len(asked)) == ""
    answered = response(api.name, version, correlation_id)
    assert foreign_protocol(answered, 0, len(answered)) == ""
