"""Live tables equal those of a file that tcpdump wrote: captured traffic, sent again.

The frames arrive at the other end of a cable, as if from outside: the kernel timestamps each once,
and rows are the same with all times in ns.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.live.law import counts, differences, observed, skip_without_rights

CAPTURES = Path(__file__).parents[2] / "captures"
# Kafka 0.8 to 4.3, groups, IPv6, SASL, loss, and other protocols.
REPLAYED = (
    "quickstart.pcapng", "basics-0.8.2.2.pcapng", "groups-4.3.1.pcapng",
    "networks/ipv6-4.3.1.pcapng", "sasl-4.3.1.pcapng", "incident-lossy-network-4.3.1.pcapng",
    "share-groups-4.3.1.pcapng", "other/beside.pcapng",
)  # fmt: skip


@pytest.fixture(scope="module", params=["ring", "scapy"])
def session(request: pytest.FixtureRequest) -> dict[str, Any]:
    skip_without_rights()
    paths = [str(CAPTURES / name) for name in REPLAYED]
    return observed("replay", *paths, "--through", request.param)


@pytest.mark.slow
def test_both_see_the_same_packets_at_the_same_times(session: dict[str, Any]) -> None:
    packets = session["packets"]
    assert packets["live"] == packets["filed"] > 4000
    assert (packets["differing"], packets["apart_ns"]) == (0, 0)


def test_every_row_of_every_table_is_the_same(session: dict[str, Any]) -> None:
    assert differences(session) == {}


def test_the_sessions_have_something_of_everything(session: dict[str, Any]) -> None:
    found = counts(session)
    assert {table for table, count in found.items() if not count} == set()
    assert found["exchanges"] > 1000
