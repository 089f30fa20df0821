"""Writers of rows in this build: compiled, or made of the same source when first needed."""

from functools import cache
from typing import Any

from kdissect.messages.generated_code import is_interpreted
from kdissect.tables.row_buffers import Rows
from kdissect.tables.writers_source import module_source


@cache
def writer_classes() -> dict[str, Any]:
    """The class of each table."""
    if is_interpreted():
        names: dict[str, Any] = {}
        exec(compile(module_source(), "<generated_writers>", "exec"), names)  # noqa: S102  # our own
        found: dict[str, Any] = names["WRITERS"]
        return found
    from kdissect.tables.generated_writers import WRITERS

    return dict(WRITERS)


def new_writer(table: str, rows: Rows) -> object:
    """A writer of a table, whose texts are in the dictionaries of `rows`."""
    made: object = writer_classes()[table](rows)
    return made
