"""A SyncGroup is read by the group's last JoinGroup, at any split boundary."""

import random
from pathlib import Path
from unittest import mock

import pytest

from kdissect.checkpoint import group_history
from tests.capture.writers import make_pcap
from tests.checkpoint.law import interleaved, together, whole
from tests.conversation import Conversation, conversation
from tests.exchange_builders import request, response
from tests.seeds import SEED
from tests.test_group_protocols import synced

NANOSECONDS = 0xA1B23C4D


def joins(talk: Conversation, rounds: int) -> Conversation:
    """Groups that agree on another protocol in each round."""
    for number in range(1, rounds + 1):
        kind = ("connect", "consumer", "sr")[number % 3]
        ask = {"group_id": "workers", "protocol_type": kind}
        talk = talk.client(request("JoinGroup", 5, number, **ask))
        talk = talk.broker(response("JoinGroup", 5, number, protocol_name=f"of round {number}"))
    return talk


def syncs(talk: Conversation, rounds: int) -> Conversation:
    """A group whose join was not seen, so that the past is needed, and the one above."""
    for number in range(1, 2 * rounds, 2):
        talk = synced(synced(talk, number, group="others"), number + 1)
    return talk


@pytest.mark.parametrize("number", range(12))
def test_connection_read_again_finds_group_protocols_of_others(number: int, tmp_path: Path) -> None:
    source = random.Random(f"{SEED} {number}")
    newer = Conversation((), conversation().sent, is_v6=True)
    talks = (joins(newer.open(), 4), syncs(conversation(), 4))
    packets = interleaved(source, [talk.captured() for talk in talks])
    path = tmp_path / "groups.pcap"
    path.write_bytes(make_pcap(packets, magic=NANOSECONDS))
    expected = whole([str(path)])
    for size in [source.randrange(1_000, path.stat().st_size) for _ in range(3)]:
        assert together([str(path)], size)[0].tables == expected.tables, size


def test_splits_that_learn_too_much_are_dissected_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "groups.pcap"
    path.write_bytes(joins(conversation(), 8).pcap())
    expected = whole([str(path)])
    with mock.patch.object(group_history, "MAX_LEARNED", 2):
        found, merger = together([str(path)], path.stat().st_size // 2)
    assert found.tables == expected.tables
    assert merger.read_again
