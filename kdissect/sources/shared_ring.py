"""`SharedRing`: the ring of one of several workers, which share an interface in a fanout group.

An interface that goes down and up is read on. When it is removed and made again, the worker moves
to its spare socket (`Spare`), with a new ring, and frees the old one; when that happens again, the
spare gets another filter. Each of this needs no privileges.
"""

import struct
import time
from contextlib import suppress
from typing import Final

from kdissect.capture.packet import Packet
from kdissect.sources.bpf_programs import NOTHING, Program, attach, of_interface
from kdissect.sources.fanout import SOL_PACKET
from kdissect.sources.interface_socket import LOOK_AGAIN_NS, InterfaceSocket, bind_to_all
from kdissect.sources.interfaces import ANY, interface_number, is_interface_up
from kdissect.sources.ring import PACKET_RX_RING, RingSource
from kdissect.sources.spares import Spare

NO_RING: Final = struct.pack("=7I", *[0] * 7)


class NotYet(OSError):
    """The interface is back, but this worker or another one has to move first."""


class SharedSocket(InterfaceSocket):
    """A member of a fanout group; `spare` is None for `ANY`, which always has the same number.

    `is_replaced` if the interface has been another one for a while: it is time to move.
    """

    spare: Spare | None = None
    is_replaced = False
    has_moved = False
    _program: Program = NOTHING
    _polled_ns = -1

    @property
    def needs_polling(self) -> bool:
        return self.is_away or self.has_moved

    def admit(self, program: Program) -> None:
        self._program = program
        super().admit(program)

    def end(self) -> None:
        self._program = NOTHING
        super().end()

    def check(self) -> None:
        super().check()
        now = time.monotonic_ns()
        if self.has_moved and not self.is_away and now - self._polled_ns >= LOOK_AGAIN_NS:
            self._polled_ns = now
            self._look()

    def leave(self) -> None:
        """Go on with the spare socket; a ring is made before `enter`."""
        assert self.spare is not None  # noqa: S101  # it is not ANY
        self.counts()
        self.socket.close()
        self.socket = self.spare.mine
        self.is_replaced, self.has_moved = False, True

    def enter(self) -> None:
        """Bind the spare socket, without any packets yet."""
        self.prepare()
        bind_to_all(self.socket)

    def _look(self) -> None:
        """Notice that the interface is down or gone: a socket of all interfaces is not told."""
        with suppress(OSError):
            if (
                is_interface_up(self.socket, self.name)
                and interface_number(self.socket, self.name) == self._number
            ):
                return
        self.note_gone()

    def _bind_again(self) -> None:
        """Return if packets come from the interface that has the name now; OSError if not yet."""
        if self.name == ANY:
            return
        number = interface_number(self.socket, self.name)
        if self.has_moved:
            self._wait_for_others()
            self._follow(number)
        elif number != self._number:
            # Packets of the old interface are in the ring until its last block is released.
            away = time.monotonic_ns() - self._away_ns
            self.is_replaced = self.is_away and away >= LOOK_AGAIN_NS
            raise NotYet

    def _wait_for_others(self) -> None:
        assert self.spare is not None  # noqa: S101  # it has moved to it
        if not self.spare.is_joined():
            self._looked_ns = -1  # others take milliseconds
            raise NotYet

    def _follow(self, number: int) -> None:
        """Receive the packets of the interface with this number."""
        if number != self._number:
            self._make_promiscuous(number)
            attach(self.socket, of_interface(self._program, number))
            self._number = number


class SharedRing(RingSource):
    """The ring of a `SharedSocket`; gets no packets until `source.admit`."""

    source: SharedSocket

    def __init__(self, source: SharedSocket, buffer_bytes: int) -> None:
        super().__init__(source, None, buffer_bytes)
        self._unmap()

    def take(self) -> list[Packet]:
        # By the process that reads it, and no other: it is freed when that one has moved.
        if not self._is_mapped:
            self._map()
        return super().take()

    def check(self) -> None:
        super().check()
        # Unread blocks are read first.
        if self.source.is_replaced and not self._ready():
            self._move()

    def close(self) -> None:
        super().close()
        if self.source.spare is not None:
            self.source.spare.close()

    def _move(self) -> None:
        """Go on with the spare socket, and a ring of the same size."""
        self._unmap()
        # Closing the socket frees nothing, as other processes keep it open. The kernel refuses
        # while a child of this one, just forked, has the ring mapped: then it is kept.
        with suppress(OSError):
            self.source.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, NO_RING)
        self.source.leave()
        self._open()
        self._map()
        self.source.enter()
