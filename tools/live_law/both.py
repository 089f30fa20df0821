"""One session captured twice: by a `Watcher` that is live, and by tcpdump into a file."""

import struct
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.live.listener import Listener, Status
from kdissect.live.shedding import Shedder
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options, Run
from kdissect.protocol.primitives import uuid_text
from kdissect.sources.opening import open_interfaces
from kdissect.sources.packet_source import Counts, PacketSource
from kdissect.tables.schemas import TABLES
from tools.record.networks import Tap
from tools.record.sniffer import Sniffer

Row = dict[str, Any]
Tables = dict[str, list[Row]]

OPTIONS = Options(tables=tuple(TABLES), payload=True, verify_crc=True)
QUIET_SECONDS = 1.0
QUIET_TIMEOUT_SECONDS = 20.0
STOP_TIMEOUT_SECONDS = 30.0
SECOND_NS = 1_000_000_000
PCAP_NS = 0xA1B23C4D  # times in ns


class Sighting(NamedTuple):
    """A packet: when it came, and its bytes."""

    time_ns: int
    content: bytes


class Packets(NamedTuple):
    """Comparison of both: packets, those that differ in bytes, largest difference in time.

    The kernel takes the time of a packet that comes from outside once, for all sockets. Of TCP
    that was sent on this host it takes none, so every socket has its own (Linux 5.18 and newer).
    """

    live: int
    filed: int
    differing: int
    apart_ns: int


class KeepingWire(PacketSource):
    """A wire that keeps all that comes from another; `quiet_since` nothing came any more."""

    def __init__(self, packet_source: PacketSource) -> None:
        self.names = packet_source.names
        self.seen: list[Sighting] = []
        self.quiet_since: float | None = None
        self._wire = packet_source

    def read(self, wait_s: float) -> list[Packet] | None:
        packets = self._wire.read(wait_s)
        self.seen += map(sighting, packets or ())
        if packets:
            self.quiet_since = None
        elif self.quiet_since is None:
            self.quiet_since = time.monotonic()
        return packets

    def has_been_quiet(self, seconds: float) -> bool:
        """Return whether reading gave nothing for so long."""
        since = self.quiet_since
        return since is not None and time.monotonic() - since >= seconds

    def close(self) -> None:
        self._wire.close()

    def counts(self) -> Counts:
        return self._wire.counts()

    def backlog(self) -> float:
        return self._wire.backlog()

    def take_problems(self) -> list[Problem]:
        return self._wire.take_problems()


class RowKeeper(Listener):
    """Keeps all rows, and the state at the end."""

    def __init__(self) -> None:
        self.tables = frozenset(TABLES)
        self.rows: Tables = {name: [] for name in TABLES}
        self.last: Status | None = None

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        """Keep the rows of a batch."""
        self.rows[table] += batch.to_pylist()

    def finish(self, status: Status) -> None:
        """Keep the current state."""
        self.last = status


class Unhurried(Shedder):
    """Leaves nothing out, however much there is to do: all rows are to be compared."""

    def begin(self, tables: Collection[str]) -> None:
        super().begin(())


class Both:
    """Captures on an interface while it is open; afterwards `live` and `filed` are the tables.

    Begins before anything is sent, and ends once nothing more comes. `options` are those of both
    dissections; `through` is how the interface is opened, see `open_interfaces`. Where every socket
    took its own times, `filed` is made with those of the live one, see `packets`.
    """

    def __init__(
        self,
        directory: Path,
        options: Options = OPTIONS,
        interface: str = "lo",
        through: str = "auto",
    ) -> None:
        self.options = options
        self.keeper = RowKeeper()
        tap = Tap(interface=interface, filter="tcp")
        self._sniffer = Sniffer([0], directory / "session.pcap", tap)
        self._wire = KeepingWire(open_interfaces([interface], through=through))
        self._watcher = Watcher(self._wire, [self.keeper], options, shedder=Unhurried())
        self._thread = threading.Thread(target=self._watcher.run)
        self.packets = Packets(0, 0, 0, 0)
        self.live: Tables = {}
        self.filed: Tables = {}

    def __enter__(self) -> "Both":
        self._sniffer.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._await_quiet()
        finally:
            self._watcher.stop()
            self._thread.join(STOP_TIMEOUT_SECONDS)
            self._wire.close()
            if kind is not None:
                self._sniffer.kill()
        if kind is None:
            self._sniffer.stop()
            self._take_live()
            self._take_filed()

    def _await_quiet(self) -> None:
        """Return when no packet came for a while; raises where that never happens."""
        deadline = time.monotonic() + QUIET_TIMEOUT_SECONDS
        while not self._wire.has_been_quiet(QUIET_SECONDS):
            if time.monotonic() > deadline:
                raise RuntimeError(f"packets still come after {QUIET_TIMEOUT_SECONDS:g} s")
            time.sleep(QUIET_SECONDS / 10)

    def _take_live(self) -> None:
        last = self.keeper.last
        if last is None:
            raise RuntimeError(f"the live capture did not end within {STOP_TIMEOUT_SECONDS:g} s")
        if last.packet_source.dropped:
            lost, received = last.packet_source.dropped, last.packet_source.received
            raise RuntimeError(f"the live capture lost {lost} of {received} packets: run it again")
        names = self._watcher.names
        by_id = {uuid_text(topic_id): name for topic_id, name in names.items()}
        self.live = {name: named(rows, by_id) for name, rows in self.keeper.rows.items()}

    def _take_filed(self) -> None:
        path = self._sniffer.pcap
        with open_captures(str(path)) as capture:
            found = [packet for batch in capture for packet in batch]
        filed = [sighting(packet) for packet in found]
        self.packets = compare_packets(self._wire.seen, filed)
        if self.packets.apart_ns:
            path = path.with_name("retimed.pcap")
            times = [one.time_ns for one in self._wire.seen]
            write_retimed(path, filed, times, found[0].link_type)
        self.filed = {name: [] for name in TABLES}
        for name, batch in Run(str(path), self.options):
            self.filed[name] += batch.to_pylist()


def sighting(packet: Packet) -> Sighting:
    """The packet, without the buffer that it is in."""
    return Sighting(packet.time_ns, packet.data[packet.start : packet.end])


def compare_packets(live: list[Sighting], filed: list[Sighting]) -> Packets:
    """Packet by packet, in the order in which both saw them."""
    pairs = list(zip(live, filed, strict=False))
    return Packets(
        len(live),
        len(filed),
        sum(one.content != other.content for one, other in pairs),
        max((abs(one.time_ns - other.time_ns) for one, other in pairs), default=0),
    )


def write_retimed(path: Path, packets: list[Sighting], times: list[int], link_type: int) -> None:
    """A capture of the packets, each at another time."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", PCAP_NS, 2, 4, 0, 0, 1 << 18, link_type))
        for packet, time_ns in zip(packets, times, strict=False):
            size = len(packet.content)
            file.write(struct.pack("<IIII", *divmod(time_ns, SECOND_NS), size, size))
            file.write(packet.content)


def named(rows: list[Row], names: dict[str, str]) -> list[Row]:
    """Rows with topic names that were learnt later, as a writer fills them in."""
    for row in rows:
        if row.get("topic", "") is None and row.get("topic_id") in names:
            row["topic"] = names[row["topic_id"]]
    return rows
