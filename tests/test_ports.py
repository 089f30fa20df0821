"""Kafka on any port, behind proxies, among other traffic; and the user's options for ports."""

import io
import pickle
import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdissect
from kdissect.capture.packet import Packet
from kdissect.errors import KdissectError
from kdissect.exchanges.decode_as import DecodeAs, endpoint_bytes, parse_decode_as
from kdissect.exchanges.pairing import Exchanges
from kdissect.pipeline import Options
from kdissect.streams.proxy_header import INCOMPLETE, NO_HEADER, ProxyHeader, read_proxy_header
from tests.conversation import BROKER_PORT, CLIENT_PORT, Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response, sized
from tests.test_other_protocols import SAID, zookeeper_connect, zookeeper_connected

V1 = b"PROXY TCP4 192.0.2.7 10.0.0.9 51234 9092\r\n"
V1_IPV6 = b"PROXY TCP6 2001:db8::7 2001:db8::9 51234 9092\r\n"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TLV = b"\x03\0\4" + b"crc!"


def v2(command: int, family: int, rest: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + struct.pack(">H", len(rest)) + rest


V2_REST = bytes([192, 0, 2, 7, 10, 0, 0, 9]) + struct.pack(">HH", 51_234, 9092)
V2 = v2(0x21, 0x11, V2_REST + TLV)
V6 = bytes.fromhex("20010db8000000000000000000000007 20010db8000000000000000000000009")
V2_IPV6 = v2(0x21, 0x21, V6 + struct.pack(">HH", 51_234, 9092))
HEADERS = [
    (V1, "192.0.2.7", 51_234), (V1_IPV6, "2001:db8::7", 51_234), (V2, "192.0.2.7", 51_234),
    (V2_IPV6, "2001:db8::7", 51_234), (b"PROXY UNKNOWN\r\n", None, None),
    (b"PROXY UNKNOWN ff::1 ff::2 1 2\r\n", None, None), (v2(0x20, 0, b""), None, None),
    (v2(0x21, 0x31, bytes(216)), None, None), (b"PROXY TCP4 here there 1 2\r\n", None, None),
    (v2(0x21, 0x11, b"\1\2"), None, None),
]  # fmt: skip
HEARTBEAT = request("Heartbeat", 4, 1, group_id="workers")
ANSWER = response("Heartbeat", 4, 1)
PROXIED = ("protocol", "proxied_client_ip", "proxied_client_port", "broker_port")


def kinds(found: Found) -> list[str]:
    return found.column("kind", "problems")


def protocols(found: Found) -> list[str]:
    return found.column("protocol", "connections")


# PROXY protocol


@pytest.mark.parametrize(("header", "address", "port"), HEADERS)
@pytest.mark.parametrize("size", [1 << 20, 3, 14])
def test_kafka_goes_on_behind_a_proxy_header(
    header: bytes, address: str | None, port: int | None, size: int
) -> None:
    stream = header + HEARTBEAT
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    apart = [header, HEARTBEAT]
    for said in (pieces, apart):
        talk = conversation().client(*said).broker(ANSWER)
        for captured, exchanges in (
            (talk, None),
            (talk.start_late(3), None),
            (talk.start_late(3), Exchanges(ports=frozenset())),
        ):
            found = found_in(captured, exchanges)
            assert found.columns("api", "outcome") == [("Heartbeat", "answered")]
            assert kinds(found) == []
            assert found.columns(*PROXIED, table="connections") == [
                ("kafka", address, port, BROKER_PORT)
            ]
            assert found.column("skipped_bytes_to_broker", "connections") == [0]
            assert found.column("framed_bytes_to_broker", "connections") == [len(stream)]


@pytest.mark.parametrize(("name", "is_client", "first"), SAID)
def test_other_protocols_are_known_behind_a_proxy_header(
    name: str, is_client: bool, first: bytes
) -> None:
    talk = conversation().client(V2)
    found = found_in(talk.client(first) if is_client else talk.broker(first))
    assert found.columns(*PROXIED[:3], table="connections") == [(name, "192.0.2.7", 51_234)]
    assert (found.rows, kinds(found)) == ([], [])


def test_a_proxy_header_alone_is_a_protocol() -> None:
    for header, address, port in HEADERS:
        found = found_in(conversation().client(header).close())
        assert found.columns(*PROXIED[:3], table="connections") == [("proxy", address, port)]
        assert found.column("skipped_bytes_to_broker", "connections") == [0]
        assert (found.rows, kinds(found)) == ([], [])


def test_half_a_proxy_header_is_junk() -> None:
    for header in (V1, V2):
        found = found_in(conversation().client(header[:-5]).close())
        assert found.columns(*PROXIED[:3], table="connections") == [("other", None, None)]
        assert (found.rows, kinds(found)) == ([], [])


@given(st.binary(max_size=120), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE]))
def test_any_bytes_are_a_proxy_header_or_none(rest: bytes, start: bytes) -> None:
    data = start + rest
    header = read_proxy_header(data, 0, len(data))
    assert header.size in (NO_HEADER, INCOMPLETE) or 0 < header.size <= len(data)
    assert len(header.client_address) in (0, 4, 16)
    assert header.client_address or header == ProxyHeader(header.size)


