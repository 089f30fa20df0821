"""Packed rows → Arrow record batches, a column at a time; derived columns are computed here.

Longer than other modules: each derived column is computed here, next to the columns it is made of.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.exchanges.exchange import (
    CLOCK_SET,
    DAMAGED,
    FETCH_CLASSES,
    LEFTOVER,
    NO_REQUEST,
    OUTCOMES,
    REQUEST_FAILED,
    RESPONSE_FAILED,
    UNKNOWN_API,
    UNKNOWN_VERSION,
    UNSEEN,
    VARIANT_SHIFT,
    VARIANTS,
)
from kdissect.messages.old_protocols import (
    CODE_MASK,
    PROTOCOL_SHIFT,
    old_api_name,
    old_error_name,
)
from kdissect.messages.partitions import WIDTH
from kdissect.protocol.apis import api_name, vendor_api_name
from kdissect.protocol.error_codes import error_name, is_retriable
from kdissect.protocol.primitives import uuid_text
from kdissect.protocol.readers import NULL
from kdissect.tables import schemas
from kdissect.tables.arrow_streams import copied
from kdissect.tables.matrices import Ints, Memory
from kdissect.tables.row_buffers import CODECS, TIMESTAMP_TYPES, VENDOR_BASE, Rows
from kdissect.tables.rows import PartitionRows, RecordRows
from kdissect.tables.schemas import Column, Table

# Of all tables of a run. About 150 bytes a row in Arrow: 75 MB at the most.
DEFAULT_HELD_ROWS: Final = 500_000
# The same in bytes, with the texts of their batches.
HELD_BYTES: Final = 96 << 20

Flags = np.ndarray[Any, np.dtype[np.bool_]]

# An id as text, or a name that looks like one.
ID_IN_ASSIGNMENT: Final = re.compile(r"(?:^| )[\w-]{22}:", re.ASCII)

PARTITION_RUN: Final = 5  # columns that the partitions of a topic in an exchange share
CODES: Final = 1 << 16  # API keys, error codes and status bits are 16 bits wide
CODE_MAX: Final = CODES // 2 - 1  # larger values are codes of an old protocol, see rows.code_in

TEXT_TYPE: Final = pa.dictionary(pa.int32(), pa.string())
ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    schemas.TIME: pa.timestamp("ns", tz="UTC"),
    schemas.INT64: pa.int64(),
    schemas.INT32: pa.int32(),
    schemas.INT16: pa.int16(),
    schemas.INT8: pa.int8(),
    schemas.BOOL: pa.bool_(),
    schemas.TEXT: TEXT_TYPE,
    schemas.BINARY: pa.binary(),
}

STATUS_WORDS: Final = (
    (UNKNOWN_API, "unknown-api"),
    (UNKNOWN_VERSION, "unknown-version"),
    (NO_REQUEST, "no-request"),
    (DAMAGED, "damaged"),
    (CLOCK_SET, "clock-set"),
    (REQUEST_FAILED, "request"),
    (RESPONSE_FAILED, "response"),
    (LEFTOVER, "leftover"),
    (UNSEEN, "response-not-captured"),
)


def arrow_schema(table: Table, columns: Sequence[str] | None = None) -> pa.Schema:
    """The Arrow schema of a table, or of some of its columns in the order given.

    Every column carries its meaning and unit as metadata.
    """
    by_name = {column.name: column for column in table.columns}
    chosen = table.columns if columns is None else [by_name[name] for name in columns]
    return pa.schema(
        [
            pa.field(
                column.name,
                ARROW_TYPES[column.type],
                metadata={"meaning": column.meaning, "unit": column.unit},
            )
            for column in chosen
        ],
        metadata={"kdissect.table": table.name},
    )


def status_text(status: int) -> str:
    """The decode_status words of an exchange's status bits, joined with +; "ok" for 0."""
    words = [word for bit, word in STATUS_WORDS if status & bit]
    if status >> VARIANT_SHIFT:
        words.append(f"variant:{VARIANTS[(status >> VARIANT_SHIFT) - 1]}")
    return "+".join(words) or "ok"


