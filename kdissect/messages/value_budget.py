"""Memory allowance of one message's values, shared by all decoders of a full body.

A body is decoded by many: its layout, those of embedded messages, those of records. They share the
open allowance of their thread; without one, nothing is limited.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kdissect.errors import InvalidValue
from kdissect.protocol.readers import NO_LIMIT, ValueBudget

LEFT_OUT: Final = "left_out"


class _Open(threading.local):
    allowance: ValueBudget | None = None


_open = _Open()


@contextmanager
def spending(limit: int) -> Iterator[ValueBudget]:
    """Open an allowance of `limit` bytes for decoding in this thread; one at a time."""
    before = _open.allowance
    allowance = _open.allowance = ValueBudget(min(limit, NO_LIMIT))
    try:
        yield allowance
    finally:
        _open.allowance = before


def current() -> ValueBudget:
    """The open allowance, else one without limit."""
    return _open.allowance or ValueBudget()


@contextmanager
def taken_back() -> Iterator[None]:
    """Refund the bytes taken inside if a DecodeError, or any other exception, is raised."""
    allowance = current()
    before = int(allowance.left), int(allowance.left_out), allowance.path
    try:
        yield
    except BaseException:
        allowance.left, allowance.left_out, allowance.path = before
        raise


def charge(data: bytes, ratio: int) -> None:
    """Charge the maximum result of bytes that are decoded whole: `ratio` times their size.

    Raises InvalidValue, and charges nothing, if not enough is left.
    """
    allowance = current()
    cost = len(data) * ratio
    if cost > allowance.left:
        raise InvalidValue(f"{len(data)} bytes that may become more than the limit", data=data)
    allowance.left -= cost


def note_of(count: int, path: str) -> dict[str, Any]:
    """Describe elements of a body that had no room; with the path if known."""
    return {LEFT_OUT: {"path": path, "count": count} if path else {"count": count}}
