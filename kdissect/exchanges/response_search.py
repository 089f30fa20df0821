"""Finds where a response starts among a broker's bytes, without earlier evidence.

A guess is a size field before the correlation id of a waiting request; `response_judge` decides
which guesses hold.

Without any request (nothing was captured of that direction) CHAIN frames are accepted that begin
with their segment and follow each other with increasing ids, when each may be a response and one
can be that of one API only.
"""

from struct import pack
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.candidates import Candidates
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.layout_fit import LayoutFit
from kdissect.exchanges.request_search import ID_STEP
from kdissect.exchanges.response_judge import MAX_SIZE, MIN_SIZE, Judge
from kdissect.framing.frame_search import (
    FRAME_STEPS,
    GUESS_STEPS,
    JOINED_EACH,
    NOT_HERE,
    WAIT,
    Window,
)
from kdissect.streams.acknowledged import REORDER_NS

MAX_ASKED: Final = 64  # waiting requests whose ids are searched for
CHAIN: Final = 3
TELLING_SIZE: Final = 24

FIRST_SEARCH: Final = 1 << 10  # bytes searched for all ids at first, then twice as many each time


class Needles:
    """Next position of any of some texts; bytes far ahead are not searched before their turn."""

    __slots__ = ("window", "texts", "places", "searched", "size")

    def __init__(self, texts: set[bytes], window: Window) -> None:
        self.window = window
        self.texts = list(texts)
        # For each: where it was found last, -1 if not before `searched`.
        self.places = [-1] * len(self.texts)
        self.searched: i64 = window.start
        self.size: i64 = FIRST_SEARCH

    def next_from(self, at: i64) -> i64:
        """First position at or behind `at`, which only ever grows; the end for none."""
        end = self.window.end
        while True:
            nearest = end
            for index in range(len(self.texts)):
                place: i64 = self.places[index]
                if 0 <= place < at:
                    place = self._find(index, at)
                if 0 <= place < nearest:
                    nearest = place
            if nearest < self.searched or self.searched >= end:
                return nearest
            start = max(at, self.searched)
            self.searched = min(end, start + self.size)
            self.size *= 2
            for index in range(len(self.texts)):
                if self.places[index] < 0:
                    self._find(index, start)

    def _find(self, index: i64, at: i64) -> i64:
        """Search a text in the bytes whose turn it is, and matches that end in them."""
        window = self.window
        stop = min(window.end, self.searched + len(self.texts[index]) - 1)
        place: i64 = window.data.find(self.texts[index], at, stop)
        window.work += 1 + max(0, (stop if place < 0 else place) - at) // JOINED_EACH
        self.places[index] = int(place)
        return place


class ResponseSearch:
    """Implements `Probe.find_start` for the side that sends responses."""

    def __init__(self, layout_fit: LayoutFit, candidates: Candidates) -> None:
        self.layout_fit = layout_fit
        self.candidates = candidates

    def find(self, state: ConnectionState, window: Window) -> i64:
        """Return the first guess that holds; NOT_HERE, or WAIT for a possible one."""
        pending = state.pending[state.pending_head : state.pending_head + MAX_ASKED]
        ids = Needles({pack(">i", exchange.correlation_id) for exchange in pending}, window)
        judge = Judge(self.layout_fit, pending, window)
        at = window.start
        wait_at: i64 = -1
        need: i64 = 0
        while pending and not window.is_spent:
            nearest = ids.next_from(at + 4)
            if nearest >= window.end:
                break
            at = nearest - 4
            answer = judge.judge(at) if is_size(window, at) else i64(NOT_HERE)
            if answer >= 0:
                return answer
            if answer == WAIT and wait_at < 0:
                wait_at = at
                need = window.need
                if window.is_start(at):
                    break
            at += 1
        answer = let_go(state, window)
        if wait_at >= 0:
            # Bytes before the guess may yet answer a request that comes late.
            return window.wait(min(window.at, wait_at), min(window.need, need))
        return answer

    def find_alone(self, window: Window) -> i64:
        """Like `find`, without any request."""
        tried: dict[int, int] = {}
        for start in window.starts:
            if window.is_spent:
                break
            if self._follow(window, start, tried):
                return start
        if window.is_last or window.is_full:
            return NOT_HERE
        return window.hold(window.start)

    def _follow(self, window: Window, start: i64, tried: dict[int, int]) -> bool:
        """Return whether CHAIN whole, plausible responses follow each other from `start` on."""
        data = window.data
        frames: list[int] = []
        at = start
        before: i64 = -1
        window.work += GUESS_STEPS
        for number in range(CHAIN):
            if window.end - at < 8:
                return False
            size: i64 = i64(read_i32_be(data, at))
            correlation_id: i64 = i64(read_i32_be(data, at + 4))
            if size < MIN_SIZE or correlation_id < 0 or window.seen_from(at) < at + 4 + size:
                return False
            if number > 0 and not before < correlation_id <= before + ID_STEP:
                return False
            before = correlation_id
            frames.append(at)
            at += 4 + size
        is_telling = False
        for one in frames:
            count = self._count(window, one, tried)
            if count == 0:
                return False
            size = i64(read_i32_be(data, one))
            is_telling = is_telling or (count == 1 and size >= TELLING_SIZE)
        return is_telling

    def _count(self, window: Window, at: i64, tried: dict[int, int]) -> i64:
        """Number of possible APIs of the frame at `at`; `tried` are those of frames, by index."""
        known = tried.get(at, -1)
        if known >= 0:
            return known
        size: i64 = i64(read_i32_be(window.data, at))
        before = self.candidates.steps
        found = len(self.candidates.of(window.data[at + 4 : at + 4 + size]))
        window.work += size // JOINED_EACH + self.candidates.steps - before
        tried[at] = found
        return found


def is_size(window: Window, at: i64) -> bool:
    """Return whether a frame may have the size at `at`."""
    window.work += FRAME_STEPS
    return MIN_SIZE <= i64(read_i32_be(window.data, at)) <= MAX_SIZE


def let_go(state: ConnectionState, window: Window) -> i64:
    """Result for bytes without a known frame start, which may answer a later request.

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
