"""TLS is recognized wherever the capture begins; other traffic passes unchanged."""

import pytest

from kdissect.limits import Limits
from kdissect.streams.connections import Streams
from kdissect.streams.events import Chunk, Connection
from kdissect.tls.keylog import KeyLog
from kdissect.tls.stage import MAX_WATCHED, Tls
from tests.conversation import conversation
from tests.exchange_builders import request, response, sized
from tests.tls.reading import Plain, feed, key_log, run_tables
from tests.tls.talks import Setup, Talk, make_talk, say

TURNS = (
    (True, request("Heartbeat", 4, 1, group_id="g")), (False, response("Heartbeat", 4, 1)),
    (True, request("Heartbeat", 4, 2, group_id="g")), (False, response("Heartbeat", 4, 2)),
)  # fmt: skip
HELLO = bytes.fromhex("160301002d0100002903 03") + bytes(32) + bytes.fromhex("00000213010100")
ALERT = bytes.fromhex("15030300020246")  # fatal, protocol_version


def kinds_of(plain: Plain) -> list[str]:
    return [problem.kind for problem in plain.problems]


def kinds(tables: dict[str, list[dict[str, object]]]) -> list[object]:
    return [row["kind"] for row in tables["problems"]]


@pytest.fixture(scope="module", params=["TLS 1.0", "TLS 1.2", "TLS 1.3"])
def talk(request: pytest.FixtureRequest) -> Talk:
    return make_talk(
        Setup(request.param, "AES128-SHA" if request.param == "TLS 1.0" else ""), TURNS
    )


def test_without_keys_a_connection_is_encrypted_and_no_problem(talk: Talk) -> None:
    tables = run_tables(talk.conversation().close().pcap())
    (row,) = tables["connections"]
    assert row["protocol"] == "tls"
    assert row["tls_version"] in ("TLS 1.0", "TLS 1.2", "TLS 1.3")
    assert row["tls_sni"] == "broker-1.example"
    assert row["tls_resumed"] is False
    assert row["tls_undecrypted"] == "no secrets"
    assert (row["broker_side_by"], row["broker_port"]) == ("syn", 9092)
    assert row["framed_bytes_to_broker"] == row["skipped_bytes_to_broker"] == 0
    assert row["encrypted_bytes_to_broker"] > 0
    assert row["encrypted_bytes_to_client"] > 0
    assert tables["exchanges"] == []
    assert tables["problems"] == []


def test_keys_of_other_sessions_are_no_keys(talk: Talk) -> None:
    other = make_talk(Setup("TLS 1.3"), TURNS)
    plain = feed(Tls(key_log(other.keylog)), talk.conversation())
    assert plain.streams == (b"", b"")
    assert plain.facts is not None
    assert plain.facts.undecrypted == "no secrets"
    assert plain.problems == []


def test_wrong_secrets_are_reported_once_a_connection(talk: Talk) -> None:
    lines = [line.split() for line in talk.keylog.splitlines() if not line.startswith(b"#")]
    wrong = b"".join(
        b" ".join([label, random, secret[::-1]]) + b"\n" for label, random, secret in lines
    )
    plain = feed(Tls(key_log(wrong)), talk.conversation())
    assert plain.streams == (b"", b"")
    assert {problem.kind for problem in plain.problems} <= {"tls-undecryptable"}
    assert plain.facts is not None
    assert plain.facts.undecrypted in ("wrong secrets", "loss")


def test_a_capture_that_begins_inside_is_recognised(talk: Talk) -> None:
    whole = talk.conversation()
    for count in range(4, len(whole.packets_sent) - 6):
        tables = run_tables(whole.start_late(count).pcap())
        (row,) = tables["connections"]
        assert row["protocol"] == "tls", count
        assert tables["exchanges"] == tables["problems"] == []


def test_one_direction_alone_is_recognised(talk: Talk) -> None:
    for is_client in (True, False):
        plain = feed(Tls(key_log(talk.keylog)), talk.conversation().one_way(is_client))
        assert plain.facts is not None
        assert (plain.facts.server_name != "") is is_client
        assert (plain.facts.version != "") is not is_client
        assert plain.streams == (b"", b"")
        assert plain.facts.undecrypted == ("no ServerHello" if is_client else "no ClientHello")
        assert kinds_of(plain) == (["tls-undecryptable"] if is_client else [])


