"""Brokers and controllers that act as clients of others."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Client ids of brokers and controllers, for requests without a replica id, such as ApiVersions, and
# for those whose body was not captured. Of fetches: since 0.9, in 0.8, and of the metadata log.
FETCHERS: Final = (
    "broker-[0-9]+-fetcher-[0-9]+.*", "ReplicaFetcherThread-.*", "raft-client-[0-9]+",
)  # fmt: skip
OTHERS: Final = ("broker-[0-9]+-txn-marker-sender", "AddPartitionsManager-client-[0-9]+")
FOLLOWER: Final = f"^({'|'.join(FETCHERS)})$"
PEER: Final = f"^({'|'.join((*FETCHERS, *OTHERS))})$"


def is_follower(exchanges: "ir.Table") -> "ir.BooleanValue":
    """Return whether exchanges are from a replicating broker or controller; not null."""
    return exchanges.replica_id.notnull() | by_name(exchanges, FOLLOWER)


def is_peer(exchanges: "ir.Table") -> "ir.BooleanValue":
    """Return whether exchanges are from a broker or controller; not null."""
    return exchanges.replica_id.notnull() | by_name(exchanges, PEER)


def by_name(exchanges: "ir.Table", pattern: str) -> "ir.BooleanValue":
    """Return whether the client id matches the pattern; not null."""
    return exchanges.client_id.coalesce("").re_search(pattern)
