"""Memory budget of one message's values, shared by all decoders of a full body.

A body is decoded by many: its layout, those of embedded messages, those of records. They share the
open budget of their thread; without one, nothing is limited.
"""

import threading
from typing import Any, Final

from mypy_extensions import i64

from kdissect.errors import InvalidValue
from kdissect.protocol.readers import NO_LIMIT, ValueBudget

LEFT_OUT: Final = "left_out"
_open = threading.local()


class Spending:
    """The open budget of this thread inside its `with`; a generator would cost three calls more."""

    def __init__(self, limit: i64) -> None:
        self.value_budget = ValueBudget(min(limit, NO_LIMIT))
        self._before: ValueBudget | None = None

    def __enter__(self) -> ValueBudget:
        self._before = getattr(_open, "value_budget", None)
        _open.value_budget = self.value_budget
        return self.value_budget

    def __exit__(self, *_: object) -> None:
        _open.value_budget = self._before


def spending(limit: i64) -> Spending:
    """Open a budget of `limit` bytes for decoding in this thread; one at a time."""
    return Spending(limit)


def current() -> ValueBudget:
    """The open budget, else one without limit."""
    value_budget: ValueBudget | None = getattr(_open, "value_budget", None)
    return value_budget if value_budget is not None else ValueBudget()


def charge(data: bytes, ratio: i64) -> None:
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
