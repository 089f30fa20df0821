"""Durations on the command line."""

import click

from kdissect.analysis.time_expressions import UNITS


def duration(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Read ``10s``, ``500ms``, ``1.5h`` as nanoseconds (a click callback)."""
    if text is None:
        return None
    number = text.rstrip("nusmhd")
    try:
        nanoseconds = round(float(number) * UNITS[text[len(number) :]])
    except (KeyError, ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time; write it like 10s, 500ms, 1h") from None
    if nanoseconds <= 0:
        raise click.BadParameter(f"{text!r} is not positive")
    return nanoseconds
