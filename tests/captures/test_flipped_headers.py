"""With one wrong byte in a header, no output shows a credential, however the message is decoded.

The position of the byte is drawn: the seed is the name of the test's case. API keys get all values:
each selects another message type.
"""

import random
from pathlib import Path

import pytest

from kdissect.cli.program import run
from tests.captures import secrets
from tests.captures.flipped import (
    Search,
    Talk,
    captured_talks,
    changed,
    changes,
    leaks,
    made_talks,
    raw_logins,
    sampled,
)
from tests.exchange_builders import make_body, request
from tests.secret_conversations import SALT, SALTED, SECRETS
from tests.seeds import SEED

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = (
    "sasl-2.8.2", "sasl-4.3.1", "tokens-2.8.2", "tokens-4.3.1", "admin-4.3.1",
    "admin-3.9.1-zookeeper",
)  # fmt: skip
DRAWN = 60  # changes of each capture
API_KEY = 1  # the low byte of it


def talks_of(name: str) -> list[Talk]:
    made = {"made": made_talks, "raw": raw_logins}
    found = made[name]() if name in made else captured_talks(CAPTURES / f"{name}.pcapng")
    return [talk for talk in found if talk.secrets]


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["made", "raw", *NAMES])
def test_no_output_of_a_drawn_change_shows_a_secret(name: str) -> None:
    searches: dict[frozenset[bytes], Search] = {}
    talks = talks_of(name)
    assert len(talks) > 5
    for talk, at, value in sampled(talks, DRAWN, random.Random(f"{SEED} {name}")):
        search = searches.setdefault(talk.secrets, Search(talk.secrets))
        assert leaks(talk, at, value, search) == {}, (name, at, value, talk.frames)


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("number", range(20))
def test_no_message_shows_its_secret_under_any_api_key(number: int) -> None:
    alone = [talk for talk in talks_of("made") if len(talk.frames) == 2 and not talk.changed]
    assert len(alone) == 20, len(alone)
    talk = alone[number]
    search = Search(talk.secrets)
    own = talk.frames[0][1][API_KEY]
    for key in range(95):
        if key != own:
            assert leaks(talk, API_KEY, own ^ key, search) == {}, (own, key)


def test_the_search_finds_a_part_of_a_secret_in_each_form() -> None:
    """Control: where a change would show it, it is found."""
    search = Search(frozenset(SECRETS))
    part = SALTED[4:20]
    for shown in (
        part, repr(part).encode(), part.hex().encode(), part.hex(" ").encode(),
        b"    00000000  00 33 " + part[:8].hex(" ").encode() + b"  41 42  .3....\n",
        b"\n".join((b"", b"    00000000  " + part.hex(" ").encode() + b"  ................", b"")),
    ):  # fmt: skip
        assert search.found(shown)
    assert not search.found(b"00000000  00 01 02 03 and more text of no interest")


def test_searched_captures_contain_the_secrets() -> None:
    """Control: each talk has its secrets on the wire, changed or not."""
    for talk in talks_of("made"):
        at, value = changes(talk)[0]
        for capture in (changed(talk, at, value), changed(talk, -1, 0)):
            assert secrets.found_in(set(talk.secrets), capture)


@pytest.mark.parametrize("key", [0, 3, 10, 50, 60, 61, 65, 90, 127, 255])
@pytest.mark.parametrize(
    "output", [["show", "--payload"], ["show", "--format", "jsonl"], ["summary"]]
)
def test_keys_of_scram_are_not_shown_in_hex(
    key: int, output: list[str], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    user = {"name": "bob", "salt": SALT, "salted_password": SALTED}
    frame = request("AlterUserScramCredentials", 0, 7, upsertions=[user])[4:]
    talk = Talk(((True, frame),), 0, frozenset({SALT, SALTED}))
    path = tmp_path / "a.pcap"
    path.write_bytes(changed(talk, API_KEY, frame[API_KEY] ^ key))
    run([*output, str(path)])
    shown = capsysbinary.readouterr()
    assert Search(talk.secrets).found(shown.out + shown.err) == set()


def test_bytes_are_shown_when_they_are_asked_for(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    body = make_body("Heartbeat", 4, "request", {"group_id": "workers", "member_id": "somebody"})
    frame = request("Heartbeat", 4, 7, body=body[:-4])[4:]
    path = tmp_path / "a.pcap"
    path.write_bytes(changed(Talk(((True, frame),), 0, frozenset()), 0, 0))
    run(["show", str(path)])
    out = capsysbinary.readouterr().out.decode()
    assert "cannot be decoded" in out
    assert "its bytes are not shown" in out
    run(["show", "--undecoded", str(path)])
    out = capsysbinary.readouterr().out.decode()
    assert "its bytes are not shown" not in out
    assert "77 6f 72 6b" in out  # work
