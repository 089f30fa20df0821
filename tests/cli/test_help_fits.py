"""The help of a command fits a screen; all of it is in --help-all."""

import click
import pytest

from kdissect.cli.program import COMMANDS, program

LINES = 40  # of a screen of 100 columns, with room for the prompt
WIDTH = 100
# Commands with two ways to ask: times or conditions; groups, or the slowest alone.
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
