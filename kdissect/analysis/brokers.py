"""Brokers and controllers that are clients of others: by the client ids that they give themselves.

The tables do not have the replica id of a Fetch request, which would say it for certain.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Of fetches: since 0.9, in 0.8, and of the metadata log.
FETCHERS: Final = (
    "broker-[0-9]+-fetcher-[0-9]+.*", "ReplicaFetcherThread-.*", "raft-client-[0-9]+",
)  # fmt: skip
OTHERS: Final = ("broker-[0-9]+-txn-marker-sender", "AddPartitionsManager-client-[0-9]+")
FOLLOWER: Final = f"^({'|'.join(FETCHERS)})$"
PEER: Final = f"^({'|'.join((*FETCHERS, *OTHERS))})$"
# The follower's broker id is its first group; in 0.8 the client id has only the leader's.
FOLLOWER_NUMBER: Final = "^broker-([0-9]+)-fetcher-"


def is_follower(client_id: "ir.StringColumn") -> "ir.BooleanColumn":
    """Whether it is the client id of a broker that replicates; not null."""
    return client_id.re_search(FOLLOWER).coalesce(False)
