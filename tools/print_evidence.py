"""Prints the evidence of findings as SQL: ``python -m tools.print_evidence``.

`kdissect.rules.evidence` are Ibis expressions over answers; here each becomes a file of DuckDB's
SQL in `kdissect/rules/sql/`, without the columns that it does not need; next to them are the
columns of tables that all of them read. A test compares `files` with the tree.
"""

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import ibis
import sqlglot
from sqlglot import expressions
from sqlglot.optimizer.eliminate_subqueries import eliminate_subqueries
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from kdissect.analysis import releases
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.answer_buckets import bucketed
from kdissect.analysis.engines.ibis_tables import columns_of, unconditional_tables
from kdissect.analysis.execution import bucket_keys
from kdissect.analysis.question import BucketKeys
from kdissect.rules.compiled_sql import (
    ANSWERS,
    COLUMNS,
    DIRECTORY,
    PLANS,
    READS,
    SHARING,
    both,
    stored_columns,
    table_of,
)
from kdissect.rules.evidence import EVIDENCE, Evidence, expression
from kdissect.rules.evidence_rows import ROWS
from kdissect.rules.page_evidence import PAGE_EVIDENCE
from kdissect.rules.plans.evaluator import Plan
from kdissect.rules.plans.stored import KeptRelations
from kdissect.rules.plans.values import Reads
from kdissect.rules.preconditions import SPOKEN
from kdissect.sql.buckets import ALL_BUCKETS
from kdissect.tables.schemas import TABLES
from kdissect.tables.spilled_tables import KeptTables
from tools.evidence_plans import plans_of

if TYPE_CHECKING:
    import ibis.expr.types as ir

DIALECT = "duckdb"


@cache
def files() -> dict[str, str]:
    """File name → content of every printed file."""
    every = {**EVIDENCE, **PAGE_EVIDENCE}
    answers = {name: expression(one, unconditional_tables()) for name, one in every.items()}
    queries = {name: query_of(answer) for name, answer in answers.items()}
    made = {f"{name}.sql": text_of(answers[name], one) for name, one in queries.items()}
    read: dict[str, set[str]] = {}
    for one in queries.values():
        for table, columns in columns_read(one).items():
            read.setdefault(table, set()).update(columns)
    needed = {name: stored_columns(name, read[name]) for name in TABLES if name in read}
    plans = plans_text(answers)
    return made | {
        COLUMNS: json.dumps(needed, indent=1) + "\n",
        SPOKEN: spoken_text(),
        PLANS: plans,
        READS: reads_text(json.loads(plans), needed),
        ANSWERS: json.dumps({name: kept_answer(name) for name in kept_names()}, indent=1) + "\n",
    }


def kept_names() -> list[str]:
    """The evidence whose question's answer may be kept: two share it, or it has buckets."""
    return [name for name, one in EVIDENCE.items() if name in SHARING or keys_of(one)]


def keys_of(evidence: Evidence) -> BucketKeys:
    return bucket_keys(QUESTIONS[evidence.question], evidence.options)


def kept_answer(name: str) -> dict[str, Any]:
    """The queries of an answer that evidence asks for, and those of the evidence over its rows."""
    every = {**EVIDENCE, **PAGE_EVIDENCE}
    one = every[name]
    both_names = [own for own in (name, SHARING.get(name)) if own is not None]
    assert {(every[own].question, *every[own].options) for own in both_names} == {
        (one.question, *one.options)
    }
    answer = QUESTIONS[one.question].answer(unconditional_tables(), **one.options)
    kept = ibis.table(answer.schema(), name=table_of(name))
    cuts = {own: every[own].cut(kept).limit(ROWS + 1) for own in both_names}
    queries = {own: over(cut, table_of(name), answer) for own, cut in cuts.items()}
    read = {column for query in queries.values() for column in columns_read(query)[table_of(name)]}
    columns = [column for column in answer.columns if column in read]
    made: dict[str, Any] = {
        "cuts": {own: text_of(cuts[own], query) for own, query in queries.items()}
    }
    if name in SHARING:
        made["answer"] = query_of(answer.select(*columns)).sql(DIALECT)
    if keys := keys_of(one):
        bucket, whole = bucketed(answer.op())
        query = over(whole.select(*columns), ALL_BUCKETS, bucket)
        sorted_by = columns_read(query)[ALL_BUCKETS]
        rows = bucket.select(*(column for column in bucket.columns if column in sorted_by))
        made["keys"] = keys
        made["buckets"] = [query_of(rows).sql(DIALECT), query.sql(DIALECT)]
    return made


