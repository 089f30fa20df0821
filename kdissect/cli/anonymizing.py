"""Options for pseudonyms in place of addresses and names."""

from collections.abc import Callable
from functools import wraps
from typing import IO, Any, Final

import click

from kdissect.cli.help import OUTPUT, option
from kdissect.cli.options import F

KEY_LIMIT: Final = 4096  # of a file that is read as a key


def anonymizing(what: str) -> Callable[[F], F]:
    """Add --anonymize and --anonymize-key; the command gets True, a key, or False."""

    def add(command: F) -> F:
        @wraps(command)
        def with_key(anonymize: bool, key: IO[bytes] | None, **values: Any) -> Any:
            asked = anonymize if key is None else key.read(KEY_LIMIT)
            return command(**values, anonymize=asked)

        wrapped: F = with_key
        for one in (
            option(
                "--anonymize-key",
                "key",
                group=OUTPUT,
                type=click.File("rb"),
                metavar="FILE",
                help=f"The same with a secret of 16 bytes or more: one name, one pseudonym in "
                f"every {what}.",
            ),
            option(
                "--anonymize",
                group=OUTPUT,
                is_flag=True,
                help=f"Replace addresses and names by pseudonyms, other ones in each {what}.",
            ),
        ):
            wrapped = one(wrapped)
        return wrapped

    return add
