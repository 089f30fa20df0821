"""Analysis of captures, or of the tables made from them."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.dimensions import check_names, column_name, short_name, tables_for
from kdissect.analysis.engines.chosen_rows import tables_beside
from kdissect.analysis.engines.duckdb_tables import rows_having
from kdissect.analysis.engines.ibis_tables import TAP_COLUMNS, askable, files_of
from kdissect.analysis.engines.live_tables import asked_again, noticing
from kdissect.analysis.engines.stored_tables import Place, directory_place
from kdissect.analysis.execution import ask, summed_up
from kdissect.analysis.question import Overview, Question
from kdissect.api.engine_choice import DUCKDB, SPARK, Notice, opened, session_for, takes_spark
from kdissect.api.writing import write
from kdissect.capture.files import Source
from kdissect.dataset.locations import stored_places
from kdissect.errors import InvalidArgument
from kdissect.sql.conditions import check_condition, columns_in
from kdissect.tables.durations import NUMBERS, check_units, in_units
from kdissect.tables.html_rows import html_of
from kdissect.text.suggestions import did_you_mean, known_words

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kdissect.api.engine_choice import Session
    from kdissect.pipeline import Balance

BY: Final = "by"  # the option of names; a single name needs no list


class Answer:
    """The rows that answer a question; `balance` is of the captures, None for stored tables.

    `overview`, of questions that have one, is a sentence, and rows that sum the others up.
    """

    def __init__(
        self,
        question: Question,
        table: "pa.Table",
        balance: "Balance | None",
        units: str = NUMBERS,
        overview: Overview | None = None,
    ) -> None:
        self.overview = overview
        self.question = question
        self.table = table
        self.balance = balance
        self.units = units

    def __repr__(self) -> str:
        return f"<{self.question.name}: {self.table.num_rows} rows>"

    def _repr_html_(self) -> str:
        """The first rows as a table of a notebook; text from the wire is escaped."""
        return html_of(repr(self).strip("<>"), self.table)

    def to_arrow(self, units: str | None = None) -> "pa.Table":
        """The rows as an Arrow table; with `units="timedelta"` durations are Arrow's."""
        metadata = {field.name: field.metadata or {} for field in self.table.schema}
        named = {name: kept.get(b"unit", b"").decode() for name, kept in metadata.items()}
        return in_units(self.table, units or self.units, named)

    def to_pandas(self, units: str | None = None) -> "pd.DataFrame":
        """The rows as a pandas DataFrame; with `units="timedelta"` durations are Timedelta."""
        from kdissect.tables.pandas_frames import pandas_frame

        return pandas_frame(self.to_arrow(units))


@asked_again
def analyse(
    name: str,
    source: Source | Sequence[Source],
    *,
    where: str | None = None,
    having: str | None = None,
    jobs: int = 0,
    reading: dict[str, Any] | None = None,
    engine: str | None = None,
    session: "Session | None" = None,
    master: str | None = None,
    notice: Notice | None = None,
    rollups: bool = False,
    units: str = NUMBERS,
    **options: Any,
) -> Answer:
    """Answer a question of docs/analysis.md: ``analyse("latency", "a.pcap", by=["client_id"])``.

    `source` is one or several captures, directories with tables of `write` or of a live capture
    (all, a run, or a rotation of it), or datasets.
    `where` is an SQL condition over the columns of `exchanges`, applied before the question,
    `having` one over the columns of the answer; `reading` are keywords of
    `Options`, `options` those of the question. `engine` is duckdb, spark, or auto, which uses
    DuckDB until the tables are larger than `engines.LIMIT`, and calls `notice` when it uses Spark;
    `session` is a Spark session, or a function that gives one when it is needed, and implies spark
    unless `engine` is given; without it, Spark gets a new session at `master`. With `rollups`
    `latency` is answered from those of datasets, which supports `by`, `of`, `window` and `where`
    (docs/rollups.md). With `units` "timedelta" durations of the answer are Arrow's and pandas' own.
    `by` is a list of names, or one name; columns have the names that it uses. Raises KdissectError
    for unknown options.
    """
    check_units(units)
    options = with_names(options)
    engine = engine or (SPARK if session else DUCKDB)
    if having is not None:
        check_condition(having, "--having")
    if rollups:
        found = from_rollups(name, source, where, engine, session or master, notice, options)
        return answer_of(QUESTIONS[name], found, having, None, units)
    question, options = turned(name, options)
    known = {option.name: option for option in question.options}
    if unknown := options.keys() - known.keys():
        there = ", ".join(known)
        meant = did_you_mean(min(unknown), known)
        raise InvalidArgument(
            f"{question.name} has no option {min(unknown)!r}; {meant}it has {there}"
        )
    by = options.get("by", ())
    check_names(by, known["by"].choices if by else ())
    asked = {*question.tables, *tables_for(by)}
    if where:
        check_condition(where, "--where", askable(asked))
        check_derived(question, where)
        asked |= set(tables_beside(where))
    with (
        places_of(source, files_of(asked), jobs, reading or {}) as (places, balance),
        noticing(places),
        opened(engine, places, asked, where, session or master, notice) as tables,
    ):
        check_taps(by, places)
        found = ask(question, tables, options)
        overview = summed_up(question, tables, found, options)
    found = as_asked(found, question, by)
    if overview is not None:
        overview = overview._replace(rows=[in_full(row) for row in overview.rows])
    return answer_of(question, found, having, balance, units, overview)


