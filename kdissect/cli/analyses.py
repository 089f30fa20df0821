"""A command for each analysis: its options are those declared by the analysis."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.question import DURATION, FLAG, NAMES, NUMBER, SHARE, Option, Question
from kdissect.analysis.time_expressions import UNITS
from kdissect.api.engine_choice import DUCKDB, ENGINES, LIMIT
from kdissect.cli import options as shared
from kdissect.cli.empty_result import explain_empty
from kdissect.cli.output import chosen_format, destination, make_writer
from kdissect.cli.program import FOUND, NOTHING_FOUND
from kdissect.cli.progress import Progress
from kdissect.errors import KdissectError
from kdissect.text import human

if TYPE_CHECKING:
    import pyarrow as pa

    from kdissect.api.answers import Answer


HAVING: Final = click.option(
    "--having",
    metavar="SQL",
    help="Only result rows for which this SQL condition over the result's columns is true.",
)


ROLLUPS: Final = click.option(
    "--rollups",
    is_flag=True,
    default=None,
    help="Use the rollups of a dataset: percentiles with error bounds, for long ranges. "
    "Docs: rollups.md.",
)
ROLLED: Final = "latency"  # the question that rollups support


ENGINE: Final = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=DUCKDB,
    help=f"Query engine. auto: DuckDB, or Spark when the tables read are larger than "
    f"{human.size(LIMIT)}.  [default: {DUCKDB}]",
)
MASTER: Final = click.option(
    "--master",
    metavar="URL",
    help="For Spark: local[N], spark://HOST:PORT, or sc://HOST:PORT of Spark Connect.  [default: "
    "local[*]]",
)


def duration(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Read ``10s``, ``500ms``, ``1.5h`` as nanoseconds (a click callback)."""
    if text is None:
        return None
    number = text.rstrip("nusmhd")
    try:
        nanoseconds = round(float(number) * UNITS[text[len(number) :]])
    except (KeyError, ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time; write it like 10s, 500ms, 1h") from None
    if nanoseconds <= 0:
        raise click.BadParameter(f"{text!r} is not positive")
    return nanoseconds


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
        with Progress(progress) as shown, destination(path, force) as file:
            answer = analyse(
                name,
                list(files),
                where=where,
                having=having,
                engine=engine,
                master=master,
                notice=shown.notice,
                jobs=jobs,
                reading={**settings, "progress": shown.report},
                **asked,
            )
            table = chosen(answer, columns)
            shown_table = readable(table) if format_ == "table" else table
            shown.clear()
            write_rows(shown_table.slice(0, limit), format_, file, columns is not None)
        if table.num_rows:
            return FOUND
        if answer.balance is not None:
            explain_empty(f"nothing for {name}", asdict(answer.balance), where or having)
        return NOTHING_FOUND

    decorated: Callable[..., Any] = ask
    decorated = shared.reading(decorated)
    decorated = ENGINE(MASTER(shared.sharing(decorated)))
    decorated = shared.output(shared.FORMATS)(decorated)
    decorated = HAVING(shared.selecting(decorated))
    decorated = shared.columns(decorated)
    if name == ROLLED:
        decorated = ROLLUPS(decorated)
    for option in reversed((*question.options, *[turn.option for turn in question.turns])):
        decorated = click_option(option)(decorated)
    decorated = shared.files(decorated)
    return click.command(
        name,
        short_help=question.title,
        help=help_of(question),
        epilog=shared.examples(*question.examples),
    )(decorated)


def write_rows(table: "pa.Table", format_: str, file: IO[bytes], are_chosen: bool) -> None:
    """Write the rows of an answer; a terminal shows all columns when they were selected."""
    names = table.column_names if are_chosen else None
    writer = make_writer(format_, file, names, table.schema)
    for batch in table.to_batches():
        writer.write(batch)
    writer.close()


def chosen(answer: "Answer", columns: list[str] | None) -> "pa.Table":
    """The selected columns."""
    names = answer.table.column_names
    for name in columns or ():
        if name not in names:
            there = ", ".join(names)
            raise KdissectError(f"{answer.question.name} has no column {name!r}; it has {there}")
    return answer.table if columns is None else answer.table.select(columns)


def readable(table: "pa.Table") -> "pa.Table":
    """The table for display: durations with their unit, shares in percent, rates shortened."""
    import pyarrow as pa

    shown = {}
    for field in table.schema:
        values = table[field.name].to_pylist()
        metadata = field.metadata or {}
        if metadata.get(b"unit") == b"ns":
            texts = [None if value is None else human.duration(value) for value in values]
            shown[field.name.removesuffix("_ns")] = pa.array(texts, pa.string())
        elif pa.types.is_floating(field.type):
            written = "{:.1%}" if metadata.get(b"type") == SHARE.encode() else "{:.2f}"
            texts = [None if value is None else written.format(value) for value in values]
            shown[field.name] = pa.array(texts, pa.string())
        else:
            shown[field.name] = table[field.name]
    return pa.table(shown)


def click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The click option for an option of a question."""
    flag = f"--{option.name.replace('_', '-')}"
    if option.type == FLAG:
        return click.option(flag, option.name, is_flag=True, default=None, help=option.meaning)
    default = option.default
    if option.type == NAMES:
        shown = ",".join(default)
        return click.option(
            flag, option.name, callback=shared.names, metavar="A,B,...",
            help=f"{option.meaning}  [default: {shown}]",
        )  # fmt: skip
    if option.type == DURATION:
        shown = "" if default is None else f"  [default: {duration_text(default)}]"
        return click.option(
            flag, option.name, callback=duration, metavar="TIME", help=f"{option.meaning}{shown}"
        )
    kind: Any = click.Choice(option.choices) if option.choices else str
    if option.type == NUMBER:
        kind = click.IntRange(1)
    shown = "" if default is None else f"  [default: {default}]"
    return click.option(flag, option.name, type=kind, help=f"{option.meaning}{shown}")


def help_of(question: Question) -> str:
    """The first lines of the command's help."""
    return (
        f"{question.title}\n\nOf the captures FILE..., or of directories with tables that "
        f"`kdissect dissect` wrote, or of datasets. Docs: analysis.md#{question.name}."
    )
