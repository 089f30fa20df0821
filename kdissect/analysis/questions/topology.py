"""Topology: producers and consumers of each topic, as the edges of a graph."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.consumption import OF_MEMBERS, named
from kdissect.analysis.dimensions import with_ends
from kdissect.analysis.fingerprints import software_of_clients, who
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

    found = edges(tables)
    if not replication:
        found = found.filter(found.direction != "replicates")
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
    """The edges of the graph, with the software and the groups of their clients."""
    import ibis

    rows = moved(tables)
    counted = rows.group_by(["is_produced", "topic", "client", "client_ip", "user"]).aggregate(
        partitions=rows.partition.nunique(),
        exchanges=rows.exchange_id.nunique(),
        records=rows.record_count.sum(),
        bytes=rows.record_bytes.sum(),
        failed=(rows.error_code != 0).sum().coalesce(0),
        first_time=rows.request_start.min(),
        last_time=rows.request_start.max(),
    )
    # What is known of a client is joined last: as columns of all rows it would take most memory.
    counted = counted.mutate(who=who(counted.client, counted.client_ip))
    software = software_of_clients(tables).select("who", "software", "is_broker")
    known = counted.left_join(software, "who").drop("who_right")
    known = known.left_join(groups_of_clients(tables), "who").drop("who", "who_right")
    direction = ibis.cases(
        (known.is_produced, "produces"),
        (known.is_broker.coalesce(False), "replicates"),
        else_="consumes",
    )
    known = known.mutate(direction=direction)
    return known.mutate(groups=(known.direction == "consumes").ifelse(known.groups, None))


def moved(tables: Tables) -> "ir.Table":
    """The topic-partitions of produce and fetch exchanges, with the client."""
    exchanges = tables["exchanges"]
    asked = exchanges.filter(exchanges.api.isin((*PRODUCING, *CONSUMING)))
    placed = with_ends(tables, asked)
    sent = placed.select(
        "exchange_id", "client_ip", "user", "request_start",
        client=placed.client_id,
        is_produced=placed.api.isin(PRODUCING),
    )  # fmt: skip
    partitions = named(tables["partitions"]).select(
        "exchange_id", "topic", "partition", "record_count", "record_bytes", "error_code"
    )
    return sent.inner_join(partitions, "exchange_id")


def groups_of_clients(tables: Tables) -> "ir.Table":
    """The groups of a client, from any of its connections."""
    exchanges = tables["all_exchanges"]
    exchanges = with_ends(tables, exchanges.filter(exchanges.api.isin(OF_MEMBERS)))
    named = exchanges.mutate(who=who(exchanges.client_id, exchanges.client_ip))
    return named.group_by("who").aggregate(groups=listed(named.group_id))


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
