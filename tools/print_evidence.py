"""Prints what findings rest on as SQL: ``python -m tools.print_evidence``.

`kdissect.rules.evidence` are Ibis expressions over answers; here each becomes a file of DuckDB's
SQL in `kdissect/rules/sql/`, without the columns that it does not need, and with the columns
of tables that it reads named in its first line. A test compares `files` with what is in the tree.
"""

import json
from functools import cache
from typing import Any

import ibis
import sqlglot
from sqlglot import expressions
from sqlglot.optimizer.eliminate_subqueries import eliminate_subqueries
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from kdissect.analysis import releases
from kdissect.analysis.declared import columns_of, unconditional_tables
from kdissect.analysis.questions import QUESTIONS
from kdissect.rules.evidence import EVIDENCE, Evidence, expression
from kdissect.rules.gates import SPOKEN
from kdissect.rules.printed import DIRECTORY
from kdissect.tables.schemas import TABLES

DIALECT = "duckdb"


@cache
def files() -> dict[str, str]:
    """File name → content of every printed file."""
    made = {f"{name}.sql": text_of(evidence) for name, evidence in EVIDENCE.items()}
    return made | {SPOKEN: spoken_text()}


def text_of(evidence: Evidence) -> str:
    made = expression(evidence, unconditional_tables())
    sql = ibis.to_sql(made, dialect=DIALECT)
    query = slim(str(sql))
    read = json.dumps(columns_read(query))
    told = ", ".join(
        f"EPOCH_US({name}) AS {name}" if kind.is_timestamp() else name
        for name, kind in made.schema().items()
    )
    return f"-- {read}\nSELECT {told} FROM (\n{query.sql(DIALECT)}\n)\n"


def spoken_text() -> str:
    """The versions that the release speaks which `upgrade` asks about."""
    release = next(option.default for option in QUESTIONS["upgrade"].options if option.name == "to")
    lines = [f'  "{one.api}": [{one.oldest}, {one.newest}]' for one in releases.spoken_by(release)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def slim(sql: str) -> expressions.Expression:
    """The same query, without columns that nobody asks for; subqueries that stand twice are one."""
    schema: dict[str, Any] = {name: columns_of(table) for name, table in TABLES.items()}
    kinds = {"string": "varchar", "binary": "blob"}
    types = {
        name: {
            column: "timestamptz" if kind.startswith("timestamp") else kinds.get(kind, kind)
            for column, kind in columns.items()
        }
        for name, columns in schema.items()
    }
    query = sqlglot.parse_one(sql, dialect=DIALECT)
    query = qualify(query, schema=types, dialect=DIALECT)
    return eliminate_subqueries(pushdown_projections(query))


def columns_read(query: expressions.Expression) -> dict[str, list[str]]:
    """Table → columns of it that the query reads."""
    found: dict[str, set[str]] = {}
    for scope in traverse_scope(query):
        for alias, source in scope.sources.items():
            if isinstance(source, expressions.Table):
                columns = {column.name for column in scope.source_columns(alias)}
                found.setdefault(source.name, set()).update(columns)
    return {name: sorted(found[name]) for name in TABLES if name in found}


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for path in DIRECTORY.iterdir():
        if path.name not in files():
            path.unlink()
    for name, text in files().items():
        path = DIRECTORY / name
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
