"""The help of a command fits a screen; all of it is in --help-all."""

from collections.abc import Iterator

import click
import pytest

from kdissect.cli.program import COMMANDS, program

LINES = 40  # of a screen of 100 columns, with room for the prompt
WIDTH = 100
# Commands with two forms: times or conditions; groups, or the slowest alone.
LONGER = {"compare": 50, "latency": 43}


def help_of(name: str) -> list[str]:
    context = click.Context(program, terminal_width=WIDTH, max_content_width=WIDTH)
    command = program.get_command(context, name)
    assert command is not None
    own = click.Context(
        command, parent=context, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH
    )
    return command.get_help(own).splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_a_screen(name: str) -> None:
    lines = help_of(name)
    assert len(lines) <= LONGER.get(name, LINES)
    assert max(map(len, lines)) <= WIDTH


def test_exceptions_are_needed() -> None:
    assert all(len(help_of(name)) > LINES for name in LONGER)


def commands(command: click.Command, context: click.Context) -> Iterator[click.Command]:
    """A command and those of its group."""
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, context)


def test_every_command_has_the_same_help_option_even_in_a_context_without_names() -> None:
    for command in commands(program, click.Context(program)):
        params = command.get_params(click.Context(command))
        assert {"-h", "--help"} in [set(param.opts) for param in params], command.name
