"""The JSON documents of --json: what each command prints, with a version.

Every document is one object with `schema_version` and `command`; docs/json.md describes them, and
`schema.json` beside this module holds for all of them. Within a version, fields are only added.
"""

import json
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Final

import click

from kdissect.cli.long_values import row_pieces
from kdissect.text.escape import json_safe

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION: Final = 1
PROGRAM: Final = "kdissect"
# Names of units in Arrow's metadata, and of types in a document.
UNIT: Final = b"unit"
BETWEEN: Final = b",\n"


def head(command: str) -> dict[str, Any]:
    """The first fields of a document."""
    return {"schema_version": SCHEMA_VERSION, "command": command}


def current_command() -> str:
    """The command that runs: ``latency``, ``spark dissect``."""
    return click.get_current_context().command_path.partition(" ")[2]


def print_document(content: Mapping[str, Any], command: str | None = None) -> None:
    """Print a document on stdout, in one line."""
    said = {**head(current_command() if command is None else command), **content}
    click.echo(json_safe(json.dumps(said, ensure_ascii=False)))


class DocumentWriter:
    """Rows as one document: ``{"schema_version": 1, "command": …, "columns": […], "rows": […]}``.

    Each row is a line; the members in `extra` come before the rows.
    """

    def __init__(
        self,
        file: IO[bytes],
        schema: "pa.Schema | None" = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._file = file
        self._schema = schema
        self._extra = extra or {}
        self._count = 0
        self._is_begun = False

    def write_object(self, row: Mapping[str, Any]) -> None:
        """Write one row."""
        self.begin(self._schema)
        self._file.write(BETWEEN if self._count else b"\n")
        for piece in row_pieces(row):
            self._file.write(piece)
        self._count += 1

    def close(self) -> None:
        self.begin(self._schema)
        self._file.write(b"\n]}\n" if self._count else b"]}\n")

    def begin(self, schema: "pa.Schema | None") -> None:
        """Write the part before the rows, once."""
        if self._is_begun:
            return
        self._is_begun = True
        content = head(current_command())
        if schema is not None:
            content["columns"] = described(schema)
        content |= self._extra
        text = json_safe(json.dumps(content, ensure_ascii=False))
        self._file.write(text[:-1].encode() + b', "rows": [')


def described(schema: "pa.Schema") -> list[dict[str, str]]:
    """Name, type and unit of columns."""
    return [
        {"name": field.name, "type": type_of(field.type), "unit": unit_of(field)}
        for field in schema
    ]


def unit_of(field: "pa.Field") -> str:
    """The unit of a column: as declared, else by the end of its name."""
    declared = (field.metadata or {}).get(UNIT)
    if declared is not None:
        return str(declared.decode())
    return "ns" if field.name.endswith("_ns") else ""


def type_of(kind: "pa.DataType") -> str:
    """The type of a column's cells in a document; all may be null."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return type_of(kind.value_type)
    for name, is_one in (
        ("boolean", types.is_boolean),
        ("integer", types.is_integer),
        ("number", lambda one: types.is_floating(one) or types.is_decimal(one)),
        ("time", types.is_timestamp),
        ("string", lambda one: types.is_string(one) or types.is_large_string(one)),
        ("bytes", lambda one: types.is_binary(one) or types.is_large_binary(one)),
    ):
        if is_one(kind):
            return name
    return "value"
