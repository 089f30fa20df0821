"""`InterfaceSocket`: a Linux AF_PACKET socket that stays bound to an interface.

An interface that goes down or disappears is a Problem; when it is back, perhaps as another one with
the same name, the socket is bound again. Unlike a new socket, that needs no privileges. Sockets of
several workers cannot do so: see `shared_ring`.
"""

import ctypes
import errno
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdissect.capture.packet import SECOND_NS
from kdissect.errors import CaptureError, CapturePermissionError, Problem, not_among
from kdissect.sources.bpf_programs import NOTHING, Program, attach
from kdissect.sources.fanout import SOL_PACKET as SOL_PACKET
from kdissect.sources.fanout import join, new_group
from kdissect.sources.interfaces import (
    ANY,
    ARPHRD_LOOPBACK,
    ETHERNET,
    RAW,
    hardware_type,
    interface_number,
    is_interface_up,
    link_type_of,
    list_interfaces,
)
from kdissect.sources.packet_source import Counts

# <linux/if_packet.h>, <linux/if_ether.h>, <asm-generic/socket.h>
PACKET_ADD_MEMBERSHIP: Final = 1
PACKET_MR_PROMISC: Final = 1
PACKET_STATISTICS: Final = 6
PACKET_IGNORE_OUTGOING: Final = 23  # since Linux 4.20
ETH_P_ALL: Final = 3
SO_TIMESTAMPNS: Final = 35
# struct tpacket_stats and tpacket_stats_v3: packets including dropped ones, dropped ones; v3 has
# more.
STATISTICS_SIZE: Final = 12

AWAY: Final = frozenset({errno.ENETDOWN, errno.ENODEV, errno.ENXIO})
LOOK_AGAIN_NS: Final = 200_000_000


