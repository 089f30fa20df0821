"""One connection that uses a protocol from before 0.8: its frames → its exchanges.

0.7 has no correlation ids. A broker answers in order, and its clients wait for an answer before the
next request, so a response belongs to the oldest request that gets one. After loss that may be
wrong: then it is the newest one that was sent before the response and fits it. The drafts of 2012
have correlation ids.

Thousands of requests may wait, so `OldWaiting` indexes them. Longer than other modules: one state
machine.
"""

from typing import Final

from kdissect.errors import Problem
from kdissect.exchanges.connection_state import (
    MAX_TRIES,
    NO_RESPONSES,
    ConnectionState,
    early_limit_text,
    frame_problem,
    may_see_answers,
    new_exchange,
    place_response,
)
from kdissect.exchanges.exchange import (
    ANSWERED,
    NO_REQUEST,
    NO_RESPONSE_EXPECTED,
    ORPHAN,
    UNANSWERED,
    UNKNOWN_API,
    Exchange,
)
from kdissect.exchanges.latency_parts import UNKNOWN_END, own_wait_ns, queue_ns
from kdissect.exchanges.memory_budget import MemoryBudget
from kdissect.exchanges.old_details import take_request, take_response
from kdissect.exchanges.old_waiting import Asked, OldWaiting
from kdissect.framing.frames import Frame
from kdissect.messages.extracted import FieldSink
from kdissect.messages.message_sets import scan_set
from kdissect.messages.old_bodies import read_old, set_spans
from kdissect.messages.old_extracted import OldFields
from kdissect.messages.old_protocols import (
    CONNECTION_PROTOCOLS,
    KAFKA_07,
    OLD_APIS,
    OLD_ERRORS,
    PRODUCE,
    PROTOCOLS,
    TRUNK_2012,
    OldApi,
    old_api,
)
from kdissect.messages.old_recognition import is_request_07
from kdissect.protocol.readers import NULL

_NOTHING: Final[list[Exchange]] = []


