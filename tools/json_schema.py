"""The JSON schema of --json output, made of the declared columns: docs/json.schema.json."""

import json
from collections.abc import Iterable
from typing import Any, Final

import click

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.compare import comparison
from kdissect.analysis.dimensions import DIMENSIONS, column_name, dimension_column, short_name
from kdissect.analysis.question import RATE, SHARE, Question
from kdissect.cli.documents import SCHEMA_VERSION
from kdissect.cli.program import COMMANDS, program
from kdissect.tables import schemas
from kdissect.tables.schemas import TABLES, Column

TIME: Final = {
    "type": ["string", "null"],
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$",
}
WHOLE: Final = {"type": ["integer", "null"]}
TYPES: Final[dict[str, dict[str, Any]]] = {
    schemas.TIME: TIME,
    schemas.TEXT: {"type": ["string", "null"]},
    schemas.BOOL: {"type": ["boolean", "null"]},
    schemas.BINARY: {"$ref": "#/$defs/bytes"},
    SHARE: {"type": ["number", "null"]},
    RATE: {"type": ["number", "null"]},
} | dict.fromkeys((schemas.INT8, schemas.INT16, schemas.INT32, schemas.INT64), WHOLE)
COUNTS: Final = {"type": "object", "additionalProperties": {"type": "integer"}}
COUNT: Final = {"type": "integer", "minimum": 0}


def schema_page() -> str:
    """The schema as text."""
    return json.dumps(schema(), indent=1) + "\n"


def schema() -> dict[str, Any]:
    """One schema for the documents of all commands."""
    documents = documents_by_command()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Documents of kdissect --json, schema_version {SCHEMA_VERSION}",
        "description": "Printed from the declared columns by `make docs`; do not edit.",
        "type": "object",
        "required": ["schema_version", "command"],
        "properties": {
            "schema_version": {"const": SCHEMA_VERSION},
            "command": {"enum": list(documents)},
        },
        "allOf": [
            {
                "if": {"properties": {"command": {"const": command}}},
                "then": {"$ref": f"#/$defs/{command}"},
            }
            for command in documents
        ],
        "$defs": {**shared(), **documents},
    }


def commands_with_json() -> list[str]:
    """All commands that have --json, with those of groups."""
    found = []
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        assert command is not None
        inner = getattr(command, "commands", {})
        parts = {f"{name} {part}": one for part, one in inner.items()} or {name: command}
        found += [part for part, one in parts.items() if has_json(one)]
    return found


def has_json(command: click.Command) -> bool:
    """Return whether a command has --json."""
    return any("--json" in one.opts for one in command.params)


def documents_by_command() -> dict[str, dict[str, Any]]:
    """The schema of each command's document."""
    special = {
        "summary": SUMMARY,
        "table": table_document(),
        "tables": rows({"type": "object"}, table={"enum": [*TABLES, None]}),
        "sql": rows({"type": "object"}),
        "show": rows(EXCHANGE),
        "protocol": rows({"type": "object"}),
        "compare": rows(
            of_question(comparison.QUESTION),
            before=SIDE, after=SIDE, verdicts=COUNTS,
        ),
        "dissect": rows(WRITTEN, balance={"type": "object"}),
        "slice": counts("packets", "packets_in_all", "exchanges", "exchanges_in_all"),
        "spans": counts("exchanges"),
        "report": with_days(counts("bytes", "exchanges", "findings")),
        "live": SNAPSHOT,
        "top": SNAPSHOT,
        "spark dissect": OUTCOME,
        "spark stream": OUTCOME,
        "dataset check": {
            **(checked := counts("files", "size", "rows")),
            "required": [*checked["required"], "wrong"],
            "properties": {
                **checked["properties"],
                "wrong": {"type": "array", "items": {"type": "string"}},
            },
        },
        "dataset expire": tried("files", "size", "dropped_rows", "dropped_files"),
        "dataset ingest": counts("rotations", "size", "rows", "taps"),
        "dataset compact": tried("files", "size", "made"),
        "dataset forget": tried("rows", "files", "taps", "removed", "size"),
        "spark rollup": counts("made", "removed", "files", "size"),
    }  # fmt: skip
    return {
        name: special[name] if name in special else question_document(QUESTIONS[name])
        for name in commands_with_json()
    }


def shared() -> dict[str, Any]:
    """Parts of several documents."""
    return {
        "bytes": {
            "description": "Bytes: text when they are UTF-8.",
            "anyOf": [
                {"type": ["string", "null"]},
                {
                    "type": "object",
                    "required": ["base64"],
                    "properties": {"base64": {"type": "string"}},
                    "additionalProperties": False,
                },
            ],
        },
        "columns": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "type", "unit"],
                "properties": {
                    "name": {"type": "string"},
                    "type": {
                        "enum": ["boolean", "integer", "number", "time", "string", "bytes", "value"]
                    },
                    "unit": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
    }


