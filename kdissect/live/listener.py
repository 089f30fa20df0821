"""`Listener`: what takes rows while packets come; and `Status`, how things are meanwhile."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kdissect.sources.packet_source import Counts, PacketSource

if TYPE_CHECKING:  # a service imports this module before it gives up privileges
    import pyarrow as pa

    from kdissect.dissection.dissector import Dissector
    from kdissect.pipeline import Balance


class Status(NamedTuple):
    """How things are, by the clock of the packets: `now_ns`, ns since 1970.

    It is the time of the last packet and what has passed by this machine's clock since that came.
    `backlog` is how full the wire's buffer was,
    0 to 1. `level` is how much is not made, see `shedding`, and `shed` what was not, by what it is
    of. `memory` are bytes that this process has, `cpu_seconds` those of a processor that it took.
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


class LiveCapture(Protocol):
    """What a listener sees of the capture: `names` are topics by their ids."""

    @property
    def packet_source(self) -> PacketSource:
        """Where packets come from."""
        ...

    @property
    def dissector(self) -> "Dissector":
        """All stages; its state is read between two calls of a listener only."""
        ...

    @property
    def names(self) -> dict[bytes, str]:
        """Names of topics by their ids."""
        ...

    @property
    def now_ns(self) -> int:
        """The clock of the packets, ns since 1970."""
        ...

    def status(self) -> Status:
        """How things are now."""
        ...

    def stop(self) -> None:
        """End after the packets that are being dissected."""
        ...


class Listener:
    """Takes rows of its `tables`; what it does not override does nothing.

    All calls come from the thread that reads the wire: between them nothing may take long. `alive`
    comes at any time between `begin` and `finish`, while packets are dissected too.
    """

    tables: frozenset[str] = frozenset()

    def begin(self, watcher: LiveCapture) -> None:
        """Before the first packet."""

    def take(self, table: str, batch: "pa.RecordBatch") -> None:
        """Rows with all columns of the table; those of one exchange come between two ticks."""

    def alive(self) -> None:
        """About once a second, by this machine's clock, also inside long work."""

    def tick(self, status: Status) -> None:
        """About once a second, by the packets' clock, after all rows that there are."""

    def reopen(self) -> None:
        """Close what is open, and begin anew (SIGHUP)."""

    def finish(self, status: Status) -> None:
        """There will be no more; all rows were given."""
