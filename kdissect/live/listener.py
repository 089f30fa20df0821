"""`Listener`: consumer of rows while packets come; and `Status`, the state of the capture."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kdissect.live.encryption import NOTHING, Undecrypted
from kdissect.sources.packet_source import Behind, Counts, PacketSource

if TYPE_CHECKING:  # a service imports this module before it drops privileges
    import pyarrow as pa

    from kdissect.dissection.dissector import Dissector
    from kdissect.pipeline import Balance

# Kind of problems: bytes before the first frame of a direction, not captured from its beginning.
MID_STREAM: Final = "mid-stream"


class Status(NamedTuple):
    """State of the capture, by the packets' clock: `now_ns`, ns since 1970.

    That is the time of the last packet plus the time elapsed on this host's clock since it came.
    `backlog` is the fill level of the capture buffer, 0 to 1. `open_connections` are, at the end,
    those that were open when the capture ended. `level` is the level of shedding, see
    `shedding`, and `shed` the shed counters by kind. `memory` is the resident memory of this
    process in bytes, `cpu_seconds` its CPU time. `undecrypted` is of TLS. `behind` is unread data
    of files that are followed.
    """

    now_ns: int
    balance: "Balance"
    packet_source: Counts
    backlog: float
    open_connections: int
    level: int = 0
    shed: Mapping[str, int] = {}
    memory: int = 0
    cpu_seconds: float = 0.0
    undecrypted: Undecrypted = NOTHING
    behind: Behind = Behind()

    @property
    def problems(self) -> Mapping[str, int]:
        """Problems since the start by kind, without what only says that a capture was begun."""
        kinds = self.balance.problems
        return {kind: count for kind, count in kinds.items() if kind != MID_STREAM}

    @property
    def mid_streams(self) -> int:
        """Directions of connections that had begun before the capture did."""
        return self.balance.problems.get(MID_STREAM, 0)


class LiveCapture(Protocol):
    """A listener's view of the capture: `names` are topics by their ids."""

    @property
    def packet_source(self) -> PacketSource:
        """The packet source."""
        ...

    @property
    def dissector(self) -> "Dissector":
        """All stages; its state may only be read between two calls of a listener."""
        ...

    @property
    def names(self) -> dict[bytes, str]:
        """Topic names by id."""
        ...

    @property
    def now_ns(self) -> int:
        """The packets' clock, ns since 1970."""
        ...

    def status(self) -> Status:
        """Current status."""
        ...

    def stop(self) -> None:
        """Stop after the packets that are being dissected."""
        ...

    def reopen(self) -> None:
        """Make files and the packet source reopen."""
        ...


class Listener:
    """Takes rows of its `tables`; methods that are not overridden do nothing.

    All calls come from the thread that reads packets: none may take long. `alive` is called at any
    time between `begin` and `finish`, including while packets are dissected.
    """

    tables: frozenset[str] = frozenset()

    def begin(self, watcher: LiveCapture) -> None:
        """Called before the first packet."""

    def take(self, table: str, batch: "pa.RecordBatch") -> None:
        """Take rows with all columns of the table; those of one exchange come between two ticks."""

    def alive(self) -> None:
        """Called about once a second, by this host's clock, also inside long work."""

    def tick(self, status: Status) -> None:
        """Called about once a second, by the packets' clock, after all rows so far."""

    def reopen(self) -> None:
        """Close open files, and begin new ones (SIGHUP)."""

    def finish(self, status: Status) -> None:
        """Called at the end, after all rows."""
