"""A new user's first five minutes: python -m tools.first_minutes WHEEL [--python PYTHON]

Makes a directory with a wheel and a capture, nothing else, and takes STEPS there as a shell does:
a new virtual environment, pip, first commands, an extra that is missing, two mistakes. Writes what
they print, their exit codes and their times into docs/first-five-minutes.md, with the directory's
name replaced. `tools.installed` takes the steps after pip again and compares them with the page.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "first-five-minutes.md"
CAPTURE: Final = ROOT / "captures" / "quickstart.pcapng"
MARK: Final = "<!-- from here on printed by python -m tools.first_minutes -->\n"
STEP: Final = re.compile(r"```console\n\$ (.*)\n(?s:.*?)```\n(?:\nExit code (\d+)\.\n)?")
# Output that differs from one installation to another.
PYTHON: Final = re.compile(r"Python 3\.\d+\.\d+")
LONGEST: Final = 110  # of a line on the page
SECONDS: Final = "120"  # of a step; pip may have to fetch everything


class Step(NamedTuple):
    """A command, its expected exit code, and the lines of output on the page."""

    command: str
    code: int = 0
    lines: int = 12


class Taken(NamedTuple):
    """One step: exit code, output, CPU seconds and elapsed seconds."""

    step: Step
    code: int
    output: list[str]
    cpu: float
    seconds: float


INSTALLING: Final = (
    Step("ls"),
    Step("python3 -m venv kd && . kd/bin/activate"),
    Step("pip install -q kdissect-0.1.0-*.whl"),
)
STEPS: Final = (
    Step("kdissect --version"),
    Step("kdissect --help", lines=16),
    Step("kdissect quickstart.pcapng", lines=26),
    Step("kdissect latency quickstart.pcapng --format table", lines=10),
    Step('kdissect show quickstart.pcapng --where "error_code <> 0" --limit 1', lines=14),
    Step("kdissect protocol Fetch 12", lines=8),
    Step("kdissect dissect quickstart.pcapng -o tables"),
    Step("kdissect errors tables --format table --limit 5"),
    Step("kdissect live -i lo --metrics 127.0.0.1:9123", 2),
    Step("kdissect spark dissect . -o data", 2),
    Step("kdissect latancy quickstart.pcapng", 2),
    Step("kdissect quickstrat.pcapng", 1),
    Step('kdissect show quickstart.pcapng --where "latency > 1"', 2),
)


def take(steps: Iterable[Step], place: Path, variables: Mapping[str, str]) -> list[Taken]:
    """Take the steps in the directory, one after the other."""
    taken = []
    for step in steps:
        before, begin = _cpu(), time.monotonic()
        done = subprocess.run(
            ["timeout", "-k", "5", SECONDS, "bash", "-c", step.command],
            cwd=place, env=dict(variables), check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        seconds = time.monotonic() - begin
        output = [line.rstrip() for line in done.stdout.replace(str(place), ".").splitlines()]
        taken.append(Taken(step, done.returncode, output, _cpu() - before, seconds))
    return taken


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shown(taken: Taken) -> str:
    """A step on the page."""
    lines = [line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in taken.output]
    if len(lines) > taken.step.lines:
        lines = [*lines[: taken.step.lines], "..."]
    end = f"Exit code {taken.code}.\n\n" if taken.code else ""
    return "\n".join(["```console", f"$ {taken.step.command}", *lines, "```", "", end])


def variables_of(bin_directories: str, home: Path) -> dict[str, str]:
    """Environment of a shell on a terminal of 110 columns, with pip's settings of this one."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_", "REQUESTS_")) and name != "PIP_FIND_LINKS"
    }
    path = f"{bin_directories}:/usr/bin:/bin"
    return {**kept, "PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "COLUMNS": str(LONGEST)}


def differences(bin_directory: Path, place: Path) -> list[str]:
    """Steps after pip whose output from an installed kdissect differs from the page."""
    place.mkdir()
    shutil.copy(CAPTURE, place)
    taken = take(STEPS, place, variables_of(str(bin_directory), place))
    said = PAGE.read_text(encoding="utf-8").partition(MARK)[2]
    return [
        f"$ {each.step.command}\n{shown(each)}"
        for each in taken
        if each.code != each.step.code or masked(shown(each)).rstrip() not in masked(said)
    ]


def report(bin_directory: Path, place: Path) -> bool:
    """Run the steps after pip and print those that differ; return whether none did."""
    begin = time.monotonic()
    found = differences(bin_directory, place)
    for each in found:
        print(f"--- first: not as {PAGE.relative_to(ROOT)} says\n{each}")
    seconds = time.monotonic() - begin
    print(f"first: {len(STEPS)} lines, {len(found)} failed ({seconds:.0f} s)", flush=True)
    return not found


def masked(text: str) -> str:
    return PYTHON.sub("Python 3", text)


def page(installed: list[Taken], taken: list[Taken], size: int, packages: int) -> str:
    """Text of the page after MARK."""
    venv, pip = installed[1:]
    first = next(each for each in taken if each.step.command == "kdissect quickstart.pcapng")
    every = [*installed, *taken]
    rows = [
        ("the new environment", [venv]),
        ("`pip install` of the wheel and what it needs, from pip's cache", [pip]),
        ("the first summary", [first]),
        ("all commands of this page", every),
    ]
    times = "\n".join(
        f"| {name} | {sum(t.cpu for t in those):.1f} | {sum(t.seconds for t in those):.1f} |"
        for name, those in rows
    )
    return (
        f"| | CPU s | s by the clock |\n|---|---|---|\n{times}\n\n"
        f"{packages} packages, {size} MB on disk with the environment's own.\n\n"
        + "".join(shown(each) for each in every).rstrip()
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable).resolve())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kdissect-first-") as directory:
        place = Path(directory)
        shutil.copy(CAPTURE, place)
        shutil.copy(options.wheel, place)
        bins = f"{place}/kd/bin:{options.python.parent}"
        variables = variables_of(bins, Path.home())  # pip's cache is in the home directory
        installed = take(INSTALLING, place, variables)
        taken = take(STEPS, place, variables)
        wrong = [each for each in (*installed, *taken) if each.code != each.step.code]
        if wrong:
            sys.exit("".join(f"exit code {each.code}\n{shown(each)}" for each in wrong))
        packages = len(list(place.glob("kd/lib/*/site-packages/*.dist-info")))
        text = page(installed, taken, megabytes(place / "kd"), packages)
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n{text}", encoding="utf-8")


def megabytes(directory: Path) -> int:
    """Disk space of a directory, as du counts it."""
    files = [path.lstat() for path in directory.rglob("*")]
    return round(sum(file.st_blocks * 512 for file in files) / 2**20)


if __name__ == "__main__":
    main()
