"""Command lines that the documentation and --help print, for an installed kdissect to run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PAGES: Final = ("README.md", "docs/*.md")
# One repeats --help, which is run directly; tools.first_minutes runs the other.
PRINTED: Final = ("command-line.md", "first-five-minutes.md")
# A command line in a code block: indented or after `$ `, perhaps with sudo or fed by a pipe.
COMMAND: Final = re.compile(
    r"^(?:\$ |    +)(?P<line>(?:sudo )?(?:kdissect |[^|]*\| *kdissect ).*)$"
)
# Text before the first two unquoted spaces.
BARE: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|[^"'\s]|\s(?!\s))+""")
FENCE: Final = "```"
ENDLESS: Final = re.compile(
    r"kdissect (live|top)\b.*(-i |--follow)|kdissect spark stream\b"
    r"|kdissect report\b.*(--serve|--every)"
)
# Lines that need a machine of their own; tests/spark and tests/sources have stand-ins for them.
ELSEWHERE: Final = {
    "s3://": "an object store",
    "hdfs://": "HDFS",
    "spark://": "a Spark cluster",
    "tls-keys": "a JVM, and an agent that was fetched",
}
# Extras by the content of a line; the first match counts.
NEEDS: Final = (
    (re.compile(r"--rollups|spark rollup .*--here"), ("rollups",)),
    (re.compile(r"spark rollup"), ("spark", "java", "rollups")),
    (re.compile(r"kdissect spark \w|--engine spark|read.format"), ("spark", "java")),
    (re.compile(r"kdissect spans"), ("otel",)),
    (re.compile(r"--keylog"), ("tls",)),
    (re.compile(r"--metrics|kdissect top (?!.*--once)(?!--netns \S+$)"), ("live",)),
    (re.compile(r"\bdata/kafka\b|\bdataset/|\bkdissect [\w-]+ dataset\b"), ("datasets",)),
)
# Extras that have all of another one.
INCLUDED: Final = {"spark": "datasets", "rollups": "datasets"}


class Line(NamedTuple):
    """A command line and the place that prints it."""

    text: str
    source: str


def documented_lines(root: Path) -> list[Line]:
    """The command lines in README.md and docs/, without trailing explanations."""
    pages = [page for pattern in PAGES for page in sorted(root.glob(pattern))]
    return [line for page in pages if page.name not in PRINTED for line in _lines_of(page, root)]


def _lines_of(page: Path, root: Path) -> Iterator[Line]:
    is_fenced = False
    for number, text in enumerate(page.read_text().splitlines(), 1):
        if text.startswith(FENCE):
            is_fenced = not is_fenced
        found = COMMAND.match(f"    {text}" if is_fenced else text)
        if found and not found["line"].startswith("kdissect:"):
            yield Line(bare(found["line"]), f"{page.relative_to(root)}:{number}")


def help_lines(command: str, text: str) -> Iterator[Line]:
    """The examples at the end of a command's --help."""
    _, _, examples = text.partition("Examples:\n")
    for line in examples.splitlines():
        if re.search(r"(^|\| )kdissect ", line.strip()):
            yield Line(bare(line), f"{command} --help")


def bare(line: str) -> str:
    """The command alone: without `$ `, and without the explanation after two or more spaces."""
    found = BARE.match(line.strip().removeprefix("$ "))
    return found[0].strip() if found else ""


def extras_of(line: str) -> tuple[str, ...]:
    """The extras that the line needs."""
    for pattern, extras in NEEDS:
        if pattern.search(line):
            return extras
    return ()


def is_endless(line: str) -> bool:
    """Return whether the command runs until interrupted."""
    return bool(ENDLESS.search(line)) and "--once" not in line and "--duration" not in line


def needs_elsewhere(line: str) -> str:
    """Requirement of the line that one machine cannot meet; "" when it can run here."""
    return next((reason for word, reason in ELSEWHERE.items() if word in line), "")
