"""Frame → Exchange: pairs each request with its response.

A broker answers the requests of one connection in order, so pairing is first in, first out with
the correlation id as check; after loss the id repairs the order. A request behind a hole comes
after its response, so a response without a request waits until one sent later shows that it is an
orphan. A request is stored from its header alone, before its body is decoded, so a body that does
not decode costs its details and never the row.

States of an exchange on the way to its row:

    request ──acks=0──▶ complete, no response expected
    request ──▶ waits ──response with its id, in turn──▶ complete
                waits ──a response to a later request──▶ unanswered
                waits ──end of connection, limit──▶ unanswered
    response without a request that waits ──▶ early ──its request, after a hole──▶ complete
                early ──a request sent later, end, limit──▶ orphan

Example. Requests 1, 2, 3 are sent, the segment with 2 is lost in the capture. Response 1 completes
request 1. Response 2 has no request, so it is early. Response 3 completes request 3. Request 4 is
sent later than response 2 came: request 2 cannot come any more, and response 2 is an orphan row.

Frames of a connection that is not proved to speak Kafka are held until it is, and then take the
same way.

Longer than other modules: waiting requests, early responses and unconfirmed frames change together;
bodies are read by `body_reader`.
"""

from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from kdissect.errors import DecodeError, Problem
from kdissect.exchanges.body_reader import BodyReader
from kdissect.exchanges.broker_side import DEFAULT_PORTS, decide_sides
from kdissect.exchanges.connection_state import (
    MAX_TRIES,
    NO_EXCHANGE,
    NO_FRAMES,
    NO_RESPONSES,
    ConnectionState,
    EarlyResponse,
    drop_pending,
    early_limit_text,
    find_pending,
    frame_problem,
    may_see_answers,
    new_exchange,
    note_pending,
    note_spoken,
    place_response,
    position_in_pending,
)
from kdissect.exchanges.created_acls import CREATE_ACLS
from kdissect.exchanges.decode_as import EXCLUDED, UNDECIDED, DecodeAs
from kdissect.exchanges.exchange import (
    ANSWERED,
    API_PRODUCE,
    NO_REQUEST,
    NO_RESPONSE_EXPECTED,
    ORPHAN,
    UNANSWERED,
    UNSEEN,
    VARIANT_SHIFT,
    Exchange,
    is_group_api,
)
from kdissect.exchanges.latency_parts import UNKNOWN_END, queue_ns
from kdissect.exchanges.layout_fit import NOT, LayoutFit
from kdissect.exchanges.memory_budget import MemoryBudget, oldest_waiting
from kdissect.exchanges.old_conversations import OldConversation, fits_request, make_conversation
from kdissect.exchanges.plausibility import REFUSED_LIMIT, is_answered, is_proof
from kdissect.exchanges.sasl import (
    GSSAPI,
    GSSAPI_TAG,
    LONGEST_KEPT,
    is_long,
    is_token,
    may_be_token,
)
from kdissect.exchanges.shared_ids import Answer, has_shared_id, may_answer
from kdissect.framing.frames import Frame
from kdissect.limits import DECODED_BYTES
from kdissect.messages.headers import (
    FIXED_HEADER_SIZE,
    NO_BODY,
    is_plausible_request,
    read_cut_header,
    read_request_header,
)
from kdissect.messages.metadata_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID
from kdissect.messages.old_protocols import KAFKA, KAFKA_07, PROTOCOLS
from kdissect.messages.old_recognition import is_request_07
from kdissect.protocol.readers import NULL
from kdissect.streams.acknowledged import REORDER_NS
from kdissect.streams.events import CACHE_SIZE, OWN_PAST, PAST_GAPS, PAST_IDS, Connection

DEFAULT_PENDING_LIMIT: Final = (
    10_000  # requests waiting on one connection; clients allow 5 to 1 000
)
BITS: Final = (1 << VARIANT_SHIFT) - 1
# Where ids count up, a request may be captured this long after its response.
LATE_NS: Final = 1_000_000_000

# Requests of one id that a response is compared with, behind a hole: a controller of 0.8 sends a
# few of a round, and a client that uses one id for all has as many as it lets wait.
MAX_SHARED: Final = 256
TELLING_SIZE: Final = 24  # of a response that fits one API: fewer bytes may fit by chance
ILLEGAL_SASL_STATE: Final = 34
# Kafka of any release: 0.7 if the bytes show it, the drafts of 2012 never.
AUTO: Final = -1

