"""Where among bytes of a broker a response starts, when nothing before them says so.

A guess is a size field before the correlation id of a request that waits. From there on frames must
follow each other, none may be what its request cannot be answered with, and ids must not go back
where those of the requests do not. What speaks for a guess is counted as in `request_search`, with
1 for the answer to the request that has waited longest; where no frame was captured whole, 1 more
is asked for.

Without any request (nothing was captured of that direction) CHAIN frames are believed that begin
with their segment and follow each other with ids that go up, when each may be a response and one
can be that of one API only.
"""

from struct import pack
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.candidates import Candidates
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.fitting import EXACT, LONG, NOT, Fitting
from kdissect.exchanges.memory import ConnectionState
from kdissect.searching import NOT_HERE, WAIT, Window
from kdissect.streams.acknowledged import REORDER_NS

TRUST: Final = 3
MAX_SIZE: Final = (100 << 20) + (64 << 10)
MAX_ASKED: Final = 64  # requests that wait and are looked for
TOLD_SIZE: Final = 20  # fewer bytes of a frame tell nothing of how it goes on
CHAIN: Final = 3
TELLING_SIZE: Final = 24
ID_STEP: Final = 1000


class Needles:
    """Where any of some texts is next; each is looked for over the window's bytes once."""

    __slots__ = ("data", "end", "texts", "places")

    def __init__(self, texts: set[bytes], window: Window) -> None:
        self.data = window.data
        self.end = window.end
        self.texts = list(texts)
        # Of each: where it was found last, the end for nowhere.
        self.places = [-1] * len(self.texts)

    def next_from(self, at: i64) -> i64:
        """The first place at or behind `at`, which only ever grows; the end for nowhere."""
        nearest = self.end
        for index in range(len(self.texts)):
            place: i64 = self.places[index]
            if place < at:
                place = self.data.find(self.texts[index], at, self.end)
                if place < 0:
                    place = self.end
                self.places[index] = int(place)
            nearest = min(nearest, place)
        return nearest


class ResponseSearch:
    """Answers `Probe.find_start` for the side that sends responses."""

    def __init__(self, fitting: Fitting, candidates: Candidates) -> None:
        self.fitting = fitting
        self.candidates = candidates

    def find(self, state: ConnectionState, window: Window) -> i64:
        """The first guess that holds; NOT_HERE, or WAIT for one that may."""
        pending = state.pending[state.pending_head : state.pending_head + MAX_ASKED]
        ids = Needles({pack(">i", exchange.correlation_id) for exchange in pending}, window)
        at = window.start
        wait_at: i64 = -1
        need: i64 = 0
        while pending:
            nearest = ids.next_from(at + 4)
            if nearest >= window.end:
                break
            at = nearest - 4
            answer = self._judge(pending, window, at)
            if answer >= 0:
                return answer
            if answer == WAIT and wait_at < 0:
                wait_at = at
                need = window.need
                if at in window.starts:
                    break
            at += 1
        answer = let_go(state, window)
        if wait_at >= 0:
            # Bytes before the guess may yet be of a request that comes late.
            return window.wait(min(window.at, wait_at), min(window.need, need))
        return answer

    def _judge(self, pending: list[Exchange], window: Window, start: i64) -> i64:
        """Whether a chain of responses starts at `start`: its index, NOT_HERE or WAIT."""
        data = window.data
        at = start
        is_start = start in window.starts
        score: i64 = 1 if is_start else 0
        trust: i64 = TRUST + 1
        is_aligned = False
        may_be_nested = False
        asked: i64 = 0
        before: i64 = -1
        while at < window.end:
            seen = window.seen_from(at)
            if seen - at < 8 and seen < window.end:
                # A hole in the header.
                return start if score >= trust and is_start else NOT_HERE
            if seen - at < 8:
                break
            size: i64 = i64(read_i32_be(data, at))
            if size < 4 or size > MAX_SIZE:
                return NOT_HERE
            end = at + 4 + size
            correlation_id: i64 = i64(read_i32_be(data, at + 4))
            index = index_of(pending, correlation_id, asked)
            # Ids may go back where requests wait in that order: some clients count some APIs apart.
            if correlation_id < before and index < 0:
                return NOT_HERE
            before = correlation_id
            if index >= 0:
                request = pending[index]
                if request.request_start > window.time_at(at) + REORDER_NS:
                    return NOT_HERE
                body = data[at + 4 : min(end, seen)]
                fit = self.fitting.response(request.api_key, request.api_version, body, size)
                while fit == NOT:
                    # Requests may have the same id.
                    index = index_of(pending, request.correlation_id, index + 1)
                    if index < 0:
                        return NOT_HERE
                    request = pending[index]
                    fit = self.fitting.response(request.api_key, request.api_version, body, size)
                if end <= seen:
                    trust = TRUST
                elif at == start and not is_start and fit != LONG:
                    # Inside a response the size and first offset of its records look like this,
                    # and end where it ends, so what follows says nothing of them.
                    may_be_nested = True
                    if seen < window.end:
                        return NOT_HERE
                if end <= seen or seen - at >= TOLD_SIZE:
                    score += min(fit, EXACT)
                if index == asked:
                    score += 1
                if at > start:
                    score += 1
                asked = index + 1
            at = end
            if end in window.ends:
                if not is_aligned:
                    score += 1
                is_aligned = True
            if score >= trust and is_aligned:
                return start
        if window.can_wait(start):
            return window.wait(start, max(at, window.end + 1))
        # What ends where no segment does must be surer than that.
        return start if score > trust and not may_be_nested else NOT_HERE

    def find_alone(self, window: Window) -> i64:
        """The same where there is no request at all."""
        for start in window.starts:
            if self._follow(window, start):
                return start
        if window.is_last or window.is_full:
            return NOT_HERE
        return window.hold(window.start)

    def _follow(self, window: Window, start: i64) -> bool:
        """Whether CHAIN whole frames follow each other from `start` on that may be responses."""
        data = window.data
        at = start
        before: i64 = -1
        is_telling = False
        for number in range(CHAIN):
            if window.end - at < 8:
                return False
            size: i64 = i64(read_i32_be(data, at))
            correlation_id: i64 = i64(read_i32_be(data, at + 4))
            if size < 4 or correlation_id < 0 or window.seen_from(at) < at + 4 + size:
                return False
            if number > 0 and not before < correlation_id <= before + ID_STEP:
                return False
            before = correlation_id
            at += 4 + size
            found = self.candidates.of(data[at - size : at])
            if not found:
                return False
            is_telling = is_telling or (len(found) == 1 and size >= TELLING_SIZE)
        return is_telling


def let_go(state: ConnectionState, window: Window) -> i64:
    """No frame starts here that is known of: the answer for bytes that may be of a later request.

    Requests may come late, from behind a hole; those from before the newest one are all known.
    """
    at = window.start
    known = state.last_request_ns - REORDER_NS
    for first, time_ns in window.times:
        if i64(time_ns) > known:
            break
        at = first
    if window.is_full:
        at = max(at, window.start + (window.end - window.start) // 2)
    if window.is_last:
        return NOT_HERE
    return window.hold(at)


def index_of(pending: list[Exchange], correlation_id: i64, first: i64) -> i64:
    """Which of ``pending[first:]`` has the id; -1 for none."""
    at = first
    while at < len(pending):
        if pending[at].correlation_id == correlation_id:
            return at
        at += 1
    return -1
