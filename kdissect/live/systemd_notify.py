"""Notifications to systemd: sd_notify(3), datagrams to the socket in NOTIFY_SOCKET.

    READY=1, RELOADING=1 with MONOTONIC_USEC, STOPPING=1, STATUS=text, WATCHDOG=1, a line each

Without that variable nothing is sent.
"""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from kdissect.errors import KdissectError
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.text import human

ADDRESS: Final = "NOTIFY_SOCKET"
STATUS_EVERY_NS: Final = 10_000_000_000
ABSTRACT: Final = "@"


class Notifier:
    """Sends status to a service manager; does nothing without one.

    The socket is taken from `environment` on creation, and stays connected: so it still works after
    privileges are dropped, or the root directory changes. The variable is removed, so that no child
    process can notify in place of this process.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        address = (os.environ if environment is None else environment).get(ADDRESS, "")
        self._socket: socket.socket | None = None
        if environment is None:
            os.environ.pop(ADDRESS, None)
        if not address:
            return
        if not address.startswith(("/", ABSTRACT)):
            raise KdissectError(f"{ADDRESS}={address!r} is neither a path nor an abstract socket")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        # The name of an abstract socket begins with a zero byte.
        name = "\0" + address[1:] if address.startswith(ABSTRACT) else address
        try:
            self._socket.connect(name)
            self._socket.setblocking(False)
        except OSError as error:
            self.close()
            raise KdissectError(f"{ADDRESS}={address}: {error.strerror}") from error

    @property
    def is_heard(self) -> bool:
        """Return whether a service manager is connected."""
        return self._socket is not None

    def tell(self, *lines: str) -> None:
        """Send the lines in one datagram; dropped if it cannot be sent now."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send("\n".join(lines).encode())

    def close(self) -> None:
        """Close the socket; idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class ServiceListener(Listener):
    """Notifies that the service is ready, of its status, that it is alive, and that it stops.

    The manager sets a watchdog timeout (WatchdogSec); notifications are sent once a second, also
    during long work, so it should be several seconds.
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._status_ns = 0

    def begin(self, watcher: LiveCapture) -> None:
        self.ready(watcher.packet_source.names)

    def ready(self, names: Sequence[str]) -> None:
        """Notify that it captures on these interfaces."""
        self._notifier.tell("READY=1", f"STATUS=captures {', '.join(names)}")

    def alive(self) -> None:
        self._notifier.tell("WATCHDOG=1")

    def tick(self, status: Status) -> None:
        lines = ["WATCHDOG=1"]
        if status.now_ns >= self._status_ns:
            self._status_ns = status.now_ns + STATUS_EVERY_NS
            lines.append(f"STATUS={status_of(status)}")
        self._notifier.tell(*lines)

    def reopen(self) -> None:
        # The monotonic clock in microseconds identifies this reload.
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._notifier.tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")
        self._notifier.tell("READY=1")

    def finish(self, status: Status) -> None:
        self._notifier.tell("STOPPING=1", f"STATUS=stops; {status_of(status)}")


def status_of(status: Status) -> str:
    """Status line, without any data from packets."""
    balance, packet_source = status.balance, status.packet_source
    parts = [
        human.counted(balance.exchanges, "exchange"),
        f"{human.counted(balance.packets, 'packet')}, {human.count(packet_source.dropped)} dropped",
        human.counted(status.open_connections, "open connection"),
        f"{human.size(status.memory)} of memory",
    ]
    return "; ".join(parts)
