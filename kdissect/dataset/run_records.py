"""Records of the table `runs`: what each run changed in a dataset, and which runs are done.

    run  number  item     value (JSON)
    7    0       begun    the version of these records
    7    1       options  those that rows depend on
    7    2       tap      a tap as it is after the run, without its captures and files
    7    3       capture  a capture of a tap, behind those before
    7    4       broken   a capture that could not be read
    7    5       mended   the path of one that is no longer broken
    7    6       add      a file of a table that the run has written
    7    7       remove   a file that these replace
    7    0       done     the version of each table with the files of the run

All but the last are one commit, by which the run is decided; "done" is another one, when all
tables have its files (`runs`). So the contents of a dataset are the records of all runs that are
done, in the order of runs and numbers, with the files of the tables in the versions of the last.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kdissect.dataset.delta_actions import Added, Removed
from kdissect.dataset.entries import (
    Contents,
    TapEntry,
)
from kdissect.errors import DatasetError
from kdissect.tables.batches import numbers, strings
from kdissect.tables.stored_rows import believed

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int64(), metadata={"comment": "number of the run"}),
        pa.field("number", pa.int64(), metadata={"comment": "order of the records of a run"}),
        pa.field("item", pa.string(), metadata={"comment": "what the value is"}),
        pa.field("value", pa.string(), metadata={"comment": "JSON"}),
    ]
)
BEGUN: Final = "begun"
DONE: Final = "done"
VERSION: Final = 1  # of the records
# Of all values; 1 kB a capture would be 250 000 captures.
VALUE_BYTES: Final = 256 << 20


class Record(NamedTuple):
    """A row of the table."""

    run: int
    number: int
    item: str
    value: str


@dataclass
class Change:
    """Files of a run, to be committed to the tables."""

    added: list[Added] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)

    def of(self, table: str) -> tuple[list[Added], list[Removed]]:
        """Files of one table."""
        return (
            [one for one in self.added if one.table == table],
            [one for one in self.removed if one.table == table],
        )


def records_of(before: Contents, after: Contents, change: Change) -> list[Record]:
    """Records of the run that leads from one state of the contents to the next."""
    made: list[tuple[str, Any]] = [(BEGUN, {"version": VERSION})]
    if after.options != before.options:
        made.append(("options", after.options))
    known = {tap.number: tap for tap in before.taps}
    for tap in after.taps:
        old = known.get(tap.number)
        new = tap.captures[len(old.captures) if old else 0 :]
        if old is not None and not new and described(tap) == described(old):
            continue
        made.append(("tap", described(tap)))
        made += [("capture", {"tap": tap.number, **asdict(one)}) for one in new]
    made += [("broken", asdict(one)) for one in after.broken if one not in before.broken]
    left = {one.path for one in after.broken}
    made += [("mended", one.path) for one in before.broken if one.path not in left]
    made += [("add", asdict(one)) for one in change.added]
    made += [("remove", asdict(one)) for one in change.removed]
    return [
        Record(after.run, number, item, json.dumps(value))
        for number, (item, value) in enumerate(made)
    ]


def described(tap: TapEntry) -> dict[str, Any]:
    """A tap as its record has it."""
    made = asdict(tap)
    del made["captures"], made["files"]
    return {
        **made,
        "open": [file.path for file in tap.files if file.is_open],
        "nameless": [file.path for file in tap.files if file.is_nameless],
    }


def done_record(run: int, versions: Mapping[str, int]) -> Record:
    """The record that all tables have the files of a run."""
    return Record(run, 0, DONE, json.dumps(versions))


def to_parquet(records: Sequence[Record]) -> bytes:
    """Records as a Parquet file."""
    runs, places, items, values = zip(*records, strict=True)
    # `pa.array` imports pandas, which takes as long as all the rest of a small run.
    arrays = [
        *(numbers(np.array(one, np.int64), pa.int64()) for one in (runs, places)),
        *(strings(one) for one in (items, values)),
    ]
    content = BytesIO()
    parquet.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), content, compression="zstd")
    return content.getvalue()


def from_parquet(content: bytes, where: str) -> list[Record]:
    """Records in a Parquet file; raises DatasetError for another one."""
    texts = [field.name for field in SCHEMA if pa.types.is_string(field.type)]
    with (
        believed(where),
        # Equal texts are one, until they were counted.
        parquet.ParquetFile(BytesIO(content), read_dictionary=texts) as file,
    ):
        rows = file.read(SCHEMA.names)
        if sum(map(size_of, rows.columns)) > VALUE_BYTES:
            raise DatasetError(f"{where}: more than {VALUE_BYTES} bytes of records")
        rows = rows.cast(SCHEMA)
        columns = [rows[name].to_pylist() for name in SCHEMA.names]
    if any(value is None for column in columns for value in column):
        raise DatasetError(f"{where}: a record without a value")
    return [Record(*values) for values in zip(*columns, strict=True)]


def size_of(column: pa.ChunkedArray) -> int:
    """Bytes of a column's values, equal ones counted each time."""
    import pyarrow.compute as pc  # slow to import

    size = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = pc.binary_length(chunk.dictionary)
            size += pc.sum(pc.take(lengths, chunk.indices).cast(pa.int64())).as_py() or 0
        else:
            size += chunk.nbytes
    return size
