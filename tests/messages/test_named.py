"""The decoders of the library that take bytes: messages by name, whole frames, records."""

import contextlib
import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.errors import DecodeError, UnknownApi
from kdissect.messages import bodies, named_messages
from kdissect.messages.named_messages import decode_message, message_names
from kdissect.protocol.notation import read_index
from tests.messages.record_builders import make_batch, make_record
from tests.protocol.test_vectors import ALL_VECTORS, comparable

NAMES = frozenset(message_names())
HEADER = b"\0\1\0\x0c\0\0\0\7\0\2me\0"


def test_doctests_hold() -> None:
    assert doctest.testmod(bodies).failed == 0
    assert doctest.testmod(named_messages).failed == 0


def test_the_decoders_are_public_names() -> None:
    assert kdissect.decode_message is decode_message
    assert kdissect.decode_request is bodies.decode_request
    assert kdissect.decode_response is bodies.decode_response


def test_every_message_is_decoded_by_its_name() -> None:
    """Headers, embedded messages and records of Kafka's own topics: facts, sections 2, 11, 12."""
    decoded = set()
    for _, name, version, releases, raw, values in ALL_VECTORS:
        if name in NAMES and not releases:
            found = comparable(decode_message(name, version, raw))
            if "<redacted" not in repr(found):
                assert (name, found) == (name, comparable(values))
            decoded.add(name)
    assert decoded == NAMES


def test_a_message_is_found_by_its_former_name() -> None:
    former = [(row[0], row[6]) for row in read_index("messages") if row[6]]
    assert former == [("ClientQuotaRecord", "QuotaRecord"), ("SubscriptionInfoData",
                      "SubscriptionInfo")]  # fmt: skip
    raw = next(each.raw for each in ALL_VECTORS if each.name == "ClientQuotaRecord")
    assert decode_message("QuotaRecord", 0, raw) == decode_message("ClientQuotaRecord", 0, raw)


def test_an_unknown_message_or_version_is_an_unknown_api() -> None:
    with pytest.raises(UnknownApi, match="unknown message 'FetchRequest'"):
        decode_message("FetchRequest", 0, b"")
    with pytest.raises(UnknownApi, match="no layout for TopicRecord v9"):
        decode_message("TopicRecord", 9, b"")


def test_the_error_of_an_invalid_message_has_its_offset() -> None:
    with pytest.raises(DecodeError) as left:
        decode_message("ControlRecordKey", 0, b"\0\0\0\1!")
    assert str(left.value) == "1 bytes left over, byte 4 of 5"
    with pytest.raises(DecodeError) as missing:
        decode_message("VotersRecord", 0, b"\0\0\3\0\0\0\1" + bytes(14))
    assert (missing.value.path, missing.value.offset) == ("voters", 2)


def test_credentials_in_records_are_redacted() -> None:
    raw = next(each.raw for each in ALL_VECTORS
               if each.name == "UserScramCredentialRecord" and len(each.raw) > 40)  # fmt: skip
    values = decode_message("UserScramCredentialRecord", 0, raw)
    assert {values[name].split(",")[0] for name in ("salt", "stored_key", "server_key")} == {
        "<redacted"
    }


def test_a_response_gives_header_and_body() -> None:
    assert kdissect.decode_response("Heartbeat", 4, b"\0\0\0\7\0" + bytes(4) + b"\0\x1b\0") == (
        {"correlation_id": 7},
        {"throttle_time_ms": 0, "error_code": 27},
    )


def test_records_field_yields_batches_and_the_truncated_rest() -> None:
    whole = make_batch([make_record(None, b"abc")])
    decoded = kdissect.decode_records(whole + whole[:30])
    assert [entry.get("magic") for entry in decoded] == [2, None]
    assert decoded[0]["record_count"] == 1
    assert decoded[1] == {"partial_size": 30}


@given(st.sampled_from(sorted(NAMES)), st.integers(-1, 12), st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_decode_error(name: str, version: int, data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert isinstance(decode_message(name, version, data), dict)
