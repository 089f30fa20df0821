"""Output of a projected decode of a body, to compare ways of reading."""

from kdissect.errors import DecodeError
from kdissect.messages.extracted import FieldSink
from kdissect.protocol.plans import Plan
from kdissect.protocol.readers import FAILED, Sink


def by_tree(plan: Plan, data: bytes, sink: Sink, offset: int = 1) -> int:
    """The offset behind the body, or FAILED."""
    try:
        return int(plan.reader.project(data, offset, sink))
    except DecodeError:
        return FAILED


def facts_of(sink: FieldSink) -> dict[str, object]:
    """All values of a sink for a body."""
    said: dict[str, object] = {
        name: getattr(sink, name)
        for name in (
            "error_count", "topic_count", "top_error", "first_error", "throttle_ms",
            "session_id", "session_epoch", "record_count", "record_bytes", "has_records",
            "software_name", "software_version", "mechanism", "auth_bytes", "protocol_type",
            "protocol_name", "corrupt_records", "names",
        )
    }  # fmt: skip
    said["asked"] = values_of(sink.asked)
    partitions = sink.take_partitions()
    said["partitions"] = [values_of(row) for row in partitions.rows()] if partitions else []
    said["errors"] = [values_of(error) for error in sink.errors]
    return said


def values_of(row: object) -> dict[str, object]:
    """All values of a row; compiled classes have no `__slots__`."""
    names = [name for name in dir(row) if not name.startswith("_")]
    values = {name: getattr(row, name) for name in names if not callable(getattr(row, name))}
    if values.get("batches"):
        values["batches"] = [values_of(batch) for batch in values["batches"]]
    return values
