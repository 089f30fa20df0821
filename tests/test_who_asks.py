"""Producer, replica, rack and group of a request, in every version that has them."""

from typing import Any
from uuid import UUID

import pytest

from kdissect.protocol.apis import find_api
from tests.conversation import conversation
from tests.exchange_builders import Row, found_in, request, response

PRODUCER = ("transactional_id", "producer_id", "producer_epoch", "is_commit")


def versions(api: str, first: int = 0) -> list[int]:
    """The versions of an API, from one on."""
    return list(range(max(first, find_api(api).lowest), find_api(api).highest + 1))


def told(api: str, version: int, columns: tuple[str, ...], **values: Any) -> tuple[Any, ...]:
    """Row of an exchange with this request and a response of defaults."""
    talk = conversation().open().client(request(api, version, 1, **values))
    return found_in(talk.broker(response(api, version, 1))).columns(*columns)[0]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", versions("EndTxn"))
def test_the_end_of_a_transaction_has_its_outcome(version: int, is_commit: bool) -> None:
    values: Row = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 3}
    found = told("EndTxn", version, PRODUCER, **values, committed=is_commit)
    assert found == ("tx", 7, 3, is_commit)


@pytest.mark.parametrize("api", ["AddOffsetsToTxn", "TxnOffsetCommit"])
def test_offsets_of_a_transaction_are_of_its_producer(api: str) -> None:
    values: Row = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 3}
    for version in versions(api):
        found = told(api, version, (*PRODUCER, "group_id"), **values, group_id="g")
        assert found == ("tx", 7, 3, None, "g")


@pytest.mark.parametrize("version", versions("AddPartitionsToTxn"))
def test_a_client_adds_partitions_to_one_transaction_and_a_broker_to_many(version: int) -> None:
    one = {
        "v3_and_below_transactional_id": "tx",
        "v3_and_below_producer_id": 7,
        "v3_and_below_producer_epoch": 3,
    }
    many = {"transactions": [{"transactional_id": "tx", "producer_id": 7, "producer_epoch": 3}]}
    found = told("AddPartitionsToTxn", version, PRODUCER, **(one if version < 4 else many))
    assert found == (("tx", 7, 3, None) if version < 4 else (None, None, None, None))


@pytest.mark.parametrize("version", versions("InitProducerId"))
def test_a_producer_id_is_the_one_that_the_coordinator_gives(version: int) -> None:
    asked: Row = {"transactional_id": "tx", "transaction_timeout_ms": 90_000}
    if version >= 3:
        asked |= {"producer_id": 5, "producer_epoch": 1}
    talk = conversation().open().client(request("InitProducerId", version, 1, **asked))
    given: Row = {"error_code": 0, "producer_id": 8, "producer_epoch": 0}
    found = found_in(talk.broker(response("InitProducerId", version, 1, **given)))
    columns = (*PRODUCER, "transaction_timeout_ms")
    assert found.columns(*columns) == [("tx", 8, 0, None, 90_000)]


def test_a_refused_producer_has_the_id_that_it_asked_with() -> None:
    asked: Row = {"transactional_id": "tx", "producer_id": 5, "producer_epoch": 1}
    talk = conversation().open().client(request("InitProducerId", 4, 1, **asked))
    given: Row = {"error_code": 90, "producer_id": -1, "producer_epoch": -1}
    found = found_in(talk.broker(response("InitProducerId", 4, 1, **given)))
    assert found.columns(*PRODUCER, "error") == [("tx", 5, 1, None, "PRODUCER_FENCED")]


@pytest.mark.parametrize("version", versions("Fetch"))
@pytest.mark.parametrize(("replica", "shown"), [(3, 3), (0, 0), (-1, None)])
def test_a_fetch_has_the_broker_of_its_replica_id(
    version: int, replica: int, shown: int | None
) -> None:
    values: Row = {"replica_id": replica}
    if version >= 15:
        values = {"replica_state": {"replica_id": replica}} if replica >= 0 else {}
    if version >= 11:
        values |= {"rack_id": "" if replica >= 0 else "east"}
    rack = "east" if version >= 11 and replica < 0 else None
    assert told("Fetch", version, ("replica_id", "rack_id"), **values) == (shown, rack)


def test_nothing_of_a_request_is_left_for_the_next() -> None:
    talk = conversation().open()
    asked: Row = {"transactional_id": "tx", "transaction_timeout_ms": 90_000}
    talk = talk.client(request("Fetch", 15, 1, replica_state={"replica_id": 3}, rack_id="east"))
    talk = talk.client(request("InitProducerId", 2, 2, **asked))
    talk = talk.client(request("Heartbeat", 4, 3, group_id="g"))
    columns = ("replica_id", "rack_id", "transaction_timeout_ms", "group_id")
    assert found_in(talk).columns(*columns) == [
        (3, "east", None, None), (None, None, 90_000, None), (None, None, None, "g"),
    ]  # fmt: skip


@pytest.mark.parametrize("topics", [[{"name": "orders", "partition_indexes": [0]}], None])
@pytest.mark.parametrize("version", versions("OffsetFetch", 2))
def test_the_group_of_an_offset_fetch_is_the_first(version: int, topics: list[Row] | None) -> None:
    if version >= 10 and topics:
        topics = [{"topic_id": UUID(int=1), "partition_indexes": [0]}]
    one: Row = {"group_id": "g", "topics": topics}
    many: Row = {"groups": [one, {"group_id": "h", "topics": None}]}
    assert told("OffsetFetch", version, ("group_id",), **(one if version < 8 else many)) == ("g",)


@pytest.mark.parametrize("api", ["DescribeGroups", "ConsumerGroupDescribe"])
def test_request_for_several_groups_has_the_first_as_group_id(api: str) -> None:
    asked = {"DescribeGroups": "groups", "ConsumerGroupDescribe": "group_ids"}[api]
    for version in versions(api):
        assert told(api, version, ("group_id",), **{asked: ["g", "h"]}) == ("g",)
