"""The program: its commands, the default one, and exit codes.

Exit codes: 0 answered, also when the answer is that there is none; 1 something could not be read or
written; 2 the command line is wrong; 3 what `--fail-on` names is there; 130 interrupted, 143 and
129 the same by SIGTERM and SIGHUP. A reader of stdout that goes away (`| head`) is success.
"""

import importlib
import io
import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kdissect.cli.ending import code_of_ending, ended_by_signals
from kdissect.cli.environment import version_text
from kdissect.cli.help import Group
from kdissect.cli.standard_streams import discard_unwritable, silence_stdout
from kdissect.cli.terminal import digit_groups, with_options
from kdissect.errors import (
    NO_MORE_MEMORY,
    DecodeError,
    InvalidArgument,
    KdissectError,
    OutputExists,
)
from kdissect.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE: Final = "_KDISSECT_COMPLETE"  # set by the completion script of a shell
ANSWERED: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
FAILED_ON: Final = 3

# Errors that another command line mends.
MISTAKES: Final = (InvalidArgument, OutputExists)
OF_CLICK: Final = "is not a valid integer range"
A_NUMBER: Final = "is not a whole number"
# What the dynamic linker and DuckDB say where there is no memory.
OF_MEMORY: Final = re.compile("failed to map segment|Out of Memory")
LOST: Final = re.compile("without (setting an exception|exception set)")
NO_CONDITIONS: Final = frozenset(("window", "tap", "date"))  # they are worked out later

DEFAULT: Final = "summary"
ANALYSES: Final = "analyses"  # the module of all commands listed in `kdissect.analysis.catalogue`
# Groups of --help → its commands, each with its module in kdissect.cli and its title. The titles of
# questions are their own; a test holds both together.
LISTED: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Start here": {
        "summary": ("summary", "What is slow, what fails, and why (the default)."),
        "report": ("report", "One HTML page: findings, plots, tables."),
        "compare": ("compare", "What changed between two captures or times?"),
        "upgrade": (ANALYSES, "Which clients break on another Kafka release?"),
    },
    "Latency": {
        "latency": (ANALYSES, "How long do clients wait for the broker, and for what?"),
        "slowest": (ANALYSES, "Which exchanges took longest, in which packets?"),
        "acks": (ANALYSES, "How long do producers wait by acks and broker?"),
        "end-to-end": (ANALYSES, "How long do records take to the consumer?"),
    },
    "Failures and loss": {
        "errors": (ANALYSES, "Which errors, of which clients, and the remedy?"),
        "retries": (ANALYSES, "Which batches failed or were sent again?"),
        "failovers": (ANALYSES, "Which partitions were not available, how long?"),
        "delivery": (ANALYSES, "Which producers may lose or repeat records?"),
        "sequences": (ANALYSES, "Where do sequence numbers repeat or skip?"),
        "transactions": (ANALYSES, "Which transactions hang or were aborted?"),
        "health": (ANALYSES, "Which connections lose, stall or fail?"),
    },
    "Groups, clients and topics": {
        "commits": (ANALYSES, "Do groups commit what they were delivered?"),
        "rebalances": (ANALYSES, "When and why did groups rebalance?"),
        "lag": (ANALYSES, "How far are consumer groups behind?"),
        "clients": (ANALYSES, "Which clients, with which software?"),
        "topology": (ANALYSES, "Which clients produce and consume which topics?"),
        "traffic": (ANALYSES, "What is produced and fetched, how well batched?"),
    },
    "Rows, packets and SQL": {
        "dissect": ("dissect", "All tables as Parquet files."),
        "show": ("show", "Exchanges one by one, with all fields."),
        "table": ("table", "The rows of one table."),
        "tables": ("tables", "The tables, their columns and units."),
        "sql": ("sql", "SQL over the tables, or a prompt for it."),
        "slice": ("slice", "Packets of chosen exchanges, for Wireshark."),
        "spans": ("spans", "Exchanges as OpenTelemetry spans."),
    },
    "Live, clusters and reference": {
        "live": ("live.command", "Capture live, to files, lines and metrics."),
        "top": ("top.command", "A live screen of clients and latency."),
        "spark": ("spark.command", "Captures of a cluster into a dataset, on Spark."),
        "dataset": ("dataset", "Check, compact and clean up a dataset."),
        "tls-keys": ("tls_keys", "Let a running JVM log its TLS secrets."),
        "protocol": ("protocol", "The supported APIs and versions."),
        "completion": ("completion", "Completion for bash, zsh and fish."),
    },
}
GROUPS: Final = {title: tuple(commands) for title, commands in LISTED.items()}
# Command → module in kdissect.cli, and its title.
COMMANDS: Final = {name: one[0] for part in LISTED.values() for name, one in part.items()}
TITLES: Final = {name: one[1] for part in LISTED.values() for name, one in part.items()}


