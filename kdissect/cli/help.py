"""Help of commands: one screen, with the options in groups.

An option belongs to the `group` that its decorator gives it (`option`). The screen has an option a
line, with the first sentence of its help; groups in `FOLDED` are one line of names. --help-all has
every option in full, --help-limits the limits of memory.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from kdissect.text.suggestions import did_you_mean, known_words

F = Callable[..., Any]

OWN: Final = "Options"
ROWS: Final = "Rows"
OUTPUT: Final = "Output"
CAPTURE: Final = "Reading captures"
ENGINE: Final = "Engine"
SENTENCE: Final = re.compile(r"(?<=[^.]\.) ")  # behind the first one; FILE... is within one
GROUPS: Final = (OWN, ROWS, OUTPUT, ENGINE, CAPTURE)  # in this order
FOLDED: Final = (ENGINE, CAPTURE)
WIDTH: Final = 80
NAMES_WIDTH: Final = 27  # of the column with the options
MORE: Final = "More, explained by --help-all"
MORE_LIMITS: Final = "limits of memory: --help-limits"
DOCUMENT: Final = "--json"  # the value of the option, which no --format has
HELP_NAMES: Final = ("-h", "--help")
CONTEXT: Final = {"help_option_names": list(HELP_NAMES), "max_content_width": 100}


class GroupedOption(click.Option):
    """An option of a group."""

    def __init__(self, *names: Any, group: str = OWN, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.group = group


def option(*names: str, group: str = OWN, **settings: Any) -> Callable[[F], F]:
    """An option of a group of the help."""
    return click.option(*names, cls=GroupedOption, group=group, **settings)


class Choice(click.Choice):  # type: ignore[type-arg]
    """One of several words; a mistyped one gets the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == DOCUMENT:  # format that --json selects
            return value
        if isinstance(value, str) and value not in self.choices:
            self.fail(f"{value!r} is unknown; {known_words(value, self.choices)}", param, ctx)
        return super().convert(value, param, ctx)


class Command(click.Command):
    """A command whose help is one screen."""

    def __init__(self, *values: Any, **settings: Any) -> None:
        settings["context_settings"] = CONTEXT | settings.get("context_settings", {})
        super().__init__(*values, **settings)
        self.has_limits = any(one.name == "limits" for one in self.params)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Click keeps the option of the first context, which may have been made without names."""
        return list(HELP_NAMES)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *helping(self)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        is_all = ctx.meta.get(ALL, False)
        folded = []
        for group in GROUPS:
            options = list(shown_options(self, group))
            if group in FOLDED and not is_all:
                folded += options
            elif options:
                with formatter.section(group):
                    rows = [row_of(one, ctx, is_all) for one in options]
                    formatter.write_dl(rows, col_max=NAMES_WIDTH)
        if folded:
            limits = f"; {MORE_LIMITS}" if self.has_limits else ""
            with formatter.section(f"{MORE}{limits}"):
                formatter.write_text(", ".join(map(names_of, folded)))


class Group(click.Group):
    """A group of commands; a mistyped one gets the nearest."""

    command_class = Command

    def __init__(self, *values: Any, **settings: Any) -> None:
        settings["context_settings"] = CONTEXT | settings.get("context_settings", {})
        super().__init__(*values, **settings)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """See `Command.get_help_option_names`."""
        return list(HELP_NAMES)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            meant = did_you_mean(args[0], names)
            there = f"there are {', '.join(names)}"
            ctx.fail(f"no command {args[0]!r}; {meant}{there}")
        return super().resolve_command(ctx, args)


ALL: Final = "kdissect.cli.help.all"


def helping(command: Command) -> Iterator[click.Option]:
    """The options that print more help."""

    def show_all(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
        if is_asked and not ctx.resilient_parsing:
            ctx.meta[ALL] = True
            click.echo(ctx.get_help())
            ctx.exit()

    def show_limits(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
        if is_asked and not ctx.resilient_parsing:
            for line in limit_lines(ctx.terminal_width or WIDTH):
                click.echo(line)
            ctx.exit()

    settings = {"is_flag": True, "is_eager": True, "expose_value": False, "hidden": True}
    yield click.Option(["--help-all"], callback=show_all, help="All options in full.", **settings)
    if command.has_limits:
        yield click.Option(
            ["--help-limits"], callback=show_limits, help="The limits of memory.", **settings
        )


def limit_lines(width: int) -> Iterator[str]:
    """The limits of --max, with their defaults and what they bound."""
    from kdissect.limits import LIMIT_MEANINGS, Limits

    formatter = click.HelpFormatter(width=width)
    formatter.write_text(
        "Limits of memory for --max NAME=NUMBER; K, M and G may follow the number."
    )
    formatter.write_paragraph()
    with formatter.indentation():
        rows = [
            (f"{name}={number(value)}", LIMIT_MEANINGS[name])
            for name, value in Limits()._asdict().items()
        ]
        formatter.write_dl(rows, col_max=34)
    yield from formatter.getvalue().splitlines()


def number(value: int) -> str:
    """A number as --max takes it: 64M.

    >>> number(64 << 20), number(1000)
    ('64M', '1000')
    """
    for letter, size in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if value and value % size == 0:
            return f"{value // size}{letter}"
    return str(value)


def shown_options(command: click.Command, group: str) -> Iterator[click.Option]:
    """The options of a group, those that every command has left out."""
    for one in command.params:
        if isinstance(one, click.Option) and not one.hidden:
            own = one.group if isinstance(one, GroupedOption) else OWN
            if own == group:
                yield one


def names_of(one: click.Option) -> str:
    """The names of an option, the longest last: ``-o, --output``."""
    names = sorted([*one.opts], key=len)
    return ", ".join(names)


def row_of(one: click.Option, ctx: click.Context, is_all: bool) -> tuple[str, str]:
    """Names and help of an option, its first sentence only unless `is_all`."""
    record = one.get_help_record(ctx)
    assert record is not None  # noqa: S101  # hidden options are left out before
    if is_all:
        return record
    names = names_of(one)
    if not one.is_flag:
        metavar = one.metavar or ("CHOICE" if isinstance(one.type, click.Choice) else "N")
        names += f" {metavar}"
    return names, brief(record[1], one)


def brief(text: str, one: click.Option) -> str:
    """The first sentence of an option's help, with its choices and its default."""
    sentence, bracket, default = text.rpartition("[default: ")
    if not bracket:
        sentence, default = text, ""
    sentence = sentence.split("  [")[0].strip()
    sentence = SENTENCE.split(sentence, maxsplit=1)[0]
    if isinstance(one.type, click.Choice) and not set(one.type.choices) <= set(
        sentence.split(", ")
    ):
        choices = "|".join(map(str, one.type.choices))
        sentence = f"{sentence.rstrip('.')}: {choices}." if sentence else f"{choices}."
    default = default.split(";")[0].split("]")[0]
    return f"{sentence} [{default}]".strip() if default else sentence
