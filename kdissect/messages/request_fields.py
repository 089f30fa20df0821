"""Fields of requests' bodies that belong to their exchange: each is declared here, once.

A field is an attribute of `RequestFields` and an entry of FIELDS; a test holds the two together.
From the entry come its role, the code that reads it from a body, what crosses the edge of a split,
and, in the order of FIELDS, its column of `exchanges` with the code that writes it.
"""

from typing import Final, NamedTuple

from mypy_extensions import i64, mypyc_attr

from kdissect.messages import roles
from kdissect.messages.columns import BOOL, INT16, INT32, INT64, TEXT, Column
from kdissect.protocol.readers import NULL


@mypyc_attr(acyclic=True, free_list_len=1)
class RequestFields:
    """Fields of one request; NULL and "" if absent. The producer id may be that of the response."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Set all fields to absent."""
        self.acks: i64 = NULL
        self.group_id: str = ""
        self.transactional_id: str = ""
        self.producer_id: i64 = NULL
        self.producer_epoch: i64 = NULL
        self.transaction_timeout_ms: i64 = NULL
        self.is_commit: i64 = NULL
        self.replica_id: i64 = NULL
        self.rack_id: str = ""
        self.max_wait_ms: i64 = NULL
        self.min_bytes: i64 = NULL


class RequestField(NamedTuple):
    """One field: `names` are upstream's in the body, without those that are entities.

    `role` is -1 if no code names it. `none` are values that mean "none": "-1", "negative" or "".
    Fields of `Column` without a meaning are no columns. `in_response`: a response may have it too.
    """

    column: Column
    names: tuple[str, ...] = ()
    role: int = -1
    none: str = ""
    in_response: bool = False

    @property
    def name(self) -> str:
        """Name of the attribute and of the column."""
        return self.column.name

    @property
    def is_text(self) -> bool:
        """Return whether it is a text, not an integer."""
        return self.column.type == TEXT


FIELDS: Final[tuple[RequestField, ...]] = (
    RequestField(Column("acks", INT16, "", "acks of a Produce request"), ("Acks",)),
    RequestField(
        Column("group_id", TEXT, "", "group of the request (or its first group)"), role=roles.GROUP
    ),
    RequestField(
        Column("transactional_id", TEXT, "", "transactional id of the request"),
        role=roles.TRANSACTIONAL_ID,
    ),
    RequestField(
        Column(
            "producer_id", INT64, "",
            "InitProducerId: the producer id in the response; AddPartitionsToTxn up to v3, "
            "AddOffsetsToTxn, TxnOffsetCommit, EndTxn: that of the request",
        ),
        ("ProducerId", "V3AndBelowProducerId"), none="-1", in_response=True,
    ),
    RequestField(
        Column("producer_epoch", INT16, "", "its epoch"),
        ("ProducerEpoch", "V3AndBelowProducerEpoch"), none="-1", in_response=True,
    ),
    RequestField(
        Column(
            "transaction_timeout_ms", INT32, "ms",
            "InitProducerId: time after which the coordinator aborts an open transaction",
        ),
        ("TransactionTimeoutMs",),
    ),
    RequestField(
        Column("is_commit", BOOL, "", "EndTxn: to commit; false: to abort"), ("Committed",)
    ),
    RequestField(
        Column(
            "replica_id", INT32, "",
            "broker or controller that fetches as a replica (Fetch, ListOffsets, "
            "OffsetForLeaderEpoch, FetchSnapshot, Vote); null for clients",
        ),
        ("ReplicaId",), role=roles.REPLICA_ID, none="negative",
    ),
    RequestField(
        Column("rack_id", TEXT, "", "rack of the client: Fetch, heartbeats of the new groups"),
        ("RackId",),
    ),
    RequestField(Column("max_wait_ms", INT32, "ms", ""), ("MaxWaitMs",)),
    RequestField(Column("min_bytes", INT32, "bytes", ""), ("MinBytes",)),
)  # fmt: skip
# Of an exchange without a request that could be read; never changed.
NOTHING_ASKED: Final = RequestFields()
