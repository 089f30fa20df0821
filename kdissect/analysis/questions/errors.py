"""Errors: codes, counts, first occurrence, clients affected, and advice.

A row of the table `errors` is an error code in a response; codes of single records that only
repeat their partition's are left out. Exchanges are joined for client and API.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import (
    DEFAULT_WINDOW_NS,
    DIMENSIONS,
    WINDOW,
    by_option,
    check_names,
    in_order,
    with_dimensions,
)
from kdissect.analysis.error_advice import advice_for
from kdissect.analysis.grouping import RECORD_ERRORS
from kdissect.analysis.question import Question, Tables
from kdissect.tables.schemas import BOOL, INT16, INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

OWN: Final = (
    Column("error", TEXT, "", "name of the error code"),
    Column("code", INT16, "", "error code"),
    Column("topic", TEXT, "", "topic concerned, or its id"),
    Column("partition", INT32, "", "partition concerned"),
    Column("group", TEXT, "", "group concerned, or that of the request"),
    Column("resource", TEXT, "", "other resource concerned: config, user, member, transaction"),
    Column("path", TEXT, "", "field of the response that has the code"),
)
DEFAULT_BY: Final = ("error", "api")
BY: Final = by_option(DEFAULT_BY, [column.name for column in OWN])
COLUMNS: Final = (
    Column("errors", INT64, "", "error codes in responses"),
    Column("exchanges", INT64, "", "exchanges with them"),
    Column("clients", INT64, "", "client ids that received them"),
    Column("is_retriable", BOOL, "", "clients may retry; null where the row has both kinds"),
    Column("first_seen", TIME, "", "first response with one"),
    Column("last_seen", TIME, "", "last response with one"),
    Column("partitions", INT64, "", "topic-partitions concerned"),
    Column("first_packet", INT64, "", "frame number of the first response with one"),
    Column("message", TEXT, "",
        "error message sent with the code; one of them if there are several"),
    Column("advice", TEXT, "", "meaning and remedy; null for a row of several errors"),
)  # fmt: skip


def errors(
    tables: Tables, by: Sequence[str] = DEFAULT_BY, window: int = DEFAULT_WINDOW_NS
) -> "ir.Table":
    """Error codes counted, a row for each value of `by`."""
    import ibis

    check_names(by, BY.choices)
    rows = error_codes(tables, by, window)
    place = rows.topic_or_id + ":" + rows.partition_index.cast("string")
    found = rows.group_by(list(by)).aggregate(
        errors=rows.count(),
        exchanges=rows.exchange_id.nunique(),
        clients=rows.client_id.nunique(),
        partitions=place.nunique(),
        first_seen=rows.seen.min(),
        last_seen=rows.seen.max(),
        least=rows.is_retriable.cast("int8").min(),
        most=rows.is_retriable.cast("int8").max(),
        first_packet=rows.response_packet.min(),
        message=rows.message.max(),
        first_name=rows.name.min(),
        last_name=rows.name.max(),
        first_api=rows.of_api.min(),
        last_api=rows.of_api.max(),
    )
    one_name = (found.first_name == found.last_name).ifelse(found.first_name, None)
    one_api = (found.first_api == found.last_api).ifelse(found.first_api, None)
    answer = found.mutate(
        is_retriable=(found.least == found.most).ifelse(found.most == 1, None),
        advice=advice_for(one_name, one_api),
    ).select(*by, *[column.name for column in COLUMNS])
    return in_order(answer, by, ibis.desc("errors"))


def error_codes(tables: Tables, by: Sequence[str], window_ns: int) -> "ir.Table":
    """Error codes with their exchange, and the dimensions."""
    own = [column.name for column in OWN]
    found = tables["errors"]
    # Codes of single records repeat the code of their partition.
    found = found.filter(~found.path.contains(RECORD_ERRORS))
    found = found.select(
        "exchange_id", "path", "code", "name", "is_retriable", "message", "resource",
        "group_id", topic_or_id=found.topic.coalesce(found.topic_id),
        partition_index=found.partition,
    )  # fmt: skip
    outer = [name for name in by if name in DIMENSIONS and name not in own]
    exchanges = with_dimensions(tables, outer, window_ns)
    exchanges = exchanges.select(
        "exchange_id",
        "client_id",
        "response_packet",
        *outer,
        of_api=exchanges.api,
        group_asked=exchanges.group_id,
        seen=exchanges.response_start.coalesce(exchanges.request_start),
    )
    rows = found.inner_join(exchanges, "exchange_id")
    return rows.mutate(
        error=rows.name,
        topic=rows.topic_or_id,
        partition=rows.partition_index,
        group=rows.group_id.coalesce(rows.group_asked),
    )


QUESTION: Final = Question(
    "errors",
    "Which errors do brokers return, to which clients, since when, and what is the remedy?",
    ("exchanges", "errors"),
    COLUMNS,
    errors,
    (BY, WINDOW),
    (
        "kdissect errors broker.pcap",
        "kdissect errors broker.pcap --by error,client_id,topic,partition",
        "kdissect errors broker.pcap --by window,error --window 1m",
        "kdissect errors broker.pcap --where \"api = 'Produce'\" --columns error,errors,advice",
    ),
    OWN,
)
