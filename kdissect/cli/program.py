"""The program: its commands, the default one, and exit codes.

Exit codes: 0 found, 1 nothing found, 2 error, 130 interrupted. A reader of stdout that goes away
(`| head`) is success.
"""

import importlib
import io
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from kdissect.cli.environment import version_text
from kdissect.cli.standard_streams import discard_unwritable, silence_stdout
from kdissect.errors import DecodeError, KdissectError

FOUND: Final = 0
NOTHING_FOUND: Final = 1
FAILED: Final = 2
INTERRUPTED: Final = 130

DEFAULT: Final = "summary"
ANALYSES: Final = "analyses"  # the module of all commands listed in `kdissect.analysis.catalogue`
# Command → module in kdissect.cli, in the order of --help.
COMMANDS: Final = {
    "summary": "summary",
    "latency": ANALYSES,
    "slowest": ANALYSES,
    "acks": ANALYSES,
    "errors": ANALYSES,
    "retries": ANALYSES,
    "failovers": ANALYSES,
    "delivery": ANALYSES,
    "sequences": ANALYSES,
    "transactions": ANALYSES,
    "commits": ANALYSES,
    "rebalances": ANALYSES,
    "lag": ANALYSES,
    "end-to-end": ANALYSES,
    "clients": ANALYSES,
    "topology": ANALYSES,
    "upgrade": ANALYSES,
    "traffic": ANALYSES,
    "health": ANALYSES,
    "compare": "compare",
    "dissect": "dissect",
    "show": "show",
    "table": "table",
    "slice": "slice",
    "spans": "spans",
    "protocol": "protocol",
    "spark": "spark",
    "live": "live",
    "top": "top",
}


class Program(click.Group):
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
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = ("--help", "-h", "--version")
        if args and args[0] not in COMMANDS and args[0] not in own:
            _explain_misspelling(args[0])
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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
        # Not program.main(): it treats a broken pipe as failure.
        words = sys.argv[1:] if arguments is None else arguments
        with program.make_context("kdissect", words) as context:
            code = program.invoke(context)
        sys.stdout.flush()
        return code if isinstance(code, int) else FOUND
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.ClickException as error:
        explain(error)
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return FOUND
    except KdissectError as error:
        report(error)
        return FAILED
    except OSError as error:
        from kdissect.text.escape import escaped

        click.echo(f"kdissect: {escaped(str(error))}", err=True)
        discard_unwritable()
        return FAILED


def explain(error: click.ClickException) -> None:
    """Print an argument error on stderr; arguments may come from names in a capture."""
    from kdissect.text.escape import escaped

    shown = io.StringIO()
    error.show(shown)
    click.echo(escaped(shown.getvalue(), keep_lines=True), nl=False, err=True)


def report(error: KdissectError) -> None:
    """Print an error on stderr, with the bytes if any."""
    from kdissect.text.escape import escaped

    click.echo(f"kdissect: {escaped(str(error), keep_lines=True)}", err=True)
    if isinstance(error, DecodeError) and error.hexdump():
        click.echo(error.hexdump(), err=True)


def leave(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise click.exceptions.Exit(code)