def test_a_proxy_header_of_version_1_has_a_limit() -> None:
    assert read_proxy_header(b"PROXY " + b"x" * 100, 0, 106).size == INCOMPLETE
    assert read_proxy_header(b"PROXY " + b"x" * 101 + b"\r\n", 0, 109).size == NO_HEADER
    assert read_proxy_header(b"PROXY TCP4 1.2.3.4 1.2.3.4 70000 1\r\n", 0, 36) == ProxyHeader(36)


# Health checks


JUNK = [
    b"\0",
    b"\r\n",
    b"\r\n\r\n\r\n\r\n\r\n",
    b"\xff" * 30,
    bytes(40),
    b"health\n" * 4,
    b"quit\r\n",
]


@pytest.mark.slow
def test_ten_thousand_health_checks_are_counted_and_nothing_more() -> None:
    packets: list[Conversation] = []
    for number in range(10_000):
        talk = conversation()
        junk = JUNK[number % (len(JUNK) + 1) - 1] if number % (len(JUNK) + 1) else b""
        if junk:
            talk = talk.client(junk)
        talk = (talk.reset(), talk.close(), talk.reset(is_client=False))[number % 3]
        packets.append(talk)
    found = found_in(one_after_the_other(packets))
    assert (found.rows, kinds(found)) == ([], [])
    assert {name: protocols(found).count(name) for name in set(protocols(found))} == {
        "none": 1250, "other": 8750,
    }  # fmt: skip


def one_after_the_other(talks: Sequence[Conversation]) -> list[Packet]:
    """The packets of conversations as if each had a client port of its own."""
    packets: list[Packet] = []
    for number, talk in enumerate(talks):
        for packet in talk.packets():
            frame = bytearray(packet.data[packet.start : packet.end])
            for at in (34, 36):
                if frame[at : at + 2] == struct.pack(">H", 50_000):
                    frame[at : at + 2] = struct.pack(">H", 10_000 + number)
            n = len(packets) + 1
            packets.append(
                Packet(n, packet.time_ns, 1, bytes(frame), 0, len(frame), len(frame), n, 0)
            )
    return packets


# Possible Kafka


def plain(api: str, version: int, correlation_id: int, body: bytes) -> bytes:
    """A request with an empty client id, whose body fits no layout."""
    return request(api, version, correlation_id, "", body=body)


ODD = b"\0\1\2"  # no body of anything


def test_bytes_that_only_resemble_requests_are_not_kafka() -> None:
    talk = conversation()
    for number in range(40):
        talk = talk.client(plain("Produce", 5, number, ODD)).broker(sized(b"\0\0\0\1" + ODD))
    for captured, protocol in (
        (talk, "other"),
        (talk.close(), "other"),
        (talk.start_late(3), None),
    ):
        found = found_in(captured)
        assert (found.rows, protocols(found)) == ([], [protocol])


def test_a_later_request_proves_the_first_which_is_a_problem_then() -> None:
    talk = conversation().client(plain("Metadata", 9, 0, ODD)).client(HEARTBEAT).broker(ANSWER)
    found = found_in(talk)
    assert found.columns("api", "outcome") == [
        ("Metadata", "unanswered"), ("Heartbeat", "answered"),
    ]  # fmt: skip
    assert kinds(found) == ["undecodable-request"]


def test_an_answer_proves_a_request_with_a_large_id() -> None:
    for number, found_count in ((7, 0), (0x7000_0007, 1), (-5, 1)):
        talk = conversation().client(plain("Metadata", 9, number, ODD))
        found = found_in(talk.broker(response("Metadata", 9, number)))
        assert found.columns("api", "outcome") == [("Metadata", "answered")] * found_count


