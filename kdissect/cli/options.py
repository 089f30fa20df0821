"""Options shared by commands, and their conversion to the library's arguments.

Longer than other modules: every shared option is declared once, here.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from kdissect.cli.completing import (
    columns_here,
    columns_of_exchanges,
    columns_of_where,
    completed_files,
    completed_list,
    table_names,
)
from kdissect.cli.help import CAPTURE, DOCUMENT, OUTPUT, ROWS, Choice, option
from kdissect.cli.program import FAILED_ON
from kdissect.errors import KdissectError
from kdissect.limits import Limits, parse_limits
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES
from kdissect.text.suggestions import did_you_mean

F = Callable[..., Any]
Settings = dict[str, Any]
DECODING: Final = ("ports", "brokers", "decode_as", "keylog", "limits", "protocol")
ROWS_CONDITION: Final = "rows"
PROBLEM: Final = "problem"
WARNING: Final = "warning"
FORMATS: Final = ("table", "json", "jsonl", "csv", "parquet")
PROTOCOLS: Final = ("auto", "kafka", "0.7", "proposal", "trunk-2012")
MAX_PORT: Final = 65_535

JSON_RESULT: Final = click.option(
    "--json", "is_json", is_flag=True, help="Report the result as a line of JSON."
)
TABLE_FORMAT: Final = "[default: table, in a pipe jsonl]"

force = option("--force", group=OUTPUT, is_flag=True, help="Overwrite the output file.")
payload = option("--payload", is_flag=True, help="Include keys, values and headers of records.")
user = option(
    "--user", group=CAPTURE, metavar="NAME", help="Switch to this user once interfaces are open."
)
where_exchanges = option(
    "--where",
    group=ROWS,
    shell_complete=completed_list(columns_of_exchanges),
    metavar="SQL",
    help="The exchanges that meet this SQL condition. Its names are the columns of `exchanges`.",
)
files = click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", shell_complete=completed_files
)


def limits(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Limits:
    """Read ``name=number`` texts (a click callback)."""
    try:
        return parse_limits(texts)
    except KdissectError as error:
        raise click.BadParameter(str(error)) from error


def sharing(command: F) -> F:
    """Add the option for the number of processes."""
    return option(
        "--jobs",
        group=CAPTURE,
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Worker processes for files of a million packets or more.  [default: 0, one per "
        "processor from two million packets on, with few connections]",
    )(command)


def progress(text: str) -> Callable[[F], F]:
    """The option for showing progress."""
    return option(
        "--progress/--no-progress",
        group=CAPTURE,
        default=None,
        help=f"{text}  [default: on a terminal]",
    )


def reading(command: F) -> F:
    """Add the options for reading captures.

    The command gets `progress`, and all others as `settings`: keywords of `kdissect.Options`.
    """

    @wraps(command)
    def with_strict(settings: Settings, strict: bool, **values: Any) -> Any:
        from kdissect.system.freed_memory import keep_freed_memory

        keep_freed_memory()
        return command(**values, settings={**settings, "strict": strict})

    wrapped: F = with_strict
    for one in (
        progress("Show bytes read, rate and time left on stderr."),
        option("--strict", group=CAPTURE, is_flag=True, help="Stop at the first decode error."),
    ):
        wrapped = one(wrapped)
    return decoding(wrapped)


def decoding(command: F) -> F:
    """Add the options for ports and protocols; the command gets them as `settings`."""

    @wraps(command)
    def with_settings(**values: Any) -> Any:
        settings: Settings = {name: values.pop(name) for name in DECODING}
        if settings["keylog"]:
            from kdissect.system.core_dumps import prevent_core_dumps

            prevent_core_dumps()
        return command(**values, settings=settings)

    wrapped: F = with_settings
    for one in (
        option(
            "--protocol",
            group=CAPTURE,
            type=Choice(PROTOCOLS),
            default="auto",
            help="Protocol of the brokers: Kafka of any release (auto), 0.8 and later (kafka), "
            "0.7, or one of two drafts of 2012.  [default: auto]",
        ),
        option(
            "--keylog",
            group=CAPTURE,
            type=click.Path(dir_okay=False),
            multiple=True,
            metavar="FILE",
            help="Decrypt TLS with the secrets of this key log (SSLKEYLOGFILE); repeatable.",
        ),
        option(
            "--port",
            "ports",
            group=CAPTURE,
            type=click.IntRange(1, MAX_PORT),
            multiple=True,
            metavar="PORT",
            help="Broker port, in addition to 9092-9094, 19092 and 29092; repeatable.",
        ),
        option(
            "--broker",
            "brokers",
            group=CAPTURE,
            multiple=True,
            metavar="ADDRESS:PORT",
            help="Always treat this address as a broker; repeatable.",
        ),
        option(
            "--decode-as",
            "decode_as",
            group=CAPTURE,
            multiple=True,
            metavar="[ADDRESS:]PORT=PROTOCOL",
            help="Protocol on that port: kafka, 0.7, proposal, trunk-2012, tls, or none, which "
            "ignores it; repeatable.",
        ),
        option(
            "--max",
            "limits",
            group=CAPTURE,
            callback=limits,
            multiple=True,
            metavar="NAME=NUMBER",
            help="Memory limit, like connections=1000 or frame_bytes=16M; repeatable. "
            "--help-limits lists them.",
        ),
    ):
        wrapped = one(wrapped)
    return wrapped


def order(_: click.Context, __: click.Parameter, text: str | None) -> tuple[Any, ...]:
    """Read ``a,b:desc`` (a click callback)."""
    from kdissect.tables.ordering import parse_order

    try:
        return parse_order(name.strip() for name in text.split(",")) if text else ()
    except KdissectError as error:
        raise click.BadParameter(str(error)) from error


sorting = option(
    "--sort",
    "keys",
    group=ROWS,
    shell_complete=completed_list(columns_here),
    callback=order,
    metavar="A,B:desc,...",
    help="Sort by these columns. Descending with :desc; empty cells come last.",
)
limiting = option(
    "--limit", group=ROWS, type=click.IntRange(0), metavar="N", help="At most N rows."
)


def selecting(command: F) -> F:
    """Add the options that select and sort rows."""
    for one in (
        limiting,
        sorting,
        option(
            "--where",
            group=ROWS,
            shell_complete=completed_list(columns_of_where),
            metavar="SQL",
            help="Only rows that meet this SQL condition. Its names are those of the table, or of "
            "`exchanges` for analyses.",
        ),
    ):
        command = one(command)
    return command


def failing(*conditions: str) -> Callable[[F], F]:
    """Add --fail-on, whose exit code is `program.FAILED_ON`."""
    texts = {
        ROWS_CONDITION: "any row",
        PROBLEM: "a finding or row of severity problem",
        WARNING: "one of severity warning or problem",
    }
    meant = "; ".join(f"{name}: {texts[name]}" for name in conditions)
    return option(
        "--fail-on",
        group=OUTPUT,
        type=Choice(conditions),
        help=f"Exit with {FAILED_ON} if there is one. {meant}.",
    )


def conditions_of(severities: Iterable[str]) -> set[str]:
    """The conditions of --fail-on that findings of these meet; a problem is a warning, too."""
    found = set(severities)
    return found | ({WARNING} if PROBLEM in found else set())


def to_file(help_: str, **more: Any) -> Callable[[F], F]:
    """Add -o for one file."""
    return option(
        "-o",
        "--output",
        "path",
        **{"type": click.Path(dir_okay=False, path_type=Path), "metavar": "PATH", **more},
        help=help_,
    )


def output(formats: tuple[str, ...], default: str = TABLE_FORMAT) -> Callable[[F], F]:
    """Add --format, -o and --force."""

    def add(command: F) -> F:
        for one in (
            force,
            to_file("Write to this file. Its extension sets the format.", group=OUTPUT),
            option("--format", "format_", group=OUTPUT, type=Choice(formats), help=default),
            option(
                "--json",
                "format_",
                group=OUTPUT,
                flag_value=DOCUMENT,
                help="One JSON document: schema_version, columns, rows. Docs: json.md.",
            ),
        ):
            command = one(command)
        return command

    return add


def verifying(command: F) -> F:
    """Add the option for checksums."""
    return option(
        "--verify-crc",
        group=CAPTURE,
        is_flag=True,
        help="Verify batch checksums: column crc_ok of batches.",
    )(command)


def names(_: click.Context, __: click.Parameter, text: str | None) -> list[str] | None:
    """Split ``a,b``; a repeated name counts once (a click callback)."""
    if text is None:
        return None
    found = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise click.BadParameter(f"no name in {text!r}")
    return list(found)


def check_tables(names: Iterable[str]) -> None:
    """Raise a usage error for an unknown table."""
    for name in names:
        if name not in TABLES:
            meant, there = did_you_mean(name, TABLES), ", ".join(TABLES)
            raise click.UsageError(f"no table {name!r}; {meant}there are {there}")


def making(command: F) -> F:
    """Add the options that select tables; the command gets `tables` and `payload`."""

    @wraps(command)
    def with_tables(
        tables: list[str] | None, records: bool, bodies: bool, payload: bool, **values: Any
    ) -> Any:
        check_tables(tables or ())
        asked = ["records"] if records or payload else []
        asked += ["bodies"] if bodies else []
        if asked:
            tables = list(dict.fromkeys([*(tables or DEFAULT_TABLES), *asked]))
        return command(**values, tables=tables, payload=payload)

    wrapped: F = with_tables
    for one in (
        option(
            "--bodies",
            group=CAPTURE,
            is_flag=True,
            help="Also the bodies table: whole messages as JSON.",
        ),
        payload,
        option(
            "--records",
            group=CAPTURE,
            is_flag=True,
            help="Also the records table, one row per record.",
        ),
        option(
            "--tables",
            callback=names,
            shell_complete=completed_list(table_names),
            metavar="A,B,...",
            help=f"Only these tables.  [default: {','.join(DEFAULT_TABLES)}]",
        ),
    ):
        wrapped = one(wrapped)
    return wrapped


columns = option(
    "--columns",
    shell_complete=completed_list(columns_here),
    group=ROWS,
    callback=names,
    metavar="A,B,...",
    help="Only these columns, in this order.",
)


def examples(*lines: str) -> str:
    """Examples at the end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
