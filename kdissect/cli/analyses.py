"""A command for each analysis: its options are those declared by the analysis."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.dimensions import column_name
from kdissect.analysis.question import DURATION, FLAG, NAMES, NUMBER, SHARE, Option, Question
from kdissect.analysis.time_expressions import UNITS
from kdissect.api.engine_choice import DUCKDB, ENGINES, LIMIT
from kdissect.cli import options as shared
from kdissect.cli.completing import completed_list
from kdissect.cli.destination import destination
from kdissect.cli.durations import duration
from kdissect.cli.empty_result import explain_empty
from kdissect.cli.help import ENGINE as ENGINE_GROUP
from kdissect.cli.help import ROWS, Choice, Command, option
from kdissect.cli.output import chosen_format, make_writer
from kdissect.cli.program import code_of
from kdissect.cli.progress import Progress
from kdissect.errors import InvalidArgument
from kdissect.rules.finding import PROBLEM, WARNING
from kdissect.tables.ordering import check_keys, no_column, ordered
from kdissect.text import human

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kdissect.api.answers import Answer


HAVING: Final = option(
    "--having",
    group=ROWS,
    metavar="SQL",
    help="Only result rows that meet this SQL condition over the result's columns.",
)


ROLLUPS: Final = click.option(
    "--rollups",
    is_flag=True,
    default=None,
    help="Use the rollups of a dataset: percentiles with error bounds, for long ranges. "
    "Docs: rollups.md.",
)
ROWS_AT_A_TIME: Final = 10_000
ROLLED: Final = "latency"  # the question that rollups support


ENGINE: Final = option(
    "--engine",
    group=ENGINE_GROUP,
    type=Choice(ENGINES),
    default=DUCKDB,
    help=f"Query engine. auto: DuckDB, or Spark when the tables read are larger than "
    f"{human.size(LIMIT)}.  [default: {DUCKDB}]",
)
MASTER: Final = option(
    "--master",
    group=ENGINE_GROUP,
    metavar="URL",
    help="For Spark: local[N], spark://HOST:PORT, or sc://HOST:PORT of Spark Connect.  [default: "
    "local[*]]",
)


@contextmanager
def answering_session(master: str | None) -> "Iterator[Callable[[], SparkSession]]":
    """A function that gives the Spark session of a command's answers, once one of them needs it."""
    with ExitStack() as opened:

        def started() -> "SparkSession":
            from kdissect.cli.spark.options import Place
            from kdissect.spark.sessions import LOCAL, MEMORY

            place = Place(master or LOCAL, MEMORY, {}, False, answers=True)
            return opened.enter_context(place.session())

        yield started


def columns_named(ctx: click.Context, param: click.Parameter, text: str | None) -> list[str] | None:
    """The names in ``a,b``, short ones in full (a click callback)."""
    found = shared.names(ctx, param, text)
    return None if found is None else list(dict.fromkeys(map(column_name, found)))


def duration_text(nanoseconds: int) -> str:
    """The text of a duration, as `duration` parses it."""
    for unit, size in reversed(UNITS.items()):
        if nanoseconds % size == 0:
            return f"{nanoseconds // size}{unit}"
    return f"{nanoseconds}ns"


def command_of(name: str) -> click.Command:
    """The command for a question."""
    question = QUESTIONS[name]

    def ask(
        files: tuple[str, ...],
        where: str | None,
        having: str | None,
        format_: str | None,
        path: Path | None,
        force: bool,
        columns: list[str] | None,
        limit: int | None,
        keys: tuple[Any, ...],
        fail_on: str | None,
        engine: str,
        master: str | None,
        jobs: int,
        settings: shared.Settings,
        progress: bool | None,
        **options: Any,
    ) -> int:
        from kdissect.api.answers import analyse

        format_ = chosen_format(format_, path)
        asked = {key: value for key, value in options.items() if value is not None}
        with (
            Progress(progress) as shown,
            destination(path, force) as file,
            answering_session(master) as session,
        ):
            answer = analyse(
                name,
                list(files),
                where=where,
                having=having,
                engine=engine,
                session=session,
                notice=shown.notice,
                jobs=jobs,
                reading={**settings, "progress": shown.report},
                **asked,
            )
            table = chosen(answer, columns, keys)
            shown.clear()
            extra = write_overview(answer, format_, file)
            rows, view = table.slice(0, limit), readable if format_ == "table" else None
            write_rows(rows, format_, file, columns is not None, extra, view)
        if not table.num_rows:
            given = (having, "--having") if having and not where else (where, "--where")
            balance = asdict(answer.balance) if answer.balance is not None else None
            explain_empty(f"nothing for {name}", balance, *given)
        return code_of(fail_on, conditions_of(answer))

    decorated: Callable[..., Any] = ask
    decorated = shared.reading(decorated)
    decorated = ENGINE(MASTER(shared.sharing(decorated)))
    decorated = shared.output(shared.FORMATS)(decorated)
    decorated = shared.failing(*failures_of(question))(decorated)
    decorated = HAVING(shared.selecting(decorated))
    decorated = shared.columns(decorated)
    if name == ROLLED:
        decorated = ROLLUPS(decorated)
    for one in reversed((*question.options, *[turn.option for turn in question.turns])):
        decorated = click_option(one)(decorated)
    decorated = shared.files(decorated)
    return click.command(
        name,
        cls=Command,
        short_help=question.title,
        help=help_of(question),
        epilog=shared.examples(*question.examples),
    )(decorated)