def test_three_answers_prove_requests_with_small_ids() -> None:
    talk = conversation()
    for number in range(3):
        talk = talk.client(plain("Metadata", 9, number, ODD)).broker(
            response("Metadata", 9, number)
        )
    found = found_in(talk)
    assert found.columns("correlation_id", "outcome") == [(n, "answered") for n in range(3)]


def test_a_brokers_refused_first_frame_is_a_problem() -> None:
    talk = conversation().client(sized(b"\x7f\xff not one that is known")).client(HEARTBEAT)
    found = found_in(talk.broker(ANSWER))
    assert found.columns("api", "outcome") == [("Heartbeat", "answered")]
    assert kinds(found) == ["not-a-request"]
    assert found.column("packet_number", "problems") == [4]


def test_frames_refused_again_and_again_are_not_kafka_any_more() -> None:
    talk = conversation()
    for _ in range(3):
        talk = talk.client(sized(b"\x7f\xffsomething else")).broker(sized(b"and an answer"))
    found = found_in(talk.client(HEARTBEAT).broker(ANSWER))
    assert (found.rows, protocols(found), kinds(found)) == ([], ["other"], [])


def test_a_server_that_speaks_first_in_frames_gives_no_orphans() -> None:
    talk = conversation().broker(sized(b"\0\0\0\1hello")).client(sized(b"\x7f\xffme too"))
    found = found_in(talk.broker(sized(b"\0\0\0\2hello")))
    assert (found.rows, protocols(found), kinds(found)) == ([], ["other"], [])


# Hostile mixes


def zookeeper_session(source: random.Random) -> Conversation:
    """Requests are int32 size, int32 xid, int32 type, a path; as sent by a broker of 3.9."""
    talk = conversation().client(zookeeper_connect()).broker(zookeeper_connected())
    for xid in range(1, 40):
        path = b"/brokers/topics/orders-%d" % xid
        asked = struct.pack(">iii", xid, source.choice([1, 3, 4, 8, 12]), len(path)) + path + b"\0"
        if xid % 7 == 0:
            asked = struct.pack(">ii", -2, 11)
        talk = talk.client(sized(asked))
        answer = struct.pack(">iqi", xid, 100 + xid, 0) + source.randbytes(source.randrange(90))
        talk = talk.broker(sized(answer))
    return talk


def http_session(source: random.Random) -> Conversation:
    talk = conversation()
    for _ in range(10):
        talk = talk.client(b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n")
        body = bytes(source.randrange(200)) + source.randbytes(source.randrange(3000))
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        talk = talk.broker(head + body)
    return talk


def tls_session(source: random.Random) -> Conversation:
    talk = conversation().client(b"\x16\x03\x01\x02\0" + source.randbytes(512))
    talk = talk.broker(b"\x16\x03\x03\0\x7a" + source.randbytes(122))
    for _ in range(10):
        size = source.randrange(16, 3000)
        record = b"\x17\x03\x03" + struct.pack(">H", size) + source.randbytes(size)
        talk = talk.client(record) if source.random() < 0.5 else talk.broker(record)
    return talk


def random_session(source: random.Random) -> Conversation:
    talk = conversation()
    for _ in range(20):
        size = source.randrange(1, 3000)
        said = source.randbytes(size) if source.random() < 0.7 else bytes(size)
        talk = talk.client(said) if source.random() < 0.5 else talk.broker(said)
    return talk


def small_numbers_session(source: random.Random) -> Conversation:
    """Frames with sizes as Kafka's, of small numbers."""
    talk = conversation()
    for number in range(20):
        fields = [0, 0, number, *(source.choice([0, 0, 1, 2, 3, 255]) for _ in range(9))]
        said = sized(struct.pack(f">{len(fields)}h", *fields))
        talk = talk.client(said).broker(sized(struct.pack(">iih", 0, number, 1)))
    return talk


HOSTILE = {
    "zookeeper": zookeeper_session, "http": http_session, "tls": tls_session,
    "random": random_session, "small numbers": small_numbers_session,
}  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(HOSTILE)), st.integers(0, 2**32), st.integers(0, 12), st.booleans(),
    st.sampled_from([0.0, 0.05, 0.3]),
)  # fmt: skip
def test_other_traffic_never_gives_an_exchange(
    name: str, seed: int, late: int, knows_port: bool, loss: float
) -> None:
    source = random.Random(seed)
    talk = HOSTILE[name](source).start_late(late)
    lost = {sent for sent in talk.packets_sent if source.random() < loss}
    ports = frozenset({BROKER_PORT}) if knows_port else frozenset()
    found = found_in(talk.lose_where(lambda sent: sent in lost), Exchanges(ports=ports))
    assert found.rows == []
    assert "kafka" not in protocols(found)