class InterfaceSocket:
    """`socket`, made by `open_socket` or by the caller, bound to the interface `name`.

    `capture` is the interface's index in names, for `problems`. Takes ownership of the socket.
    """

    def __init__(
        self, opened: socket.socket, name: str, capture: int = 0, promiscuous: bool = False
    ) -> None:
        self.socket = opened
        self.name = name
        self.capture = capture
        self.problems: list[Problem] = []
        self.link_type = find_link_type(opened, name)
        self._promiscuous = promiscuous
        self._number = -1
        self._received = 0
        self._dropped = 0
        # When the interface disappeared, and when it was last polled; -1 while it is there.
        self._away_ns = -1
        self._looked_ns = -1

    @property
    def is_away(self) -> bool:
        """Return whether the interface is missing, or down."""
        return self._away_ns >= 0

    @property
    def needs_polling(self) -> bool:
        """Return whether `check` has to be called again and again."""
        return self.is_away

    def begin(self, program: Program) -> None:
        """Start the capture; from the first packet on only those that the program passes."""
        self.bind()
        self.admit(program)

    def bind(self) -> None:
        """Bind to the interface, without any packets yet."""
        self.prepare()
        if self.name != ANY and self._is_loopback():
            # Loopback also receives what it sends: the filter would drop the copy, but the sender
            # would still pay for making it.
            with suppress(OSError):
                self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        try:
            self._bind()
        except OSError as error:
            raise no_such_interface(self.name) from error

    def prepare(self) -> None:
        """Let no packet pass when it is bound; times are in ns."""
        attach(self.socket, NOTHING)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def join_group(self, group: int | None) -> int:
        """Share the packets with the other members of a fanout group, None for a new one.

        The socket is bound; returns the group. Raises CaptureError.
        """
        is_loopback = self.name != ANY and self._is_loopback()
        try:
            return (
                new_group(self.socket, is_loopback)
                if group is None
                else join(self.socket, group, is_loopback)
            )
        except OSError as error:
            raise CaptureError(
                f"{self.name}: the kernel does not spread packets over several workers"
                f" ({error.strerror}): leave --workers out"
            ) from error

    def admit(self, program: Program) -> None:
        """Receive the packets that the program passes, from now on."""
        self._empty()
        attach(self.socket, program)
        if self.name != ANY and not is_interface_up(self.socket, self.name):
            self._tell("interface-down", "is down; packets come when it is up")
            self._went()
            self.take_error()

    def end(self) -> None:
        """Stop the capture."""
        attach(self.socket, NOTHING)

    def check(self) -> None:
        """Check whether the interface has gone, or come back; raises CaptureError."""
        self.note_error(self.take_error())
        now = time.monotonic_ns()
        if self.is_away and (self._looked_ns < 0 or now - self._looked_ns >= LOOK_AGAIN_NS):
            self._looked_ns = now
            self._come_back(now)

    def note_error(self, error: int) -> None:
        """Interpret a socket error as a state of the interface; raises CaptureError."""
        if error and error not in AWAY:
            raise CaptureError(f"{self.name} cannot be read: {os.strerror(error)}")
        if error:
            self.note_gone()

    def note_gone(self) -> None:
        """Wait for the interface from now on, unless that is known."""
        if not self.is_away:
            self._went()
            self._tell("interface-gone", f"{self._how_gone()}; packets go on when it is back")

    def reopen(self) -> None:
        """Bind to the interface that has the name now."""
        try:
            self._bind_again()
        except OSError:
            self.note_gone()

    def take_error(self) -> int:
        """Return and clear the pending error of the socket; 0 if none."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def counts(self) -> Counts:
        """Totals, once closed those of the last call; the kernel resets its counts at each call."""
        if self.socket.fileno() >= 0:
            answer = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, STATISTICS_SIZE)
            received, dropped = struct.unpack_from("=II", answer)
            self._received += received
            self._dropped += dropped
        return Counts(self._received, self._dropped)

    def take_problems(self) -> list[Problem]:
        taken, self.problems = self.problems, []
        return taken

    def add_problem(self, kind: str, text: str) -> None:
        """Add a problem of this interface, at the current time."""
        text = f"{self.name}: {text}"
        self.problems.append(
            Problem("capture", kind, text, time_ns=time.time_ns(), capture=self.capture)
        )

    def _tell(self, kind: str, text: str) -> None:
        self.add_problem(kind, f"the interface {text}")

    def _went(self) -> None:
        self._away_ns = time.monotonic_ns()
        self._looked_ns = -1

    def _how_gone(self) -> str:
        try:
            is_there = is_interface_up(self.socket, self.name)
        except OSError:
            return "is gone"
        return "was gone or down for a moment" if is_there else "is down"

    def _come_back(self, now: int) -> None:
        try:
            if not is_interface_up(self.socket, self.name):
                return
            kind = link_type_of(hardware_type(self.socket, self.name))
            if kind == self.link_type:
                self._bind_again()
        except OSError:
            return
        if kind != self.link_type:
            raise CaptureError(
                f"{self.name} is an interface of another kind since it is back (link type {kind},"
                f" was {self.link_type}): start again"
            )
        away = (now - self._away_ns) / SECOND_NS
        self._away_ns = -1
        self._tell("interface-back", f"is back after {away:.1f} s")

    def _is_loopback(self) -> bool:
        return hardware_type(self.socket, self.name) == ARPHRD_LOOPBACK

    def _bind_again(self) -> None:
        """Receive packets of the interface that has the name now; OSError if none has."""
        self._bind()

    def _bind(self) -> None:
        """Bind to the interface that has the name now; OSError if none has."""
        if self.name == ANY:
            bind_to_all(self.socket)
            return
        number = interface_number(self.socket, self.name)
        self.socket.bind((self.name, ETH_P_ALL))
        if number != self._number:
            self._make_promiscuous(number)
        self._number = number

    def _make_promiscuous(self, number: int) -> None:
        """Ask the interface with this number for all packets, if that is wanted."""
        if self._promiscuous:
            asked = struct.pack("=iHH8x", number, PACKET_MR_PROMISC, 0)
            self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, asked)

    def _empty(self) -> None:
        """Discard packets that arrived before the filter was set."""
        try:
            while True:
                self.socket.recv(1, socket.MSG_DONTWAIT)
        except OSError:
            self.counts()
            self._received = self._dropped = 0


def open_socket(name: str) -> socket.socket:
    """Open a socket for the interface, not capturing yet; raises CaptureError."""
    try:
        # Queried by the same kind of socket: a systemd unit may permit no other.
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as asked:
            is_whole = find_link_type(asked, name) == ETHERNET
        kind = socket.SOCK_RAW if is_whole else socket.SOCK_DGRAM
        return socket.socket(socket.AF_PACKET, kind, 0)
    except PermissionError as error:
        raise not_permitted(name) from error
    except OSError as error:
        raise CaptureError(f"{name} cannot be opened: {error.strerror}") from error


def find_link_type(asked: socket.socket, name: str) -> int:
    """LINKTYPE_ value of the interface; raises CaptureError if there is no such interface."""
    if name == ANY:
        return RAW
    try:
        return link_type_of(hardware_type(asked, name))
    except OSError as error:
        raise no_such_interface(name) from error


def no_such_interface(name: str) -> CaptureError:
    """Error for a name that no interface has."""
    try:
        there = [one.name for one in list_interfaces()]
    except OSError as error:
        return CaptureError(f"no interface {name!r}; others cannot be listed: {error.strerror}")
    return CaptureError(not_among(f"no interface {name!r}", [*there, ANY]))


def not_permitted(name: str) -> CapturePermissionError:
    """Error for a process that may not open a packet socket."""
    interpreter = Path(sys.executable).resolve()
    return CapturePermissionError(
        f"{name}: this user may not capture. Run it with sudo (and --user, to drop what is not"
        " needed), or in a systemd unit with AmbientCapabilities=CAP_NET_RAW, or let all programs"
        f" of this Python do it: sudo setcap cap_net_raw+ep {interpreter}"
    )


def bind_to_all(listening: socket.socket) -> None:
    """Bind to all interfaces, for which `socket.bind` has no name."""
    libc = ctypes.CDLL(None, use_errno=True)
    # struct sockaddr_ll: family, protocol, number of the interface, 0 for all.
    address = struct.pack("=HHi12x", socket.AF_PACKET, socket.htons(ETH_P_ALL), 0)
    if libc.bind(listening.fileno(), address, len(address)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
