"""Brokers recognized by their client id."""

import re

import pytest

from kdissect.analysis.brokers import FOLLOWER, PEER

FOLLOWERS = ("broker-1-fetcher-0", "ReplicaFetcherThread-0-1", "raft-client-3")
OTHERS = ("broker-1-txn-marker-sender", "AddPartitionsManager-client-2")
CLIENTS = ("broker-1", "my-broker-1-fetcher-0", "raft-client", "consumer-orders-1", "")


@pytest.mark.parametrize("client_id", [*FOLLOWERS, *OTHERS, *CLIENTS])
def test_only_advertised_endpoints_are_brokers(client_id: str) -> None:
    assert bool(re.search(FOLLOWER, client_id)) == (client_id in FOLLOWERS)
    assert bool(re.search(PEER, client_id)) == (client_id in (*FOLLOWERS, *OTHERS))