def test_whole_sessions_of_other_protocols_are_named_without_a_problem() -> None:
    for name in ("zookeeper", "http", "tls"):
        found = found_in(HOSTILE[name](random.Random(1)).close())
        assert (protocols(found), found.rows, kinds(found)) == ([name], [], [])


# Sides without a port that is known


def test_between_two_high_ports_the_content_identifies_the_broker() -> None:
    talk = conversation(has_acks=False)
    for number in range(4):
        talk = talk.client(request("Heartbeat", 4, number, group_id="workers"))
        talk = talk.broker(response("Heartbeat", 4, number))
    for late in (3, 4):
        found = found_in(talk.start_late(late), Exchanges(ports=frozenset()))
        assert found.columns("broker_port", "broker_side_by", table="connections") == [
            (BROKER_PORT, "content")
        ]
        assert found.column("outcome")[-3:] == ["answered"] * 3


# Options of the user


def capture_of(talk: Conversation) -> io.BytesIO:
    return io.BytesIO(talk.pcap())


def asked(talk: Conversation, **options: Any) -> tuple[list[Any], list[Any]]:
    """Rows of connections (protocol, broker by, its port), APIs of exchanges."""
    connections = kdissect.read(capture_of(talk), table="connections", **options).to_arrow()
    rows = kdissect.read(capture_of(talk), **options).to_arrow().to_pylist()
    return [
        (row["protocol"], row["broker_side_by"], row["broker_port"])
        for row in connections.to_pylist()
    ], [row["api"] for row in rows]


TALK = conversation().client(HEARTBEAT).broker(ANSWER)


@pytest.mark.parametrize("where", ["9092", "10.0.0.9:9092"])
def test_configured_protocol_of_an_endpoint_is_used(where: str) -> None:
    broker = ("user", BROKER_PORT)
    for word, protocol, apis in (
        ("kafka", "kafka", ["Heartbeat"]),
        ("none", "excluded", []),
        ("tls", "tls", []),
        ("0.7", "kafka-0.7", []),
    ):
        found = asked(TALK, decode_as=[f"{where}={word}"])
        assert found[0] == [(protocol, *broker)]
        if word != "0.7":
            assert found[1] == apis


def test_a_rule_of_an_endpoint_goes_before_one_of_its_port() -> None:
    rules = ["9092=none", "10.0.0.9:9092=kafka"]
    assert asked(TALK, decode_as=rules) == ([("kafka", "user", BROKER_PORT)], ["Heartbeat"])


def test_rules_of_other_ports_and_endpoints_change_nothing() -> None:
    rules = ["9093=none", "10.0.0.8:9092=none", "[::1]:9092=tls"]
    assert asked(TALK, decode_as=rules) == ([("kafka", "syn", BROKER_PORT)], ["Heartbeat"])


def test_a_rule_that_fits_both_sides_identifies_no_broker() -> None:
    found = DecodeAs({50_000: "none", 9092: "kafka"}, {}).find(flow_of(TALK))
    assert (found.protocol, found.broker_side) == ("kafka", -1)


def flow_of(talk: Conversation) -> bytes:
    segment = talk.segments()[0]
    return segment.flow


def test_configured_broker_side_wins_over_the_opener() -> None:
    swapped = asked(TALK, decode_as=["50000=kafka"])
    assert swapped[0] == [("kafka", "user", 50_000)]
    assert asked(TALK, brokers=["10.0.0.1:50000"])[0][0][1:] == ("user", 50_000)


