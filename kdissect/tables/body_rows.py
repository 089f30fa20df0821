"""Rows of the tables built from fully decoded bodies: `members` and `bodies`."""

from typing import cast

from mypy_extensions import i64

from kdissect.exchanges.exchange import Exchange
from kdissect.messages.memberships import Membership
from kdissect.protocol.readers import NULL
from kdissect.tables.row_buffers import BodyWriter, MemberWriter, Rows
from kdissect.tables.row_writers import new_writer


class MemberRows(Rows):
    """Rows of `members`."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(MemberWriter, new_writer("members", self))

    def add(self, x: Exchange, m: Membership) -> None:
        """Append one event of an exchange."""
        self.writer.write(self.buffer, x, m)
        self.count += 1


class BodyRows(Rows):
    """Rows of `bodies`."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(BodyWriter, new_writer("bodies", self))

    def add(self, x: Exchange, request: str, response: str) -> None:
        """Append the two bodies of an exchange as JSON; "" for a missing one."""
        self.writer.write(self.buffer, x, request, response)
        self.count += 1


def int_or_null(value: int | None) -> i64:
    """Return `value`, or NULL for None."""
    return NULL if value is None else value
