"""Topology: producers and consumers of each topic, as the edges of a graph."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.consumption import OF_MEMBERS, named
from kdissect.analysis.dimensions import with_ends
from kdissect.analysis.fingerprints import with_software
from kdissect.analysis.grouping import CONSUMING, PRODUCING, listed
from kdissect.analysis.question import BY_TOPIC, FLAG, Option, Question, Tables
from kdissect.analysis.shared_columns import CLIENT_IP, FIRST_REQUEST, LAST_REQUEST
from kdissect.tables.schemas import INT64, TEXT, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

COLUMNS: Final = (
    Column("source", TEXT, "", "source of the records: a client id or a topic"),
    Column("target", TEXT, "", "destination: a topic or a client id"),
    Column("direction", TEXT, "", "produces, consumes, or replicates (a broker that fetches)"),
    Column("records", INT64, "", "records along the edge; null: not known"),
    Column("bytes", INT64, "bytes", "bytes of their batches on the wire"),
    Column("groups", TEXT, "", "groups of which the client is a member"),
    Column("software", TEXT, "", "library, see clients"),
    Column("failed", INT64, "", "partitions with an error in the response"),
    Column("exchanges", INT64, "", "exchanges that name the topic"),
    Column("partitions", INT64, "", "partitions of the topic"),
    FIRST_REQUEST,
    LAST_REQUEST,
    Column("topic", TEXT, "", "the topic"),
    Column("client_id", TEXT, "", "client id"),
    CLIENT_IP,
    Column("sasl_user", TEXT, "", "SASL user"),
)
REPLICATION: Final = Option("replication", FLAG, False, "Include replication between brokers.")


def topology(tables: Tables, replication: bool = False) -> "ir.Table":
    """A row for each client and topic, by topic, producers first."""
    import ibis

    rows = edges(tables)
    if not replication:
        rows = rows.filter(rows.direction != "replicates")
    keys = ["direction", "topic", "client", "client_ip", "user"]
    found = rows.group_by(keys).aggregate(
        software=listed(rows.software),
        groups=listed(rows.groups),
        partitions=rows.partition.nunique(),
        exchanges=rows.exchange_id.nunique(),
        records=rows.record_count.sum(),
        bytes=rows.record_bytes.sum(),
        failed=(rows.error_code != 0).sum().coalesce(0),
        first_time=rows.request_start.min(),
        last_time=rows.request_start.max(),
    )
    is_produced = found.direction == "produces"
    client = found.client.coalesce("?")
    found = found.rename(client_id="client", sasl_user="user").mutate(
        source=is_produced.ifelse(client, found.topic),
        target=is_produced.ifelse(found.topic, client),
    )
    order = [ibis.asc("topic"), ibis.desc("direction"), ibis.desc("bytes")]
    order += [ibis.asc("client_id"), ibis.asc("client_ip")]
    return found.order_by(order).select(*[column.name for column in COLUMNS])


def edges(tables: Tables) -> "ir.Table":
    """The topic-partitions of produce and fetch exchanges, with client and direction."""
    import ibis

    exchanges = tables["exchanges"]
    groups = groups_of(tables)
    moved = exchanges.filter(exchanges.api.isin((*PRODUCING, *CONSUMING)))
    identified = with_software(tables, with_ends(tables, moved))
    rows = identified.select(
        "exchange_id", "api", "connection_id", "client_ip", "user", "software", "is_broker",
        "request_start", client=identified.client_id,
    )  # fmt: skip
    rows = rows.mutate(
        direction=ibis.cases(
            (rows.api.isin(PRODUCING), "produces"),
            (rows.is_broker, "replicates"),
            else_="consumes",
        ),
        who=who(rows.client, rows.client_ip),
    )
    rows = rows.left_join(groups, "who").drop("who_right")
    rows = rows.mutate(groups=(rows.direction == "consumes").ifelse(rows.groups, None))
    partitions = named(tables["partitions"]).select(
        "exchange_id", "topic", "partition", "record_count", "record_bytes", "error_code"
    )
    return rows.inner_join(partitions, "exchange_id")


def groups_of(tables: Tables) -> "ir.Table":
    """The groups of a client, from any of its connections."""
    exchanges = tables["all_exchanges"]
    exchanges = with_ends(tables, exchanges.filter(exchanges.api.isin(OF_MEMBERS)))
    named = exchanges.mutate(who=who(exchanges.client_id, exchanges.client_ip))
    return named.group_by("who").aggregate(groups=listed(named.group_id))


def who(client: "ir.StringColumn", client_ip: "ir.StringColumn") -> "ir.StringColumn":
    """A client by its id and address."""
    return client.coalesce("") + "@" + client_ip.coalesce("")


QUESTION: Final = Question(
    "topology",
    "Which clients produce to which topics, and which consume them?",
    ("connections", "exchanges", "partitions", "all_exchanges"),
    COLUMNS,
    topology,
    (REPLICATION,),
    (
        "kdissect topology broker.pcap",
        "kdissect topology broker.pcap --columns source,target,records,bytes --format csv",
        "kdissect topology broker.pcap --replication",
    ),
    bucketed_by=BY_TOPIC,
)
