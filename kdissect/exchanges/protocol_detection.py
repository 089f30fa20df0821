"""Detects from a direction's bytes whether and where Kafka frames start in them.

The frames stage calls it (`frames.Probe`) for the first bytes of every direction, and after loss;
the answer depends on the exchanges stage's state of the connection, so it is part of that stage.
Longer than other modules: all evidence for or against Kafka, in the order in which it is tried.
"""

from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.broker_side import decide_sides
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.layout_fit import FIT_STEPS, NOT, STEPS_A_BYTE
from kdissect.exchanges.old_conversations import OldConversation
from kdissect.exchanges.other_protocols import foreign_protocol
from kdissect.exchanges.pairing import AUTO, Exchanges
from kdissect.exchanges.request_search import (
    CLIENT_ID,
    HEADER,
    MAX_SIZE,
    MIN_SIZE,
    RequestSearch,
    is_told_by_port,
)
from kdissect.exchanges.response_search import MAX_ASKED, ResponseSearch
from kdissect.framing.frame_search import IGNORE, NOT_HERE, PROBE_SIZE, WAIT, Probe, Window
from kdissect.framing.frames import MAX_FRAME_SIZE
from kdissect.messages.old_protocols import KAFKA
from kdissect.messages.old_recognition import is_request_07
from kdissect.streams.events import Connection
from kdissect.streams.proxy_header import (
    INCOMPLETE,
    NO_HEADER,
    V1_FIRST,
    V2_FIRST,
    read_cut_header,
    read_proxy_header,
)

# Where connections are only compared with their state elsewhere, all of a direction's first bytes
# are searched, and its bytes behind the second limit. Between the two, in the possible rest of a
# large message, only the first bytes of segments are examined.
SEARCHED_BYTES: Final = 16 << 10
LOOKED_AT_BYTES: Final = 4 << 20


