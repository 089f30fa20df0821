"""Spare sockets of several workers, for an interface that is removed and made again.

A member of a fanout group cannot be bound to another interface, and no socket can be opened once
privileges are dropped. So each worker has a spare one for each interface, opened with the others.
It costs nothing as long as it is not bound. Workers do not talk about it: each reads from the
sockets how far the others are. States, in their order:

    unbound     no packets, no ring
    bound       by its worker, to all interfaces, with a ring and a filter that passes nothing
    member      of a new group: the first worker joins all when the last one is bound, in the order
                of the workers, as in the first group, so that the kernel's hash gives each worker
                the connections that it had
    capturing   its worker lets packets of the interface pass, by its number

Bound to all interfaces, a socket can follow each further one of the name by another filter.
"""

import socket
from collections.abc import Sequence
from typing import Final

from kdissect.errors import CaptureError
from kdissect.sources.fanout import group_of, join, new_group

PROTOCOL: Final = 1  # place in an address


class Spare:
    """The spare socket of the worker with this number, `mine`, of `spares` in their order.

    It has copies of its own.
    """

    def __init__(self, spares: Sequence[socket.socket], number: int) -> None:
        self.mine = spares[number].dup()
        self._last = spares[-1].dup()
        # To be joined; by the first worker alone.
        self._all = [one.dup() for one in spares] if number == 0 else []

    def is_joined(self) -> bool:
        """Return whether all are members of the new group; the first worker makes it.

        Raises CaptureError.
        """
        if self._all and group_of(self._last) is None and all(map(is_bound, self._all)):
            self._join_all()
        return group_of(self._last) is not None

    def close(self) -> None:
        """Close the copies; may be called again."""
        for one in (self.mine, self._last, *self._all):
            one.close()

    def _join_all(self) -> None:
        group = None
        try:
            for one in self._all:
                group = new_group(one, False) if group is None else join(one, group, False)
        except OSError as error:
            raise CaptureError(
                f"the kernel does not spread packets over several workers again ({error.strerror}):"
                " start again"
            ) from error


def is_bound(asked: socket.socket) -> bool:
    """Return whether a packet socket is bound."""
    return bool(asked.getsockname()[PROTOCOL])