class Program(Group):
    """Imports a command on use; the first argument may be a file instead of a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found = importlib.import_module(f"kdissect.cli.{module}")
        command = found.command_of(cmd_name) if module == ANALYSES else found.command
        assert isinstance(command, click.Command)  # noqa: S101  # every command module has one
        return with_options(command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = ("--help", "-h", "--version")
        if args and args[0] not in COMMANDS and args[0] not in own:
            if not ctx.resilient_parsing:
                _explain_misspelling(args[0])
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in groups, with texts that --help need not import commands for."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, TITLES[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Commands, options, and files for the default command."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=TITLES[name])
            for name in COMMANDS
            if name.startswith(incomplete)
        ]
        own = click.Command.shell_complete(self, ctx, incomplete)
        return [*found, *own] or [CompletionItem(incomplete, type="file")]


def _explain_misspelling(word: str) -> None:
    if Path(word).exists():
        return
    import difflib  # only for mistyped commands

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    if near:
        raise click.UsageError(f"no command or file {word!r}. Did you mean {near[0]!r}?")


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        click.echo(version_text())
        ctx.exit()


@click.command(
    cls=Program,
    no_args_is_help=True,
    epilog="""\b
Examples:
  kdissect broker.pcapng                      what is slow, what fails, and why
  kdissect show broker.pcapng --where "error_code <> 0"
  kdissect dissect ring-*.pcap.gz -o tables   Parquet files, one per table
  tcpdump -w - port 9092 | kdissect -""",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version, and whether it is compiled.",
)
def program() -> None:
    """Passive dissector and traffic analyzer for Kafka captures.

    `kdissect FILE...` is short for `kdissect summary FILE...`.
    """


def run(arguments: list[str] | None = None) -> int:
    """Run `arguments` (default: sys.argv) and return the exit code; errors go to stderr."""
    try:
        if arguments is None and (instruction := os.environ.get(COMPLETE)):
            from click.shell_completion import shell_complete

            return shell_complete(program, {}, "kdissect", COMPLETE, instruction)
        # Not program.main(): it treats a broken pipe as failure.
        words = sys.argv[1:] if arguments is None else arguments
        with (
            ended_by_signals(),
            program.make_context("kdissect", words) as context,
            digit_groups(),
        ):
            code = program.invoke(context)
        sys.stdout.flush()
        return code if isinstance(code, int) else ANSWERED
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.ClickException as error:
        explain(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as ending:
        return code_of_ending(ending)
    except BrokenPipeError:
        silence_stdout()
        return ANSWERED
    except KdissectError as error:
        report(error)
        return MISUSED if isinstance(error, MISTAKES) else FAILED
    except OSError as error:
        from kdissect.text.escape import escaped

        place = "" if error.filename is None else f"{error.filename}: "
        click.echo(f"kdissect: {escaped(f'{place}{error.strerror or error}')}", err=True)
        discard_unwritable()
        return FAILED
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        # Nothing is imported for it: that may fail, too.
        click.echo(f"kdissect: {NO_MORE_MEMORY}", err=True)
        return FAILED


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an exception, or one that led to it, is for want of memory.

    The interpreter and extension modules can lose a MemoryError, which is a SystemError then: it is
    taken for one only where the address space is limited.
    """
    while error is not None:
        if isinstance(error, MemoryError) or OF_MEMORY.search(str(error)):
            return True
        if isinstance(error, SystemError) and LOST.search(str(error)) and has_memory_limit():
            return True
        error = error.__cause__ or error.__context__
    return False


def has_memory_limit() -> bool:
    """Return whether the address space of this process is limited (``ulimit -v``)."""
    try:
        import resource
    except ImportError:  # Windows
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def explain(error: click.ClickException) -> None:
    """Print an argument error on stderr; arguments may come from names in a capture."""
    from kdissect.text.escape import escaped

    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        names = [name for one in error.ctx.command.params for name in one.opts if name[0] == "-"]
        meant = as_condition(error.option_name, names) or did_you_mean(error.option_name, names)
        error = click.UsageError(
            f"no option {error.option_name!r}; {meant}all: --help-all", error.ctx
        )
    shown = io.StringIO()
    error.show(shown)
    text = shown.getvalue().replace(OF_CLICK, A_NUMBER)
    click.echo(escaped(text, keep_lines=True), nl=False, err=True)


def as_condition(option: str, names: Collection[str]) -> str:
    """Return how to choose rows by what was taken for an option, or an empty text."""
    from kdissect.analysis.dimensions import COLUMNS, DIMENSIONS

    name = option.lstrip("-").replace("-", "_")
    column = COLUMNS.get(name, name)
    is_one = column in {*COLUMNS.values(), *DIMENSIONS} - NO_CONDITIONS and "--where" in names
    return f"choose rows with --where \"{column} = '...'\"; " if is_one else ""


def report(error: KdissectError) -> None:
    """Print an error on stderr, with the bytes if any."""
    from kdissect.text.escape import escaped

    click.echo(f"kdissect: {escaped(str(error))}", err=True)
    if isinstance(error, DecodeError) and error.hexdump():
        click.echo(error.hexdump(), err=True)


def code_of(fail_on: str | None, conditions: Collection[str]) -> int:
    """The exit code of an answer that meets these conditions of --fail-on."""
    return FAILED_ON if fail_on in conditions else ANSWERED


def leave(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise click.exceptions.Exit(code)
