"""The prompt of ``kdissect sql``: history, completion of tables, columns and functions.

A query ends with a semicolon or an empty line. ``.tables`` and ``.columns TABLE`` list names,
``.quit`` and Ctrl-D leave. Lines are kept in a file that only the user may read, unless
KDISSECT_HISTORY names another, or is empty.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from kdissect.analysis.engines.ibis_tables import columns_of
from kdissect.cli.output import make_writer
from kdissect.errors import KdissectError
from kdissect.sql.functions import FUNCTIONS, words
from kdissect.tables.schemas import TABLES
from kdissect.text.escape import escaped
from kdissect.text.human import counted
from kdissect.text.suggestions import known_words

if TYPE_CHECKING:
    from kdissect.api.querying import Queryable

VARIABLE: Final = "KDISSECT_HISTORY"
PROMPT: Final = "kdissect> "
MORE: Final = "     ...> "
ROWS: Final = 100  # rows shown of an answer, unless --limit says otherwise
KEYWORDS: Final = words(
    "select from where group by order having limit join left using on as with and or not in "
    "between like ilike is null distinct count case when then else end union all desc asc over "
    "partition offset qualify"
)
COMMANDS: Final = (".tables", ".columns", ".help", ".quit")
HELP: Final = (
    "A query ends with ; or an empty line. .tables lists the tables, .columns TABLE its columns,\n"
    ".quit or Ctrl-D leaves. Ctrl-C ends a query or drops a line."
)


class Names(Completer):
    """Completes tables, columns, functions and keywords."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._tables = list(tables)
        columns = {name for table in self._tables for name in columns_of(TABLES[table])}
        functions = sorted(name for name in FUNCTIONS if name[0].isalpha())
        self._words = [*self._tables, *sorted(columns), *sorted(KEYWORDS), *functions]

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Completion]:
        if document.text.startswith("."):
            yield from self._of_commands(document)
            return
        word = document.get_word_before_cursor()
        if len(word) < 1:
            return
        for name in dict.fromkeys(self._words):
            if name.startswith(word.lower()) and name != word:
                yield Completion(name, start_position=-len(word))

    def _of_commands(self, document: Document) -> Iterator[Completion]:
        first, space, rest = document.text.partition(" ")
        for name in self._tables if space else COMMANDS:
            word = rest if space else first
            if name.startswith(word) and name != word:
                yield Completion(name, start_position=-len(word))


class Prompt:
    """Reads queries and prints their rows until the user leaves."""

    def __init__(
        self, tables: "Queryable", format_: str, limit: int | None, **settings: Any
    ) -> None:
        self._tables = tables
        self._format = format_
        self._limit = ROWS if limit is None else limit
        self._session: PromptSession[str] = PromptSession(
            history=history(),
            completer=Names(tables.names),
            complete_while_typing=False,
            **settings,
        )

    def run(self) -> None:
        """Read and answer until the end of the input."""
        click.echo(f"tables: {', '.join(self._tables.names)}; .help explains", err=True)
        while True:
            try:
                text = self._read()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text.strip() in (".quit", ".exit", "quit", "exit"):
                return
            self.answer(text.strip())

    def _read(self) -> str:
        """One query, over several lines until a semicolon or an empty line."""
        lines = [self._session.prompt(PROMPT)]
        while (text := lines[-1].strip()) and not text.endswith(";") and not is_command(lines[0]):
            lines.append(self._session.prompt(MORE))
        return "\n".join(lines)

    def answer(self, text: str) -> None:
        """Print the rows of a query, or the list of a prompt's command."""
        try:
            if text.startswith("."):
                self._list(text)
            elif text.rstrip(";").strip():
                self._query(text.rstrip(";"))
        except KdissectError as error:
            click.echo(f"kdissect: {escaped(str(error))}", err=True)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)

    def _query(self, text: str) -> None:
        table = self._tables.query(text)
        shown = table.slice(0, self._limit)
        sys.stdout.flush()
        writer = make_writer(self._format, sys.stdout.buffer, table.column_names, table.schema)
        for batch in shown.to_batches():
            writer.write(batch)
        writer.close()
        sys.stdout.buffer.flush()
        more = f", {shown.num_rows} shown" if shown.num_rows < table.num_rows else ""
        click.echo(f"{counted(table.num_rows, 'row')}{more}", err=True)

    def _list(self, text: str) -> None:
        command, _, name = text.partition(" ")
        name = name.strip()
        if command == ".tables":
            click.echo("\n".join(self._tables.names))
        elif command == ".columns" and name in TABLES:
            click.echo("\n".join(columns_of(TABLES[name])))
        elif command == ".columns":
            click.echo(f"no table {name!r}; {known_words(name, self._tables.names)}", err=True)
        elif command == ".help":
            click.echo(HELP)
        else:
            click.echo(f"no command {command!r}; {known_words(command, COMMANDS)}", err=True)


def is_command(line: str) -> bool:
    """Return whether a line is complete without a semicolon."""
    return line.startswith(".") or line.strip() in ("quit", "exit")


def history() -> History:
    """The lines of earlier prompts; in memory only where KDISSECT_HISTORY is empty."""
    named = os.environ.get(VARIABLE)
    if named == "":
        return InMemoryHistory()
    path = Path(named) if named else default_history()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def default_history() -> Path:
    """The file in the user's state directory (XDG)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "kdissect", "sql_history")
