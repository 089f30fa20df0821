"""Columns of `problems`."""

from kdissect.messages.columns import INT64, TEXT, TIME, Column
from kdissect.tables.declarations.table import CAPTURE, CONNECTION_ID, EXCHANGE_ID, Table

PROBLEMS = Table(
    "problems",
    "a problem of the input, or a limit that was reached",
    (
        CAPTURE._replace(source="problem.capture"),
        CONNECTION_ID._replace(source="or_null(problem.connection_id)"),
        EXCHANGE_ID._replace(source="or_null(problem.exchange_id)"),
        Column(
            "stage", TEXT, "",
            "capture, packets, streams, frames, messages, exchanges, tables or live",
            source="own.index(problem.stage)",
        ),
        Column("kind", TEXT, "",
            "fixed identifier of the kind of problem", source="own.index(problem.kind)"),
        Column(
            "time", TIME, "", "packet time, where there is one",
            source="or_null(problem.time_ns)",
        ),
        Column(
            "packet_number", INT64, "", "frame number, where there is one",
            source="or_null(problem.packet_number)",
        ),
        Column("bytes", INT64, "bytes", "bytes concerned", source="problem.bytes"),
        Column("message", TEXT, "", "description", source="own.index(problem.message)"),
    ),
)  # fmt: skip