class ProtocolDetector(Probe):
    """Decides by the state of `exchanges`; sets `protocol` of connections that are not Kafka."""

    def __init__(self, exchanges: Exchanges) -> None:
        self.exchanges = exchanges
        self.requests = RequestSearch(exchanges.layout_fit)
        self.responses = ResponseSearch(exchanges.layout_fit, exchanges.bodies.candidates)

    def ends_first(self, connection: Connection) -> i64:
        """See `Probe.ends_first`: requests determine the responses."""
        return self.exchanges.state_of(connection).request_direction

    def find_start(self, connection: Connection, direction: i64, window: Window) -> i64:
        """See `Probe.find_start`."""
        state = self.exchanges.state_of(connection)
        if state.protocol != "" and state.protocol != "kafka" and state.old is None:
            return IGNORE
        if state.request_direction < 0:
            decide_sides(state, self.exchanges.ports, self.exchanges.brokers)
        if not state.probed >> direction & 1:
            found = self._find_opening(state, connection, direction, window)
            if found != NOT_HERE:
                return found
        if connection.is_suppressed() and state.old is None and state.dialect <= KAFKA:
            found = self._find_at_segment(state, direction, window)
            seen = window.position + window.end - window.start
            if found >= 0 or SEARCHED_BYTES < seen < LOOKED_AT_BYTES:
                return found
        if state.request_direction < 0:
            return self._find_any(state, connection, direction, window)
        if state.request_direction == direction:
            return self._find_request(state, window)
        if is_told_by_port(state):
            found = self._turn_around(state, direction, window)
            if found >= 0:
                return found
        return self._find_response(state, connection, direction, window)

    def _find_at_segment(self, state: ConnectionState, direction: i64, window: Window) -> i64:
        """Index of a frame that seems to start with the newest segment, or NOT_HERE.

        For a split of a capture, for connections from before it: much less proof suffices, as the
        result is compared with the truth, and an earlier start leaves less to compare.
        """
        if not window.starts:
            return NOT_HERE
        start: i64 = window.starts[-1]
        seen = window.seen_from(start)
        if seen - start < PROBE_SIZE:
            return NOT_HERE
        size: i64 = i64(read_i32_be(window.data, start))
        if state.request_direction == 1 - direction:
            if size < 4 or size > MAX_FRAME_SIZE:
                return NOT_HERE
            answered: i64 = i64(read_i32_be(window.data, start + 4))
            # The response to the first may have begun in the middle of the examined bytes.
            for exchange in state.pending[state.pending_head : state.pending_head + MAX_ASKED]:
                if exchange.correlation_id == answered:
                    return start
            return NOT_HERE
        if size < MIN_SIZE or size > MAX_SIZE or HEADER.match(window.data, start) is None:
            return NOT_HERE
        if i64(read_i16_be(window.data, start + CLIENT_ID)) <= 0:
            return NOT_HERE
        stop = min(start + 4 + size, seen)
        layout_fit = self.requests.layout_fit
        before = layout_fit.steps
        fit = layout_fit.request_in(window.data, start + 4, stop, size)
        window.work += layout_fit.steps - before
        if fit == NOT:
            return NOT_HERE
        if state.request_direction < 0:
            if layout_fit.may_be_response(window.data[start + 4 : min(start + 8, stop)]):
                return NOT_HERE
            state.request_direction = direction
            state.broker_side_by = "content"
        return start

    def _find_opening(
        self, state: ConnectionState, connection: Connection, direction: i64, window: Window
    ) -> i64:
        """Examine the first bytes of a direction: NOT_HERE unless they are the first of its stream.

        The first frame starts there, if only because it must start somewhere.
        """
        # Behind a header that came alone the window begins with the first frame.
        has_hole = window.position != 0 and window.position != state.proxy_header_size
        start = window.start
        if state.protocol == "" and not has_hole:
            start = behind_proxy_header(state, direction, window)
            if start < 0:
                return start
        state.probed |= 1 << direction
        is_client = state.request_direction == direction
        is_proxied = state.proxy_header_size > 0 and is_client
        is_start = connection.is_start_seen(direction) or is_proxied
        seen = window.seen_from(start)
        is_start = is_start and not has_hole and seen > start
        if state.protocol == "" and not state.is_told:
            state.protocol = foreign_protocol(window.data, start, seen)
            if state.protocol == "" and is_start and is_client:
                state.is_unproved = True
                if not is_size(window.data, start, seen):
                    state.protocol = "other"
            if state.protocol != "":
                return IGNORE
        return start if is_start else NOT_HERE

    def is_believed(self, connection: Connection) -> bool:
        """See `Probe.is_believed`: Kafka was recognized, or set by user or port."""
        state = self.exchanges.state_of(connection)
        if state.protocol != "":
            return state.protocol.startswith("kafka") or state.is_told
        return state.is_told or state.broker_side_by in ("user", "port")

    def _find_request(self, state: ConnectionState, window: Window) -> i64:
        dialect = state.dialect
        if state.old is not None or dialect > KAFKA:
            for start in window.starts:
                if window.is_spent:
                    break
                if self._is_old_request(window, start, dialect):
                    return start
            return NOT_HERE
        found = self.requests.find(state, window)
        if found < 0 and dialect == AUTO and state.protocol == "":
            for start in window.starts:
                if window.is_spent:
                    break
                if is_start_07(window, start):
                    return start
        return found

    def _turn_around(self, state: ConnectionState, direction: i64, window: Window) -> i64:
        """Find a request where the port implies responses, before any was found on the other side;
        NOT_HERE for none.

        Clients may have a port that brokers have, too. A segment must begin with it: requests
        inside records begin anywhere.
        """
        direction_before = state.request_direction
        state.request_direction = -1
        found = self.requests.find(state, window)
        if found >= 0 and window.is_start(found):
            state.request_direction = direction
            state.broker_side_by = "content"
            return found
        state.request_direction = direction_before
        return NOT_HERE

    def _find_response(
        self, state: ConnectionState, connection: Connection, direction: i64, window: Window
    ) -> i64:
        old = state.old
        if old is not None:
            for start in window.starts:
                if window.is_spent:
                    break
                if is_awaited_by(old, window, start):
                    return start
            return NOT_HERE
        if state.protocol == "kafka":
            return self.responses.find(state, window)
        # No request was found yet.
        if is_alone(connection, direction):
            found = self.responses.find_alone(window)
            if found >= 0:
                state.protocol = "kafka"
            return found
        if window.is_last or window.is_full:
            return NOT_HERE
        return window.hold(window.start)

    def _find_any(
        self, state: ConnectionState, connection: Connection, direction: i64, window: Window
    ) -> i64:
        """Search a direction that may or may not carry requests."""
        found = self._find_request(state, window)
        if found >= 0:
            state.request_direction = direction
            state.broker_side_by = "content"
        elif found == WAIT and window.at == window.start:
            return found
        elif is_alone(connection, direction):
            found = self.responses.find_alone(window)
            if found >= 0:
                state.request_direction = 1 - direction
                state.broker_side_by = "content"
                state.protocol = "kafka"
        elif not window.is_last and not window.is_full:
            # They may be responses to requests found later.
            found = window.hold(window.start)
        return found

    def _is_old_request(self, window: Window, start: i64, dialect: i64) -> bool:
        """Return whether a plausible size field is followed by a request from before 0.8."""
        if window.end - start < 12:
            return False
        size: i64 = i64(read_i32_be(window.data, start))
        if size < 10 or size > MAX_SIZE:
            return False
        return self.exchanges.is_convincing(first_of(window, start, size), size, dialect)


