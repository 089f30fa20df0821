"""Unusual surroundings of an installed kdissect: environments, directories, names, interpreters.

`tools.installed` runs CASES as its environment "surroundings". A case is a bash command in which
$K is the program, $P its Python and $C an absolute path of the capture. What it writes to stdout
is compared with what `kdissect $C` writes in usual surroundings, where the case says so.
"""

import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

SECONDS: Final = 120
PARALLEL: Final = 2


class Case(NamedTuple):
    """A command in bash, its expected exit code, and whether it gives the usual output."""

    name: str
    command: str
    code: int = 0
    is_usual: bool = True


class Result(NamedTuple):
    """Result of a case; `complaint` is empty when it was expected."""

    case: Case
    complaint: str
    text: str


CASES: Final = (
    Case("no environment", "env -i COLUMNS=100 $K $C"),
    Case("no PATH", "env -u PATH $K $C"),
    Case("no HOME", "env -u HOME $K $C"),
    Case("HOME that cannot be written", "HOME=/proc $K $C"),
    Case("HOME that does not exist", "HOME=/nonexistent $K $C"),
    Case("HOME of an analysis that cannot be written", "HOME=/proc $K latency $C", is_usual=False),
    Case("no TMPDIR", "env -u TMPDIR $K $C"),
    Case("TMPDIR that cannot be written", "TMPDIR=/proc $K $C"),
    Case("TMPDIR of an analysis", "TMPDIR=/nonexistent $K lag $C", is_usual=False),
    Case("no TERM", "env -u TERM $K $C"),
    Case("a dumb terminal", "TERM=dumb $K $C"),
    Case("an unknown terminal", "TERM=nonsense $K $C"),
    Case("no colours", "NO_COLOR=1 $K $C"),
    Case("no width", "env -u COLUMNS $K $C", is_usual=False),
    Case("a width that is no number", "COLUMNS=wide $K $C", is_usual=False),
    Case("a width of one", "COLUMNS=1 $K $C", is_usual=False),
    Case("locale C", "LC_ALL=C $K $C"),
    Case(
        "ASCII only",
        "LC_ALL=POSIX PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 $K $C",
        is_usual=False,
    ),
    Case("Latin-1", "PYTHONIOENCODING=latin-1 $K $C", is_usual=False),
    Case("a locale that does not exist", "LC_ALL=xx_YY.UTF-8 $K $C"),
    Case("another time zone", "TZ=Asia/Kolkata $K $C"),
    Case("a time zone that does not exist", "TZ=Nowhere/Land $K $C"),
    Case("the root directory", "cd / && $K $C"),
    Case("a directory that cannot be written", "cd /proc && $K latency $C", is_usual=False),
    Case("a directory that was removed", "mkdir gone && cd gone && rmdir ../gone && $K $C"),
    Case(
        "names with blanks and non-ASCII characters",
        'mkdir "Ü b" && cd "Ü b" && cp $C "bröker 1.pcapng" && $K dissect "bröker 1.pcapng" '
        '-o "tabellen ü" && $K latency "tabellen ü"',
        is_usual=False,
    ),
    Case("a name with a dash", "cp $C ./-x.pcapng && $K -- -x.pcapng", is_usual=False),
    Case("a name that is no UTF-8", "cp $C $'\\xff.pcapng' && $K *.pcapng", is_usual=False),
    Case("a pipe as stdin", "cat $C | $K -", is_usual=False),
    Case("a file as stdin", "$K - <$C", is_usual=False),
    Case("no stdin", "$K $C <&-"),
    Case("no stderr", "$K $C 2>&-"),
    Case("no stdout", "$K $C >&-", is_usual=False),
    Case("a full disk behind stdout", "$K $C >/dev/full", 1, is_usual=False),
    Case("a reader that leaves", "$K table exchanges $C | head -n 1", is_usual=False),
    Case("few open files", "ulimit -n 24 && $K $C"),
    Case("python -I", "$P -I -m kdissect $C"),
    Case("python -E -s -P", "$P -E -s -P -m kdissect $C"),
    Case("python -OO", "$P -P -OO -m kdissect $C"),
    Case("python -bb -W error", "$P -P -bb -W error -m kdissect $C"),
    Case("python -X dev -W error", "$P -P -X dev -W error -m kdissect $C"),
    Case("an analysis under -W error", "$P -P -W error -m kdissect latency $C", is_usual=False),
)


def results(
    bin_directory: Path, capture: Path, place: Path, variables: Mapping[str, str]
) -> Iterator[Result]:
    """Run all cases, each in a directory of its own below `place`."""
    told = {
        **variables,
        "K": str(bin_directory / "kdissect"),
        "P": str(bin_directory / "python"),
        "C": str(capture.resolve()),
        "TMPDIR": str(place),
    }
    place.mkdir()
    _, usual, _ = ran(Case("usual", "$K $C"), place / "usual", told)

    def result_of(numbered: tuple[int, Case]) -> Result:
        number, case = numbered
        code, output, errors = ran(case, place / str(number), told)
        return Result(case, complaint_of(case, code, output, errors, usual), output + errors)

    with ThreadPoolExecutor(PARALLEL) as pool:
        yield from pool.map(result_of, enumerate(CASES))


def ran(case: Case, directory: Path, variables: Mapping[str, str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a case."""
    directory.mkdir()
    done = subprocess.run(
        ["timeout", str(SECONDS), "bash", "-o", "pipefail", "-c", case.command],
        cwd=directory, env=variables, check=False, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode()


def complaint_of(case: Case, code: int, output: str, errors: str, usual: str) -> str:
    """Complaint about a case; "" when it is as expected."""
    if "Traceback (most recent call last)" in output + errors:
        return "a traceback"
    if code != case.code:
        return f"exit code {code}, expected {case.code}"
    if case.code and errors.count("\n") != 1:
        return "the error is not one line"
    if case.is_usual and output != usual:
        return "the output differs from the usual one"
    return ""


def report(bin_directory: Path, capture: Path, place: Path, variables: Mapping[str, str]) -> bool:
    """Run all cases and print failures; return whether all succeeded."""
    begin = time.monotonic()
    found = list(results(bin_directory, capture, place, variables))
    failed = [result for result in found if result.complaint]
    for result in failed:
        print(f"--- surroundings: {result.case.name}: {result.case.command}")
        print(f"    {result.complaint}\n{result.text[-2000:]}")
    seconds = time.monotonic() - begin
    print(f"surroundings: {len(found)} lines, {len(failed)} failed ({seconds:.0f} s)", flush=True)
    return not failed