def check_derived(question: Question, where: str) -> None:
    """Raise InvalidArgument for a condition that would exclude rows that the analysis needs."""
    if lost := sorted(columns_in(where) & set(question.derived)):
        raise InvalidArgument(
            f"--where {where!r}: {question.name} works out {lost[0]} of exchanges without it, "
            f"so a condition over exchanges would lose them; use --having {where!r}"
        )


def answer_of(
    question: Question,
    found: "pa.Table",
    having: str | None,
    balance: "Balance | None",
    units: str = NUMBERS,
    overview: Overview | None = None,
) -> Answer:
    """The answer, filtered by the condition over its columns."""
    rows = found if having is None else rows_having(found, having)
    return Answer(question, rows, balance, units, overview)


def with_names(options: dict[str, Any]) -> dict[str, Any]:
    """The options with one name in place of a list as a list of it, and each name once.

    Raises InvalidArgument for a list without names.
    """
    found = dict(options)
    if isinstance(by := options.get(BY), str):
        found[BY] = [part.strip() for part in by.split(",")]
    for name, value in found.items():
        if isinstance(value, list | tuple):
            if not value:
                raise InvalidArgument(f"{name!r} has no names")
            found[name] = each_once(value)
    return found


def each_once(names: Sequence[str]) -> list[str]:
    """The names without repetitions, also by the short name of a dimension.

    >>> each_once(["api", "client", "api", "client_id"])
    ['api', 'client']
    """
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(column_name(name), name)
    return list(found.values())


def in_full(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the names of columns for dimensions."""
    return {column_name(name): value for name, value in row.items()}


def as_asked(found: "pa.Table", question: Question, by: Sequence[str]) -> "pa.Table":
    """The answer with the names of columns for dimensions, or those of `by` where it has others."""
    defaults = [name for one in question.options if one.name == BY for name in one.default]
    names = {short_name(name): name for name in by or defaults}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def from_rollups(
    name: str,
    source: Source | Sequence[Source],
    where: str | None,
    engine: str,
    session: "Session | str | None",
    notice: Notice | None,
    options: dict[str, Any],
) -> "pa.Table":
    """The rows that answer `latency` from the rollups of datasets."""
    from kdissect.dataset.rollup_answers import asked_of_rollups
    from kdissect.spark.rollup_reading import answer_of_rollups

    if name != "latency":
        raise InvalidArgument(f"rollups answer latency, not {name}")
    if unknown := options.keys() - {"by", "of", "window"}:
        raise InvalidArgument(f"latency of rollups has no option {min(unknown)!r}")
    by, of = options.get("by", ("api",)), options.get("of", "latency")
    asked = asked_of_rollups(by, of, options.get("window"), where)
    places = stored_places(source)
    if not places:
        raise InvalidArgument("rollups are of datasets, and this is none")
    spark = session_for(session) if takes_spark(engine, places, (), notice) else None
    found = answer_of_rollups(places, asked, spark, notice)
    names = {column_name(one): one for one in by}
    return found.rename_columns([names.get(one, one) for one in found.column_names])


def turned(name: str, options: dict[str, Any]) -> tuple[Question, dict[str, Any]]:
    """The question, or the one that an option turns it into; raises KdissectError."""
    question = QUESTIONS.get(name)
    if question is None:
        raise InvalidArgument(f"no question {name!r}; {known_words(name, QUESTIONS)}")
    for turn in question.turns:
        if turn.option.name in options:
            others = {key: value for key, value in options.items() if key != turn.option.name}
            instead = QUESTIONS[turn.question]
            if lost := others.keys() - {option.name for option in instead.options}:
                raise InvalidArgument(
                    f"{name}: {turn.option.name!r} gives single exchanges, "
                    f"{min(lost)!r} groups them: use one of the two"
                )
            return instead, {**others, turn.becomes: options[turn.option.name]}
    return question, options


@contextmanager
def places_of(
    source: Source | Sequence[Source], tables: Sequence[str], jobs: int, reading: dict[str, Any]
) -> Iterator[tuple[list[Place], "Balance | None"]]:
    """Places of the tables: the given ones, or a directory that exists until this ends."""
    if places := stored_places(source):
        yield places, None
        return
    with tempfile.TemporaryDirectory(prefix="kdissect-") as made:
        directory = Path(made, "tables")
        wanted = dict.fromkeys((*tables, "exchanges"))
        _, balance = write(source, directory, tables=list(wanted), jobs=jobs, **reading)
        yield [directory_place(directory)], balance


def check_taps(by: Sequence[str], places: Sequence[Place]) -> None:
    """Raise KdissectError for taps and days of a source that is not a dataset."""
    for name in by:
        if name in TAP_COLUMNS and not any(place.is_dataset for place in places):
            raise InvalidArgument(f"cannot group by {name!r}: only datasets have it")
