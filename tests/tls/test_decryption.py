"""Real OpenSSL sessions are decrypted, for every cipher suite and version."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kdissect.dissection.dissector import Dissector
from tests.exchange_builders import request, response
from tests.tls.reading import Plain, read_plain, run_tables
from tests.tls.talks import Peers, Setup, Talk, make_talk, make_talk_13

LARGE = bytes(range(256)) * 200  # more than three records
TURNS = (
    (True, request("ApiVersions", 3, 1, client_software_name="kio")),
    (False, response("ApiVersions", 3, 1)),
    (True, request("Heartbeat", 4, 2, group_id="g")),
    (False, response("Heartbeat", 4, 2, error_code=25)),
    (True, request("Produce", 3, 3, acks=1, timeout_ms=7)),
    (False, response("Produce", 3, 3, throttle_time_ms=5)),
    (True, request("SyncGroup", 0, 4, group_id="g", assignments=[
        {"member_id": "m", "assignment": LARGE}])),
    (False, response("SyncGroup", 0, 4, assignment=LARGE)),
)  # fmt: skip
SUITES_12 = {
    "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "DHE-RSA-AES128-GCM-SHA256": "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
    "AES256-GCM-SHA384": "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "DHE-RSA-CHACHA20-POLY1305": "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-CCM": "TLS_ECDHE_ECDSA_WITH_AES_128_CCM",
    "ECDHE-ECDSA-AES256-CCM8": "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8",
    "AES128-CCM": "TLS_RSA_WITH_AES_128_CCM",
}
CBC_SUITES = {
    "ECDHE-ECDSA-AES128-SHA": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "AES128-SHA": "TLS_RSA_WITH_AES_128_CBC_SHA",
    "DHE-RSA-AES256-SHA": "TLS_DHE_RSA_WITH_AES_256_CBC_SHA",
}
CBC_SUITES_12 = CBC_SUITES | {
    "ECDHE-ECDSA-AES128-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "ECDHE-RSA-AES256-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    "AES256-SHA256": "TLS_RSA_WITH_AES_256_CBC_SHA256",
    "DHE-RSA-AES128-SHA256": "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
}
SUITES_13 = (
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256",
)  # fmt: skip


def assert_decrypted(talk: Talk, version: str, cipher: str) -> Plain:
    """Check that exactly the written data comes out, and every byte is accounted for."""
    plain = read_plain(talk)
    assert plain.problems == []
    assert plain.streams == talk.sent
    facts = plain.facts
    assert facts is not None
    assert (facts.version, facts.cipher) == (version, cipher)
    assert (facts.client_direction, facts.encrypted_bytes) == (0, (0, 0))
    assert facts.is_resumed is talk.is_resumed
    written = [sum(len(data) for side, data in talk.flights if side is c) for c in (True, False)]
    own = tuple(all_ - len(sent) for all_, sent in zip(written, talk.sent, strict=True))
    assert facts.tls_bytes == own
    return plain


@pytest.mark.parametrize("suite", SUITES_12)
def test_aead_suites_of_tls_1_2_are_decrypted(suite: str) -> None:
    talk = make_talk(Setup("TLS 1.2", suite), TURNS)
    assert talk.cipher == suite
    assert_decrypted(talk, "TLS 1.2", SUITES_12[suite])


@pytest.mark.parametrize("is_mac_outside", [True, False])
@pytest.mark.parametrize("suite", CBC_SUITES_12)
def test_cbc_suites_of_tls_1_2_are_decrypted(suite: str, is_mac_outside: bool) -> None:
    talk = make_talk(Setup("TLS 1.2", suite, is_mac_outside), TURNS)
    assert talk.cipher == suite
    assert_decrypted(talk, "TLS 1.2", CBC_SUITES_12[suite])


@pytest.mark.parametrize("is_mac_outside", [True, False])
@pytest.mark.parametrize("version", ["TLS 1.0", "TLS 1.1"])
@pytest.mark.parametrize("suite", CBC_SUITES)
def test_old_versions_are_decrypted(suite: str, version: str, is_mac_outside: bool) -> None:
    talk = make_talk(Setup(version, suite, is_mac_outside), TURNS)
    assert_decrypted(talk, version, CBC_SUITES[suite])


@pytest.mark.parametrize("suite", SUITES_13)
def test_suites_of_tls_1_3_are_decrypted(suite: str) -> None:
    talk = make_talk_13(suite, TURNS)
    assert_decrypted(talk, "TLS 1.3", suite)


def test_the_server_name_and_the_chosen_protocol_are_reported() -> None:
    for version in ("TLS 1.2", "TLS 1.3"):
        talk = make_talk(Setup(version, alpn=("kafka", "h2")), TURNS)
        facts = read_plain(talk).facts
        assert facts is not None
        assert (facts.server_name, facts.alpn) == ("broker-1.example", "kafka")
        talk = make_talk(Setup(version, server_name=None), TURNS)
        facts = read_plain(talk).facts
        assert facts is not None
        assert (facts.server_name, facts.alpn) == ("", "")


@pytest.mark.parametrize("has_tickets", [True, False])
@pytest.mark.parametrize("version", ["TLS 1.0", "TLS 1.2", "TLS 1.3"])
def test_resumed_sessions_are_decrypted(version: str, has_tickets: bool) -> None:
    peers = Peers(Setup(version, "AES128-SHA" if version == "TLS 1.0" else "", True, has_tickets))
    first, session = peers.meet(TURNS)
    assert not first.is_resumed
    again, _ = peers.meet(TURNS, session)
    assert again.is_resumed
    plain = read_plain(again)
    assert (plain.streams, plain.problems) == (again.sent, [])
    assert plain.facts is not None
    assert plain.facts.is_resumed is True


@pytest.mark.parametrize("has_tickets", [True, False])
def test_a_resumed_session_of_tls_1_2_needs_only_the_first_secret(has_tickets: bool) -> None:
    """Key log without the second handshake, as some Java agents write it."""
    peers = Peers(Setup("TLS 1.2", has_tickets=has_tickets))
    first, session = peers.meet(TURNS)
    again, _ = peers.meet(TURNS, session)
    plain = read_plain(first, then=again)
    assert plain.streams == again.sent
    assert plain.problems == []


def session_lines(talk: Talk) -> bytes:
    """The log of OpenSSL's form: by the id that the server gave the session, in its hello."""
    (line,) = [line for line in talk.keylog.splitlines() if line.startswith(b"CLIENT_RANDOM")]
    (hello,) = [data for is_client, data in talk.flights[:2] if not is_client]
    name = hello[9 + 34 + 1 :][: hello[9 + 34]]
    return b"RSA Session-ID:" + name.hex().encode() + b" Master-Key:" + line.split()[2] + b"\n"


