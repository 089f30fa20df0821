"""Options of reading as words of a command line, for commands that read the same captures."""

from typing import Any

import click
from click.core import ParameterSource

from kdissect.cli.options import DECODING
from kdissect.limits import Limits


def reading_options() -> list[str]:
    """The options of reading that the command was given."""
    context = click.get_current_context()
    words: list[str] = []
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name in DECODING:
            words += words_of(option.opts[0], context.params[option.name])
    return words


def words_of(flag: str, value: Any) -> list[str]:
    """An option with its values.

    >>> words_of("--port", (9192, 9193)), words_of("--protocol", "0.7")
    (['--port', '9192', '--port', '9193'], ['--protocol', '0.7'])
    """
    if isinstance(value, Limits):
        usual = Limits()._asdict()
        values = [f"{name}={it}" for name, it in value._asdict().items() if it != usual[name]]
    else:
        values = list(value) if isinstance(value, tuple) else [value]
    return [word for one in values for word in (flag, str(one))]
