"""Clients: identity, software and activity of each client."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.consumption import OF_MEMBERS, named
from kdissect.analysis.dimensions import (
    CLIENT,
    DEFAULT_WINDOW_NS,
    check_names,
    client_option,
    with_dimensions,
)
from kdissect.analysis.fingerprints import with_software
from kdissect.analysis.grouping import (
    CONSUMING,
    PRODUCING,
    beside,
    is_failed,
    is_unanswered,
    listed,
    shortly_listed,
)
from kdissect.analysis.question import BY_CLIENT, Question, Tables
from kdissect.analysis.shared_columns import FIRST_REQUEST, LAST_REQUEST
from kdissect.tables.schemas import INT32, INT64, TEXT, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

SIZE_FIELD: Final = 4  # bytes before each request and response
ADMINISTERING: Final = (
    "CreateTopics", "DeleteTopics", "CreatePartitions", "DescribeConfigs", "AlterConfigs",
    "IncrementalAlterConfigs", "DescribeAcls", "CreateAcls", "DeleteAcls", "DescribeGroups",
    "DeleteGroups", "DeleteRecords", "ElectLeaders", "AlterPartitionReassignments",
    "ListPartitionReassignments", "DescribeLogDirs", "AlterReplicaLogDirs", "OffsetDelete",
    "DescribeClientQuotas", "AlterClientQuotas", "DescribeUserScramCredentials",
    "AlterUserScramCredentials", "CreateDelegationToken", "RenewDelegationToken",
    "ExpireDelegationToken", "DescribeDelegationToken", "DescribeQuorum", "UpdateFeatures",
    "DescribeProducers", "DescribeTransactions", "ListTransactions", "ConsumerGroupDescribe",
    "ShareGroupDescribe", "StreamsGroupDescribe", "AddRaftVoter", "RemoveRaftVoter",
    "UnregisterBroker", "DescribeShareGroupOffsets", "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets", "ListConfigResources", "DescribeCluster", "DescribeTopicPartitions",
)  # fmt: skip

COLUMNS: Final = (
    Column("software", TEXT, "", "client library, reported by it or inferred from its versions"),
    Column("software_version", TEXT, "", "its version, or the range of matching releases"),
    Column("confidence", INT32, "%", "certainty of that; 100 when the client reports it"),
    Column("role", TEXT, "", "broker, or producer, consumer, admin; null for none of these"),
    Column("exchanges", INT64, "", "exchanges"),
    Column("failed", INT64, "", "exchanges with an error anywhere in the response"),
    Column("users", TEXT, "", "SASL users"),
    Column("produces", TEXT, "", "topics it produces to, the first 20"),
    Column("consumes", TEXT, "", "topics it fetches, the first 20"),
    Column("apis", TEXT, "", "APIs with the versions used"),
    Column("groups", TEXT, "", "consumer groups, the first 20"),
    Column("transactions", TEXT, "", "transactional ids, the first 20"),
    Column("evidence", TEXT, "", "pattern that identified the library"),
    Column("mechanisms", TEXT, "", "SASL mechanisms"),
    Column("failed_logins", INT64, "", "connections whose SASL login failed"),
    Column("connections", INT64, "", "connections"),
    Column("brokers", INT64, "", "brokers that it connected to"),
    Column("unanswered", INT64, "", "exchanges without a response"),
    Column("request_bytes", INT64, "bytes", "requests, with their size fields"),
    Column("response_bytes", INT64, "bytes", "responses, with their size fields"),
    FIRST_REQUEST,
    LAST_REQUEST,
)
CHOICES: Final = (
    "client", "client_ip", "user", "broker", "connection", "group", "capture", "tap", "date",
)  # fmt: skip
BY: Final = client_option(CHOICES)


def clients(tables: Tables, by: Sequence[str] = CLIENT) -> "ir.Table":
    """A row for each client, brokers last, then by number of exchanges, largest first."""
    import ibis

    check_names(by, CHOICES)
    rows = with_software(
        tables, with_logins(tables, with_dimensions(tables, by, DEFAULT_WINDOW_NS))
    )
    found = rows.group_by(list(by)).aggregate(**identities(rows), **amounts(rows))
    found = beside(found, topics(tables, rows, by), by)
    found = beside(found, apis(rows, by), by)
    ordered = found.order_by(
        [ibis.asc((found.role == "broker").coalesce(False)), ibis.desc("exchanges"), *by]
    )
    return ordered.select(*by, *[column.name for column in COLUMNS])


def with_logins(tables: Tables, rows: "ir.Table") -> "ir.Table":
    """Exchanges with the login of their connection, and the broker's address."""
    connections = tables["connections"]
    logins = connections.select(
        "connection_id",
        "sasl_user",
        "sasl_mechanism",
        "sasl_outcome",
        broker_side=connections.broker_ip + ":" + connections.broker_port.cast("string"),
    )
    return rows.left_join(logins, "connection_id").drop("connection_id_right")


