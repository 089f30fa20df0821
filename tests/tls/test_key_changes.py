"""Key updates and renegotiation as openssl's programs did them (tools/record_tls.py)."""

import json
from pathlib import Path

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
    """Each flight of the talk lost alone: what comes out is never anything else."""
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
                # What was in the lost flight is missing, and nothing else is.
                missing = len(full) - len(found)
                assert 0 <= missing <= len(data)
                assert any(
                    found == full[:at] + full[at + missing :] for at in range(len(found) + 1)
                )
