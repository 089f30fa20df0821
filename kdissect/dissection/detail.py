"""Level of detail: tables whose rows are made, fewer while load is shed."""

from typing import Final, NamedTuple

from mypy_extensions import i64

from kdissect.exchanges.exchange import ORPHAN, Exchange
from kdissect.exchanges.pairing import Exchanges
from kdissect.protocol.readers import NULL
from kdissect.tables.shed_counters import ShedCounters

# Levels of detail, see `Detail.set`; each leaves out all that those before it leave out.
ALL: Final = 0
NO_RECORD_ROWS: Final = 1
NO_BODIES: Final = 2
NO_PARTITIONS: Final = 3


class Kept(NamedTuple):
    """Parts of a message that exchanges keep at full detail, see `Exchanges`."""

    frames: bool
    batches: bool
    records: bool


class Detail:
    """The tables whose rows are made now, and counters of the rows left out.

    `tables` are those requested. `has_shed`: the detail was reduced at some time.
    """

    def __init__(self, tables: frozenset[str], verifies_crc: bool, exchanges: Exchanges) -> None:
        self.tables = tables
        self.verifies_crc = verifies_crc
        self.makes_connections: bool = "connections" in tables
        self.makes_exchanges: bool = "exchanges" in tables
        self.makes_partitions: bool = "partitions" in tables
        self.makes_batches: bool = "batches" in tables
        self.makes_records: bool = "records" in tables
        self.makes_errors: bool = "errors" in tables
        self.makes_members: bool = "members" in tables
        self.makes_bodies: bool = "bodies" in tables
        self.shed = ShedCounters()
        self.has_shed: bool = False
        self._exchanges = exchanges
        self._kept = Kept(
            exchanges.keeps_frames,
            exchanges.bodies.sink.keeps_batches,
            exchanges.bodies.sink.keeps_records,
        )

    def set(self, level: i64) -> None:
        """See `Dissector.set_detail`."""
        tables = self.tables
        self.has_shed = self.has_shed or level > ALL
        self.makes_records = level < NO_RECORD_ROWS and "records" in tables
        self.makes_bodies = level < NO_BODIES and "bodies" in tables
        self.makes_partitions = level < NO_PARTITIONS and "partitions" in tables
        self.makes_batches = level < NO_PARTITIONS and "batches" in tables
        reads = self.makes_records or (self.makes_batches and self.verifies_crc)
        self._exchanges.keep(
            self._kept.frames and level < NO_BODIES,
            self._kept.batches and (self.makes_records or self.makes_batches),
            self._kept.records and reads,
        )

    def count_left_out(self, exchange: Exchange) -> None:
        """Count the rows of an exchange that are left out now, or were when it began."""
        if "bodies" in self.tables and not self.makes_bodies:
            self.leave_out_bodies(exchange)
        partitions = exchange.partitions
        if partitions is None:
            return
        if "partitions" in self.tables and not self.makes_partitions:
            self.shed.partitions += partitions.count
        if "records" in self.tables:
            self.shed.add_records(partitions, self.makes_records)
        if "batches" in self.tables:
            # Rows that are made, now or later, are subtracted.
            self.shed.add_batches(partitions)

    def leave_out_bodies(self, exchange: Exchange) -> None:
        """Count an exchange whose bodies are left out."""
        if exchange.api_key != NULL:
            self.shed.bodies += 1


def lacks_frame(exchange: Exchange) -> bool:
    """Return whether an exchange began while bodies were left out, so its bytes were not kept."""
    if exchange.outcome == ORPHAN:
        return exchange.response_frame is None
    return exchange.request_frame is None