def over(expression: "ir.Table", table: str, rows: "ir.Table") -> expressions.Expression:
    """The query of an expression over a table that is kept, which has the columns of `rows`."""
    schema = {table: dict.fromkeys(rows.columns, "varchar")}
    return shortest(str(ibis.to_sql(expression, dialect=DIALECT)), schema)


def shortest(sql: str, schema: dict[str, Any]) -> expressions.Expression:
    """The same query without unused columns."""
    query = qualify(sqlglot.parse_one(sql, dialect=DIALECT), schema=schema, dialect=DIALECT)
    return pushdown_projections(query)


def plans_text(answers: "dict[str, ir.Table]") -> str:
    """The plans, a node a line."""
    plans = plans_of(answers)
    nodes = ",\n".join(
        json.dumps(node, ensure_ascii=False, separators=(",", ":")) for node in plans["nodes"]
    )
    return f'{{"roots":{json.dumps(plans["roots"])},\n"nodes":[\n{nodes}\n]}}\n'


def reads_text(plans: dict[str, Any], needed: dict[str, list[str]]) -> str:
    """The reads of each plan, and of two that share, a line each.

    Those of values, of columns by relation, and others.
    """
    tables = KeptRelations(KeptTables(needed))
    plan = Plan(plans["nodes"], tables.relation)
    roots = dict(plans["roots"])
    roots |= {both(one, other): roots[one] + roots[other] for one, other in SHARING.items()}
    lines = [
        f"{json.dumps(name)}:{json.dumps(reads_of(plan, of), separators=(',', ':'))}"
        for name, of in roots.items()
    ]
    return "{" + ",\n".join(lines) + "}\n"


def reads_of(plan: Plan, roots: list[int]) -> tuple[Any, ...]:
    """Read counts of a plan's values, from evaluating it over tables without rows."""
    counted = Reads()
    plan.forget(counted)
    for root in roots:
        plan.columns(root)
    plan.forget()
    values: dict[int, int] = {}
    columns: dict[int, dict[str, int]] = {}
    others = []
    for key, count in counted.counts.items():
        match key:
            case int():
                values[key] = count
            case (relation, str(name)):
                columns.setdefault(relation, {})[name] = count
            case _:
                others.append((key, count))
    return values, columns, others


def query_of(answer: "ir.Table") -> expressions.Expression:
    return slim(str(ibis.to_sql(answer, dialect=DIALECT)))


def text_of(answer: "ir.Table", query: expressions.Expression) -> str:
    """The query; times become numbers. WITH clauses come first, as for other queries."""
    query = query.copy()
    clauses = query.args.pop("with_", None)
    told = ", ".join(
        f"EPOCH_US({name}) AS {name}" if kind.is_timestamp() else name
        for name, kind in answer.schema().items()
    )
    text = f"SELECT {told} FROM (\n{query.sql(DIALECT)}\n)\n"  # noqa: S608  # it is our own
    return f"{clauses.sql(DIALECT)}\n{text}" if clauses else text


def spoken_text() -> str:
    """The release's versions of the APIs that `upgrade` queries."""
    release = next(option.default for option in QUESTIONS["upgrade"].options if option.name == "to")
    lines = [f'  "{one.api}": [{one.oldest}, {one.newest}]' for one in releases.spoken_by(release)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def slim(sql: str) -> expressions.Expression:
    """The same query without unused columns and duplicate subqueries.

    Equal ones are found before each loses the columns that its reader does not need: DuckDB plans
    a subquery that several read once, and planning takes longer than running most of them.
    """
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
    return pushdown_projections(eliminate_subqueries(query))


def columns_read(query: expressions.Expression) -> dict[str, set[str]]:
    """Table → columns of it that the query reads."""
    found: dict[str, set[str]] = {}
    for scope in traverse_scope(query):
        for alias, source in scope.sources.items():
            if isinstance(source, expressions.Table):
                columns = {column.name for column in scope.source_columns(alias)}
                found.setdefault(source.name, set()).update(columns)
    return found


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
