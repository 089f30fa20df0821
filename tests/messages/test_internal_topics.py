import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.cli.tree import tree_lines
from kdissect.errors import DecodeError
from kdissect.messages.internal_topics import (
    decode_control,
    decode_key,
    decode_metadata,
    decode_value,
    opened_record,
)


def record(key: bytes | None, value: bytes | None, **more: Any) -> dict[str, Any]:
    return {"offset": 0, "time_ms": 0, "key": key, "value": value, "headers": [], **more}


OFFSET_KEY = bytes.fromhex("0001 0001 67 0001 74 00000003")


def test_a_committed_offset_is_opened() -> None:
    # facts 12: int16 type and fields; int16 version and fields.
    value = bytes.fromhex("0003 0000000000000009 ffffffff 0000 0000000000000001")
    shown = opened_record(record(OFFSET_KEY, value), "__consumer_offsets")
    assert shown["key"] == {
        "size": 12,
        "type": "OffsetCommit",
        "group": "g",
        "topic": "t",
        "partition": 3,
    }
    assert shown["value"] == {
        "size": 24,
        "version": 3,
        "offset": 9,
        "leader_epoch": -1,
        "metadata": "",
        "commit_timestamp": 1,
    }


def test_a_tombstone_stays_null() -> None:
    assert opened_record(record(OFFSET_KEY, None), "__consumer_offsets")["value"] is None


def test_records_of_other_topics_stay_as_they_are() -> None:
    assert opened_record(record(b"k", b"v"), "orders") == record(b"k", b"v")
    assert opened_record(record(b"k", b"v"), None) == record(b"k", b"v")


def test_the_members_in_a_group_record_are_opened() -> None:
    assignment = bytes.fromhex("0000 00000000 ffffffff")
    text = bytes.fromhex
    value = (
        text("0000 0008") + b"consumer" + text("00000001 0005") + b"range" + text("ffff 00000001")
    )
    value += text("0001 6d 0001 63 0001 68 00000009 00000000 0000000a") + assignment
    body = decode_value(value, "group-coordinator", text("0002 0001 67"))
    assert body["members"] == [
        {
            "member_id": "m",
            "client_id": "c",
            "client_host": "h",
            "session_timeout": 9,
            "subscription": b"",
            "assignment": {
                "size": 10,
                "version": 0,
                "assigned_partitions": [],
                "user_data": None,
            },
        }
    ]


def test_metadata_records_are_frames_of_three_varints() -> None:
    # NoOpRecord, then a TopicRecord of 2.8: frame version 0, not flexible.
    assert decode_metadata(b"\x01\x14\x00\x00", "kraft-metadata") == {
        "size": 4,
        "type": "NoOpRecord",
        "version": 0,
    }
    preview = b"\x00\x02\x00" + b"\x00\x01t" + bytes(15) + b"\x05"
    assert decode_metadata(preview, "kraft-metadata") == {
        "size": 22,
        "type": "TopicRecord",
        "version": 0,
        "layout_of": "2.8",
        "name": "t",
        "topic_id": "AAAAAAAAAAAAAAAAAAAABQ",
    }


def test_scram_credentials_in_the_metadata_log_are_redacted() -> None:
    value = b"\x01\x0b\x00" + b"\x03bo\x01\x05SALT\x05STOR\x05SERV\x00\x00\x10\x00\x00"
    shown = opened_record(record(None, value), "__cluster_metadata")["value"]
    assert (shown["name"], shown["iterations"]) == ("bo", 4096)
    lines = "\n".join(tree_lines(shown, ""))
    assert not any(secret in lines for secret in ("SALT", "STOR", "SERV"))


def test_a_metadata_record_that_cannot_be_read_is_never_shown_as_bytes() -> None:
    shown = opened_record(record(None, b"\x01\x0b\x00\x03boSALT"), "__cluster_metadata")["value"]
    assert set(shown) == {"undecoded", "error"}
    assert shown["undecoded"] == 10
    assert "SALT" not in shown["error"]


@pytest.mark.parametrize(
    ("kind", "data", "values"),
    [
        ("COMMIT", "0000 00000007", {"size": 6, "version": 0, "coordinator_epoch": 7}),
        ("SNAPSHOT_FOOTER", "0000 00", {"size": 3, "version": 0}),
        ("KRAFT_VERSION", "0000 0001 00", {"size": 5, "version": 0, "kraft_version": 1}),
        (
            "LEADER_CHANGE",  # as 2.8 wrote it, without a version
            "00000001 02 00000001 00 01 00",
            {
                "size": 12,
                "layout_of": "2.8",
                "leader_id": 1,
                "voters": [{"voter_id": 1}],
                "granting_voters": [],
            },
        ),
    ],
)
def test_control_records_have_values(kind: str, data: str, values: dict[str, Any]) -> None:
    assert decode_control(bytes.fromhex(data), kind) == values


@given(st.binary(max_size=100), st.integers(0, 30))
def test_any_bytes_are_records_or_decode_errors(data: bytes, kind: int) -> None:
    key = bytes([0, kind])
    for file in ("group-coordinator", "transaction-coordinator", "share-coordinator"):
        with contextlib.suppress(DecodeError):
            decode_key(key + data, file)
        with contextlib.suppress(DecodeError):
            decode_value(b"\x00\x00" + data, file, key)
    for file in ("kraft-metadata", "storage"):
        with contextlib.suppress(DecodeError):
            decode_metadata(bytes([kind % 2, kind, 0]) + data, file)
    for control in ("COMMIT", "LEADER_CHANGE", "KRAFT_VOTERS", 9):
        with contextlib.suppress(DecodeError):
            decode_control(data, control)