def test_an_unanswered_hello_is_reported() -> None:
    for said in (conversation().client(HELLO).close(), conversation().client(HELLO).reset(False)):
        tables = run_tables(said.pcap())
        (row,) = tables["connections"]
        assert (row["protocol"], row["tls_version"]) == ("tls", None)
        assert kinds(tables) == ["tls-refused"]
    tables = run_tables(conversation().client(HELLO).pcap())
    assert tables["problems"] == []


def test_a_fatal_alert_is_reported_by_name() -> None:
    tables = run_tables(conversation().client(HELLO).broker(ALERT).close().pcap())
    assert [row["message"] for row in tables["problems"]] == [
        "the broker ended TLS by the alert protocol_version (70)"
    ]
    (row,) = tables["connections"]
    assert row["tls_bytes_to_client"] == len(ALERT)


def test_a_plain_client_on_a_tls_port_is_reported() -> None:
    asked = request("ApiVersions", 3, 1)
    tables = run_tables(conversation().client(asked).broker(ALERT).close().pcap())
    assert [(row["kind"], row["message"]) for row in tables["problems"]] == [
        ("plain-client",
         "a client that does not speak TLS was answered by the TLS alert protocol_version (70)")
    ]  # fmt: skip
    (row,) = tables["exchanges"]
    assert (row["api"], row["outcome"]) == ("ApiVersions", "unanswered")


def test_an_answer_in_clear_to_a_hello_is_left_as_it_is() -> None:
    stage = Tls(KeyLog())
    plain = feed(stage, conversation().client(HELLO).broker(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert plain.streams == (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_first_bytes_that_are_too_few_wait_for_more(size: int) -> None:
    plain = feed(Tls(KeyLog()), conversation().client(HELLO).broker(ALERT).split(size))
    assert plain.streams == (b"", b"")
    assert [problem.kind for problem in plain.problems] == ["tls-alert"]
    for junk in (b"\x16", b"\x16\x03", b"\x16\x02\x03\x04", b"\x17\x03\x03"):
        plain = feed(Tls(KeyLog()), conversation().client(junk).split(size).close())
        assert plain.streams == (junk, b"")
        assert plain.facts is None


def test_plaintext_passes_unchanged() -> None:
    said = conversation()
    for is_client, frame in TURNS:
        said = said.client(frame) if is_client else said.broker(frame)
    streams, stage = Streams(), Tls(KeyLog())
    connections: set[Connection] = set()
    for segment in said.segments():
        for event in streams.feed(segment):
            assert stage.feed(event) == [event]
            connections.add(event.connection)
    assert [connection.clear_directions for connection in connections] == [3]


def test_a_connection_seen_from_its_middle_is_watched_for_a_while_only() -> None:
    said = conversation()
    for number in range(MAX_WATCHED + 10):
        said = said.client(sized(b"%030d" % number))
    streams, stage = Streams(), Tls(KeyLog())
    watched = 0
    for segment in said.start_late(4).segments():
        for event in streams.feed(segment):
            if isinstance(event, Chunk):
                watched += not event.connection.clear_directions
                assert stage.feed(event) == [event]
    assert watched == MAX_WATCHED


def test_tls_behind_a_proxy_header_is_decrypted(talk: Talk) -> None:
    header = b"PROXY TCP4 192.0.2.7 10.0.0.9 51234 9093\r\n"
    for first in ((True, header), (True, header + talk.flights[0][1])):
        flights = [first, *talk.flights[len(first[1]) > len(header) :]]
        plain = feed(Tls(key_log(talk.keylog)), say(conversation(), flights))
        assert plain.streams == (header + talk.sent[0], talk.sent[1])
        assert plain.problems == []
    tables = run_tables(say(conversation(), flights).close().pcap())
    (row,) = tables["connections"]
    assert (row["protocol"], row["proxied_client_ip"]) == ("tls", "192.0.2.7")


def test_records_that_wait_for_a_hello_have_a_limit(talk: Talk) -> None:
    """The client keeps sending while the broker's hello does not arrive."""
    said = conversation().client(talk.flights[0][1])
    record = b"\x17\x03\x03\x40\x00" + bytes(1 << 14)
    for _ in range(Limits().tls_bytes // len(record) + 2):
        said = said.client(record)
    stage = Tls(key_log(talk.keylog))
    plain = feed(stage, said)
    assert [problem.kind for problem in plain.problems] == ["tls-held-limit", "tls-undecryptable"]
    assert stage.held == 0
    few = Tls(key_log(talk.keylog), max_held_in_all=20_000)
    plain = feed(few, say(conversation(), [talk.flights[0], (True, record * 2)]))
    assert [problem.kind for problem in plain.problems] == ["tls-held-limit", "tls-undecryptable"]
