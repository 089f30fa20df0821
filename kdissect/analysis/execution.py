"""Execution of a question on an engine: the answer has the declared columns and types."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from kdissect.analysis.dimensions import DIMENSIONS, short_name
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.analysis.question import RATE, SHARE, Answer, BucketKeys, Overview, Question
from kdissect.errors import KdissectError
from kdissect.tables.schemas import TEXT

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from kdissect.tables.schemas import Column


class Engine(Protocol):
    """An engine that has the tables: DuckDB, Spark.

    One whose memory is limited may work out the answer bucket by bucket.
    """

    @property
    def tables(self) -> "Mapping[str, ir.Table]": ...

    def rows(self, answer: "ir.Table", bucketed_by: BucketKeys = ()) -> "pa.Table": ...


def ask(question: Question, engine: Engine, options: Mapping[str, Any]) -> "pa.Table":
    """The rows of the answer; each column has its meaning, unit and type as metadata.

    Dimensions have their short names; `kdissect.api` gives them those of columns. Raises
    KdissectError for values that are not of the declared types, as files can have that kdissect has
    not written: times beyond the year 2262.
    """
    import pyarrow as pa

    given = in_short(options)
    answer = expression_of(question.answer, engine, given)
    rows = engine.rows(answer, bucket_keys(question, given))
    try:
        return rows.cast(schema_of(question, answer.columns))
    except pa.ArrowException as error:
        raise KdissectError(f"{question.name}: {error}") from error


def bucket_keys(question: Question, options: Mapping[str, Any]) -> BucketKeys:
    """The keys of a question with these options, in short names; () if there are no buckets."""
    defaults = in_short({option.name: option.default for option in question.options})
    by = (defaults | dict(options)).get("by", ())
    return question.bucketed_by if {*question.bucketed_if_by} <= {*by} else ()


def in_short(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the names of dimensions that expressions have."""
    return {
        name: tuple(map(short_name, value)) if name == "by" else value
        for name, value in options.items()
    }


def summed_up(
    question: Question, engine: Engine, rows: "pa.Table", options: Mapping[str, Any]
) -> Overview | None:
    """Text that the analysis puts before its rows; None for no text."""
    if question.summing is None:
        return None
    defaults = {option.name: option.default for option in question.options}
    given = in_short(defaults | dict(options))
    total = engine.rows(expression_of(question.summing.total, engine, given))
    return question.summing.overview(rows.to_pylist(), total[0][0].as_py(), **given)


def expression_of(answer: Answer, engine: Engine, options: Mapping[str, Any]) -> "ir.Table":
    """The expression of an answer; kept, as building one takes longer than a small query."""
    if engine.tables is not declared_tables():
        return answer(engine.tables, **options)
    given = {name: tuple(one) if isinstance(one, list) else one for name, one in options.items()}
    return built(answer, **given)


# `typed`: 1 is another option than True.
@lru_cache(maxsize=32, typed=True)
def built(answer: Answer, **options: Any) -> "ir.Table":
    return answer(declared_tables(), **options)


def schema_of(question: Question, names: Sequence[str]) -> "pa.Schema":
    """The columns of an answer as declared."""
    import pyarrow as pa

    from kdissect.tables.batches import ARROW_TYPES

    # Engines return wider types for sums than those of their input.
    types = ARROW_TYPES | {TEXT: pa.string(), SHARE: pa.float64(), RATE: pa.float64()}
    fields = [
        pa.field(
            column.name,
            types[column.type],
            metadata={"meaning": column.meaning, "unit": column.unit, "type": column.type},
        )
        for column in [column_of(question, name) for name in names]
    ]
    return pa.schema(fields)


def column_of(question: Question, name: str) -> "Column":
    """A column of the answer: the question's own, or a dimension."""
    for column in (*question.columns, *question.dimensions):
        if column.name == name:
            return column
    return DIMENSIONS[name].column