def behind_proxy_header(state: ConnectionState, direction: i64, window: Window) -> i64:
    """Index behind a PROXY header, if any; WAIT for the rest of it, or for the next bytes."""
    if state.proxy_header_size > 0:
        return window.start
    if window.start < window.end:
        first: i64 = window.data[window.start]
        if first not in (V1_FIRST, V2_FIRST):
            return window.start
    # Bytes of a hole are zeros here, and carry no information.
    seen = window.seen_from(window.start)
    header = read_proxy_header(window.data, window.start, seen)
    if header.size == INCOMPLETE and seen < window.end:
        header = read_cut_header(window.data, window.start, seen)
    if header.size == NO_HEADER:
        return window.start
    if header.size == INCOMPLETE:
        return window.wait(window.start, window.end + 1)
    state.proxy_header_size = header.size
    state.proxied_ip = header.client_address
    if header.client_address:
        state.proxied_port = header.client_port
    if state.request_direction < 0:
        state.broker_side_by = "content"
    state.request_direction = direction
    behind = window.start + header.size
    window.preface = window.captured_before(behind)
    return behind if behind < window.end else window.wait(behind, behind + 1)


def is_alone(connection: Connection, direction: i64) -> bool:
    """Return whether nothing of the other direction can determine this one.

    A connection that is only compared with the truth waits for it: whatever its first direction is
    taken for alone, the two would not agree.
    """
    return not connection.is_suppressed() and connection.counts[1 - direction].payload_bytes == 0


def is_size(data: bytes, start: i64, end: i64) -> bool:
    """Return whether a stream may start with this size field, or with too few bytes to decide."""
    return end - start < 4 or 0 <= i64(read_i32_be(data, start)) <= MAX_FRAME_SIZE


def first_of(window: Window, start: i64, size: i64) -> bytes:
    """The captured part of the body of a frame that starts at `start`, read-only."""
    stop = min(start + 4 + size, window.seen_from(start))
    # Compiled, a slice that ends before it starts is an error.
    if stop <= start + 4:
        return b""
    window.work += FIT_STEPS + STEPS_A_BYTE * (stop - start)
    return window.data[start + 4 : stop]


def is_start_07(window: Window, start: i64) -> bool:
    """Return whether a plausible size field is followed by a request of Kafka 0.7."""
    if window.end - start < 12:
        return False
    size: i64 = i64(read_i32_be(window.data, start))
    if size < 10 or size > MAX_SIZE:
        return False
    return is_request_07(first_of(window, start, size), size)


def is_awaited_by(old: OldConversation, window: Window, start: i64) -> bool:
    """Return whether a plausible size field is followed by a possible answer to an old request."""
    if window.end - start < 4:
        return False
    size: i64 = i64(read_i32_be(window.data, start))
    if size < 2 or size > MAX_FRAME_SIZE:
        return False
    return old.is_awaited(first_of(window, start, size), size, window.time_at(start))
