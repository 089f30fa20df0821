"""Memory budget of one message's values, shared by all decoders of a full body.

A body is decoded by many: its layout, those of embedded messages, those of records. They share the
open budget of their thread; without one, nothing is limited.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kdissect.errors import InvalidValue
from kdissect.protocol.readers import NO_LIMIT, ValueBudget

LEFT_OUT: Final = "left_out"


class _Open(threading.local):
    value_budget: ValueBudget | None = None


_open = _Open()


@contextmanager
def spending(limit: int) -> Iterator[ValueBudget]:
    """Open a budget of `limit` bytes for decoding in this thread; one at a time."""
    before = _open.value_budget
    value_budget = _open.value_budget = ValueBudget(min(limit, NO_LIMIT))
    try:
        yield value_budget
    finally:
        _open.value_budget = before


def current() -> ValueBudget:
    """The open budget, else one without limit."""
    return _open.value_budget or ValueBudget()


@contextmanager
def taken_back() -> Iterator[None]:
    """Refund the bytes taken inside if a DecodeError, or any other exception, is raised."""
    value_budget = current()
    before = int(value_budget.left), int(value_budget.left_out), value_budget.path
    try:
        yield
    except BaseException:
        value_budget.left, value_budget.left_out, value_budget.path = before
        raise


def charge(data: bytes, ratio: int) -> None:
    """Charge the maximum result of bytes that are decoded whole: `ratio` times their size.

    Raises InvalidValue, and charges nothing, if not enough is left.
    """
    value_budget = current()
    cost = len(data) * ratio
    if cost > value_budget.left:
        raise InvalidValue(f"{len(data)} bytes that may become more than the limit", data=data)
    value_budget.left -= cost


def note_of(count: int, path: str) -> dict[str, Any]:
    """Describe elements of a body that had no room; with the path if known."""
    return {LEFT_OUT: {"path": path, "count": count} if path else {"count": count}}