class Shared:
    """What the tables of a run share: memory for columns, and limits on the rows held back.

    Of those, `rows` and `size` are how many there are, and their bytes.
    """

    def __init__(self) -> None:
        self.memory = Memory()
        self.rows = 0
        self.size = 0

    def add(self, batches: Iterable[pa.RecordBatch], sign: int = 1) -> None:
        """Count batches, or those that are not held back any more with a `sign` of -1."""
        for batch in batches:
            self.rows += sign * batch.num_rows
            self.size += sign * batch.nbytes


class BatchBuilder:
    """Makes record batches of one table; `captures` and `names` are shared with the run.

    Rows whose topic id has no name yet are held back until the end, when the name may have been
    learnt; at most `held_limit` of them, or `held_bytes`, and one batch; the rest goes out with a
    null topic. The same holds for assignments that contain such an id. Builders with one `shared`
    have these limits together, see `builders_of`.
    `columns` (all when None) selects the columns, in that order.
    """

    def __init__(
        self,
        table: Table,
        captures: Sequence[str],
        names: dict[bytes, str],
        columns: Sequence[str] | None = None,
        held_limit: int = DEFAULT_HELD_ROWS,
        held_bytes: int = HELD_BYTES,
        shared: Shared | None = None,
    ) -> None:
        self.table = table
        self.captures = captures
        self.names = names
        self.wanted = (
            [column.name for column in table.columns] if columns is None else list(columns)
        )
        made = list(self.wanted)
        if "topic" in made and "topic_id" not in made:
            made.append("topic_id")
        self.schema = arrow_schema(table, made)
        self.position = {column.name: i for i, column in enumerate(table.stored)}
        self.held: list[pa.RecordBatch] = []
        self.shared = Shared() if shared is None else shared
        self.held_limit = held_limit
        self.held_bytes = held_bytes

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Build one record batch of the rows in the buffer, without those held back."""
        return self._kept(columns_of(self, rows).record_batch())

    def take(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """Like `batch`, for a batch that another builder made with all columns of `schema`.

        Topics whose names only this builder knows are filled in.
        """
        return self._kept(self.named(made.select(self.schema.names)))

    def named(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """Add the names known here to a batch of another builder; holds nothing back."""
        if "topic" in self.wanted:
            return self._with_topics(made)
        if "assignment" in self.wanted:
            names = {uuid_text(raw): name for raw, name in self.names.items()}
            return self._named_assignments(made, names)
        return made

    def _with_topics(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the known names of topics that the batch has only as ids."""
        topics, ids = batch["topic"], batch["topic_id"]
        if topics.null_count == 0 or ids.null_count == len(ids):
            return batch
        texts = topics.dictionary.to_pylist()
        names = {uuid_text(raw): name for raw, name in self.names.items()}
        place = np.array(
            [len(texts) + i if text in names else NULL
             for i, text in enumerate(ids.dictionary.to_pylist())],
            np.int64,
        )  # fmt: skip
        texts += [names.get(text, "") for text in ids.dictionary.to_pylist()]
        here = ints_of(topics.indices)
        there = ints_of(ids.indices)
        by_id = np.where(there != NULL, place[np.maximum(there, 0)], int(NULL))
        values = np.where(here != NULL, here, by_id)
        index = batch.schema.get_field_index("topic")
        return batch.set_column(index, self.schema.field("topic"), dictionary(values, texts))

    def finish(self) -> list[pa.RecordBatch]:
        """Return the rows that were held back, with the names learnt since."""
        held, self.held = self.held, []
        self.shared.add(held, -1)
        names = {uuid_text(raw): name for raw, name in self.names.items()}
        name = self._named if "topic" in self.wanted else self._named_assignments
        return [name(batch, names).select(self.wanted) for batch in held]

    def _kept(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are not held back."""
        if self.shared.rows < self.held_limit and self.shared.size < self.held_bytes:
            if "topic" in self.wanted:
                made = self._hold_nameless(made)
            elif "assignment" in self.wanted:
                made = self._hold_assignments(made)
        return made.select(self.wanted)

    def _hold_nameless(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        topics, ids = batch["topic"], batch["topic_id"]
        if topics.null_count == 0 or ids.null_count == len(ids):
            return batch
        is_nameless = (ints_of(topics.indices) == NULL) & (ints_of(ids.indices) != NULL)
        return self._hold(batch, is_nameless)

    def _hold_assignments(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assignments = batch["assignment"]
        flags = [bool(ID_IN_ASSIGNMENT.search(text)) for text in assignments.dictionary.to_pylist()]
        if not any(flags):
            return batch
        indices = ints_of(assignments.indices)
        return self._hold(batch, np.array([*flags, False])[np.where(indices == NULL, -1, indices)])

    def _hold(self, batch: pa.RecordBatch, is_nameless: Flags) -> pa.RecordBatch:
        if not is_nameless.any():
            return batch
        # Imported here because pyarrow.compute takes 30 ms of a start-up of 150.
        held = batch.filter(mask(is_nameless))
        # Filtered columns share their dictionaries, which may be in a mapped file of other rows.
        held = copied(held)
        self.held.append(held)
        self.shared.add([held])
        return batch.filter(mask(~is_nameless))

    def _named(self, batch: pa.RecordBatch, names: dict[str, str]) -> pa.RecordBatch:
        ids = batch["topic_id"]
        known = [names.get(text) for text in ids.dictionary.to_pylist()]
        # The last place is for rows without an id.
        place = np.array([NULL if name is None else i for i, name in enumerate([*known, None])])
        indices = ints_of(ids.indices)
        values = place[np.where(indices == NULL, -1, indices)]
        topics = dictionary(values, [name or "" for name in known])
        return batch.set_column(
            batch.schema.get_field_index("topic"), self.schema.field("topic"), topics
        )

    def _named_assignments(self, batch: pa.RecordBatch, names: dict[str, str]) -> pa.RecordBatch:
        column = batch["assignment"]
        texts = [with_names(text, names) for text in column.dictionary.to_pylist()]
        assignments = dictionary(ints_of(column.indices), texts)
        index = batch.schema.get_field_index("assignment")
        return batch.set_column(index, self.schema.field("assignment"), assignments)


def builders_of(
    tables: Iterable[str],
    captures: Sequence[str],
    names: dict[bytes, str],
    columns: Mapping[str, Sequence[str] | None],
    held_limit: int = DEFAULT_HELD_ROWS,
) -> dict[str, BatchBuilder]:
    """Builders of the tables of a run, which share memory and the limits on what is held back."""
    shared = Shared()
    return {
        name: BatchBuilder(
            schemas.TABLES[name], captures, names, columns.get(name), held_limit, shared=shared
        )
        for name in tables
    }


class Columns:
    """The columns of one batch under construction.

    A row of the buffer is one row of the table, or as many as `repeats` says; values
    that differ between those are in `single`, at column width without nulls, or listed in `own`.
    """

    def __init__(
        self,
        builder: BatchBuilder,
        rows: Rows,
        by_name: dict[str, Ints],
        single: dict[str, Ints] | None = None,
        repeats: Ints | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self.builder = builder
        self.rows = rows
        self.by_name = by_name
        self.single = {} if single is None else single
        self.repeats = repeats
        self.own = own

    def record_batch(self) -> pa.RecordBatch:
        """Build the columns of the builder's schema."""
        by_name = {column.name: column for column in self.builder.table.columns}
        arrays = [self._array(by_name[name]) for name in self.builder.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.builder.schema)

    def ints(self, name: str) -> Ints:
        """The raw integers of a stored column."""
        return self.by_name[name]

    def _array(self, column: Column) -> pa.Array:
        if not column.stored:
            return DERIVED[column.name](self)
        if column.name in self.single:
            return narrow(self.single[column.name], ARROW_TYPES[column.type])
        values = self.ints(column.name)
        if column.type == schemas.TEXT:
            return self._text(column.name, values)
        repeats = None if column.name in self.own else self.repeats
        return numbers(values, ARROW_TYPES[column.type], repeats)

    def _text(self, name: str, values: Ints) -> pa.Array:
        if name == "capture":
            return dictionary(values, self.builder.captures, self.repeats)
        if name == "topic":
            return self._topics(values)
        if name == "topic_id":
            texts = [uuid_text(raw) for raw in self.rows.topic_ids.indices]
            return dictionary(values, texts, self.repeats)
        if name == "decode_status":
            statuses, inverse = distinct(values)
            return dictionary(inverse, [status_text(status) for status in statuses])
        if name in FIXED_TEXTS:
            return dictionary(values, FIXED_TEXTS[name])
        known = self.rows.texts.get(name)
        texts = list(known.indices) if known is not None else []
        if name == "assignment":
            by_id = {uuid_text(raw): name for raw, name in self.builder.names.items()}
            texts = [with_names(text, by_id) for text in texts]
        return dictionary(values, texts)

    def _topics(self, values: Ints) -> pa.Array:
        """Topic names; names of rows with only an id are looked up among the learnt ones."""
        texts = list(self.rows.texts["topic"].indices)
        ids = self.ints("topic_id")
        nameless = (values == NULL) & (ids != NULL)
        if nameless.any():
            known = [self.builder.names.get(raw, "") for raw in self.rows.topic_ids.indices]
            place = np.full(len(known), NULL, np.int64)
            for i, name in enumerate(known):
                if name:
                    place[i] = len(texts)
                    texts.append(name)
            values = values.copy()
            values[nameless] = place[ids[nameless]]
        return dictionary(values, texts, self.repeats)


def columns_of(builder: BatchBuilder, rows: Rows) -> Columns:
    """Return the packed rows as columns of integers; the next batch overwrites them."""
    names = list(builder.position)
    packed_rows = np.frombuffer(rows.buffer.getvalue(), np.int64)
    if isinstance(rows, PartitionRows):
        return partition_columns(builder, rows, names, packed_rows)
    if not isinstance(rows, RecordRows):
        by_column = builder.shared.memory.turned(packed_rows.reshape(rows.count, len(names)))
        return Columns(builder, rows, dict(zip(names, by_column, strict=True)))
    single = record_columns(rows)
    names = [name for name in names if name not in single]
    runs = builder.shared.memory.turned(packed_rows.reshape(-1, len(names) + 1))
    return Columns(builder, rows, dict(zip(names, runs, strict=False)), single, runs[-1])


def partition_columns(
    builder: BatchBuilder, rows: PartitionRows, names: list[str], packed_rows: Ints
) -> Columns:
    """Columns of partitions: runs, and cells without their first, which is the run's topic."""
    runs = builder.shared.memory.turned(packed_rows.reshape(-1, PARTITION_RUN + 1))
    cells = np.frombuffer(memoryview(rows.cells), np.int64).reshape(rows.count, WIDTH)
    by_name = dict(zip(names, runs, strict=False))
    own = names[PARTITION_RUN:]
    by_name |= dict(zip(own, builder.shared.memory.turned(cells[:, 1:], 1), strict=True))
    return Columns(builder, rows, by_name, None, runs[-1], frozenset(own))


def record_columns(rows: RecordRows) -> dict[str, Ints]:
    """Columns in which the records of a batch differ, at their packed width."""
    columns = rows.columns
    wide = {"offset": columns.offsets, "time": columns.times}
    sizes = {
        "key_size": columns.key_sizes,
        "value_size": columns.value_sizes,
        "header_count": columns.header_counts,
    }
    found = {name: np.frombuffer(packed.getvalue(), np.int64) for name, packed in wide.items()}
    return found | {
        name: np.frombuffer(packed.getvalue(), np.int32) for name, packed in sizes.items()
    }


def with_names(assignment: str, by_id: Mapping[str, str]) -> str:
    """Return an assignment with topic ids replaced by names.

    >>> with_names("cjI4FDbRahK6PF_HbOOekA:0,1 other:2", {"cjI4FDbRahK6PF_HbOOekA": "orders"})
    'orders:0,1 other:2'
    """
    parts = [part.rpartition(":") for part in assignment.split(" ")]
    return " ".join(f"{by_id.get(topic, topic)}{colon}{rest}" for topic, colon, rest in parts)


def numbers(values: Ints, arrow_type: pa.DataType, repeats: Ints | None = None) -> pa.Array:
    """Convert integers to an Arrow array of its own, each `repeats` times; NULL becomes null.

    Widths were proven when they were decoded.
    """
    missing = values == NULL
    gone = expanded(missing, repeats) if missing.any() else None
    if pa.types.is_boolean(arrow_type):
        flags = expanded(values == 1, repeats)
        return packed(np.packbits(flags, bitorder="little"), arrow_type, len(flags), gone)
    width = arrow_type.bit_width // 8
    narrowed = expanded(values.astype(f"<i{width}"), repeats)
    return packed(narrowed, arrow_type, len(narrowed), gone)


def narrow(values: Ints, arrow_type: pa.DataType) -> pa.Array:
    """Like `numbers`, for integers at column width; of 32 bits, -1 becomes null."""
    missing = values == (NULL if values.itemsize == 8 else -1)
    return packed(values, arrow_type, len(values), missing if missing.any() else None)


def expanded(values: np.ndarray[Any, Any], repeats: Ints | None) -> np.ndarray[Any, Any]:
    """Repeat each value as often as `repeats` says; once when that is None."""
    return values if repeats is None else np.repeat(values, repeats)


def ints_of(array: pa.Array) -> Ints:
    """Integers of an Arrow array, NULL for nulls: the inverse of `numbers`.

    Avoids `to_numpy`, which imports pandas too.
    """
    width = array.type.bit_width // 8
    validity, content = array.buffers()
    last = array.offset + len(array)
    values = np.frombuffer(content, f"<i{width}", last)[array.offset :].astype(np.int64)
    if array.null_count:
        flags = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little", count=last)
        values[flags[array.offset :] == 0] = NULL
    return values


def packed(
    values: np.ndarray[Any, Any], arrow_type: pa.DataType, count: int, missing: Flags | None
) -> pa.Array:
    """Build an Arrow array over the bytes of `count` values, null where `missing`.

    Avoids `pa.array`, which imports pandas (0.2 s) to inspect its argument.
    """
    validity = None
    if missing is not None:
        validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(arrow_type, count, [validity, pa.py_buffer(values)])


def mask(flags: Flags) -> pa.Array:
    """Flags as an Arrow array; avoids `pa.array`, see `packed`."""
    return packed(np.packbits(flags, bitorder="little"), pa.bool_(), len(flags), None)


def dictionary(values: Ints, texts: Sequence[str], repeats: Ints | None = None) -> pa.Array:
    """Indices into `texts` as a dictionary array, each `repeats` times.

    NULL becomes null, equal texts become one.
    """
    missing = values == NULL
    indices = values.astype("<i4")  # of NULL, the lower 32 bits are 0
    unique = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    if len(unique) < len(texts):
        indices = np.array([unique[text] for text in texts], "<i4")[indices]
    indices = expanded(indices, repeats)
    gone = expanded(missing, repeats) if missing.any() else None
    index_array = packed(indices, pa.int32(), len(indices), gone)
    # Arrow's check of each index takes as long as converting it. A null's index, 0, counts here.
    is_within = bool(indices.view("<u4").max(initial=0) < len(unique))
    return pa.DictionaryArray.from_arrays(index_array, strings(unique), safe=not is_within)


def strings(texts: Iterable[str]) -> pa.Array:
    """Texts as an Arrow array; avoids `pa.array`, see `packed`.

    Names of files that are not UTF-8 have lone surrogates, which become escapes.
    """
    encoded = [text.encode("utf-8", "backslashreplace") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype("<i4")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def distinct(codes: Ints) -> tuple[list[int], Ints]:
    """Distinct 16-bit codes of a column and each row's index among them; NULL is a code too.

    Uses a table of all codes: sorting 65 536 rows takes longer than all the rest of the column.
    """
    shifted = np.where(codes == NULL, CODES, codes & (CODES - 1))
    present = np.flatnonzero(np.bincount(shifted, minlength=CODES + 1))
    place = np.zeros(CODES + 1, np.int64)
    place[present] = np.arange(len(present))
    signed = [code - CODES if CODES // 2 <= code < CODES else code for code in present.tolist()]
    return [int(NULL) if code == CODES else code for code in signed], place[shifted]


def minus(later: Ints, earlier: Ints) -> Ints:
    """Difference later - earlier, NULL where either is NULL."""
    result = later - earlier
    result[(later == NULL) | (earlier == NULL)] = NULL
    return result


def passed(later: str, earlier: str) -> Callable[[Columns], pa.Array]:
    """Derived column of `exchanges`: the time from `earlier` to `later`, see `_passed`."""

    def make(columns: Columns) -> pa.Array:
        return numbers(_passed(columns, later, earlier), pa.int64())

    return make


def _passed(columns: Columns, later: str, earlier: str) -> Ints:
    """Time between two moments; NULL where unknown.

    It is unknown where packets are not in order of time, and where the capture's clock was set.
    """
    result = minus(columns.ints(later), columns.ints(earlier))
    result[(result < 0) | (columns.ints("decode_status") & CLOCK_SET != 0)] = NULL
    return result


def _latency(columns: Columns) -> Ints:
    return _passed(columns, "response_start", "request_end")


def _service(columns: Columns) -> Ints:
    return minus(_latency(columns), columns.ints("queue_ns"))


def _work(columns: Columns) -> Ints:
    return minus(_service(columns), columns.ints("wait_ns"))


def _named(column: str, name: Callable[[int], str]) -> Callable[[Columns], pa.Array]:
    """Derived column: the name of each code in `column`; null for codes without a name."""

    def make(columns: Columns) -> pa.Array:
        codes, inverse = distinct_codes(columns.ints(column))
        texts = ["" if code == NULL else name(code) for code in codes]
        has_name = np.array([bool(text) for text in texts], bool)
        places = np.where(has_name, np.arange(len(codes)), int(NULL))
        return dictionary(places[inverse], texts)

    return make


def distinct_codes(codes: Ints) -> tuple[list[int], Ints]:
    """Like `distinct`, for codes that may include those of old protocols."""
    if not (codes > CODE_MAX).any():
        return distinct(codes)
    different, inverse = np.unique(codes, return_inverse=True)
    return different.tolist(), inverse


def _api_text(code: int) -> str:
    protocol, key = in_protocol(code)
    if protocol > VENDOR_BASE:
        return vendor_api_name(protocol - VENDOR_BASE, key)
    return old_api_name(protocol, key) if protocol else api_name(key)


def _error_text(code: int) -> str:
    protocol, number = in_protocol(code)
    if number == 0:
        return ""
    return old_error_name(number) if protocol else error_name(number)


def in_protocol(code: int) -> tuple[int, int]:
    """Split a code into its old protocol, 0 for none, and its code there; see `rows.code_in`.

    >>> in_protocol(-1), in_protocol(0x1_FFFF), in_protocol(0x2_0003)
    ((0, -1), (1, -1), (2, 3))
    """
    if code <= CODE_MAX:
        return 0, code
    number = code & CODE_MASK
    return code >> PROTOCOL_SHIFT, number - CODES if number > CODE_MAX else number


def _retriable(columns: Columns) -> pa.Array:
    codes, inverse = distinct_codes(columns.ints("code"))
    # No error of the old protocols is retriable: their clients raise them all.
    flags = np.array([code <= CODE_MAX and is_retriable(code) for code in codes], np.int64)
    return numbers(flags[inverse], pa.bool_())


def _payload(name: str) -> Callable[[Columns], pa.Array]:
    """Derived column of `records`: null everywhere unless payload was requested."""

    def make(columns: Columns) -> pa.Array:
        rows = columns.rows
        if not isinstance(rows, RecordRows) or not rows.keys:
            return pa.nulls(rows.count, pa.binary())
        if name == "headers":
            return pa.array([headers_json(headers) for headers in rows.headers], pa.binary())
        return pa.array(rows.keys if name == "key" else rows.values, pa.binary())

    return make


def headers_json(headers: list[tuple[bytes, bytes | None]]) -> bytes | None:
    """Record headers as a JSON list of [key, value]; bytes that are not UTF-8 are escaped."""
    if not headers:
        return None
    pairs = [
        [None if part is None else part.decode("utf-8", "backslashreplace") for part in pair]
        for pair in headers
    ]
    return json.dumps(pairs, ensure_ascii=False).encode()


FIXED_TEXTS: Final[dict[str, Sequence[str]]] = {
    "outcome": OUTCOMES,
    "fetch_class": FETCH_CLASSES,
    "codec": CODECS,
    "timestamp_type": TIMESTAMP_TYPES,
}
DERIVED: Final[dict[str, Callable[[Columns], pa.Array]]] = {
    "api": _named("api_key", _api_text),
    "latency_ns": passed("response_start", "request_end"),
    "upload_ns": passed("request_end", "request_start"),
    "download_ns": passed("response_end", "response_start"),
    "service_ns": lambda columns: numbers(_service(columns), pa.int64()),
    "work_ns": lambda columns: numbers(_work(columns), pa.int64()),
    "error": _named("error_code", _error_text),
    "name": _named("code", _error_text),
    "is_retriable": _retriable,
    "key": _payload("key"),
    "value": _payload("value"),
    "headers": _payload("headers"),
}
