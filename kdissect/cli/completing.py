"""Shell completions: columns, tables, dimensions and files."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completing = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completed_list(
    names: Callable[[click.Context, click.Parameter], Iterable[str]],
) -> Completing:
    """Completion of the last name in a list ``a,b,c``."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        before, comma, word = incomplete.rpartition(",")
        given = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in names(ctx, param)
            if name.startswith(word) and name not in given
        ]

    return complete


def completed_files(
    _: click.Context, __: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Completion of files, by the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def columns_here(ctx: click.Context, _: click.Parameter) -> list[str]:
    """The columns of the rows that a command prints."""
    from kdissect.tables.schemas import TABLES

    name = ctx.command.name
    # Where an option has no value yet, words are not parsed but left in `args`.
    words = [ctx.params.get("name"), *ctx.args]
    if name == "table" and (named := [word for word in words if word in TABLES]):
        return [column.name for column in TABLES[named[0]].columns]
    if name in ("table", "show"):
        return columns_of_exchanges(ctx, _)
    from kdissect.analysis.catalogue import QUESTIONS

    question = QUESTIONS.get(str(name))
    if name == "compare":
        from kdissect.analysis.compare.comparison import QUESTION

        question = QUESTION
    if question is None:
        return []
    by = [one.choices for one in question.options if one.name == "by"]
    return list(dict.fromkeys([column.name for column in question.columns] + list(*by)))


def columns_of_where(ctx: click.Context, param: click.Parameter) -> list[str]:
    """The columns of a condition: those of the table, else of `exchanges`."""
    is_table = ctx.command.name == "table"
    return columns_here(ctx, param) if is_table else columns_of_exchanges(ctx, param)


def columns_of_exchanges(_: click.Context, __: click.Parameter) -> list[str]:
    """The columns that conditions of most commands are about."""
    from kdissect.tables.schemas import EXCHANGES

    return [column.name for column in EXCHANGES.columns]


def table_names(_: click.Context, __: click.Parameter) -> list[str]:
    """All tables."""
    from kdissect.tables.schemas import TABLES

    return list(TABLES)


def api_names(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Completion of an API's name, in any case."""
    from click.shell_completion import CompletionItem

    from kdissect.protocol.apis import APIS

    names = [api.name for api in APIS.values()]
    return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]
