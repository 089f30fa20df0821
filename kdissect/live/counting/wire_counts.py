"""Counts that only the wire gives, by side: TCP, refused and reset connections, logins, TLS alerts.

Their labels have few values; those of sides and mechanisms are there from the start.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.live.counting.counters import ClientSegments
from kdissect.live.counting.samples import Labels, Values
from kdissect.live.counting.tcp_counts import SIDES, TcpCounts, is_refused
from kdissect.tls.reports import TLS_ALERT

FAILED: Final = "failed"  # sasl_outcome
OTHER: Final = "other"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", OTHER)
REFUSED: Final = "kdissect_refused_connections"
RESET: Final = "kdissect_reset_connections"
LOGINS: Final = "kdissect_authentication_failures"
TLS: Final = "kdissect_tls_alerts"


class WireCounts:
    """Counts rows of `TABLES`; `states` are the open connections."""

    TABLES: Final = frozenset({"connections", "exchanges", "problems"})

    def __init__(self, states: Mapping[int, ConnectionState]) -> None:
        self._tcp = TcpCounts(states)
        labels: dict[str, list[Labels]] = {
            REFUSED: [()],
            RESET: [(side,) for side in SIDES],
            LOGINS: [(mechanism,) for mechanism in MECHANISMS],
            TLS: [],
        }
        self._counts: dict[str, Counter[Labels]] = {
            name: Counter(dict.fromkeys(some, 0)) for name, some in labels.items()
        }

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        """Count rows of one table; other tables have no effect."""
        if not batch.num_rows:
            return
        if table == "connections":
            self._tcp.take(batch)
            self._take_ends(batch)
        elif table == "exchanges":
            self._tcp.name_clients(batch)
        elif table == "problems":
            self._take_alerts(batch)

    def take_segments(self) -> list[ClientSegments]:
        """Retransmissions and zero windows of clients since the last call; after `values`."""
        return self._tcp.take_segments()

    def values(self) -> dict[str, Values]:
        """Counts since the start, by metric name."""
        found: dict[str, Values] = {name: list(some.items()) for name, some in self._counts.items()}
        sides = self._tcp.look()
        for name in ("payload_bytes", "retransmitted_segments", "zero_windows"):
            found[f"kdissect_{name}"] = [
                ((side,), getattr(counts, name)) for side, counts in zip(SIDES, sides, strict=True)
            ]
        found["kdissect_zero_window_seconds"] = [
            ((side,), counts.zero_window_ns / 1e9)
            for side, counts in zip(SIDES, sides, strict=True)
        ]
        return found

    def _take_ends(self, batch: pa.RecordBatch) -> None:
        refused = is_refused(batch).tolist()
        self._counts[REFUSED][()] += sum(refused)
        resets = zip(batch["rst_by"].to_pylist(), refused, strict=True)
        self._counts[RESET].update((side,) for side, is_one in resets if side and not is_one)
        logins = zip(
            batch["sasl_outcome"].to_pylist(), batch["sasl_mechanism"].to_pylist(), strict=True
        )
        failed = [mechanism for outcome, mechanism in logins if outcome == FAILED]
        self._counts[LOGINS].update((one if one in MECHANISMS else OTHER,) for one in failed)

    def _take_alerts(self, batch: pa.RecordBatch) -> None:
        kinds = zip(batch["kind"].to_pylist(), batch["message"].to_pylist(), strict=True)
        alerts = [TLS_ALERT.fullmatch(text) for kind, text in kinds if kind == "tls-alert"]
        self._counts[TLS].update((one["side"], one["alert"]) for one in alerts if one is not None)
