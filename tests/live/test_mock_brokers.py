"""Live tables are those of a file that tcpdump wrote: with librdkafka's mock brokers.

Of packets that are sent on this host every socket has its own times, so those of the file's
packets are put in place of the live ones' before rows are compared; packets are compared too.
"""

from typing import Any

import pytest

from tests.live.law import counts, differences, observed, skip_without_rights

SPOKEN = {
    "AddPartitionsToTxn", "ApiVersions", "EndTxn", "Fetch", "FindCoordinator", "Heartbeat",
    "InitProducerId", "JoinGroup", "LeaveGroup", "ListOffsets", "Metadata", "OffsetCommit",
    "OffsetFetch", "Produce", "SyncGroup",
}  # fmt: skip
APART_NS = 100_000_000  # a process that is not run for a while takes its times later


@pytest.fixture(scope="module")
def session() -> dict[str, Any]:
    skip_without_rights()
    return observed("mock")


@pytest.mark.slow
def test_both_see_the_same_packets_in_the_same_order(session: dict[str, Any]) -> None:
    packets = session["packets"]
    assert packets["live"] == packets["filed"] > 300
    assert packets["differing"] == 0
    assert packets["apart_ns"] < APART_NS


def test_every_row_of_every_table_is_the_same(session: dict[str, Any]) -> None:
    assert differences(session) == {}


def test_the_session_has_something_of_everything(session: dict[str, Any]) -> None:
    assert set(session["apis"]) >= SPOKEN
    assert session["addresses"] == ["127.0.0.1", "::1"]
    found = counts(session)
    assert {table for table, count in found.items() if not count} == set()
    # 20 of each codec and over IPv6, as many consumed, and 2 of transactions.
    assert found["records"] >= 142
