"""`Reports`: TLS problems of one connection, each kind once."""

import re
from typing import Final

from kdissect.errors import Problem
from kdissect.streams.events import Connection
from kdissect.tls.records import Mark

WARNING: Final = 1
CLOSE_NOTIFY: Final = 0
USER_CANCELED: Final = 90
ALERTS: Final = {
    10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 40: "handshake_failure",
    42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked",
    45: "certificate_expired", 46: "certificate_unknown", 47: "illegal_parameter",
    48: "unknown_ca", 49: "access_denied", 50: "decode_error", 51: "decrypt_error",
    70: "protocol_version", 71: "insufficient_security", 80: "internal_error",
    86: "inappropriate_fallback", 100: "no_renegotiation", 109: "missing_extension",
    110: "unsupported_extension", 112: "unrecognized_name", 116: "certificate_required",
    120: "no_application_protocol",
}  # fmt: skip
UNKNOWN_ALERT: Final = "unknown alert"
# Message of the problem "tls-alert".
TLS_ALERT: Final = re.compile(
    r"the (?P<side>client|broker) ended TLS by the alert (?P<alert>[a-z_ ]+) \(\d+\)", re.ASCII
)


class Reports:
    """Collected problems; `problems` grows until the owner drains it."""

    def __init__(self, connection: Connection) -> None:
        self.problems: list[Problem] = []
        self._connection = connection
        self._told: set[str] = set()

    def be_of(self, connection: Connection) -> None:
        """Continue with another value of the same connection."""
        self._connection = connection

    def tell(self, kind: str, text: str, mark: Mark | None = None, size: int = 0) -> None:
        """Report a problem, once per kind; without `mark` it is of the connection's last packet."""
        if kind in self._told:
            return
        self._told.add(kind)
        connection = self._connection
        time_ns, packet, capture = (
            (connection.last_time_ns, -1, connection.capture)
            if mark is None
            else (mark.time_ns, mark.packet, mark.capture)
        )
        self.problems.append(
            Problem("tls", kind, text, time_ns, packet, size, connection.id, -1, capture)
        )

    def report_refusal(self, client: int) -> None:
        """Report a hello without an answer, if the capture is complete."""
        connection = self._connection
        if client < 0 or connection.closed_by not in ("fin", "rst"):
            return
        answered = connection.counts[1 - client]
        if connection.syn_seen and answered.wire_bytes + answered.missing_bytes == 0:
            text = "a TLS ClientHello was not answered: does the broker speak TLS on this port?"
            self.tell("tls-refused", text)

    def report_alert(
        self, content: bytes, is_client: bool | None, is_new: bool, mark: Mark
    ) -> None:
        """Report an alert in clear or decrypted; `is_client` is None while no hello showed it.

        With `is_new` (TLS 1.3) no alert is a mere warning.
        """
        if len(content) != 2 or content[1] in (CLOSE_NOTIFY, USER_CANCELED):
            return
        if content[0] == WARNING and not is_new:
            return
        alert = f"{ALERTS.get(content[1], UNKNOWN_ALERT)} ({content[1]})"
        if is_client is not None:
            side = "client" if is_client else "broker"
            self.tell("tls-alert", f"the {side} ended TLS by the alert {alert}", mark)
        elif self._connection.clear_directions:
            # Without a hello or clear text its cause is unknown.
            text = f"a client that does not speak TLS was answered by the TLS alert {alert}"
            self.tell("plain-client", text, mark)