_NOTHING: Final[list[Exchange]] = []


class Exchanges:
    """The stage: feed it frames in the order they complete, and the connections that end.

    `ports` are ports of brokers, used when the capture does not contain the SYN of a connection;
    `brokers` are endpoints as ``address bytes + port bytes`` that are always brokers. `dialect` is
    the one protocol in use (see `messages.old_protocols`), or AUTO; `rules` set it by port and
    endpoint.
    """

    def __init__(
        self,
        ports: frozenset[int] = frozenset(DEFAULT_PORTS),
        brokers: frozenset[bytes] = frozenset(),
        keeps_frames: bool = False,
        keeps_batches: bool = True,
        keeps_records: bool = False,
        keeps_group_frames: bool = False,
        pending_limit: i64 = DEFAULT_PENDING_LIMIT,
        dialect: i64 = AUTO,
        rules: DecodeAs | None = None,
        memory_budget: MemoryBudget | None = None,
        decoded_bytes: i64 = DECODED_BYTES,
    ) -> None:
        self.ports = ports
        self.brokers = brokers
        self.keeps_frames = keeps_frames
        self.keeps_group_frames = keeps_group_frames
        self.pending_limit = pending_limit
        self.dialect = dialect
        self.rules = rules
        self.memory_budget = memory_budget if memory_budget is not None else MemoryBudget()
        self.memory_budget.keeps_records = keeps_records
        self.names: dict[bytes, str] = {CLUSTER_METADATA_ID: CLUSTER_METADATA}
        self.bodies = BodyReader(self.names, keeps_batches, keeps_records, decoded_bytes)
        self.layout_fit = LayoutFit(self.bodies.plans)
        self.states: dict[int, ConnectionState] = {}
        # States that are found without looking up their connection.
        self._cache: list[ConnectionState | None] = [None] * CACHE_SIZE
        # The result for nearly every response: one exchange, in a reused list.
        self._alone: list[Exchange] = [NO_EXCHANGE]

    def feed(self, frame: Frame) -> list[Exchange]:
        """Return the exchanges that this frame completes; read the list before the next call."""
        state = self.state_of(frame.connection)
        if state.request_direction < 0:
            decide_sides(state, self.ports, self.brokers)
        if state.request_direction < 0:
            return self._decide_by_content(state, frame)
        return self._one(state, frame)

    def end(self, connection: Connection) -> tuple[list[Exchange], ConnectionState]:
        """End a connection: return its unanswered requests, and its final state."""
        state = self.state_of(connection)
        self.states.pop(connection.id, None)
        self._cache[connection.id & (CACHE_SIZE - 1)] = None
        left = state.pending[state.pending_head :]
        self.bodies.begin_guesses()
        if left and connection.unframed >> (1 - state.request_direction) & 1:
            state.misses_answers = True
        for exchange in left:
            self._let_go(state, exchange)
            exchange.note_tcp_events(connection.tcp_events)
        state.pending = []
        state.pending_head = 0
        counts = connection.counts
        to_broker = counts[max(0, state.request_direction)].payload_bytes
        # Bytes of the client that are not requests were not answered by Kafka.
        if state.protocol == "kafka" or (not state.protocol and to_broker == 0):
            for early in state.early:
                left.append(self._orphan(state, early))
        for early in state.early:
            self.memory_budget.remove(early.frame)
        state.early = NO_RESPONSES
        self._take_held(state)
        if state.old is not None:
            left += state.old.end()
            self._take_problems(state.old)
            state.old = None  # they know each other
        if state.protocol in ("", "other"):
            known = "proxy" if state.proxy_header_size else state.protocol
            state.protocol = protocol_without_kafka(connection, known)
        end_login(state)
        return left, state

    def take_in(self, state: ConnectionState) -> None:
        """Take the state of a connection that another `Exchanges` has brought forward."""
        self.states[state.connection.id] = state
        self._cache[state.connection.id & (CACHE_SIZE - 1)] = None
        for frame in [*state.held, *[early.frame for early in state.early]]:
            self.memory_budget.add(frame)
        for exchange in state.pending[state.pending_head :]:
            self.memory_budget.add_request(exchange)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that has been brought forward elsewhere; it held no frames."""
        state = self.states.pop(connection.id, None)
        self._cache[connection.id & (CACHE_SIZE - 1)] = None
        if state is not None:
            for exchange in state.pending[state.pending_head :]:
                self.memory_budget.remove_request(exchange)

    def keep(self, frames: bool, batches: bool, records: bool) -> None:
        """Set what exchanges keep from now on, as at the beginning.

        Without `frames`, waiting requests drop theirs. Otherwise they keep theirs.
        """
        self.keeps_frames = frames
        self.bodies.sink.keeps_batches = batches
        self.bodies.sink.keeps_records = records
        for state in self.states.values():
            if state.old is not None:
                state.old.keep_frames(frames)
            if not frames:
                self._drop_frames(state)

    def _drop_frames(self, state: ConnectionState) -> None:
        for exchange in state.pending[state.pending_head :]:
            if not self._needs_frame(exchange.api_key):
                self.memory_budget.remove_request(exchange)
                exchange.request_frame = None
                self.memory_budget.add_request(exchange)

    def _needs_frame(self, key: i64) -> bool:
        """Return whether tables other than that of bodies need requests of an API."""
        return key == CREATE_ACLS or (self.keeps_group_frames and is_group_api(key))

    def take_problems(self) -> list[Problem]:
        """Return the problems since the last call."""
        problems = self.bodies.problems
        if problems:
            self.bodies.problems = []
        return problems

    def state_of(self, connection: Connection) -> ConnectionState:
        """State of a connection, created on first use."""
        at = connection.id & (CACHE_SIZE - 1)
        near = self._cache[at]
        if near is not None and near.connection is connection:
            return near
        state = self.states.get(connection.id)
        if state is None:
            state = self.make_state(connection)
            self.states[connection.id] = state
        self._cache[at] = state
        return state

    def make_state(self, connection: Connection) -> ConnectionState:
        """Create the state of a connection without data; it is not stored here."""
        state = ConnectionState(connection)
        state.dialect = self.dialect
        if self.rules is None:
            return state
        rule = self.rules.find(connection.flow)
        if rule.broker_side != UNDECIDED:
            state.request_direction = 1 - rule.broker_side
            state.broker_side_by = "user"
        if rule.protocol in PROTOCOLS:
            state.dialect = PROTOCOLS.index(rule.protocol)
            state.is_told = True
        elif rule.protocol:
            state.protocol = "excluded" if rule.protocol == EXCLUDED else rule.protocol
        return state

    def _decide_by_content(self, state: ConnectionState, frame: Frame) -> list[Exchange]:
        """Without SYN and known port, the side that sends plausible requests is the client."""
        if self.is_convincing(frame.data, frame.size, state.dialect):
            state.request_direction = frame.direction
            state.broker_side_by = "content"
            return self._take_up(state, frame)
        self._hold(state, frame)
        return _NOTHING

    def _hold(self, state: ConnectionState, frame: Frame) -> None:
        """Keep a frame until its protocol is known, if there is room."""
        if self.memory_budget.has_room(state.held, frame):
            self.memory_budget.add(frame)
            if state.held:
                state.held.append(frame)
            else:
                state.held = [frame]
        else:
            state.unheld += 1

    def _take_held(self, state: ConnectionState) -> list[Frame]:
        """Return the held frames, a list that may be shared, and hold none."""
        held = state.held
        state.held = NO_FRAMES
        for frame in held:
            self.memory_budget.remove(frame)
        return held

    def _take_up(self, state: ConnectionState, frame: Frame | None) -> list[Exchange]:
        """Process the held frames, and `frame`, now that the protocol is known."""
        frames = self._take_held(state)
        if frame is not None:
            frames = [*frames, frame]
        if state.unheld > 0:
            text = f"{state.unheld} frames were not kept until it was known that they are Kafka's"
            self._problem(frames[-1], "undecided-limit", text)
            state.unheld = 0
        done: list[Exchange] = []
        for earlier in frames:
            done += self._one(state, earlier)
        return done

    def _one(self, state: ConnectionState, frame: Frame) -> list[Exchange]:
        if frame.direction == state.request_direction:
            return self._request(state, frame)
        return self._response(state, frame)

    def is_convincing(self, data: bytes, size: i64, dialect: i64) -> bool:
        """Return whether `data`, all or the first of a frame's `size` bytes, is certainly a request
        without other evidence.

        A whole one must decode to its last byte; one that is not, or of a version without layout,
        must have a client id.
        """
        if dialect > KAFKA:
            return fits_request(dialect, data, size)
        if self._is_convincing_kafka(data, size):
            return True
        return dialect == AUTO and is_request_07(data, size)

    def _is_convincing_kafka(self, data: bytes, size: i64) -> bool:
        if self.layout_fit.request(data, size) == NOT or self.layout_fit.may_be_response(data):
            return False
        return len(data) == size or (len(data) >= 10 and i64(read_i16_be(data, 8)) > 0)

    def _old_conversation(self, state: ConnectionState, frame: Frame) -> OldConversation | None:
        """Conversation of a connection that uses a protocol from before 0.8; None for others."""
        known: OldConversation | None = state.old
        if known is not None:
            return known
        dialect = state.dialect
        if dialect == AUTO:
            if state.protocol == "kafka" or not is_request_07(frame.data, frame.size):
                return None
            if not frame.missing and self._is_convincing_kafka(frame.data, frame.size):
                return None
            dialect = KAFKA_07
        if dialect == KAFKA:
            return None
        sink = self.bodies.sink
        return make_conversation(
            state, dialect, sink, self.keeps_frames, self.pending_limit, self.memory_budget
        )

    def _take_problems(self, old: OldConversation) -> None:
        if old.problems:
            self.bodies.problems += old.problems
            old.problems = []

    # Requests

    def _request(self, state: ConnectionState, frame: Frame) -> list[Exchange]:
        data = frame.data
        if state.login.in_tokens or state.protocol != "kafka":
            if state.refused >= REFUSED_LIMIT:
                return _NOTHING
            old = self._old_conversation(state, frame)
            if old is not None:
                done = old.request(frame)
                self._take_problems(old)
                return done
            is_whole = frame.missing == 0
            is_request = is_plausible_request(data, is_whole) or (
                is_whole and not state.login.in_tokens and self.layout_fit.is_exact(data)
            )
            if not is_request:
                self._unknown_request(state, frame)
                return _NOTHING
            if state.is_unproved:
                return self._weigh(state, frame)
            state.login.end_tokens()
            state.protocol = "kafka"
        if frame.is_behind_loss:
            self.bodies.miss_requests(state)
        try:
            header = read_request_header(data)
        except DecodeError as error:
            if not frame.missing:
                self._problem(frame, "bad-request-header", str(error))
                return _NOTHING
            if len(data) < FIXED_HEADER_SIZE:
                # Too little of it was captured to identify the request.
                self.bodies.miss_requests(state)
                return _NOTHING
            header = read_cut_header(data)
        exchange = new_exchange(state, frame)
        exchange.api_key = header.api_key
        exchange.api_version = header.api_version
        exchange.correlation_id = header.correlation_id
        if header.client_id_size >= 0:
            at = header.client_id_start
            client_id = data[at : at + header.client_id_size]
            if state.last_client_id is None or client_id != state.client_id_bytes:
                state.client_id_bytes = client_id
                exchange.client_id = self.bodies.interner.text(client_id)
            else:
                exchange.client_id = state.last_client_id
        if header.body_offset != NO_BODY or header.client_id_size >= 0:
            state.last_client_id = exchange.client_id
        if header.client_id_size > LONGEST_KEPT:
            state.last_client_id = None
            state.client_id_bytes = b""
        state.last_request_ns = frame.start_time_ns
        note_spoken(state, exchange.api_key)
        exchange.request_start = frame.start_time_ns
        exchange.request_end = frame.end_time_ns if frame.end_time_ns >= 0 else NULL
        exchange.request_size = frame.size
        exchange.request_packet = frame.start_packet
        exchange.missing_bytes = frame.missing
        key = exchange.api_key
        if self.keeps_frames or self._needs_frame(key):
            exchange.request_frame = frame
        if not state.login.is_past:
            state.login.note_request(key)
        self.bodies.read_request(state, exchange, header, frame)
        if self.bodies.sessions.has_too_many():
            self._count_positions(frame)
        if exchange.asked.acks == 0 and exchange.api_key == API_PRODUCE:
            exchange.outcome = NO_RESPONSE_EXPECTED
            exchange.note_tcp_events(frame.tcp_events_at_end)
            return [exchange]
        state.pending.append(exchange)
        if state.by_id is not None:
            note_pending(state, len(state.pending) - 1)
        is_full = self.memory_budget.add_request(exchange)
        done = self._meet_early(state, exchange) if state.early else _NOTHING
        if exchange.correlation_id == state.last_correlation_id:
            state.repeats_ids = True
        state.last_correlation_id = exchange.correlation_id
        if len(state.pending) - state.pending_head > self.pending_limit:
            return [*done, self._overflow(state, frame)]
        return [*done, *self._make_room(frame)] if is_full else done

    def _count_positions(self, frame: Frame) -> None:
        """Forget all positions of fetch sessions when they take too much memory."""
        if self.bodies.sessions.count(list(self.states.values())):
            text = "positions of all fetch sessions take too much memory: they are forgotten"
            self._problem(frame, "session-limit", text)

    def _unknown_request(self, state: ConnectionState, frame: Frame) -> None:
        """Handle a client frame that is not a request: a raw SASL token, or not Kafka at all."""
        data = frame.data
        if state.login.in_tokens:
            state.login.send_raw(data, frame.missing == 0)
            if is_long(state.login.user):
                self.bodies.tell_cut(frame, "the user")
        elif frame.missing:
            # Too little of it may have been captured to exclude a request.
            self.bodies.miss_requests(state)
        elif not state.protocol and data[:1] == GSSAPI_TAG:
            # 0.9 clients start GSSAPI without a handshake.
            state.login.begin(GSSAPI, True)
            state.login.send_raw(data, frame.missing == 0)
            state.protocol = "kafka"
        elif not state.protocol or state.protocol == "other":
            state.protocol = "other"
            state.refused += 1
            self._take_held(state)
            if state.refusal is None:
                text = f"the first frame, of {frame.size} bytes, is no request"
                state.refusal = frame_problem(frame, "not-a-request", text, -1)

    def _weigh(self, state: ConnectionState, frame: Frame) -> list[Exchange]:
        """Handle a possible request of a connection that is not confirmed as Kafka."""
        if is_proof(self.layout_fit, frame):
            return self._believe(state, frame)
        self._hold(state, frame)
        return _NOTHING

    def _believe(self, state: ConnectionState, frame: Frame | None) -> list[Exchange]:
        """Confirm the connection as Kafka: process the held frames, and `frame`."""
        state.is_unproved = False
        if state.refusal is not None:
            self.bodies.problems.append(state.refusal)
        return self._take_up(state, frame)

    def _make_room(self, frame: Frame) -> list[Exchange]:
        """Drop the oldest waiting requests of all connections when they take too much memory."""
        done: list[Exchange] = []
        while self.memory_budget.has_too_many_requests():
            for state, stays in oldest_waiting(list(self.states.values())):
                for exchange in state.pending[state.pending_head : stays]:
                    self._let_go(state, exchange)
                    done.append(exchange)
                drop_pending(state, stays)
        if done:
            text = f"too many requests wait on all connections: {len(done)} are let go"
            self._problem(frame, "pending-limit", text)
        return done

    def _let_go(self, state: ConnectionState, exchange: Exchange) -> None:
        """Complete a waiting request without an answer."""
        self.memory_budget.remove_request(exchange)
        self._set_unanswered(state, exchange)

    def _overflow(self, state: ConnectionState, frame: Frame) -> Exchange:
        oldest = state.pending[state.pending_head]
        drop_pending(state, state.pending_head + 1)
        self._let_go(state, oldest)
        if state.has_overflowed:
            return oldest
        state.has_overflowed = True
        text = (
            f"more than {self.pending_limit} requests wait on one connection; the oldest are let go"
        )
        self._problem(frame, "pending-limit", text)
        return oldest

    # Responses

    def _response(self, state: ConnectionState, frame: Frame) -> list[Exchange]:
        data = frame.data
        if frame.is_behind_loss:
            self.bodies.miss_answers(state)
        at = position_in_pending(state, data)
        connection = frame.connection
        if at >= 0 and connection.may_have_missed(frame.direction):
            at = self._behind_hole(state, at, frame)
        if at < 0:
            connection.use_history(OWN_PAST)
        if at < 0 and state.is_unproved and state.held:
            self._hold(state, frame)
            return self._believe(state, None) if is_answered(state) else _NOTHING
        old: OldConversation | None = state.old
        if at < 0 and old is not None:
            done = old.response(frame)
            self._take_problems(old)
            return done
        if at < 0 and state.login.in_tokens and may_be_token(state.login.mechanism, data):
            state.login.receive_raw(data, frame.missing == 0)
            return _NOTHING
        if at < 0 and is_token(data) and (data or not (state.login.count or frame.missing)):
            # The client's earlier requests were not captured, or come later.
            return _NOTHING
        if len(data) < 4:
            if state.protocol == "kafka" and not frame.missing:
                self._problem(frame, "bad-response-header", f"a response of {len(data)} bytes")
            self.bodies.miss_answers(state)
            state.last_response_end = UNKNOWN_END
            return _NOTHING
        previous_end = UNKNOWN_END if frame.is_behind_loss else state.last_response_end
        if previous_end != UNKNOWN_END and state.last_response_steps != connection.clock_steps:
            previous_end = NULL
        state.last_response_end = frame.end_time_ns if frame.end_time_ns >= 0 else UNKNOWN_END
        state.last_response_steps = connection.clock_steps
        if at >= 0:
            return self._pair(state, at, frame, previous_end)
        if state.protocol and state.protocol != "kafka":
            return _NOTHING
        early = EarlyResponse(i64(read_i32_be(data, 0)), frame, previous_end)
        return self._keep_early(state, early)

    def _behind_hole(self, state: ConnectionState, at: i64, frame: Frame) -> i64:
        """Find the answered request when answers before this one are lost.

        ``pending[at]`` where ids determine it; -1 for one that is lost, too.
        """
        pending = state.pending
        correlation_id = pending[at].correlation_id
        connection = state.connection
        has_gaps = connection.gaps_in(frame.direction) > 0
        if not has_shared_id(state, pending[at]):
            if has_gaps:
                connection.use_history(PAST_IDS)
            return at
        connection.use_history(PAST_GAPS)
        if not has_gaps:
            return at
        answer = Answer(self.layout_fit, frame)
        for _ in range(MAX_SHARED):
            if answer.may_be_to(pending[at]):
                return at
            at = find_pending(state, correlation_id, at + 1)
            if at < 0:
                break
        state.misses_answers = True
        return -1

    def _pair(
        self, state: ConnectionState, at: i64, frame: Frame, previous_end: i64
    ) -> list[Exchange]:
        """Complete ``pending[at]`` with its answer; requests before it will not be answered."""
        pending = state.pending
        exchange = pending[at]
        head = state.pending_head
        if head == at:
            done = self._alone
            done[0] = exchange
        else:
            done = pending[head : at + 1]
        while head < at:
            earlier = pending[head]
            self._let_go(state, earlier)
            earlier.note_tcp_events(frame.tcp_events_at_start)
            head += 1
        drop_pending(state, at + 1)
        self.memory_budget.remove_request(exchange)
        state.misses_answers = False
        self._answer(state, exchange, frame, previous_end)
        return done

    def _keep_early(self, state: ConnectionState, early: EarlyResponse) -> list[Exchange]:
        """Keep a response without a waiting request: lost, or coming later from behind a hole."""
        memory_budget = self.memory_budget
        if state.early:
            state.early.append(early)
        else:
            state.early = [early]
        memory_budget.add(early.frame)
        self.bodies.begin_guesses()
        done: list[Exchange] = []
        while state.early and memory_budget.has_too_many(len(state.early)):
            oldest = state.early.pop(0)
            memory_budget.remove(oldest.frame)
            done.append(self._orphan(state, oldest))
        # Without any captured request none can come late.
        is_asked = state.connection.counts[max(0, state.request_direction)].packets > 0
        if done and is_asked and not state.has_let_go:
            state.has_let_go = True
            text = early_limit_text(len(state.early) + len(done))
            self._problem(early.frame, "early-limit", text)
        return done

    def _meet_early(self, state: ConnectionState, exchange: Exchange) -> list[Exchange]:
        """Match the newest request with an early response, or find the response to be an orphan."""
        self.bodies.begin_guesses()
        done: list[Exchange] = []
        left: list[EarlyResponse] = []
        is_met = False
        # Packets may be captured in another order; identical ids do not determine it then.
        start = exchange.request_start
        before = start
        if exchange.correlation_id != state.last_correlation_id:
            before -= REORDER_NS
        counts_up = NULL < state.last_correlation_id < exchange.correlation_id
        may_count_up = counts_up or state.last_correlation_id == NULL
        for early in state.early:
            time_ns = early.frame.start_time_ns
            if counts_up and early.correlation_id >= exchange.correlation_id:
                before_this = start - LATE_NS
            else:
                before_this = before
            if may_count_up and early.correlation_id > exchange.correlation_id:
                # Its request is sent later, even if this one was retransmitted.
                left.append(early)
                continue
            if time_ns < before_this:
                done.append(self._orphan(state, early))
            elif (
                not is_met
                and early.correlation_id == exchange.correlation_id
                and early.tries < MAX_TRIES
                and self._may_answer(exchange, early)
            ):
                is_met = True
                at = len(state.pending) - 1
                # Requests that wait before it are answered later.
                state.misses_answers = True
                done += self._pair(state, at, early.frame, early.previous_end)
            else:
                left.append(early)
                continue
            self.memory_budget.remove(early.frame)
        state.early = left
        return done

    def _may_answer(self, exchange: Exchange, early: EarlyResponse) -> bool:
        """Return whether an early response is to the newest request, whose id it has."""
        early.tries += 1
        return may_answer(self.layout_fit, exchange, early.frame)

    def _set_unanswered(self, state: ConnectionState, exchange: Exchange) -> None:
        """Set the outcome without an answer; unknown where answers may be missing."""
        if state.connection.counts[1 - state.request_direction].packets == 0:
            exchange.status |= UNSEEN
        if state.misses_answers or not may_see_answers(state):
            self.bodies.forget_answer(exchange)
        elif exchange.api_key != API_PRODUCE or exchange.asked.acks != NULL:
            # A request whose acks were not captured may request no response.
            exchange.outcome = UNANSWERED

    def _orphan(self, state: ConnectionState, early: EarlyResponse) -> Exchange:
        exchange = new_exchange(state, early.frame)
        exchange.outcome = ORPHAN
        exchange.status = NO_REQUEST
        exchange.topic_count = NULL
        exchange.correlation_id = early.correlation_id
        exchange.certainty = 0
        self._set_response(exchange, early.frame)
        if not early.frame.missing:
            self.bodies.guess(state, exchange, early.frame)
        return exchange

    def _set_response(self, exchange: Exchange, frame: Frame) -> None:
        place_response(exchange, frame)
        if self.keeps_frames or exchange.request_frame is not None:
            exchange.response_frame = frame

    def _answer(
        self, state: ConnectionState, exchange: Exchange, frame: Frame, previous_end: i64
    ) -> None:
        """Fill in the response's fields."""
        exchange.outcome = ANSWERED
        self._set_response(exchange, frame)
        exchange.queue_ns = queue_ns(exchange, frame.start_time_ns, previous_end)
        self.bodies.read_answer(state, exchange, frame)
        if self.bodies.sessions.has_too_many():
            self._count_positions(frame)

    def _problem(self, frame: Frame, kind: str, text: str, exchange_id: i64 = -1) -> None:
        self.bodies.problems.append(frame_problem(frame, kind, text, exchange_id))


def protocol_without_kafka(connection: Connection, known: str) -> str:
    """Protocol of a connection on which nothing was recognized; "" when too much is missing.

    `known` is the protocol shown by its bytes, other or proxy, else "".
    """
    one, other = connection.counts
    missing = one.missing_bytes + other.missing_bytes
    if one.wire_bytes + other.wire_bytes + missing == 0:
        return "none"
    if missing > 0:
        return ""
    return known or ("other" if connection.syn_seen else "")


def end_login(state: ConnectionState) -> None:
    """Complete the login state at the end of a connection."""
    connection = state.connection
    is_all_seen = not connection.unframed and not state.misses_answers
    is_closed = connection.closed_by in ("fin", "rst")
    state.login.end(is_closed, is_all_seen, state.protocol == "kafka")
