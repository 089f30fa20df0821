"""Topic names learned from later captures, for rows in which only the topic id is known."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kdissect.tables.batches import ID_IN_ASSIGNMENT, TEXT_TYPE, with_names

# In the syntax of RE2, which Arrow uses.
ID_PATTERN: Final = ID_IN_ASSIGNMENT.pattern.replace(r"\w", "[:word:]")


def renamed(rows: pa.Table, by_id: Mapping[str, str]) -> pa.Table:
    """Rows of a dataset table with topic ids replaced by the names known for them."""
    if "topic" in rows.schema.names:
        rows = replaced(rows, "topic", with_topics(rows, by_id))
    if "assignment" in rows.schema.names:
        column = rows["assignment"].combine_chunks().cast(pa.string()).dictionary_encode()
        texts = [with_names(text, by_id) for text in column.dictionary.to_pylist()]
        made = pc.take(pa.array(texts, pa.string()), column.indices)
        rows = replaced(rows, "assignment", made)
    return rows


def with_topics(rows: pa.Table, by_id: Mapping[str, str]) -> pa.Array:
    """The topic column with known names in place of ids."""
    places = pc.index_in(
        rows["topic_id"].combine_chunks().cast(pa.string()),
        pa.array(by_id, pa.string()),
        skip_nulls=True,
    )
    found = pc.take(pa.array(by_id.values(), pa.string()), places)
    return pc.coalesce(rows["topic"].combine_chunks().cast(pa.string()), found)


def nameless(rows: pa.Table) -> pa.Array:
    """Mask of the rows whose topic name is still unknown."""
    flags = pa.array([False] * rows.num_rows)
    if "topic" in rows.schema.names:
        flags = pc.and_(pc.is_null(rows["topic"]), pc.is_valid(rows["topic_id"]))
    if "assignment" in rows.schema.names:
        texts = rows["assignment"].cast(pa.string())
        has_id = pc.fill_null(pc.match_substring_regex(texts, ID_PATTERN), False)
        flags = pc.or_(flags, has_id)
    return flags


def replaced(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """The rows with one column's texts replaced."""
    index = rows.schema.get_field_index(name)
    made = column.dictionary_encode().cast(TEXT_TYPE)
    return rows.set_column(index, rows.schema.field(index), made)
