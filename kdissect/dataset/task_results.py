"""Results of tasks, serialized to bytes: they also travel through files of Spark."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from kdissect.checkpoint.codec.captures import SPLITS
from kdissect.dataset.entries import CaptureEntry, FileEntry
from kdissect.dataset.planning import Failed, Inspected
from kdissect.dataset.taps import Broken
from kdissect.dataset.tasks import BroughtIn, Merged
from kdissect.encoding.choices import Plain
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    TEXT,
    Converted,
    Dict,
    Fixed,
    Kind,
    Many,
    Record,
    named,
)
from kdissect.tables.arrow_streams import stream_bytes

FIELD_KINDS: Final[Mapping[Any, Kind]] = {str: TEXT, int: INT, bool: BOOL}


def entry(kind: Any) -> Record:
    """Encoding of a dataclass of texts, numbers and bools."""
    return Record(kind, **{field.name: FIELD_KINDS[field.type] for field in fields(kind)})


def ipc_bytes(table: pa.Table) -> bytes:
    """Serialize a table as an Arrow stream."""
    return stream_bytes(table.schema, table.to_batches())


def ipc_table(content: bytes) -> pa.Table:
    """Table of an Arrow stream; raises ArrowInvalid for other bytes."""
    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


FILE: Final = entry(FileEntry)
MERGED: Final = named(Merged, balance=Plain(), latest_ns=INT, is_new=BOOL, oldest=INT)
VALUE: Final = Plain(
    file=(FileEntry, FILE),
    failed=(Failed, named(Failed, tap=TEXT, message=TEXT)),
    inspected=(Inspected, named(Inspected, entry=entry(CaptureEntry), splits=SPLITS)),
    broken=(Broken, named(Broken, path=TEXT, message=TEXT, size=INT, modified_ns=INT)),
    brought_in=(
        BroughtIn,
        named(BroughtIn, files=Many(FILE), merged=MERGED, sizes=Dict(TEXT, INT)),
    ),
    merged=(Merged, MERGED),
    table=(pa.Table, Converted(BYTES, ipc_bytes, ipc_table)),
)
DOCUMENT: Final = Document(6, "answer of a task", 3, Fixed(BOOL, VALUE))


def answer_bytes(is_good: bool, answer: Any) -> bytes:
    """Serialize a result; with false it is the text of an error."""
    return dump(DOCUMENT, (is_good, answer))


def answer_in(content: bytes) -> tuple[bool, Any]:
    """Deserialize a result; raises EncodingError for other bytes."""
    is_good, answer = load(DOCUMENT, content)
    return is_good, answer
