"""Group protocols, remembered for the messages that do not contain them (facts 11)."""

import struct

from kdissect.exchanges.groups import SIZE_LIMIT, GroupProtocols
from kdissect.messages.full_bodies import full_body, member_body
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response, string16

# Connect's assignment, version 0: error, leader, its URL, offset, connectors with their tasks.
CONNECT = b"\x00\x00" + b"\x00\x00" + string16("m") + string16("u") + struct.pack(">q", 3)
CONNECT += struct.pack(">i", 1) + string16("sink") + struct.pack(">ii", 1, 0)
CONNECT_SUBSCRIPTION = b"\x00\x00" + string16("u") + struct.pack(">q", 3)


def joined(protocol_type: str, name: str, *, group: str = "workers") -> Conversation:
    """A conversation whose only member has joined with JoinGroup v5."""
    offered = [{"name": name, "metadata": CONNECT_SUBSCRIPTION}]
    ask = {"group_id": group, "protocol_type": protocol_type, "protocols": offered}
    member = {"member_id": "m", "metadata": CONNECT_SUBSCRIPTION}
    answer = {"protocol_name": name, "leader": "m", "member_id": "m", "members": [member]}
    talk = conversation().open().client(request("JoinGroup", 5, 1, **ask))
    return talk.broker(response("JoinGroup", 5, 1, **answer))


def synced(talk: Conversation, number: int = 2, *, group: str = "workers") -> Conversation:
    """The same with SyncGroup v3, which names no protocol."""
    plan = [{"member_id": "m", "assignment": CONNECT}]
    ask = request("SyncGroup", 3, number, group_id=group, member_id="m", assignments=plan)
    return talk.client(ask).broker(response("SyncGroup", 3, number, assignment=CONNECT))


def assignments(found: Found) -> list[str]:
    return [row["assignment"] for row in found.tables["members"] if row["event"] != "join"]


def test_an_assignment_is_read_by_the_type_that_the_members_joined_with() -> None:
    # The name is no indication: only the type of the JoinGroup shows that it is Connect's.
    found = found_in(synced(joined("connect", "of my own")))
    assert assignments(found) == ["sink:0", "sink:0"]
    events = found.columns("event", "protocol", table="members")
    assert events == [("join", "of my own"), ("assign", "of my own"), ("sync", "of my own")]


def test_a_join_response_has_its_type_from_the_request() -> None:
    (exchange,) = found_in(joined("connect", "of my own")).exchanges
    assert exchange.request_frame
    assert exchange.response_frame
    answer = exchange.response_frame.data
    (member,) = full_body(11, 5, answer, True, exchange.request_frame.data)["members"]
    assert member["metadata"] == {"size": 13, "version": 0, "url": "u", "config_offset": 3}
    (guessed,) = full_body(11, 5, answer, True)["members"]
    assert guessed["metadata"]["undecoded"] == 13


def test_fields_without_an_event_are_not_decoded() -> None:
    (exchange,) = found_in(joined("connect", "of my own")).exchanges
    assert exchange.request_frame
    assert exchange.response_frame
    asked, answer = exchange.request_frame.data, exchange.response_frame.data
    assert member_body(11, 5, asked, False) == full_body(11, 5, asked, False)
    whole, part = full_body(11, 5, answer, True, asked), member_body(11, 5, answer, True)
    (member,) = part.pop("members")
    assert member == {**whole.pop("members")[0], "metadata": CONNECT_SUBSCRIPTION}
    assert part == whole


def test_group_protocols_are_shared_between_connections() -> None:
    talk = joined("connect", "of my own").close().port_reuse()
    assert assignments(found_in(synced(talk))) == ["sink:0", "sink:0"]


def test_a_group_that_was_not_seen_joining_is_taken_for_consumers() -> None:
    found = found_in(synced(conversation().open()))
    assert all("bytes, not decoded" in text for text in assignments(found))
    other = found_in(synced(joined("connect", "x", group="others")))
    assert all("bytes, not decoded" in text for text in assignments(other))


def test_a_join_that_fails_changes_nothing() -> None:
    talk = joined("connect", "of my own")
    ask = {"group_id": "workers", "protocol_type": "consumer"}
    talk = talk.client(request("JoinGroup", 5, 2, **ask))
    talk = talk.broker(response("JoinGroup", 5, 2, error_code=25))
    assert assignments(found_in(synced(talk, 3))) == ["sink:0", "sink:0"]


def test_the_newest_agreement_counts() -> None:
    ask = {"group_id": "workers", "protocol_type": "consumer"}
    talk = joined("connect", "of my own").client(request("JoinGroup", 5, 2, **ask))
    talk = talk.broker(response("JoinGroup", 5, 2, protocol_name="range"))
    found = found_in(synced(talk, 3))
    assert found.exchanges[-1].group_protocol == ("consumer", "range")


def test_newer_messages_say_it_themselves() -> None:
    ask = {"group_id": "workers", "protocol_type": "connect", "protocol_name": "mine"}
    answer = {"protocol_type": "connect", "protocol_name": "mine", "assignment": CONNECT}
    talk = conversation().open().client(request("SyncGroup", 5, 1, **ask))
    found = found_in(talk.broker(response("SyncGroup", 5, 1, **answer)))
    assert found.columns("protocol", "assignment", table="members") == [("mine", "sink:0")]


def test_no_more_groups_are_kept_than_the_limit() -> None:
    groups = GroupProtocols(limit=2)
    for name in ("a", "b", "c"):
        groups.learn(name, ("consumer", name))
    assert [groups.find(name) for name in ("a", "b", "c")] == [
        ("", ""), ("", ""), ("consumer", "c"),
    ]  # fmt: skip


def test_long_names_of_groups_are_forgotten_sooner() -> None:
    groups = GroupProtocols()
    for _ in range(3):
        groups.learn("x" * (SIZE_LIMIT // 2), ("consumer", "range"))
    assert len(groups.protocols) == 1
    groups.learn("y" * (SIZE_LIMIT // 2), ("consumer", "range"))
    assert [key[:1] for key in groups.protocols] == ["y"]
    assert groups.size == SIZE_LIMIT // 2 + len("consumer" + "range")
