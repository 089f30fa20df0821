"""Texts of exchanges that do not hold together: which are kept, and which may be credentials."""

import struct

import pytest

from kdissect.exchanges.api_mismatches import guarded
from tests.conversation import Conversation, conversation
from tests.exchange_builders import (
    found_in,
    make_body,
    raw_response,
    request,
    response,
    sized,
    string16,
)

SCRAM_FIRST = "n,,n=alice,r=fyko"


def joined(group: str, cut: int = 0, more: bytes = b"") -> bytes:
    body = make_body("Heartbeat", 4, "request", {"group_id": group})
    return request("Heartbeat", 4, 1, body=body[: len(body) - cut] + more)


def answered(error: int = 27, more: bytes = b"") -> bytes:
    return sized(response("Heartbeat", 4, 1, error_code=error)[4:] + more)


def group_of(talk: Conversation) -> list[tuple[object, ...]]:
    return found_in(talk).columns("group_id", "client_id", "error_code", "decode_status")


def test_a_request_that_does_not_decode_is_believed_when_its_answer_does() -> None:
    talk = conversation().client(joined("workers", cut=4)).broker(answered())
    assert group_of(talk) == [("workers", "shop", 27, "request")]


def test_without_an_answer_nothing_of_it_is_believed_but_the_row() -> None:
    talk = conversation().client(joined("workers", cut=4)).close()
    assert group_of(talk) == [(None, "shop", None, "request")]


def test_nor_where_the_answer_does_not_decode() -> None:
    talk = conversation().client(joined("workers", cut=4)).broker(raw_response(1, b"\0\0"))
    assert group_of(talk) == [(None, "shop", None, "request+response")]


@pytest.mark.parametrize(
    ("group", "kept"), [("workers", "workers"), (SCRAM_FIRST, None), ("a\0b", None)]
)
def test_names_are_kept_and_possible_tokens_withheld_if_one_side_fits(
    group: str, kept: str | None
) -> None:
    talk = conversation().client(joined(group)).broker(answered(more=b"!"))
    assert group_of(talk) == [(kept, "shop", 27, "leftover")]
    whole = conversation().client(joined(group)).broker(answered())
    assert group_of(whole) == [(group, "shop", 27, "ok")]


def test_topics_and_messages_of_errors_are_withheld_the_same_way() -> None:
    topics = [
        {"name": name, "partitions": [{"partition_index": 1}]} for name in ("a.b", SCRAM_FIRST)
    ]
    asked = request("OffsetCommit", 8, 1, group_id="g", topics=topics)
    answers = [{"name": name, "partitions": [{"partition_index": 1, "error_code": 25}]}
               for name in ("a.b", SCRAM_FIRST)]  # fmt: skip
    body = make_body("OffsetCommit", 8, "response", {"topics": answers})
    found = found_in(
        conversation().client(asked).broker(response("OffsetCommit", 8, 1, body=body + b"!"))
    )
    assert found.columns("topic", "partition", "error_code", table="partitions") == [
        ("a.b", 1, 25), (None, 1, 25),
    ]  # fmt: skip
    assert found.columns("topic", "code", table="errors") == [("a.b", 25), (None, 25)]


def test_a_client_id_that_reaches_into_the_body_is_none() -> None:
    body = make_body("SaslAuthenticate", 1, "request", {"auth_bytes": b"\0alice\0hunter2"})
    header = struct.pack(">hhi", 36, 1, 3)
    for size, kept in ((4, "shop"), (4 + 8, None), (4 + 16, None), (2, "sh")):
        frame = header + struct.pack(">h", size) + b"shop" + body
        talk = conversation().client(request("ApiVersions", 3, 1, "shop"))
        talk = talk.broker(response("ApiVersions", 3, 1)).client(sized(frame))
        talk = talk.broker(response("SaslAuthenticate", 1, 3))
        assert found_in(talk).columns("client_id")[1] == (kept,)


def test_a_client_id_that_reaches_into_credentials_is_withheld_though_the_rest_decodes() -> None:
    """The length of a request's client id is wrong; after it an Envelope ends where it should."""
    token, more = b"\x82\x83\0token", b"\0\0\0\x02\0\x04bob\0\0\0\0\0\0"
    rest = make_body("Envelope", 0, "request", {
        "request_data": b"", "request_principal": None, "client_host_address": b"0.0.0.0",
    })  # fmt: skip
    frame = struct.pack(">hhih", 58, 0, 3, 4 + len(token + more)) + b"shop" + token + more
    talk = conversation().client(request("ApiVersions", 3, 1, "shop"))
    talk = talk.broker(response("ApiVersions", 3, 1)).client(sized(frame + b"\0" + rest))
    found = found_in(talk.broker(response("Envelope", 0, 3)))
    assert found.columns("client_id", "api", "decode_status")[1] == ("\ufffd", "Envelope", "ok")


def test_a_client_id_of_a_version_that_is_not_known_stays() -> None:
    talk = conversation().client(request("Heartbeat", 4, 1)).broker(response("Heartbeat", 4, 1))
    talk = talk.client(sized(struct.pack(">hhi", 12, 99, 2) + string16("shop") + b"\0\0\1"))
    assert found_in(talk.close()).columns("client_id", "decode_status")[1] == (
        "shop", "unknown-version",
    )  # fmt: skip


def test_withheld_values_of_bodies_are_replaced_by_sizes() -> None:
    record = {"offset": 1, "time_ms": 2, "key": b"k", "value": b"\0", "headers": []}
    body = {"name": "a b", "token": SCRAM_FIRST, "data": b"\xff\0", "rows": [{"x": "=", "n": 5}]}
    assert guarded({**body, "records": [record]}, 1) == {
        "name": "a b", "token": "<withheld, 17 bytes>", "data": "<withheld, 2 bytes>",
        "rows": [{"x": "<withheld, 1 bytes>", "n": 5}], "records": [record],
    }  # fmt: skip
    assert guarded(body, 2)["name"] == "<withheld, 3 bytes>"
    assert guarded(body, 0) is body


def test_software_is_not_a_part_of_another_message() -> None:
    body = make_body("ApiVersions", 3, "request", {"client_software_name": SCRAM_FIRST})
    talk = conversation().client(request("ApiVersions", 3, 1, body=body + b"!"))
    talk = talk.broker(response("ApiVersions", 3, 1)).close()
    assert found_in(talk).columns("client_software_name", table="connections") == [(None,)]


@pytest.mark.parametrize(
    ("name", "kept"), [("SCRAM-SHA-512", "SCRAM-SHA-512"), (SCRAM_FIRST, None)]
)
def test_mechanisms_have_the_names_of_mechanisms(name: str, kept: str | None) -> None:
    talk = conversation().client(request("SaslHandshake", 1, 1, mechanism=name))
    talk = talk.broker(response("SaslHandshake", 1, 1)).close()
    assert found_in(talk).columns("sasl_mechanism", table="connections") == [(kept,)]


def test_an_event_of_a_member_stays_without_the_texts_that_are_withheld() -> None:
    protocols = [{"name": SCRAM_FIRST, "metadata": b"\xff\0"}]
    told = {"protocol_type": "consumer", "group_id": "workers", "protocols": protocols}
    found = found_in(conversation().client(request("JoinGroup", 5, 1, **told)).close())
    assert found.columns("event", "group_id", "protocol", table="members") == [
        ("join", "workers", None)
    ]