def identities(rows: "ir.Table") -> "dict[str, ir.Value]":
    """Identity of a client."""
    failed = rows.sasl_outcome == "failed"
    return {
        "software": listed(rows.software),
        "software_version": listed(rows.software_version),
        "confidence": rows.confidence.min(),
        "evidence": listed(rows.evidence),
        "role": role(rows),
        "users": listed(rows.sasl_user),
        "mechanisms": listed(rows.sasl_mechanism),
        "failed_logins": rows.connection_id.nunique(where=failed),
        "connections": rows.connection_id.nunique(),
        "brokers": rows.broker_side.nunique(),
    }


def role(rows: "ir.Table") -> "ir.StringValue":
    """Role of a client."""
    import ibis

    parts = ibis.cases(
        (rows.is_broker, "broker"),
        (rows.api.isin(PRODUCING), "producer"),
        (rows.api.isin(CONSUMING), "consumer"),
        (rows.api.isin(ADMINISTERING), "admin"),
        else_=None,
    )
    return listed(parts)


def amounts(rows: "ir.Table") -> "dict[str, ir.Value]":
    """Amounts of a client's traffic."""
    answered = rows.response_size.notnull()
    return {
        "exchanges": rows.count(),
        "failed": is_failed(rows).sum().coalesce(0),
        "unanswered": is_unanswered(rows).sum().coalesce(0),
        "request_bytes": (rows.request_size + SIZE_FIELD).sum().coalesce(0),
        "response_bytes": answered.ifelse(rows.response_size + SIZE_FIELD, 0).sum(),
        "first_time": rows.request_start.min(),
        "last_time": rows.request_start.max(),
        "groups": shortly_listed(rows.api.isin(OF_MEMBERS).ifelse(rows.group_id, None)),
        "transactions": shortly_listed(rows.transactional_id),
    }


def topics(tables: Tables, rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """The topics that a client produces to and consumes from."""
    partitions = named(tables["partitions"]).select("exchange_id", "topic").distinct()
    used = rows.select("exchange_id", "api", *by).inner_join(partitions, "exchange_id")
    is_produced, is_consumed = used.api.isin(PRODUCING), used.api.isin(CONSUMING)
    return used.group_by(list(by)).aggregate(
        produces=shortly_listed(is_produced.ifelse(used.topic, None)),
        consumes=shortly_listed(is_consumed.ifelse(used.topic, None)),
    )


def apis(rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """The APIs with their versions: ``Fetch 4,11; Metadata 5``."""
    versions = rows.api_version.collect(distinct=True).sort()
    called = rows.group_by([*by, "api"]).aggregate(
        versions=versions.map(lambda version: version.cast("string")).join(",")
    )
    texts = called.mutate(call=called.api + (" " + called.versions).coalesce(""))
    return texts.group_by(list(by)).aggregate(
        apis=texts.call.collect(distinct=True).sort().join("; ")
    )


QUESTION: Final = Question(
    "clients",
    "Which clients are there, with which software, and what do they do?",
    ("connections", "exchanges", "partitions", "all_exchanges"),
    COLUMNS,
    clients,
    (BY,),
    (
        "kdissect clients broker.pcap",
        "kdissect clients broker.pcap --by sasl_user --columns sasl_user,software,role,failed",
        "kdissect clients broker.pcap --columns client_id,client_ip,produces,consumes",
    ),
    bucketed_by=BY_CLIENT,
    bucketed_if_by=CLIENT[:1],
)