def rows(row: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A document with rows."""
    return {
        "type": "object",
        "required": ["rows", *more],
        "properties": {
            "columns": {"$ref": "#/$defs/columns"},
            **more,
            "rows": {"type": "array", "items": row},
        },
    }


def counts(*names: str) -> dict[str, Any]:
    """A document with counts."""
    return {"type": "object", "required": list(names), "properties": dict.fromkeys(names, COUNT)}


def tried(*names: str) -> dict[str, Any]:
    """A document with counts of a command that has --dry-run."""
    document = counts(*names)
    document["required"].append("dry_run")
    document["properties"] = {**document["properties"], "dry_run": {"type": "boolean"}}
    return document


def with_days(document: dict[str, Any]) -> dict[str, Any]:
    """The same with lists of days, of `--by day`."""
    days = {"type": "array", "items": {"type": "string"}}
    return {**document, "properties": {**document["properties"], "made": days, "kept": days}}


def row_of(columns: Iterable[Column]) -> dict[str, Any]:
    """A row with any of these columns, and no others."""
    return {
        "type": "object",
        "properties": {
            column.name: {**TYPES[column.type], "description": described(column)}
            for column in columns
        },
        "additionalProperties": False,
    }


def described(column: Column) -> str:
    """Meaning and unit of a column."""
    return f"{column.meaning} [{column.unit}]" if column.unit else column.meaning


def of_question(question: Question) -> dict[str, Any]:
    """A row of an answer: its columns, and the dimensions that it may be grouped by."""
    names = [one.choices for one in question.options if one.name == "by"]
    dimensions = (
        [dimension_column(name) for name in names[0] if short_name(name) in DIMENSIONS]
        if names
        else []
    )
    own = [one._replace(name=column_name(one.name)) for one in question.dimensions]
    return row_of([*dimensions, *own, *question.columns])


def question_document(question: Question) -> dict[str, Any]:
    """The document of a question."""
    turns = [of_question(QUESTIONS[turn.question]) for turn in question.turns]
    own = of_question(question)
    return rows({"anyOf": [own, *turns]} if turns else own, **overview_document(question))


def overview_document(question: Question) -> dict[str, Any]:
    """Additional members of a question's document: a sentence and summary rows."""
    if question.summing is None:
        return {}
    summary = {"type": "object", "required": ["verdict", "advice"]}
    return {
        "sentence": {"type": "string"},
        question.summing.rows: {"type": "array", "items": summary},
    }


def table_document() -> dict[str, Any]:
    """The document of `kdissect table`: the rows are those of its table."""
    document = rows({"type": "object"}, table={"enum": list(TABLES)})
    document["allOf"] = [
        {
            "if": {"properties": {"table": {"const": name}}},
            "then": {"properties": {"rows": {"items": row_of(table.columns)}}},
        }
        for name, table in TABLES.items()
    ]
    return document


SIDE: Final = {
    "type": "object",
    "required": ["exchanges", "first_ns", "last_ns"],
    "additionalProperties": {"type": "integer"},
}
WRITTEN: Final = {
    "type": "object",
    "required": ["table", "rows", "path"],
    "properties": {"table": {"enum": list(TABLES)}, "rows": COUNT, "path": {"type": "string"}},
    "additionalProperties": False,
}
EXCHANGE: Final = {
    "type": "object",
    "required": ["exchange_id", "api", "outcome", "request", "response"],
    "properties": {
        "request": {"type": ["object", "null"]},
        "response": {"type": ["object", "null"]},
    },
}
SUMMARY: Final = {
    "type": "object",
    "required": ["findings", "totals", "apis", "is_interrupted"],
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "severity", "text", "numbers", "concerns", "command"],
                "properties": {
                    "id": {"type": "string"},
                    "severity": {"enum": ["problem", "warning", "notice"]},
                    "text": {"type": "string"},
                    "packet": WHOLE,
                    "command": {"type": ["string", "null"]},
                },
            },
        },
        "totals": {"type": "object"},
        "apis": {"type": "array", "items": {"type": "object", "required": ["api"]}},
        "is_interrupted": {"type": "boolean"},
    },
}
SNAPSHOT: Final = {
    "type": "object",
    "required": ["time_ns", "window_s", "apis", "clients", "packets", "exchanges"],
    "properties": {
        "time_ns": WHOLE,
        "window_s": {"type": "number"},
        "packets": COUNT,
        "findings": {"type": "array", "items": {"type": "object"}},
        "finding_events": {"type": "array", "items": {"type": "object"}},
    },
}
OUTCOME: Final = {
    "type": "object",
    "required": ["captures", "capture_bytes", "splits", "broken", "failed", "rows"],
    "properties": {
        "batch": COUNT,
        "captures": COUNT,
        "broken": {"type": "array", "items": {"type": "string"}},
        "failed": {"type": "object", "additionalProperties": {"type": "string"}},
        "rows": {"type": "object", "additionalProperties": COUNTS},
    },
}
