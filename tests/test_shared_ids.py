"""Several requests of one connection with one correlation id: which of them a response answers."""

from typing import Any

from tests.conversation import conversation
from tests.exchange_builders import Found, found_in, request, response

MS = 1_000_000
COLUMNS = ("api", "outcome", "request_packet", "response_packet", "decode_status")


def states(*topics: str) -> list[dict[str, Any]]:
    return [{"topic_name": topic, "partition_index": 0} for topic in topics]


def leader_and_isr(*topics: str) -> bytes:
    return request("LeaderAndIsr", 0, 11, ungrouped_partition_states=states(*topics))


def led(*topics: str) -> bytes:
    return response("LeaderAndIsr", 0, 11, partition_errors=states(*topics))


def stop_replica(*topics: str) -> bytes:
    return request("StopReplica", 0, 11, ungrouped_partitions=states(*topics))


def update_metadata() -> bytes:
    return request("UpdateMetadata", 0, 11, ungrouped_partition_states=states("orders"))


UPDATED = response("UpdateMetadata", 0, 11)


def told(found: Found) -> list[tuple[Any, ...]]:
    """The exchanges in the order of their first packets."""
    return sorted(found.columns(*COLUMNS), key=lambda row: row[2] or row[3])


def test_a_response_captured_before_a_request_of_its_id_must_fit_it() -> None:
    talk = conversation(has_acks=False).client(leader_and_isr("orders")).broker(led("orders"))
    talk = talk.client(update_metadata(), gap_ns=MS).broker(UPDATED)
    assert told(found_in(talk)) == [
        ("LeaderAndIsr", "answered", 4, 5, "ok"),
        ("UpdateMetadata", "answered", 6, 7, "ok"),
    ]
    assert told(found_in(talk.lose(4))) == [
        (None, "orphan", None, 4, "no-request"),
        ("UpdateMetadata", "answered", 5, 6, "ok"),
    ]


def test_of_two_requests_with_one_response_layout_the_partitions_tell() -> None:
    talk = conversation(has_acks=False).client(leader_and_isr("orders")).broker(led("orders"))
    talk = talk.client(stop_replica("old", "older"), gap_ns=MS).broker(led("old", "older"))
    assert told(found_in(talk.lose(4))) == [
        (None, "orphan", None, 4, "no-request"),
        ("StopReplica", "answered", 5, 6, "ok"),
    ]
    # The first response and the second request are lost: packets 5 and 6.
    later = talk.client(update_metadata(), gap_ns=100 * MS).broker(UPDATED)
    assert told(found_in(later.lose(5, 6))) == [
        ("LeaderAndIsr", None, 4, None, "ok"),
        (None, "orphan", None, 5, "no-request"),
        ("UpdateMetadata", "answered", 6, 7, "ok"),
    ]


def test_behind_a_hole_a_response_answers_the_first_request_of_its_id_that_it_fits() -> None:
    # A client that gives all its requests the id 11, and sends them without waiting.
    group = request("Heartbeat", 1, 11, group_id="workers")
    asked = request("ListGroups", 1, 11)
    listed = response("ListGroups", 1, 11, groups=[{"group_id": "g", "protocol_type": "consumer"}])
    beaten = response("Heartbeat", 1, 11)
    talk = conversation(has_acks=False).client(asked).client(group).client(asked)
    talk = talk.broker(listed).broker(beaten).broker(listed)
    assert told(found_in(talk)) == [
        ("ListGroups", "answered", 4, 7, "ok"),
        ("Heartbeat", "answered", 5, 8, "ok"),
        ("ListGroups", "answered", 6, 9, "ok"),
    ]
    assert told(found_in(talk.lose(7))) == [
        ("ListGroups", None, 4, None, "ok"),
        ("Heartbeat", "answered", 5, 7, "ok"),
        ("ListGroups", "answered", 6, 8, "ok"),
    ]


def test_a_request_sent_again_late_makes_no_orphans_of_responses_to_later_ones() -> None:
    talk = conversation(has_acks=False)
    for number in range(1, 4):
        talk = talk.client(request("Heartbeat", 4, number, group_id="workers"), gap_ns=MS)
        talk = talk.broker(response("Heartbeat", 4, number), gap_ns=MS)
    again = talk.repeat(6, gap_ns=3000 * MS).lose(6)
    assert again.segments()[-1].time_ns - again.segments()[-2].time_ns > 2000 * MS
    found = found_in(again)
    outcomes = found.columns("correlation_id", "outcome")
    assert {(1, "answered"), (3, "answered")} < set(outcomes)


def test_without_loss_the_order_decides_for_any_response() -> None:
    asked = request("ListGroups", 1, 11)
    odd = response("ListGroups", 1, 11) + b"more"
    odd = (len(odd) - 4).to_bytes(4, "big") + odd[4:]
    talk = conversation(has_acks=False).client(asked).broker(odd).client(asked).broker(odd)
    assert told(found_in(talk)) == [
        ("ListGroups", "answered", 4, 5, "leftover"),
        ("ListGroups", "answered", 6, 7, "leftover"),
    ]