def test_declared_kafka_is_not_taken_for_another_protocol() -> None:
    talk = conversation().client(b"HEAD / HTTP/1.1\r\n\r\n")
    assert asked(talk)[0] == [("http", "syn", BROKER_PORT)]
    found = kdissect.read(capture_of(talk), table="problems", decode_as=["9092=kafka"]).to_arrow()
    assert [row["kind"] for row in found.to_pylist()] == ["bad-frame-size", "no-resync"]


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (["9092"], "'9092' is not PORT=PROTOCOL or ADDRESS:PORT=PROTOCOL"),
        (["9092="], "no protocol '' in '9092='; there are: kafka, 0.7, proposal, trunk-2012, tls"),
        (["9092=http"], "no protocol 'http' in '9092=http'; there are: kafka,"),
        (["=kafka"], "'' in '=kafka' is not a port: those are 1 to 65535"),
        (["0=kafka"], "'0' in '0=kafka' is not a port"),
        (["65536=kafka"], "'65536' in '65536=kafka' is not a port"),
        (["-1=kafka"], "'-1' in '-1=kafka' is not a port"),
        (["broker:9092=kafka"], "'broker:9092' is not address:port: 'broker' does not appear"),
        (["10.0.0.9:=kafka"], "'' in '10.0.0.9:' is not a port"),
        (["1=tls", "1=kafka"], "1 cannot be both tls and kafka"),
        (["10.0.0.9:1=tls", "10.0.0.9:1=none"], "10.0.0.9:1 cannot be both tls and none"),
    ],
)
def test_an_invalid_rule_is_an_error(rules: list[str], text: str) -> None:
    with pytest.raises(KdissectError) as raised:
        parse_decode_as(rules)
    assert text in str(raised.value)
    with pytest.raises(KdissectError):
        kdissect.read(capture_of(TALK), decode_as=rules).to_arrow()


def test_endpoints_are_addresses_and_ports() -> None:
    assert endpoint_bytes("10.0.0.9:9092") == bytes([10, 0, 0, 9]) + b"\x23\x84"
    assert endpoint_bytes("[::1]:1") == bytes(15) + b"\x01\x00\x01"
    for text in ("", ":1", "10.0.0.9", "10.0.0.9:", "10.0.0.9:-1", "host:9092", "[::1]"):
        with pytest.raises(KdissectError, match="is not a"):
            endpoint_bytes(text)


def test_options_with_rules_can_be_pickled() -> None:
    options = Options(ports=[9192], brokers=["10.0.0.9:9092"], decode_as=["9092=kafka"])
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # our own bytes


# A client whose port is typical of brokers


NO_REQUEST_ROW = (None, None, None, None)


def between_unknown_ports_but_for_the_clients() -> Exchanges:
    return Exchanges(ports=frozenset([CLIENT_PORT]))


def heartbeats(count: int) -> Conversation:
    talk = conversation()
    for number in range(1, count + 1):
        talk = talk.client(request("Heartbeat", 4, number, group_id="workers"))
        talk = talk.broker(response("Heartbeat", 4, number))
    return talk


@pytest.mark.parametrize("start", [3, 4, 5, 6])
def test_requests_from_a_brokers_port_say_that_it_is_a_clients(start: int) -> None:
    whole = found_in(heartbeats(8))
    found = found_in(heartbeats(8).start_late(start), between_unknown_ports_but_for_the_clients())
    names = ("broker_port", "client_port", "broker_side_by", "protocol")
    assert found.columns(*names, table="connections") == [
        (BROKER_PORT, CLIENT_PORT, "content", "kafka")
    ]
    names = ("api", "api_version", "correlation_id", "client_id", "outcome", "latency_ns")
    answered = [row for row in found.columns(*names) if row[4] == "answered"]
    assert answered == whole.columns(*names)[-len(answered) :]
    assert len(answered) >= 7


@pytest.mark.parametrize("lost", range(3, 12))
def test_a_brokers_port_of_the_client_makes_no_exchange_that_is_none(lost: int) -> None:
    talk = heartbeats(6).start_late(3)
    names = ("api", "api_version", "client_id", "request_size")
    (true,) = set(found_in(heartbeats(6)).columns(*names))
    for cut in (talk, talk.cut(20), talk.split(9), talk.split(30).lose(lost), talk.lose(lost)):
        found = found_in(cut, between_unknown_ports_but_for_the_clients())
        assert {row for row in found.columns(*names) if row[0] != "Heartbeat"} <= {NO_REQUEST_ROW}
        assert {row for row in found.columns(*names) if row[0] == "Heartbeat"} <= {true}


def test_requests_inside_records_do_not_turn_a_broker_into_a_client() -> None:
    inner = b"".join(request("Heartbeat", 4, number, group_id="inner") for number in range(9))
    fetched = sized(bytes(4) + bytes(range(256)) * 3 + inner + bytes(700))
    talk = conversation().broker(fetched).split(300).start_late(4)
    for number in range(1, 4):
        talk = talk.client(request("Heartbeat", 4, number, group_id="workers"))
        talk = talk.broker(response("Heartbeat", 4, number))
    found = found_in(talk)
    assert found.column("broker_side_by", "connections") == ["port"]
    assert found.columns("correlation_id", "outcome") == [(n, "answered") for n in range(1, 4)]
