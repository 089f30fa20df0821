"""Totals of a capture."""

from typing import Final

from mypy_extensions import i64

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.tls.session_properties import SessionProperties

# What is counted of a connection that has ended, in the order of `CaptureTotals.of_connections`.
OF_CONNECTIONS: Final = (
    "payload_bytes", "framed_bytes", "skipped_bytes", "duplicate_bytes", "missing_bytes",
    "tls_bytes", "encrypted_bytes", "encrypted_connections", "connections",
)  # fmt: skip


class CaptureTotals:
    """Packets, and bytes, connections and exchanges; see `pipeline.Balance`."""

    def __init__(self) -> None:
        self.packets: i64 = 0
        self.captured_bytes: i64 = 0
        self.payload_bytes: i64 = 0
        self.framed_bytes: i64 = 0
        self.skipped_bytes: i64 = 0
        self.duplicate_bytes: i64 = 0
        self.missing_bytes: i64 = 0
        self.tls_bytes: i64 = 0
        self.encrypted_bytes: i64 = 0
        self.encrypted_connections: i64 = 0
        self.connections: i64 = 0
        self.exchanges: i64 = 0
        self.protocols: dict[str, int] = {}

    def add_connection(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        """Count a closed connection; framed and skipped bytes are by direction."""
        for counts in state.connection.counts:
            self.payload_bytes += counts.payload_bytes
            self.duplicate_bytes += counts.duplicate_bytes
            self.missing_bytes += counts.missing_bytes
        self.framed_bytes += framed[0] + framed[1]
        self.skipped_bytes += skipped[0] + skipped[1]
        if facts is not None:
            encrypted = facts.encrypted_bytes[0] + facts.encrypted_bytes[1]
            self.tls_bytes += facts.tls_bytes[0] + facts.tls_bytes[1]
            self.encrypted_bytes += encrypted
            self.encrypted_connections += 1 if encrypted and not facts.plaintext_bytes else 0
        self.connections += 1
        self.protocols[state.protocol] = self.protocols.get(state.protocol, 0) + 1

    def of_connections(self) -> tuple[int, ...]:
        """Return the counts of connections that have ended, as `OF_CONNECTIONS` names them."""
        return (
            self.payload_bytes, self.framed_bytes, self.skipped_bytes, self.duplicate_bytes,
            self.missing_bytes, self.tls_bytes, self.encrypted_bytes, self.encrypted_connections,
            self.connections,
        )  # fmt: skip