def write_overview(answer: "Answer", format_: str, file: IO[bytes]) -> dict[str, Any]:
    """Write the text before the rows, where they are for people; in a document, return it."""
    import pyarrow as pa

    overview, summing = answer.overview, answer.question.summing
    if overview is None or summing is None:
        return {}
    if format_ == "table":
        file.write(f"{overview.sentence}\n\n".encode())
        if overview.rows:
            write_rows(pa.Table.from_pylist(overview.rows), format_, file, are_chosen=False)
            file.write(b"\n")
    return {"sentence": overview.sentence, summing.rows: overview.rows}


def write_rows(
    table: "pa.Table",
    format_: str,
    file: IO[bytes],
    are_chosen: bool,
    extra: Mapping[str, Any] | None = None,
    view: "Callable[[pa.RecordBatch], pa.RecordBatch] | None" = None,
) -> None:
    """Write the rows of an answer; a terminal shows all columns when they were selected.

    `view` makes of them what is shown.
    """
    names = table.column_names if are_chosen else None
    writer = make_writer(format_, file, names, table.schema, extra)
    # Few at a time, whose values are Python objects; a file of Parquet has a row group for each.
    size = None if format_ == "parquet" else ROWS_AT_A_TIME
    for batch in table.to_batches(max_chunksize=size):
        writer.write(view(batch) if view else batch)
    writer.close()


def failures_of(question: Question) -> list[str]:
    """The conditions of --fail-on that a question has."""
    return [*(PROBLEM, WARNING)[: 2 if question.severities else 0], shared.ROWS_CONDITION]


def conditions_of(answer: "Answer") -> set[str]:
    """The conditions of --fail-on that an answer meets."""
    column, severities = answer.question.severities or ("", {})
    found = set(answer.table[column].unique().to_pylist()) if column else set()
    met = {severities[value] for value in found & severities.keys()}
    met |= {WARNING} if PROBLEM in met else set()
    return met | ({shared.ROWS_CONDITION} if answer.table.num_rows else set())


def chosen(answer: "Answer", columns: list[str] | None, keys: tuple[Any, ...] = ()) -> "pa.Table":
    """The rows in order of the keys, with the selected columns."""
    names, what = answer.table.column_names, answer.question.name
    columns = None if columns is None else [in_full(name, names) for name in columns]
    keys = tuple(key._replace(name=in_full(key.name, names)) for key in keys)
    for name in columns or ():
        if name not in names:
            raise InvalidArgument(no_column(what, name, names))
    check_keys(keys, names, what)
    table = ordered(answer.table, keys)
    return table if columns is None else table.select(columns)


def in_full(name: str, names: Collection[str]) -> str:
    """The column that a short name stands for, where that is one of `names`."""
    return name if name in names or column_name(name) not in names else column_name(name)


def readable(rows: "pa.RecordBatch") -> "pa.RecordBatch":
    """The rows for display: durations with their unit, shares in percent, rates shortened."""
    import pyarrow as pa

    shown = {}
    for field in rows.schema:
        values = rows[field.name].to_pylist()
        metadata = field.metadata or {}
        if metadata.get(b"unit") == b"ns":
            texts = [None if value is None else human.duration(value) for value in values]
            shown[field.name.removesuffix("_ns")] = pa.array(texts, pa.string())
        elif pa.types.is_floating(field.type):
            written = "{:.1%}" if metadata.get(b"type") == SHARE.encode() else "{:.2f}"
            texts = [None if value is None else written.format(value) for value in values]
            shown[field.name] = pa.array(texts, pa.string())
        else:
            shown[field.name] = rows[field.name]
    return pa.record_batch(shown)


def click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The click option for an option of a question."""
    flag = f"--{option.name.replace('_', '-')}"
    if option.type == FLAG:
        return click.option(flag, option.name, is_flag=True, default=None, help=option.meaning)
    default = option.default
    if option.type == NAMES:
        shown = ",".join(default)
        return click.option(
            flag, option.name, callback=columns_named, metavar="A,B,...",
            shell_complete=completed_list(lambda _, __: option.choices),
            help=f"{option.meaning}  [default: {shown}]",
        )  # fmt: skip
    if option.type == DURATION:
        shown = "" if default is None else f"  [default: {duration_text(default)}]"
        return click.option(
            flag, option.name, callback=duration, metavar="TIME", help=f"{option.meaning}{shown}"
        )
    kind: Any = Choice(option.choices) if option.choices else str
    if option.type == NUMBER:
        kind = click.IntRange(1)
    shown = "" if default is None else f"  [default: {default}]"
    return click.option(flag, option.name, type=kind, help=f"{option.meaning}{shown}")


def help_of(question: Question) -> str:
    """The first lines of the command's help."""
    return (
        f"{question.title}\n\nFILE... are captures, directories of tables (dissect, live) or "
        f"datasets. Docs: analysis.md#{question.name}."
    )
