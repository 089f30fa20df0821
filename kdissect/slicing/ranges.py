"""Time ranges of connections that hold the selected exchanges and the data to decode them.

For each selected exchange: from its first packet to its last one; without a response, until the
next request of the connection, or its end. In addition, on the same connection:

- exchanges in flight at the same time, before it and after, up to the clients' usual limit
  (IN_FLIGHT): a response in between would otherwise have no request;
- the start: handshake, PROXY header, ApiVersions and SASL, up to the first other request;
- for TLS, everything: its records are numbered; likewise where bytes of the connection or the
  exchange's request are missing: its frames were found from all bytes around them.

And for topics that are known by their ids only, an exchange with the name.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.stored_tables import Place
from kdissect.errors import InvalidArgument
from kdissect.sql.failures import engine_failures, reason_of
from kdissect.sql.interruption import interruptible

if TYPE_CHECKING:
    import duckdb

NEEDED: Final = ("connections", "exchanges", "partitions")
ASKED: Final = (*NEEDED, "all_exchanges", "all_partitions")
START_APIS: Final = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
# Responses that have both names and ids of topics.
NAMING_APIS: Final = ("Metadata", "CreateTopics", "DescribeTopicPartitions")
# The range of a connection with a packet whose time is none: nothing of it is known to be outside.
ALWAYS: Final = (-(1 << 63), (1 << 63) - 1)
IN_FLIGHT: Final = 5  # max.in.flight.requests.per.connection, and the most with idempotence


class Around(NamedTuple):
    """Context added to the exchanges: ns before and after, or their whole connections."""

    before_ns: int = 0
    after_ns: int = 0
    connections: bool = False


class Endpoints(NamedTuple):
    """A connection, and its two endpoints."""

    connection_id: int
    client_ip: str
    client_port: int
    broker_ip: str
    broker_port: int


class Ranges(NamedTuple):
    """Time ranges of connections, in ns since 1970, both ends included, ordered and disjoint.

    `endpoints` are the connections with ranges, and all others between the same endpoints.
    """

    times: Mapping[int, Sequence[tuple[int, int]]]
    endpoints: Sequence[Endpoints]
    exchanges: int
    has_tls: bool


def find_ranges(places: Sequence[Place], where: str, around: Around) -> Ranges:
    """The ranges of the exchanges in the tables that meet the condition.

    Raises KdissectError for an invalid condition.
    """
    with DuckTables(places, ASKED, where) as tables:
        try:
            return interruptible(partial(_find, tables.connection, around), tables.interrupt)
        except engine_failures() as error:
            raise InvalidArgument(f"--where {where!r}: {reason_of(error)}") from error


def _find(connection: "duckdb.DuckDBPyConnection", around: Around) -> Ranges:
    for name, query in steps(around).items():
        connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
    return _read(connection)


def _read(connection: "duckdb.DuckDBPyConnection") -> Ranges:
    times: dict[int, list[tuple[int, int]]] = {}
    timeless: set[int] = set()
    rows = connection.execute(MERGED)
    while batch := rows.fetchmany(10_000):
        for connection_id, start, end in batch:
            if start is None or end is None:
                timeless.add(connection_id)
            times.setdefault(connection_id, []).append((start, end))
    for connection_id in timeless:
        times[connection_id] = [ALWAYS]
    endpoints = [Endpoints(*row) for row in connection.execute(SAME_ENDS).fetchall()]
    (exchanges,) = connection.execute("SELECT count(*) FROM chosen").fetchone() or (0,)
    (has_tls,) = connection.execute("SELECT count(*) > 0 FROM chosen_tls").fetchone() or (False,)
    return Ranges(times, endpoints, exchanges, has_tls)


def steps(around: Around) -> dict[str, str]:
    """Tables created in sequence: name → query."""
    whole = "SELECT connection_id FROM chosen" if around.connections else DAMAGED
    return {
        "chosen": CHOSEN,
        "unnamed": UNNAMED,
        "naming": NAMING,
        "spans": SPANS,
        "widened": WIDENED,
        "wanted": f"""
            SELECT connection_id, start_ns - {around.before_ns} AS start_ns,
                end_ns + {around.after_ns} AS end_ns
            FROM widened SEMI JOIN chosen USING (exchange_id)
            UNION ALL
            SELECT connection_id, start_ns, end_ns FROM spans
            SEMI JOIN naming USING (exchange_id)
            """,  # noqa: S608  # numbers
        "chosen_connections": """
            SELECT * FROM connections SEMI JOIN wanted USING (connection_id)
            """,
        "chosen_tls": f"SELECT * FROM chosen_connections WHERE {IS_TLS}",  # noqa: S608
        "ranges": f"""
            SELECT connection_id, start_ns, end_ns FROM wanted
            UNION ALL
            SELECT connection_id, first_time_ns, last_time_ns FROM chosen_connections
            WHERE {IS_TLS} OR connection_id IN ({whole})
            UNION ALL {BEGINNINGS}
            UNION ALL
            SELECT connection_id, start_ns, end_ns FROM spans
            SEMI JOIN chosen_connections USING (connection_id)
            WHERE api IN {START_APIS}
            """,  # noqa: S608  # constants
    }


IS_TLS: Final = "(protocol = 'tls' OR tls_version IS NOT NULL)"
DAMAGED: Final = """
    SELECT connection_id FROM exchanges
    WHERE missing_bytes > 0 OR regexp_matches(decode_status, 'damaged|no-request')
    """
_LIST: Final = "request_start_ns, request_end_ns, response_start_ns, response_end_ns"
CHOSEN: Final = "SELECT exchange_id, connection_id FROM exchanges"
# Topics of the selected exchanges, by id.
UNNAMED: Final = "SELECT DISTINCT topic_id FROM partitions WHERE topic_id IS NOT NULL"
# For each topic not named by a selected exchange, the first exchange that names it.
NAMING: Final = f"""
    WITH named AS (
        SELECT exchange_id, topic_id FROM all_partitions
        SEMI JOIN unnamed USING (topic_id)
        SEMI JOIN (SELECT exchange_id FROM all_exchanges WHERE api IN {NAMING_APIS})
            USING (exchange_id)
        WHERE topic IS NOT NULL
    ), first AS (
        SELECT min(named.exchange_id) AS exchange_id,
            bool_or(chosen.exchange_id IS NOT NULL) AS is_known
        FROM named LEFT JOIN chosen ON named.exchange_id = chosen.exchange_id
        GROUP BY topic_id
    )
    SELECT DISTINCT exchange_id, connection_id
    FROM all_exchanges SEMI JOIN (FROM first WHERE NOT is_known) USING (exchange_id)
    """  # noqa: S608  # constants
# All exchanges of their connections; least and greatest ignore null.
SPANS: Final = f"""
    WITH own AS (
        SELECT exchange_id, connection_id, api, outcome,
            least({_LIST}) AS start_ns, greatest({_LIST}) AS end_ns
        FROM all_exchanges
        SEMI JOIN (SELECT connection_id FROM chosen UNION SELECT connection_id FROM naming)
            USING (connection_id)
    ), following AS (
        SELECT *, lead(start_ns) OVER (
            PARTITION BY connection_id ORDER BY start_ns, exchange_id) AS next_ns
        FROM own
    )
    SELECT following.* REPLACE (
        CASE outcome WHEN 'unanswered' THEN greatest(end_ns, coalesce(next_ns, last_time_ns))
        ELSE end_ns END AS end_ns)
    FROM following JOIN connections USING (connection_id)
    """  # noqa: S608  # constants
# Spans extended to the starts and ends of overlapping neighbours.
WIDENED: Final = f"""
    SELECT exchange_id, connection_id,
        list_min([x.start_ns FOR x IN earlier IF x.end_ns >= start_ns]) AS start_ns,
        list_max([x.end_ns FOR x IN later IF x.start_ns <= end_ns]) AS end_ns
    FROM (
        SELECT *, list({{'start_ns': start_ns, 'end_ns': end_ns}}) OVER (
            PARTITION BY connection_id ORDER BY end_ns, exchange_id ROWS {IN_FLIGHT} PRECEDING
        ) AS earlier, list({{'start_ns': start_ns, 'end_ns': end_ns}}) OVER (
            PARTITION BY connection_id ORDER BY start_ns, exchange_id
            ROWS BETWEEN CURRENT ROW AND {IN_FLIGHT} FOLLOWING
        ) AS later
        FROM spans
    )
    """  # noqa: S608  # constants
BEGINNINGS: Final = f"""
    SELECT connection_id, first_time_ns, coalesce(
        min(start_ns) FILTER (api NOT IN {START_APIS}) - 1, max(end_ns), first_time_ns)
    FROM chosen_connections LEFT JOIN spans USING (connection_id)
    WHERE syn_seen
    GROUP BY connection_id, first_time_ns
    """  # noqa: S608  # constants
MERGED: Final = """
    WITH begun AS (
        SELECT *, coalesce(start_ns > max(end_ns) OVER (
            PARTITION BY connection_id ORDER BY start_ns, end_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS is_new
        FROM ranges
    ), numbered AS (
        SELECT *, count_if(is_new) OVER (
            PARTITION BY connection_id ORDER BY start_ns, end_ns
            ROWS UNBOUNDED PRECEDING) AS island
        FROM begun
    )
    SELECT connection_id, min(start_ns), max(end_ns) FROM numbered
    GROUP BY connection_id, island ORDER BY connection_id, island
    """
SAME_ENDS: Final = """
    SELECT connection_id, client_ip, client_port, broker_ip, broker_port FROM connections
    SEMI JOIN (
        SELECT client_ip, client_port, broker_ip, broker_port FROM chosen_connections
        UNION SELECT broker_ip, broker_port, client_ip, client_port FROM chosen_connections
    ) USING (client_ip, client_port, broker_ip, broker_port)
    ORDER BY connection_id
    """
