"""States and boundary states whose values fit no capture: what they raise where stages go on with
them.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kdissect.errors import EncodingError

# An index outside a list, a size below 0, a time beyond 64 bits: types and lengths are checked
# where bytes are read, what values mean to each other only the stages know.
UNSOUND: Final = (
    LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError,
    RecursionError, struct.error,
)  # fmt: skip


@contextmanager
def going_on(what: str) -> Iterator[None]:
    """Go on with a state or a boundary state that came out of a file; raises EncodingError for a
    wrong one.

    `what` names the file.
    """
    try:
        yield
    except UNSOUND as error:
        text = f"{type(error).__name__}: {error}"
        raise EncodingError(f"{what} does not hold together: {text}") from error
