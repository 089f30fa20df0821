"""Network statistics of the connections table, and losses of the capture itself.

Only connections of Kafka, encrypted and unused ones count: trouble on others (bytes without
frames) does not concern Kafka. Unused ones (health checks that reset) are not listed as degraded.
Both directions are summed.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.grouping import CONCERNED, UNUSED
from kdissect.analysis.summary.arrow_columns import integers, is_set, text_groups
from kdissect.analysis.summary.counters import Quantiles
from kdissect.analysis.summary.largest import Largest

DEGRADED_KEPT: Final = 10
KAFKA: Final = "kafka"  # prefix of its protocols' names
TLS: Final = "tls"
UNKNOWN_NS: Final = 1 << 62  # more than any round trip

# Columns that mark a connection as troubled, and their weights.
SYMPTOMS: Final = (
    "retransmitted_segments", "gaps", "missing_bytes", "skipped_bytes", "zero_windows",
)  # fmt: skip
COUNTED: Final = (
    "packets", "payload_bytes", "retransmitted_segments", "fast_retransmits",
    "spurious_retransmits", "network_lost_bytes", "zero_windows", "zero_window_ns",
    "missing_bytes", "capture_lost_bytes", "cut_bytes", "duplicate_packets",
)  # fmt: skip
NAMED: Final = [
    "connection_id", "client_ip", "client_port", "broker_ip", "broker_port", "protocol", "rst_by",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Network:
    """The connections that `kdissect health` counts together, both directions summed.

    `round_trip` is of the smallest round trip of each connection: of its handshake, or of data on
    both sides of the tap.
    """

    packets: int
    payload_bytes: int
    retransmitted_segments: int
    fast_retransmits: int
    spurious_retransmits: int
    network_lost_bytes: int
    zero_windows: int
    zero_window_ns: int
    missing_bytes: int
    capture_lost_bytes: int
    cut_bytes: int
    duplicate_packets: int
    round_trip: Quantiles


@dataclass(frozen=True, slots=True)
class TroubledConnection:
    """One connection with lost, repeated or truncated packets; both directions summed."""

    connection_id: int
    client: str
    broker: str
    protocol: str
    payload_bytes: int
    round_trip_ns: int | None
    retransmitted_segments: int
    network_lost_bytes: int
    gaps: int
    missing_bytes: int
    capture_lost_bytes: int
    skipped_bytes: int
    zero_windows: int
    zero_window_ns: int
    rst_by: str


class NetworkCounters:
    """Counts batches of the connections table; `troubled` are the worst TROUBLED_KEPT."""

    def __init__(self) -> None:
        self.troubled: list[TroubledConnection] = []
        self.troubled_count = 0
        self._sums = dict.fromkeys(COUNTED, 0)
        self._round_trips = Largest(1)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count one batch."""
        columns = {name: both_ways(batch, name) for name in {*COUNTED, *SYMPTOMS}}
        concerns = np.zeros(batch.num_rows, np.bool_)
        is_used = np.ones(batch.num_rows, np.bool_)
        for protocol, some in text_groups(batch, "protocol"):
            concerns[some] = protocol in CONCERNED
            if protocol == UNUSED:
                is_used[some] = False
            if protocol == TLS:
                # Encrypted bytes cannot be cut into frames.
                columns["skipped_bytes"][some] = 0
        round_trips = round_trips_of(batch)
        for name in COUNTED:
            self._sums[name] += int(columns[name][concerns].sum())
        known = round_trips[concerns & (round_trips < UNKNOWN_NS)]
        self._round_trips.add([""], np.zeros(len(known), np.int64), known)
        score = sum(columns[name] for name in SYMPTOMS) + is_set(batch, "rst_by")
        rows = np.flatnonzero(score * (concerns & is_used))
        self.troubled_count += len(rows)
        worst = rows[np.argsort(-score[rows], kind="stable")][:DEGRADED_KEPT]
        # Without the times, whose Python values would need pandas (0.2 s to import).
        named = batch.select(NAMED)
        for row in worst.tolist():
            counts = {name: int(column[row]) for name, column in columns.items()}
            record = named.slice(row, 1).to_pylist()[0]
            self.troubled.append(_degraded(record, counts, int(round_trips[row])))
        self.troubled.sort(key=_severity, reverse=True)
        del self.troubled[DEGRADED_KEPT:]

    def network(self) -> Network:
        """The counts so far."""
        rows = self._round_trips.rows()
        round_trip = rows[0].quantiles if rows else Quantiles(None, None, None, None)
        return Network(**self._sums, round_trip=round_trip)


def both_ways(batch: pa.RecordBatch, name: str) -> Any:
    """Sum of a column's two directions."""
    return integers(batch, f"{name}_to_broker", 0) + integers(batch, f"{name}_to_client", 0)


def round_trips_of(batch: pa.RecordBatch) -> Any:
    """The smallest round trip of each connection in ns, as in `health`; UNKNOWN_NS if unknown."""
    broker, client = (
        integers(batch, f"min_rtt_{side}_ns", UNKNOWN_NS) for side in ("broker", "client")
    )
    is_unknown = (broker >= UNKNOWN_NS) | (client >= UNKNOWN_NS)
    both_sides = np.where(is_unknown, UNKNOWN_NS, broker + client)
    return np.minimum(both_sides, integers(batch, "handshake_rtt_ns", UNKNOWN_NS))


def _degraded(
    record: dict[str, Any], counts: dict[str, int], round_trip_ns: int
) -> TroubledConnection:
    return TroubledConnection(
        connection_id=record["connection_id"],
        client=f"{record['client_ip']}:{record['client_port']}",
        broker=f"{record['broker_ip']}:{record['broker_port']}",
        protocol=record["protocol"] or "unknown",
        payload_bytes=counts["payload_bytes"],
        round_trip_ns=round_trip_ns if round_trip_ns < UNKNOWN_NS else None,
        retransmitted_segments=counts["retransmitted_segments"],
        network_lost_bytes=counts["network_lost_bytes"],
        gaps=counts["gaps"],
        missing_bytes=counts["missing_bytes"],
        capture_lost_bytes=counts["capture_lost_bytes"],
        skipped_bytes=counts["skipped_bytes"],
        zero_windows=counts["zero_windows"],
        zero_window_ns=counts["zero_window_ns"],
        rst_by=record["rst_by"] or "",
    )


def _severity(row: TroubledConnection) -> int:
    return sum(int(getattr(row, name)) for name in SYMPTOMS) + bool(row.rst_by)
