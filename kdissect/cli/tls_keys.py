"""``kdissect tls-keys``: let a running JVM write the secrets of its TLS sessions to a key log."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from kdissect.cli import options
from kdissect.cli.help import Command
from kdissect.cli.live.lines import tell
from kdissect.cli.program import ANSWERED
from kdissect.errors import InvalidArgument, KdissectError, OutputError, OutputExists
from kdissect.live.java_agent import Jvm, load_agent

AGENT: Final = "extract-tls-secrets"


@click.command(
    "tls-keys",
    cls=Command,
    short_help="Let a running JVM log its TLS secrets.",
    epilog=options.examples(
        "kdissect tls-keys --pid 4711 --agent extract-tls-secrets-4.0.0.jar -o keys",
        "kdissect tls-keys --java 4711 --agent extract-tls-secrets-4.0.0.jar -o keys --yes",
        "kdissect live -i eth0 --keylog keys",
    ),
)
@click.option(
    "--pid",
    "--java",
    "pid",
    type=click.IntRange(1),
    required=True,
    metavar="PID",
    help="The JVM: a broker, a client, Connect, Streams.",
)
@click.option(
    "--agent",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    required=True,
    metavar="JAR",
    help=f"The agent, {AGENT} from Maven Central; it is not part of kdissect.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The key log, a new file for the user of the JVM alone.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(pid: int, agent: Path, output: Path, yes: bool) -> int:
    """Attach an agent to a running JVM, which from then on writes the secrets of its TLS sessions
    to FILE, until it ends.

    Anyone with access to FILE can decrypt these sessions. Run it as the user of the JVM, or as
    root. Docs: tls.md#java.
    """
    jvm = Jvm.of(pid)
    tell(
        f"this loads {agent.name} into process {pid} ({jvm.title}) of user {jvm.user}: it writes"
        f" the secrets of all TLS sessions that begin from now on to {output}, and stays until the"
        " process ends. Anyone with access to that file can decrypt these sessions, also recorded"
        " ones"
    )
    if not yes and not is_confirmed():
        raise KdissectError("nothing was done; --yes says so without a question")
    made = new_key_log(output, jvm)
    try:
        load_agent(jvm, agent, made)
    except BaseException:
        if not made.stat().st_size:
            made.unlink()
        raise
    tell(f"secrets go to {output}; read it with --keylog {output}")
    return ANSWERED


def is_confirmed() -> bool:
    """Ask on the terminal; without one the answer is no."""
    if not sys.stdin.isatty():
        raise InvalidArgument("this asks first, and there is no terminal to ask on: --yes")
    return bool(click.confirm("go on?", err=True))


def new_key_log(path: Path, jvm: Jvm) -> Path:
    """An empty file that the user of the JVM alone can read, from the start; its absolute path."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if jvm.uid != os.geteuid():
                os.fchown(number, jvm.uid, jvm.gid)
        finally:
            os.close(number)
    except FileExistsError as error:
        raise OutputExists(f"{path} exists; secrets go to a new file") from error
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    return path.resolve()
