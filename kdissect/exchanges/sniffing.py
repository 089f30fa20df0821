"""Tells from a direction's bytes whether and where Kafka frames start in them.

The frames stage asks (`frames.Probe`) for the first bytes of every direction, and after loss; the
answer needs what the exchanges stage knows of the connection, so it lives beside it.
"""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.memory import ConnectionState, position_in_pending
from kdissect.exchanges.old_conversations import OldConversation
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.sides import decide_sides
from kdissect.frames import IGNORE, MAX_FRAME_SIZE, NOT_HERE, Probe
from kdissect.streams.events import Connection

TLS_HANDSHAKE: Final = 0x16
HTTP_STARTS: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"PRI ", b"HTTP", b"OPTI", b"DELE")
MAX_PLAUSIBLE_REQUEST: Final = 104_857_600  # socket.request.max.bytes, the broker's default


class Sniffer(Probe):
    """Answers by what `exchanges` knows; sets `protocol` of connections that are not Kafka."""

    def __init__(self, exchanges: Exchanges) -> None:
        self.exchanges = exchanges

    def find_start(
        self, connection: Connection, direction: i64, data: bytes, start: i64, end: i64
    ) -> i64:
        """See `Probe.find_start`."""
        state = self.exchanges.state_of(connection)
        if state.protocol != "" and state.protocol != "kafka" and state.old is None:
            return IGNORE
        is_first = not state.probed >> direction & 1
        state.probed |= 1 << direction
        if is_first and state.protocol == "":
            other = foreign_protocol(data, start, end)
            if other:
                state.protocol = other
                return IGNORE
        missing = connection.counts[direction].missing_bytes
        if is_first and connection.start_seen[direction] and not missing:
            return start
        if state.request_direction < 0:
            decide_sides(state, self.exchanges.ports, self.exchanges.brokers)
        if state.request_direction >= 0 and state.request_direction != direction:
            old = state.old
            if old is not None:
                return start if is_awaited_by(old, data, start, end) else NOT_HERE
            return start if is_awaited_response(state, data, start, end) else NOT_HERE
        return start if self._is_request_start(data, start, end) else NOT_HERE

    def _is_request_start(self, data: bytes, start: i64, end: i64) -> bool:
        """A plausible size field followed by a request."""
        if end - start < 12:
            return False
        size = i64(read_i32_be(data, start))
        if size < 10 or size > MAX_PLAUSIBLE_REQUEST:
            return False
        return self.exchanges.is_convincing(data[start + 4 : min(start + 4 + size, end)], size)


def foreign_protocol(data: bytes, start: i64, end: i64) -> str:
    """What a connection's first bytes say it is: tls, http or ssh; "" for none of them."""
    if end - start < 4:
        return ""
    if data[start] == TLS_HANDSHAKE and data[start + 1] == 3 and data[start + 2] <= 4:
        return "tls"
    first = data[start : start + 4]
    if first in HTTP_STARTS:
        return "http"
    return "ssh" if first == b"SSH-" else ""


def is_awaited_by(old: OldConversation, data: bytes, start: i64, end: i64) -> bool:
    """A plausible size field followed by what may answer a request from before 0.8."""
    if end - start < 4:
        return False
    size = i64(read_i32_be(data, start))
    if size < 2 or size > MAX_FRAME_SIZE:
        return False
    return old.is_awaited(data[start + 4 : min(start + 4 + size, end)], size)


def is_awaited_response(state: ConnectionState, data: bytes, start: i64, end: i64) -> bool:
    """A plausible size field followed by the correlation id of a request that waits."""
    if end - start < 8:
        return False
    size = i64(read_i32_be(data, start))
    if size < 4:
        return False
    return position_in_pending(state, data[start + 4 : start + 8]) >= 0
