"""Starts of frames, and traffic that is not Kafka."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.protocol_detection import first_of
from kdissect.framing.frame_search import Window
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response, sized
from tests.seeds import SEED
from tests.test_delivery import packets_of, session

MSS = 1448


def heartbeats(count: int) -> Conversation:
    talk = conversation(has_acks=True)
    for number in range(count):
        talk = talk.client(request("Heartbeat", 4, number, group_id="workers"))
        talk = talk.broker(response("Heartbeat", 4, number))
    return talk


def protocols(found: Found) -> list[str]:
    return found.column("protocol", "connections")


FOREIGN = {
    "tls": (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
        b"\x16\x03\x03\x00\x7a\x02",
    ),
    "http": (b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_protocols_are_named_and_give_no_exchanges(name: str) -> None:
    asked, answered = FOREIGN[name]
    for talk in (
        conversation().client(asked).broker(answered),
        conversation().broker(answered).client(asked),
        conversation().client(asked).broker(answered).start_late(3),
    ):
        found = found_in(talk)
        assert protocols(found) == [name]
        assert found.rows == []
        assert found.tables["problems"] == []
        (row,) = found.tables["connections"]
        for way, said in (("to_broker", asked), ("to_client", answered)):
            names = ("skipped_bytes", "tls_bytes", "encrypted_bytes")
            assert sum(row[f"{kind}_{way}"] for kind in names) == len(said)


def test_a_health_check_without_a_byte_is_no_protocol() -> None:
    for talk in (conversation().close(), conversation().reset(), conversation()):
        found = found_in(talk)
        assert protocols(found) == ["none"]
        assert found.tables["problems"] == []


@pytest.mark.parametrize(
    "junk", [b"\x00", b"\x00\x00\x00", b"\r\n\r\n\r\n", bytes(20), b"\xff" * 30]
)
def test_junk_on_a_brokers_port_is_other_and_gives_no_exchanges(junk: bytes) -> None:
    found = found_in(conversation().client(junk).reset(is_client=False))
    assert protocols(found) == ["other"]
    assert found.rows == []


def test_frames_that_are_no_requests_are_other_and_give_no_exchanges() -> None:
    talk = conversation().client(sized(b"\x01hello, this is another protocol"))
    found = found_in(talk.broker(sized(b"\x02and this its answer")).client(sized(b"\x01more")))
    assert protocols(found) == ["other"]
    assert found.rows == []


def test_random_bytes_between_unknown_ports_give_no_exchanges() -> None:
    source = random.Random(5)
    talk = conversation(has_acks=False)
    for _ in range(50):
        talk = talk.client(source.randbytes(MSS)).broker(source.randbytes(MSS))
    found = found_in(talk.start_late(3), Exchanges(ports=frozenset()))
    assert found.rows == []
    # Their beginning was not seen.
    assert protocols(found) == [None]


def test_zeros_between_unknown_ports_give_no_exchanges() -> None:
    talk = conversation(has_acks=False)
    for _ in range(5):
        talk = talk.client(bytes(MSS)).broker(bytes(MSS))
    assert found_in(talk.start_late(3), Exchanges(ports=frozenset())).rows == []


def test_a_captures_first_response_is_not_taken_for_a_request() -> None:
    # Its size, correlation id and body are those of an empty Produce v1, but for two bytes.
    late = heartbeats(3).start_late(5)
    found = found_in(late, Exchanges(ports=frozenset()))
    assert found.columns("api", "correlation_id", "outcome") == [
        ("Heartbeat", 1, "answered"), ("Heartbeat", 2, "answered"),
    ]  # fmt: skip


def test_after_a_hole_requests_and_responses_are_found_again() -> None:
    talk = heartbeats(20)
    # Packets 3 + 4 * n + 1 are requests, + 3 responses; each is followed by an ACK.
    found = found_in(talk.lose(3 + 4 * 5 + 1, 3 + 4 * 12 + 3))
    outcomes = dict(found.columns("correlation_id", "outcome"))
    assert outcomes == dict.fromkeys(range(20), "answered") | {5: "orphan", 12: None}


def test_hole_in_both_directions_loses_only_its_exchanges() -> None:
    talk = heartbeats(20)
    found = found_in(talk.lose(*range(3 + 4 * 5 + 1, 3 + 4 * 8 + 1)))
    assert found.columns("correlation_id", "outcome") == [
        (n, "answered") for n in range(20) if n not in (5, 6, 7)
    ]


def test_a_record_that_looks_like_a_request_is_not_one() -> None:
    inner = request("Heartbeat", 4, 99, group_id="phantom")
    padding = bytes(MSS - len(inner))
    filled = request("SaslAuthenticate", 0, 1, auth_bytes=(inner + padding) * 5)
    talk = conversation().client(filled).broker(response("SaslAuthenticate", 0, 1))
    talk = talk.client(request("Heartbeat", 4, 2)).broker(response("Heartbeat", 4, 2))
    assert found_in(talk).column("correlation_id") == [1, 2]


@pytest.mark.parametrize(("loss", "share"), [(0.001, 0.98), (0.01, 0.95), (0.05, 0.85)])
def test_most_of_a_real_session_survives_lost_packets(loss: float, share: float) -> None:
    source = random.Random(1)
    kept = [wire for wire in session() if source.random() >= loss]
    found = found_in(packets_of(kept))
    whole = [row for row in found.rows if row["outcome"] in ("answered", "no_response_expected")]
    assert len(whole) >= share * 331


def test_a_session_without_its_handshakes_and_ports_is_found_by_its_content() -> None:
    kept = [wire for wire in session() if not wire.flags & 0x02]
    found = found_in(packets_of(kept), Exchanges(ports=frozenset()))
    assert set(found.column("broker_side_by", "connections")) == {"content"}
    assert set(found.column("broker_port", "connections")) == {9092}
    assert len(found.rows) == 331


def test_a_response_that_reads_like_an_unknown_version_does_not_decide_the_sides() -> None:
    # Correlation id 14, one topic: key and version of Produce v14, and a client id.
    topics = [{"name": "tasks", "partitions": [{"partition_index": 0, "metadata": ""}]}]
    answer = response("OffsetFetch", 2, 14, topics=topics)
    talk = conversation().broker(answer).client(request("Heartbeat", 0, 15))
    talk = talk.broker(response("Heartbeat", 0, 15))
    found = found_in(talk.start_late(), Exchanges(ports=frozenset()))
    assert found.columns("api", "correlation_id", "outcome") == [("Heartbeat", 15, "answered")]


def test_of_a_frame_with_a_hole_in_its_size_field_nothing_is_seen() -> None:
    window = Window(bytes(40), 0, 40, False, False)
    window.holes.append((2, 30))
    assert first_of(window, 0, 20) == b""
    assert first_of(window, 30, 4) == bytes(4)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=8), st.data())
def test_window_lists_captured_parts_between_holes(
    parts: list[tuple[int, int]], data: st.DataObject
) -> None:
    end = sum(map(sum, parts)) + data.draw(st.integers(0, 3))
    window = Window(bytes(end), data.draw(st.integers(0, end)), end, False, False)
    at = 0
    for seen, missing in parts:
        window.holes.append((at + seen, at + seen + missing))
        at += seen + missing
    found = [index for first, last in window.seen_parts() for index in range(first, last)]
    seen_ones = (i for i in range(window.start, end) if window.seen_from(i) > i)
    assert found == list(seen_ones)


def test_a_request_is_found_behind_many_holes() -> None:
    # Of a large frame that began before the capture, only zeros here and there were captured.
    talk = conversation().client(bytes(1 << 19))
    for number in (8, 9):
        asked = request("Heartbeat", 4, number, client_id="shop", group_id="workers")
        talk = talk.client(asked).broker(response("Heartbeat", 4, number))
    found = found_in(talk.start_late(3).cut(200))
    assert found.columns("api", "correlation_id", "client_id", "outcome") == [
        ("Heartbeat", number, "shop", "answered") for number in (8, 9)
    ]


CLIENTS = (
    "line\nbreak", "\x1b[31mred", "a\u200bb", "a\u202eb", "\x07", "\U000e0041", "x" * 256,
    "x" * 9_000,
)  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS, ids=ascii)
@pytest.mark.parametrize(
    ("api", "version"), [("ApiVersions", 0), ("ApiVersions", 3), ("Heartbeat", 0), ("Metadata", 9)]
)
def test_no_client_id_hides_a_client(api: str, version: int, client: str) -> None:
    talk = conversation()
    for number in range(3):
        talk = talk.client(request(api, version, number, client_id=client))
        talk = talk.broker(response(api, 0 if api == "ApiVersions" else version, number))
    found = found_in(talk)
    assert protocols(found) == ["kafka"]
    assert [row["api"] for row in found.rows] == [api] * 3
    assert {row["outcome"] for row in found.rows} == {"answered"}


ADDRESSES = bytes([10, 0, 0, 9, 10, 0, 0, 1, 200, 1, 35, 132])
PROXY_HEADERS = (
    b"PROXY TCP4 10.0.0.9 10.0.0.1 51201 9092\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + ADDRESSES,
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13" + ADDRESSES + b"\x03\0\x04abcd",
)


@pytest.mark.parametrize("number", range(20))
def test_nor_does_it_behind_a_proxy_however_the_header_is_cut(number: int) -> None:
    draw = random.Random(f"{SEED} {number}")
    client, header = draw.choice(CLIENTS), draw.choice(PROXY_HEADERS)
    first = header + request("ApiVersions", 0, 0, client_id=client)
    cuts = {0, *draw.sample(range(1, len(first)), draw.randint(0, 4)), len(first)}
    if draw.random() < 0.5:
        cuts.add(len(header))  # as HAProxy sends it
    edges = sorted(cuts)
    talk = conversation()
    for start, end in itertools.pairwise(edges):
        talk = talk.client(first[start:end])
    talk = talk.broker(response("ApiVersions", 0, 0))
    for number in (1, 2):
        talk = talk.client(request("ApiVersions", 0, number, client_id=client))
        talk = talk.broker(response("ApiVersions", 0, number))
    found = found_in(talk)
    assert protocols(found) == ["kafka"], f"seed {SEED}"
    assert [row["outcome"] for row in found.rows] == ["answered"] * 3


@pytest.mark.parametrize("number", range(20))
def test_nor_on_a_connection_from_before_the_capture(number: int) -> None:
    """It is recognized by the first request with a body that is a segment by itself."""
    draw = random.Random(f"{SEED} {number}")
    client = draw.choice([one for one in CLIENTS if len(one) <= 256])
    first = draw.randrange(1 << 20, 1 << 30)
    talk = conversation()
    for number in range(first, first + 5):
        talk = talk.client(request("Heartbeat", 4, number, client_id=client, group_id="workers"))
        talk = talk.broker(response("Heartbeat", 4, number))
    found = found_in(talk.start_late(5))
    assert protocols(found) == ["kafka"], f"seed {SEED}"
    rows = [(row["api"], row["correlation_id"], row["outcome"]) for row in found.rows]
    assert rows == [("Heartbeat", number, "answered") for number in range(first + 1, first + 5)]


def test_a_client_id_that_is_no_text_hides_no_client() -> None:
    talk = conversation()
    for number in range(3):
        talk = talk.client(sized(b"\0\x12\0\0" + bytes([0, 0, 0, number]) + b"\0\2\xff\xfe"))
        talk = talk.broker(response("ApiVersions", 0, number))
    found = found_in(talk)
    assert protocols(found) == ["kafka"]
    assert [row["outcome"] for row in found.rows] == ["answered"] * 3
