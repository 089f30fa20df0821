"""Key updates, renegotiation, early data as openssl's programs did them (tools/record_tls.py)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.tls.stage import Tls
from tests.conversation import conversation
from tests.tls.reading import feed, key_log, read_plain
from tests.tls.talks import Talk, read_talk, say

RECORDED = json.loads(Path(__file__).with_name("openssl_talks.json").read_text())


def recorded(name: str) -> Talk:
    return read_talk(RECORDED[name])


def test_keys_that_change_in_tls_1_3_are_followed() -> None:
    talk = recorded("key-update")
    assert talk.sent == (b"one\nthree\nsix\nseven\n", b"two\nfour\nfive\neight\n")
    plain = read_plain(talk)
    assert plain.streams == talk.sent
    assert plain.problems == []


def test_a_second_handshake_of_tls_1_2_gives_new_keys() -> None:
    talk = recorded("renegotiation")
    assert talk.sent == (b"one\nthree\n", b"two\nfour\n")
    plain = read_plain(talk)
    assert plain.streams == talk.sent
    assert plain.problems == []


def test_keys_that_changed_within_a_hole_are_found() -> None:
    """Each flight of the talk lost alone: the output is never anything else."""
    talk = recorded("key-update")
    full_client, full_broker = talk.sent
    for lost in range(4, len(talk.flights)):
        whole = say(conversation(has_acks=False), talk.flights)
        plain = feed(Tls(key_log(talk.keylog)), whole.lose(3 + lost + 1))
        assert plain.problems == []
        client, broker = plain.streams
        is_client, data = talk.flights[lost]
        for found, full, is_hit in (
            (client, full_client, is_client),
            (broker, full_broker, not is_client),
        ):
            if not is_hit:
                assert found == full
            else:
                # The data of the lost flight is missing, and nothing else.
                missing = len(full) - len(found)
                assert 0 <= missing <= len(data)
                assert any(
                    found == full[:at] + full[at + missing :] for at in range(len(found) + 1)
                )


def without(talk: Talk, label: bytes) -> Talk:
    """The talk with a log that lacks some lines."""
    lines = talk.keylog.splitlines(keepends=True)
    return replace(talk, keylog=b"".join(line for line in lines if not line.startswith(label)))


def test_early_data_is_decrypted() -> None:
    talk = recorded("early-data")
    assert talk.sent == (b"early\none\nthree\n", b"two\n")
    plain = read_plain(talk)
    assert (plain.streams, plain.gaps, plain.problems) == (talk.sent, [], [])
    assert plain.facts is not None
    assert plain.facts.encrypted_bytes == (0, 0)


def test_early_data_that_was_rejected_was_not_said() -> None:
    """The client repeats it when it matters, so it leaves no gap."""
    talk = recorded("early-data-rejected")
    assert talk.sent == (b"one\nthree\n", b"two\n")
    for one in (talk, without(talk, b"CLIENT_EARLY_TRAFFIC_SECRET")):
        plain = read_plain(one)
        assert (plain.streams, plain.gaps, plain.problems) == (talk.sent, [], [])
        assert plain.facts is not None
        assert plain.facts.encrypted_bytes == (28, 0)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        (b"CLIENT_EARLY_TRAFFIC_SECRET", "CLIENT_EARLY_TRAFFIC_SECRET is not in the key log"),
        (b"SERVER_HANDSHAKE", "the capture does not tell whether it was accepted"),
        (b"SERVER_", "the capture does not tell whether it was accepted"),
    ],
)
def test_early_data_that_is_not_decrypted_is_a_gap_and_a_problem(label: bytes, reason: str) -> None:
    plain = read_plain(without(recorded("early-data"), label))
    assert plain.streams[0] == b"one\nthree\n"
    assert [(gap.direction, gap.is_exact) for gap in plain.gaps] == [(0, False)]
    assert [(problem.kind, problem.message) for problem in plain.problems] == [
        ("tls-early-data", f"early data (0-RTT) is not decrypted: {reason}")
    ]


@pytest.mark.parametrize("name", ["early-data", "early-data-rejected"])
def test_losses_around_early_data_never_yield_wrong_bytes(name: str) -> None:
    talk = recorded(name)
    whole = say(conversation(has_acks=False), talk.flights).split(40)
    for lost in range(4, len(whole.packets_sent) + 1):
        plain = feed(Tls(key_log(talk.keylog)), whole.lose(lost))
        for found, full in zip(plain.streams, talk.sent, strict=True):
            missing = len(full) - len(found)
            assert missing >= 0
            assert any(found == full[:at] + full[at + missing :] for at in range(len(found) + 1))
        for direction, full in enumerate(talk.sent):
            is_whole = len(plain.streams[direction]) == len(full)
            told = any(event.direction == direction for event in plain.gaps)
            is_behind = plain.streams[direction] == full[: len(plain.streams[direction])]
            assert is_whole or told or is_behind
