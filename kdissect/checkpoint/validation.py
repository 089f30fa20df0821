"""Validates resumed states and boundary states whose values fit no capture."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kdissect.errors import EncodingError

# An index outside a list, a size below 0, a time beyond 64 bits: types and lengths are checked
# where bytes are read; the relations between values are known only to the stages.
UNSOUND: Final = (
    LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError,
    RecursionError, struct.error,
)  # fmt: skip


@contextmanager
def going_on(what: str) -> Iterator[None]:
    """Resume from a state or boundary state of a file; raise EncodingError for a wrong one.

    `what` names the file.
    """
    try:
        yield
    except UNSOUND as error:
        text = f"{type(error).__name__}: {error}"
        raise EncodingError(f"{what} does not hold together: {text}") from error
