"""Messages between the first process of a capture and its workers: an order, and a report on it.

Each is pickled, after its size: both ends are one program, with the same privileges.
"""

import pickle
import socket
from typing import Any, Final, NamedTuple, Protocol

from kdissect.live.counting.mergeable import MergeableSnapshot
from kdissect.live.counting.samples import Samples
from kdissect.live.counting.snapshot import Focus
from kdissect.live.listener import Status

# Kinds of orders: only the first has an answer.
REPORT: Final = "report"
STOP: Final = "stop"
REOPEN: Final = "reopen"
FINISH: Final = "finish"
# Phases of a worker.
BEGINS: Final = 0
CAPTURES: Final = 1
HAS_READ: Final = 2  # all packets are dissected; it waits for the names that others know
IS_DONE: Final = 3

SIZE_BYTES: Final = 8
READ_SIZE: Final = 1 << 20


class Learned(NamedTuple):
    """Facts of one worker that others need: topic names by id, protocols by group."""

    names: dict[bytes, str]
    protocols: dict[str, tuple[str, str]]


NOTHING: Final = Learned({}, {})


class WindowPart(NamedTuple):
    """Rows of a worker, for findings: tables in Arrow's format; `is_last` at its end."""

    contents: dict[str, bytes]
    begin_ns: int
    end_ns: int
    is_last: bool


class Window(Protocol):
    """Rows of a worker for findings: asked for and taken by its thread for orders."""

    @property
    def begin_ns(self) -> int:
        """Start of the oldest rows."""
        ...

    def ask(self, since_ns: int, is_wanted: bool) -> None:
        """Leave out older rows; if wanted, have the window ready soon."""
        ...

    def take_encoded(self) -> WindowPart | None:
        """The window that was asked for, or that of the end, once it is ready."""
        ...


class Order(NamedTuple):
    """An order to a worker, with facts that others have learned; see `Window`.

    If it `wants_snapshot`, one for each of `foci`, of the last `window_s` seconds unless that is 0.
    """

    kind: str
    learned: Learned = NOTHING
    wants_snapshot: bool = False
    since_ns: int = 0
    wants_window: bool = False
    foci: tuple[Focus, ...] = (Focus(),)
    window_s: float = 0.0


class Written(NamedTuple):
    """Files of a worker."""

    rows: int
    rotations: int
    run: str


class Report(NamedTuple):
    """State of a worker; values are those since the start, `learned` what is new.

    `silent_s` is the time since its capture showed that it is alive. What it does not have is None.
    """

    phase: int
    silent_s: float
    learned: Learned
    status: Status | None
    samples: Samples | None
    snapshots: tuple[MergeableSnapshot, ...]
    written: Written | None
    window_begin_ns: int = 0
    window: WindowPart | None = None


class Inbox:
    """Messages from a socket, also parts of them."""

    def __init__(self) -> None:
        self._received = bytearray()

    def receive(self, source: socket.socket) -> list[Any]:
        """Wait for data; returns the messages complete by then. Raises EOFError at the end."""
        try:
            part = source.recv(READ_SIZE)
        except ConnectionError as error:
            raise EOFError from error
        if not part:
            raise EOFError
        self._received += part
        return self._complete()

    def _complete(self) -> list[Any]:
        found = []
        data = self._received
        while len(data) >= SIZE_BYTES:
            end = SIZE_BYTES + int.from_bytes(data[:SIZE_BYTES], "big")
            if len(data) < end:
                break
            found.append(pickle.loads(data[SIZE_BYTES:end]))  # noqa: S301  # a process of our own
            del data[:end]
        return found


def send(to: socket.socket, message: Order | Report) -> None:
    """Send a message; raises OSError if the other end closed."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    to.sendall(len(content).to_bytes(SIZE_BYTES, "big") + content)
