"""Options shared by commands, and their conversion to the library's arguments."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from kdissect.errors import KdissectError
from kdissect.limits import Limits, parse_limits
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES

F = Callable[..., Any]
Settings = dict[str, Any]
DECODING: Final = ("ports", "brokers", "decode_as", "keylog", "limits", "protocol")
FORMATS: Final = ("table", "json", "jsonl", "csv", "parquet")
PROTOCOLS: Final = ("auto", "kafka", "0.7", "proposal", "trunk-2012")
MAX_PORT: Final = 65_535

TABLE_FORMAT: Final = "[default: table on a terminal, jsonl in a pipe]"

force = click.option("--force", is_flag=True, help="Overwrite the output file.")
payload = click.option(
    "--payload", is_flag=True, help="Include keys, values and headers of records."
)
user = click.option("--user", metavar="NAME", help="Switch to this user once interfaces are open.")
where_exchanges = click.option(
    "--where",
    metavar="SQL",
    help="The exchanges for which this SQL condition over the columns of `exchanges` is true.",
)
files = click.argument("files", nargs=-1, required=True, metavar="FILE...")


def limits(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Limits:
    """Read ``name=number`` texts (a click callback)."""
    try:
        return parse_limits(texts)
    except KdissectError as error:
        raise click.BadParameter(str(error)) from error


def sharing(command: F) -> F:
    """Add the option for the number of processes."""
    return click.option(
        "--jobs",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Worker processes for files of two million packets or more.  [default: 0, one per "
        "processor from four million packets on]",
    )(command)


def progress(text: str) -> Callable[[F], F]:
    """The option for showing progress."""
    return click.option(
        "--progress/--no-progress", default=None, help=f"{text}  [default: on a terminal]"
    )


def reading(command: F) -> F:
    """Add the options for reading captures.

    The command gets `progress`, and all others as `settings`: keywords of `kdissect.Options`.
    """

    @wraps(command)
    def with_strict(settings: Settings, strict: bool, **values: Any) -> Any:
        return command(**values, settings={**settings, "strict": strict})

    wrapped: F = with_strict
    for option in (
        progress("Show bytes read, rate and time left on stderr."),
        click.option("--strict", is_flag=True, help="Stop at the first decode error."),
    ):
        wrapped = option(wrapped)
    return decoding(wrapped)


def decoding(command: F) -> F:
    """Add the options for ports and protocols; the command gets them as `settings`."""

    @wraps(command)
    def with_settings(**values: Any) -> Any:
        settings: Settings = {name: values.pop(name) for name in DECODING}
        return command(**values, settings=settings)

    wrapped: F = with_settings
    for option in (
        click.option(
            "--protocol",
            type=click.Choice(PROTOCOLS),
            default="auto",
            help="Protocol of the brokers: Kafka of any release (auto), 0.8 and later (kafka), "
            "0.7, or one of two drafts of 2012.  [default: auto]",
        ),
        click.option(
            "--keylog",
            type=click.Path(dir_okay=False),
            multiple=True,
            metavar="FILE",
            help="Decrypt TLS with the secrets of this key log (SSLKEYLOGFILE); repeatable.",
        ),
        click.option(
            "--port",
            "ports",
            type=click.IntRange(1, MAX_PORT),
            multiple=True,
            metavar="PORT",
            help="Broker port, in addition to 9092-9094, 19092 and 29092; repeatable.",
        ),
        click.option(
            "--broker",
            "brokers",
            multiple=True,
            metavar="ADDRESS:PORT",
            help="Take this address as a broker in any case; repeatable.",
        ),
        click.option(
            "--decode-as",
            "decode_as",
            multiple=True,
            metavar="[ADDRESS:]PORT=PROTOCOL",
            help="Protocol on that port: kafka, 0.7, proposal, trunk-2012, tls, or none, which "
            "ignores it; repeatable.",
        ),
        click.option(
            "--max",
            "limits",
            callback=limits,
            multiple=True,
            metavar="NAME=NUMBER",
            help="Memory limit, like connections=1000 or frame_bytes=16M; repeatable. "
            f"Limits: {', '.join(Limits._fields)}.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def selecting(command: F) -> F:
    """Add the options that select rows."""
    for option in (
        click.option("--limit", type=click.IntRange(0), metavar="N", help="At most N rows."),
        click.option(
            "--where",
            metavar="SQL",
            help="Only rows for which this SQL condition over the columns is true.",
        ),
    ):
        command = option(command)
    return command


def output(formats: tuple[str, ...], default: str = TABLE_FORMAT) -> Callable[[F], F]:
    """Add --format, -o and --force."""

    def add(command: F) -> F:
        for option in (
            force,
            click.option(
                "-o",
                "--output",
                "path",
                type=click.Path(dir_okay=False, path_type=Path),
                metavar="PATH",
                help="Write to this file instead of stdout; its extension sets the format.",
            ),
            click.option("--format", "format_", type=click.Choice(formats), help=default),
        ):
            command = option(command)
        return command

    return add


def verifying(command: F) -> F:
    """Add the option for checksums."""
    return click.option(
        "--verify-crc", is_flag=True, help="Verify batch checksums: column crc_ok of batches."
    )(command)


def names(_: click.Context, __: click.Parameter, text: str | None) -> list[str] | None:
    """Split ``a,b`` (a click callback)."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def making(command: F) -> F:
    """Add the options that select tables; the command gets `tables` and `payload`."""

    @wraps(command)
    def with_tables(
        tables: list[str] | None, records: bool, bodies: bool, payload: bool, **values: Any
    ) -> Any:
        for name in tables or ():
            if name not in TABLES:
                raise click.UsageError(f"no table {name!r}; there are {', '.join(TABLES)}")
        asked = ["records"] if records or payload else []
        asked += ["bodies"] if bodies else []
        if asked:
            tables = list(dict.fromkeys([*(tables or DEFAULT_TABLES), *asked]))
        return command(**values, tables=tables, payload=payload)

    wrapped: F = with_tables
    for option in (
        click.option(
            "--bodies", is_flag=True, help="Also the bodies table: whole messages as JSON."
        ),
        payload,
        click.option("--records", is_flag=True, help="Also the records table, one row per record."),
        click.option(
            "--tables",
            callback=names,
            metavar="A,B,...",
            help=f"Only these tables.  [default: {','.join(DEFAULT_TABLES)}]",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


columns = click.option(
    "--columns", callback=names, metavar="A,B,...", help="Only these columns, in this order."
)


def examples(*lines: str) -> str:
    """Examples at the end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
