"""Man pages of all commands, made of the declarations of --help: ``python -m tools.man_pages``.

Written in man(7), into build/man or the directory that is named; a test has them rendered.
"""

import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from kdissect.cli.environment import version_text
from kdissect.cli.help import GROUPS, shown_options
from kdissect.cli.program import COMMANDS, TITLES, program
from kdissect.sql.memory_limits import MEMORY_VARIABLE

DIRECTORY: Final = Path("build/man")
CODES: Final = (
    ("0", "Answered, also when there are no rows."),
    ("1", "Something could not be read or written."),
    ("2", "The command line is wrong."),
    ("3", "What --fail-on names was found."),
    ("130", "Interrupted; what had been read is shown."),
)
VARIABLES: Final = (
    (MEMORY_VARIABLE, "Memory of queries, such as 4GB."),
    ("KDISSECT_HISTORY", "File with the history of the prompt of kdissect sql; empty: none."),
    ("NO_COLOR", "No styles on a terminal."),
    ("COLUMNS", "Width of tables."),
)


def escaped(text: str) -> str:
    r"""A text as roff: no character of it is a request or an escape.

    >>> escaped(".x \\ -a")
    '\\&.x \\e \\-a'
    """
    # A line may end before a bar: lists of choices are long.
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("|", "\\:|")
    text = text.replace("`", "\\(ga").replace("'", "\\(aq").replace("^", "\\(ha")
    text = text.replace("~", "\\(ti").replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith((".", "\\(aq")) else text


def pages() -> dict[str, str]:
    """File name → page: kdissect.1, kdissect-latency.1 and so on."""
    made = {"kdissect.1": page(program, ())}
    for name in COMMANDS:
        command = command_named(name)
        made[f"kdissect-{name}.1"] = page(command, (name,))
        for part, inner in getattr(command, "commands", {}).items():
            made[f"kdissect-{name}-{part}.1"] = page(inner, (name, part))
    return made


def command_named(name: str) -> click.Command:
    """A command of the program."""
    command = program.get_command(click.Context(program), name)
    assert command is not None
    return command


def page(command: click.Command, path: tuple[str, ...]) -> str:
    """The page of a command."""
    return "\n".join(lines_of(command, path)) + "\n"


def lines_of(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    """The lines of a page."""
    words = ("kdissect", *path)
    version = version_text().split()[1]
    context = click.Context(command, info_name=" ".join(words))
    title, source = escaped("-".join(words).upper()), f"kdissect {escaped(version)}"
    yield f'.TH "{title}" "1" "{date_of_build()}" "{source}"'
    yield ".ad l"
    yield ".SH NAME"
    yield f"{escaped('-'.join(words))} \\- {escaped(title_of(command, path))}"
    yield ".SH SYNOPSIS"
    yield f".B {escaped(' '.join(words))}"
    yield escaped(" ".join(command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    yield from list(paragraphs(command.help or ""))[1:]  # none follows a heading
    yield from listed_commands(command)
    yield from listed_options(command, context)
    yield from listed("EXIT STATUS", CODES)
    yield from listed("ENVIRONMENT", VARIABLES)
    yield from examples(command.epilog or "")
    yield ".SH SEE ALSO"
    others = ["kdissect"] if path else [f"kdissect-{name}" for name in COMMANDS]
    yield ", ".join(f"\\fB{escaped(other)}\\fR(1)" for other in others)


def date_of_build() -> str:
    """Date of SOURCE_DATE_EPOCH, or of today."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(seconds), UTC) if seconds else datetime.now(UTC)
    return moment.date().isoformat()


def title_of(command: click.Command, path: tuple[str, ...]) -> str:
    """One-line description of a command."""
    title = TITLES.get(path[0]) if len(path) == 1 else command.short_help
    first = (command.help or "").strip().split("\n")[0]
    return (title or first).rstrip(".")


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a command's help."""
    for part in re.split(r"\n\s*\n", text.strip()):
        yield ".PP"
        yield escaped(" ".join(part.replace("\b", "").split()))


def listed_commands(command: click.Command) -> Iterator[str]:
    """The commands of a group."""
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    yield ".SH COMMANDS"
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from item(name, TITLES.get(name) or inner.get_short_help_str(200))


def listed_options(command: click.Command, context: click.Context) -> Iterator[str]:
    """The options in their groups, in full."""
    for group in GROUPS:
        options = list(shown_options(command, group))
        if not options:
            continue
        yield f".SH {escaped(group.upper())}"
        for option in options:
            record = option.get_help_record(context)
            assert record is not None
            yield from item(*record)


def listed(heading: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """A section with a list of terms."""
    yield f".SH {heading}"
    for name, meaning in rows:
        yield from item(name, meaning)


def item(name: str, text: str) -> Iterator[str]:
    """A term with its explanation."""
    yield ".TP"
    yield f"\\fB{escaped(name)}\\fR"
    yield escaped(" ".join(text.split()))


def examples(epilog: str) -> Iterator[str]:
    """The command lines at the end of --help."""
    lines = [line for line in epilog.splitlines() if line.startswith("  ")]
    if lines:
        yield from (".SH EXAMPLES", ".nf")
        yield from (escaped(line[2:]) for line in lines)
        yield ".fi"


def main(directory: Path = DIRECTORY) -> None:
    """Write the pages."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")
    print(f"{directory}: {len(pages())} pages; man -l {directory}/kdissect.1")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