class OldConversation:
    """Feed it the frames of both sides as they complete; the owner takes `problems`."""

    def __init__(
        self,
        state: ConnectionState,
        protocol: int,
        sink: FieldSink,
        keeps_frames: bool,
        pending_limit: int,
        budget: MemoryBudget,
    ) -> None:
        self.protocol = protocol
        self.problems: list[Problem] = []
        self._state = state
        self._sink = sink
        self._keeps_frames = keeps_frames
        self._pending_limit = pending_limit
        self._memory_budget = budget
        self._waiting = OldWaiting()
        self._early: list[Frame] = [early.frame for early in state.early]
        # Number of requests that each of them was compared with.
        self._tries = [0] * len(self._early)
        self._last_end: int = NULL
        self._last_steps: int = 0  # of the clock, when that was
        self._gaps = 0
        state.early = NO_RESPONSES
        state.protocol = CONNECTION_PROTOCOLS[protocol]

    def move_to(self, sink: FieldSink, budget: MemoryBudget) -> None:
        """Move to another stage."""
        self._sink = sink
        self._memory_budget = budget
        for asked in self._waiting.rest():
            asked.facts.sink = sink

    def keep_frames(self, keeps: bool) -> None:
        """Set whether exchanges keep their frames from now on."""
        self._keeps_frames = keeps

    def request(self, frame: Frame) -> list[Exchange]:
        """Process the client's frame: return the exchanges that it completes."""
        data = frame.data
        if frame.missing and len(data) < 2:
            # Too little of it was captured to identify the request.
            return _NOTHING
        key = int.from_bytes(data[:2], "big", signed=True)
        api = old_api(self.protocol, key)
        if len(data) < 2 or api is None:
            text = f"a frame of {len(data)} bytes that is no {self._name} request"
            self._problem(frame, "bad-request-header", text)
            return _NOTHING
        exchange = self._new_exchange(frame)
        exchange.api_key = key
        exchange.request_start = frame.start_time_ns
        exchange.request_end = frame.end_time_ns if frame.end_time_ns >= 0 else NULL
        exchange.request_size = frame.size
        exchange.request_packet = frame.start_packet
        if self._keeps_frames:
            exchange.request_frame = frame
        if key not in OLD_APIS[self.protocol]:
            exchange.status |= UNKNOWN_API
        fields = OldFields(self._sink)
        self.problems += take_request(api, exchange, fields, frame)
        asked = Asked(api, exchange, fields)
        if self.protocol == KAFKA_07 and not api.response:
            exchange.outcome = NO_RESPONSE_EXPECTED
            exchange.note_tcp_events(frame.tcp_events_at_end)
            return [exchange]
        self._waiting.add(asked)
        done = self._meet_early(frame) if self._early else []
        if self._waiting.count > self._pending_limit:
            text = f"more than {self._pending_limit} requests wait; the oldest is let go"
            self._problem(frame, "pending-limit", text)
            done += [self._let_go(one) for one in self._waiting.take_first(1)]
        return done

    def response(self, frame: Frame) -> list[Exchange]:
        """Process the broker's frame: return the exchanges that it completes."""
        if frame.is_behind_loss:
            self._state.misses_answers = True
            self._last_end = UNKNOWN_END
        at = self._position(frame)
        if at < 0:
            return self._keep_early(frame)
        *lost, asked = self._waiting.take_first(at + 1)
        done = [self._let_go(one) for one in lost]
        self._state.misses_answers = False
        self._answer(asked, frame)
        done.append(asked.exchange)
        return done

    def end(self) -> list[Exchange]:
        """End of the connection: return the remaining exchanges."""
        state = self._state
        if state.connection.unframed >> (1 - state.request_direction) & 1:
            state.misses_answers = True
        left = [self._let_go(asked) for asked in self._waiting.take_first(self._waiting.count)]
        for frame in self._early:
            self._memory_budget.remove(frame)
            left.append(self._orphan(frame))
        self._early, self._tries = [], []
        return left

    def is_awaited(self, data: bytes, size: int, time_ns: int) -> bool:
        """Return whether a frame of `size` bytes that starts with `data` can answer a request."""
        if size < 2 or len(data) < 2:
            return False
        if self.protocol != KAFKA_07:
            return self._waiting.has_id(self._answered_id(data), time_ns)
        code = int.from_bytes(data[:2], "big", signed=True)
        if code != 0 and code not in OLD_ERRORS:
            return False
        newest = self._waiting.newest(time_ns)
        return any(fits(asked.api, data, size - len(data)) for _, asked in newest)

    @property
    def _name(self) -> str:
        return PROTOCOLS[self.protocol]

    def _new_exchange(self, frame: Frame) -> Exchange:
        exchange = new_exchange(self._state, frame)
        exchange.dialect = self.protocol
        return exchange

    def _answer(self, asked: Asked, frame: Frame) -> None:
        exchange = asked.exchange
        exchange.outcome = ANSWERED
        self._place(exchange, frame)
        steps = frame.connection.clock_steps
        previous_end = self._last_end if self._last_steps == steps else NULL
        exchange.queue_ns = queue_ns(exchange, frame.start_time_ns, previous_end)
        exchange.wait_ns = own_wait_ns(exchange)
        self._last_end = frame.end_time_ns if frame.end_time_ns >= 0 else UNKNOWN_END
        self._last_steps = steps
        if asked.api.response:
            self.problems += take_response(asked.api, exchange, asked.facts, frame)

    def _position(self, frame: Frame) -> int:
        """Index of the waiting request that a response answers; -1 for none."""
        if self.protocol != KAFKA_07:
            return self._waiting.find_id(self._answered_id(frame.data))
        counts = self._state.connection.counts
        gaps = counts[0].gaps + counts[1].gaps
        has_lost = gaps != self._gaps
        if not has_lost:
            return 0 if self._waiting.count else -1
        # The loss is over once an answer was found that must be the next.
        for at, asked in self._waiting.newest(frame.start_time_ns):
            if fits(asked.api, frame.data, frame.missing):
                self._gaps = gaps
                return at
        return -1

    def _keep_early(self, frame: Frame) -> list[Exchange]:
        """Keep a response without a waiting request: lost, or coming later from behind a hole."""
        self._early.append(frame)
        self._tries.append(0)
        self._memory_budget.add(frame)
        done: list[Exchange] = []
        while self._early and self._memory_budget.has_too_many(len(self._early)):
            oldest = self._early.pop(0)
            del self._tries[0]
            self._memory_budget.remove(oldest)
            done.append(self._orphan(oldest))
        if done and not self._state.has_let_go:
            self._state.has_let_go = True
            self._problem(frame, "early-limit", early_limit_text(len(self._early) + len(done)))
        return done

    def _answered_id(self, data: bytes) -> int | None:
        """The correlation id of a response of 2012; None for others."""
        start = 4 if self.protocol == TRUNK_2012 else 0
        if len(data) < start + 4:
            return None
        return int.from_bytes(data[start : start + 4], "big", signed=True)

    def _meet_early(self, frame: Frame) -> list[Exchange]:
        """Match the newest request with an early response, or find the response to be an orphan."""
        done: list[Exchange] = []
        early, self._early = self._early, []
        tries, self._tries = self._tries, []
        for response, tried in zip(early, tries, strict=True):
            if response.start_time_ns < frame.start_time_ns:
                done.append(self._orphan(response))
            elif tried < MAX_TRIES and self._position(response) >= 0:
                done += self.response(response)
            else:
                self._early.append(response)
                # Ids are compared without reading all of it.
                self._tries.append(tried + (self.protocol == KAFKA_07))
                continue
            self._memory_budget.remove(response)
        return done

    def _let_go(self, asked: Asked) -> Exchange:
        """Complete a request without a response."""
        exchange = asked.exchange
        state = self._state
        exchange.note_tcp_events(state.connection.tcp_events)
        if exchange.api_key == PRODUCE and exchange.asked.acks == 0:
            # The drafts do not specify whether acks 0 is answered, so it may be.
            exchange.outcome = NO_RESPONSE_EXPECTED
        elif state.misses_answers or not may_see_answers(state):
            exchange.topic_count = NULL
        elif not (exchange.api_key == PRODUCE and exchange.asked.acks == NULL):
            exchange.outcome = UNANSWERED
        return exchange

    def _orphan(self, frame: Frame) -> Exchange:
        exchange = self._new_exchange(frame)
        exchange.outcome = ORPHAN
        exchange.status = NO_REQUEST
        exchange.topic_count = NULL
        self._place(exchange, frame)
        return exchange

    def _place(self, exchange: Exchange, frame: Frame) -> None:
        place_response(exchange, frame)
        if self._keeps_frames or exchange.request_frame is not None:
            exchange.response_frame = frame

    def _problem(self, frame: Frame, kind: str, text: str, exchange_id: int = -1) -> None:
        self.problems.append(frame_problem(frame, kind, text, exchange_id))


def make_conversation(
    state: ConnectionState,
    protocol: int,
    sink: FieldSink,
    keeps_frames: bool,
    pending_limit: int,
    budget: MemoryBudget,
) -> OldConversation:
    """Create the conversation of a connection with an old protocol, and store it in its state."""
    made = OldConversation(state, protocol, sink, keeps_frames, pending_limit, budget)
    state.old = made
    return made


def fits(api: OldApi, data: bytes, missing: int) -> bool:
    """Return whether a response's bytes, of which `missing` are absent, can be those of an API."""
    read = read_old(api.response, data)
    if missing:
        return bool(read.body)
    if read.error is not None or read.end != len(data):
        return False
    sets = set_spans(read.body)
    return all(scan_set(data, span.start, span.end, 0).error is None for span in sets)


def fits_request(protocol: int, data: bytes, size: int) -> bool:
    """Return whether `data`, all or the first of a frame's `size` bytes, may be a request."""
    if protocol == KAFKA_07:
        return is_request_07(data, size)
    api = OLD_APIS[protocol].get(int.from_bytes(data[:2], "big", signed=True))
    if api is None:
        return False
    read = read_old(api.request, data)
    if len(data) < size:
        return "client_id" in read.body
    return read.error is None and read.end == size
