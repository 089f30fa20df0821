"""``kdissect compare BEFORE AFTER``: changes between two captures, or two time ranges of one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kdissect.analysis.compare.comparison import CHANGED, QUESTION, VERDICTS
from kdissect.cli import options as shared
from kdissect.cli.analyses import (
    ENGINE,
    MASTER,
    answering_session,
    chosen,
    click_option,
    write_rows,
)
from kdissect.cli.completing import completed_files
from kdissect.cli.destination import destination
from kdissect.cli.help import Command
from kdissect.cli.output import chosen_format
from kdissect.cli.program import ANSWERED, code_of, report
from kdissect.cli.progress import Progress
from kdissect.tables.ordering import ordered
from kdissect.text import human

if TYPE_CHECKING:
    import pyarrow as pa

    from kdissect.api.comparison import Comparison, Side

HTML: Final = "html"  # a page with plots
WITHOUT_UNIT: Final = ("ratio", "q_value", "p_value")
WITH_UNIT: Final = ("before", "after", "difference", "low", "high")


def asking(command: shared.F) -> shared.F:
    """Add the options of the question."""
    for option in reversed(QUESTION.options):
        command = click_option(option)(command)
    return command


@click.command(
    "compare",
    cls=Command,
    short_help=QUESTION.title,
    epilog=shared.examples(*QUESTION.examples),
)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="BEFORE AFTER | FILE...",
    shell_complete=completed_files,
)
@click.option("--at", metavar="MOMENT", help="Compare the time before and from this moment.")
@click.option("--before", metavar="RANGE|SQL", help="Part of FILE... that is the before side.")
@click.option("--after", metavar="RANGE|SQL", help="Part of FILE... that is the after side.")
@asking
@shared.columns
@shared.selecting
@shared.failing(shared.ROWS_CONDITION)
@shared.output((*shared.FORMATS, HTML))
@ENGINE
@MASTER
@shared.sharing
@shared.reading
def command(
    files: tuple[str, ...],
    at: str | None,
    before: str | None,
    after: str | None,
    where: str | None,
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
    """What changed significantly between two captures or times?

    BEFORE and AFTER are captures, quoted globs, directories of captures or of tables that
    `kdissect dissect` wrote, or datasets. With --at, --before or --after, FILE... are one source
    of which parts are compared: ranges of time as in 14:05..14:10, 14:05:30.. or ..+30s (after the
    first request), or SQL conditions over the columns of `exchanges`; one alone is compared with
    the rest. Times are UTC. Docs: analysis.md#compare.
    """
    from kdissect.api.comparison import NothingToCompare, compare

    sources = sources_of(files, any(text is not None for text in (at, before, after)))
    is_page = format_ == HTML or (not format_ and path is not None and path.suffix == ".html")
    format_ = HTML if is_page else chosen_format(format_, path)
    asked = {key: value for key, value in options.items() if value is not None}
    try:
        with (
            Progress(progress) as shown,
            destination(path, force) as file,
            answering_session(master) as session,
        ):
            found = compare(
                *sources, at=at, before=before, after=after, where=where, jobs=jobs,
                engine=engine, session=session, notice=shown.notice,
                reading={**settings, "progress": shown.report}, **asked,
            )  # fmt: skip
            table = chosen(found, columns, keys)
            if format_ == "table":
                table = readable(table, ordered(found.table, keys)["unit"].to_pylist(), columns)
            shown.clear()
            if is_page:
                rows = ordered(found.table, keys).slice(0, limit)
                file.write(page_of(found, rows, files, at, before, after))
            else:
                extra = sides_data(found)
                write_rows(table.slice(0, limit), format_, file, columns is not None, extra)
    except NothingToCompare as error:
        report(error)
        return ANSWERED
    click.echo(f"kdissect: {explanation(found)}", err=True)
    return code_of(fail_on, [shared.ROWS_CONDITION] if found.table.num_rows else [])


def sources_of(files: tuple[str, ...], is_within: bool) -> list[Any]:
    """Two sources, or all files as one when parts of it are compared."""
    if is_within:
        return [list(files)]
    if len(files) == 2:
        return list(files)
    raise click.UsageError(
        f"{human.counted(len(files), 'source')}, not two: name BEFORE and AFTER (several files of "
        "one side as a directory or a quoted glob), or use --at, --before or --after"
    )


def page_of(
    found: "Comparison",
    rows: "pa.Table",
    files: tuple[str, ...],
    at: str | None,
    before: str | None,
    after: str | None,
) -> bytes:
    """The page about a comparison, all columns of the rows."""
    from kdissect.report.changes import changes_page
    from kdissect.report.writing import title_of

    if at is not None:
        titles = [f"{title_of(files)} before {at}", f"from {at}"]
    elif before is not None or after is not None:
        titles = [f"{title_of(files)}, {before or 'the rest'}", after or "the rest"]
    else:
        titles = [title_of([one]) for one in files]
    return changes_page(found, titles, rows)


def explanation(found: "Comparison") -> str:
    """The compared sides and the result, in words."""
    sides = ", ".join(
        f"{name} {side_text(side)}"
        for name, side in (("before", found.before), ("after", found.after))
    )
    changed = sum(found.verdicts.get(verdict, 0) for verdict in CHANGED)
    others = [
        f"{human.count(found.verdicts[name])} {name}"
        for name in VERDICTS
        if name not in CHANGED and name in found.verdicts
    ]
    rows = human.counted(sum(found.verdicts.values()), "comparison")
    text = f"{sides}; {rows}: " + ", ".join([f"{human.count(changed)} changed", *others])
    hidden = others and found.table.num_rows == changed
    return f"{text} (--unchanged shows them)" if hidden else text


def sides_data(found: "Comparison") -> dict[str, Any]:
    """The sides in a document of --json."""
    return {
        "before": found.before._asdict(),
        "after": found.after._asdict(),
        "verdicts": found.verdicts,
    }


def side_text(side: "Side") -> str:
    """Like "331 exchanges in 18.3 s"."""
    seconds = human.duration(side.last_ns - side.first_ns)
    return f"{human.counted(side.exchanges, 'exchange')} in {seconds}"


def readable(table: "pa.Table", units: list[str], columns: list[str] | None) -> "pa.Table":
    """The table for display: numbers in the unit of their row, without the unit column."""
    import pyarrow as pa

    shown = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        if name in WITH_UNIT:
            texts = [
                number_text(value, unit, name in WITH_UNIT[2:])
                for value, unit in zip(values, units, strict=True)
            ]
            shown[name] = pa.array(texts, pa.string())
        elif name in WITHOUT_UNIT:
            texts = [None if value is None else f"{value:.3g}" for value in values]
            shown[name] = pa.array(texts, pa.string())
        elif name != "unit" or columns:
            shown[name] = table[name]
    return pa.table(shown)


def number_text(value: float | None, unit: str, is_signed: bool) -> str | None:
    """A number in its unit; differences are signed."""
    if value is None:
        return None
    size = abs(value)
    text = {
        "ns": lambda: human.duration(size),
        "share": lambda: human.share(size, 1),
        "bytes/s": lambda: human.size(size) + "/s",
        "1/s": lambda: f"{size:.3g}/s",
    }[unit]()
    sign = "-" if value < 0 else "+" if is_signed and value else ""
    return sign + text