@pytest.mark.parametrize("version", ["TLS 1.0", "TLS 1.2"])
def test_master_secrets_by_session_id_decrypt(version: str) -> None:
    """The resumed session too, which has the same id."""
    setup = Setup(version, "AES128-SHA" if version == "TLS 1.0" else "", has_tickets=False)
    peers = Peers(setup)
    first, session = peers.meet(TURNS)
    again, _ = peers.meet(TURNS, session)
    lines = session_lines(first)
    assert session_lines(again) == lines
    for talk in (first, again):
        plain = read_plain(replace(talk, keylog=lines))
        assert (plain.streams, plain.problems) == (talk.sent, [])
        assert plain.facts is not None
        assert plain.facts.undecrypted == ""


def test_records_that_others_are_missing_before_are_not_given_with_a_wrong_block() -> None:
    """TLS 1.0, the MAC behind the ciphertext: the last block of the record before is not in it."""
    talk = make_talk(Setup("TLS 1.0", "ECDHE-ECDSA-AES128-SHA"), TURNS)
    records = []
    for is_client, data in talk.flights:
        at = 0
        while at < len(data):
            end = at + 5 + int.from_bytes(data[at + 3 : at + 5], "big")
            records.append((is_client, data[at:end]))
            at = end
    brokers = [at for at, (is_client, _) in enumerate(records) if not is_client]
    for here, there in pairwise(brokers[4:]):
        swapped = list(records)
        swapped[here], swapped[there] = records[there], records[here]
        plain = read_plain(replace(talk, flights=tuple(swapped)))
        for chunk in plain.chunks:
            assert chunk.data in talk.sent[chunk.direction]


def test_the_exchanges_inside_tls_are_those_without_it(tmp_path: Path) -> None:
    talk = make_talk(Setup("TLS 1.3"), TURNS)
    tables = run_tables(talk.conversation().close().pcap(), keylog=talk.keylog_file(tmp_path))
    assert [(row["api"], row["correlation_id"], row["outcome"]) for row in tables["exchanges"]] == [
        ("ApiVersions", 1, "answered"), ("Heartbeat", 2, "answered"), ("Produce", 3, "answered"),
        ("SyncGroup", 4, "answered"),
    ]  # fmt: skip
    (row,) = tables["connections"]
    assert (row["protocol"], row["tls_version"], row["tls_sni"]) == (
        "kafka", "TLS 1.3", "broker-1.example",
    )  # fmt: skip
    assert (row["tls_cipher"], row["tls_resumed"]) == ("TLS_AES_256_GCM_SHA384", False)
    assert row["client_software_name"] == "kio"
    for way in ("to_broker", "to_client"):
        assert row[f"payload_bytes_{way}"] == row[f"framed_bytes_{way}"] + row[f"tls_bytes_{way}"]
        assert row[f"encrypted_bytes_{way}"] == row[f"skipped_bytes_{way}"] == 0
    assert tables["problems"] == []


def test_a_frame_is_of_the_packets_that_brought_its_records() -> None:
    talk = make_talk(Setup("TLS 1.2"), TURNS)
    packets = talk.conversation().packets()
    plain = read_plain(talk)
    sizes = {packet.number: packet.end - packet.start for packet in packets}
    told = [chunk for chunk in plain.chunks if chunk.direction == 0]
    # The last request is of several records: each packet with its own part of the plaintext.
    last = [chunk for chunk in told if chunk.packet >= told[-1].packet - 45]
    assert len({chunk.packet for chunk in last}) > 30
    assert all(chunk.end - chunk.start <= sizes[chunk.packet] for chunk in last)
    assert [chunk.position for chunk in told] == [
        sum(one.end - one.start for one in told[:index]) for index in range(len(told))
    ]
    assert Dissector.__name__ == "Dissector"
