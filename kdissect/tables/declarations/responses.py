"""Columns of `errors`, `members` and `bodies`."""

from kdissect.messages.columns import BOOL, INT16, INT32, TEXT, TIME, Column
from kdissect.tables.declarations.table import (
    API_NAME,
    CAPTURE,
    CONNECTION_ID,
    ERROR_NAME,
    EXCHANGE_ID,
    Table,
)

ERRORS = Table(
    "errors",
    "an error code other than 0 anywhere in a response, or a record that it concerns",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "path", TEXT, "", "field of the response, like responses[].partitions[].error_code",
            source="own.index(error.path)",
        ),
        Column("code", INT16, "", "error code", source="code_in(x.dialect, error.code)"),
        Column("name", TEXT, "", "its name", stored=False),
        Column("is_retriable", BOOL, "", "clients may retry it", stored=False),
        Column(
            "message", TEXT, "", "error message beside the code",
            source="own.index_or_null(error.message)",
        ),
        Column("topic", TEXT, "", "topic concerned", source="own.index_or_null(error.topic)"),
        Column(
            "topic_id", TEXT, "", "topic id concerned",
            source="topic_ids.index_or_null(error.topic_id)",
        ),
        Column("partition", INT32, "", "partition concerned", source="error.partition"),
        Column(
            "group_id", TEXT, "", "group concerned",
            source="own.index_or_null(error.group or x.asked.group_id)",
        ),
        Column(
            "resource", TEXT, "",
            "other resource concerned: that of a config or ACL, user, member, record, ...",
            source="own.index_or_null(error.resource)",
        ),
    ),
)  # fmt: skip

MEMBERS = Table(
    "members",
    "an event of a group member; heartbeats that change nothing have no row",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "time", TIME, "", "packet with the first byte of the request",
            source="x.request_start",
        ),
        Column(
            "client_id", TEXT, "", "client id of the request header",
            source="own.index_or_none(x.client_id)",
        ),
        Column("group_id", TEXT, "", "group", source="own.index_or_null(m.group_id)"),
        Column(
            "member_id", TEXT, "", "member, as the response names it where it does",
            source="own.index_or_null(m.member_id)",
        ),
        Column(
            "group_instance_id", TEXT, "", "name of a static member",
            source="own.index_or_null(m.group_instance_id)",
        ),
        Column(
            "generation", INT32, "",
            "generation of the group; member epoch in groups of the new protocols",
            source="int_or_null(m.generation)",
        ),
        Column(
            "event", TEXT, "",
            "join, leave, sync (a member gets its assignment), assign (the leader or the broker "
            "assigns), heartbeat (answered with an error), owned and subscribe (the member "
            "states its partitions or topics), epoch (the member's epoch changes)",
            source="own.index(m.event)",
        ),
        Column(
            "protocol", TEXT, "", "assignor: the group's choice, else the member's first",
            source="own.index_or_null(m.protocol)",
        ),
        Column(
            "is_leader", BOOL, "", "the member leads the group (classic groups)",
            source="flag_or_null(m.is_leader)",
        ),
        Column(
            "subscription", TEXT, "",
            "topics and /patterns/ with blanks between; a Connect worker's URL and config offset",
            source="own.index_or_null(m.subscription)",
        ),
        Column(
            "assignment", TEXT, "",
            "like orders:0,1 payments:2; connectors with tasks; active, standby and warmup tasks "
            "by subtopology",
            source="own.index_or_null(m.assignment)",
        ),
        Column(
            "reason", TEXT, "", "reason given by the member or the broker",
            source="own.index_or_null(m.reason)",
        ),
        Column(
            "error_code", INT16, "", "error code of the response, for this member",
            source="int_or_null(m.error_code)",
        ),
        ERROR_NAME,
    ),
)  # fmt: skip

BODIES = Table(
    "bodies",
    "request and response of an exchange in full",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column("api_key", INT16, "", "API key of the request", source="api_code(x)"),
        Column("api", TEXT, "", API_NAME, stored=False),
        Column("api_version", INT16, "", "API version of the request", source="x.api_version"),
        Column(
            "request", TEXT, "",
            "the request's body as JSON, credentials redacted, records with their sizes (keys "
            "and values only with payload); null if it cannot be decoded",
            source="own.index_or_null(request)",
        ),
        Column(
            "response", TEXT, "", "the response's body, likewise",
            source="own.index_or_null(response)",
        ),
    ),
    is_default=False,
)  # fmt: skip
