"""Decides whether a chain of responses starts at a given place among a broker's bytes.

Frames must follow each other, each must be a possible answer to its request, and ids must not
decrease where those of the requests do not. Points are counted as in `request_search`, with 1 for
the answer to the request that has waited longest; where no frame was captured whole, 1 more is
required.

Many guesses lead to the same frames. The results for a frame, and for the chain behind it, are
cached for each window, so that no byte is read again for each guess.
"""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.layout_fit import EXACT, LONG, NOT, LayoutFit
from kdissect.framing.frame_search import (
    FRAME_STEPS,
    GUESS_STEPS,
    NOT_HERE,
    TOLD_SIZE,
    TRUST,
    Window,
)
from kdissect.streams.acknowledged import REORDER_NS

SURE: Final = TRUST + 2  # a higher score adds no certainty
MAX_SIZE: Final = (100 << 20) + (64 << 10)
MIN_SIZE: Final = 4
# End of a chain that was not trusted: at the end of the window, else
BROKEN: Final = -1
HOLED: Final = -2
# Also, whether it was trusted, and more than that.
TRUSTED: Final = 1
MORE: Final = 2
NO_INDICES: Final[list[list[int]]] = []


class Judge:
    """Judges the guesses of one window, in order.

    `_indices` are those of requests in `pending`, by correlation id, a list for each layout that a
    response may have. `_fits` are those of frames, by index and layout. A chain that was not
    believed is not walked again behind a frame behind which it was walked in the same standing:
    `_ends` holds the result.
    """

    __slots__ = ("layout_fit", "pending", "window", "_indices", "_fits", "_ends")

    def __init__(self, layout_fit: LayoutFit, pending: list[Exchange], window: Window) -> None:
        self.layout_fit = layout_fit
        self.pending = pending
        self.window = window
        self._indices: dict[int, list[list[int]]] = {}
        for index, exchange in enumerate(pending):
            self._add(index, exchange)
        self._fits: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def judge(self, start: i64) -> i64:
        """Return the index if a chain of responses starts at `start`, NOT_HERE or WAIT."""
        window = self.window
        data = window.data
        at = start
        is_start = window.is_start(start)
        score: i64 = 1 if is_start else 0
        trust: i64 = TRUST + 1
        is_aligned = False
        may_be_nested = False
        asked: i64 = 0
        before: i64 = -1
        walked: list[int] = []
        ended: i64 = 0
        was_walked = False
        window.work += GUESS_STEPS
        while at < window.end:
            window.work += FRAME_STEPS
            seen = window.seen_from(at)
            if seen - at < 8:
                if seen < window.end:
                    ended = HOLED
                break
            size: i64 = i64(read_i32_be(data, at))
            if size < MIN_SIZE or size > MAX_SIZE:
                ended = BROKEN
                break
            end = at + 4 + size
            correlation_id: i64 = i64(read_i32_be(data, at + 4))
            # Requests may have the same id.
            asked_for = self._find(correlation_id, asked)
            index: i64 = asked_for[0] if asked_for else -1
            # Ids may decrease where requests wait in that order: some clients count some APIs
            # separately.
            if correlation_id < before and index < 0:
                ended = BROKEN
                break
            before = correlation_id
            if index >= 0:
                if self.pending[index].request_start > window.time_at(at) + REORDER_NS:
                    ended = BROKEN
                    break
                fit: i64 = NOT
                for index in asked_for:
                    fit = self._fit(at, seen, size, index)
                    if fit != NOT:
                        break
                if fit == NOT:
                    index = -1
                if end <= seen:
                    trust = TRUST
                elif at == start and not is_start and fit != LONG:
                    # Inside a response the size and first offset of its records look like this, and
                    # end where it ends, so the bytes behind it are no evidence.
                    may_be_nested = True
                    if seen < window.end:
                        index = -1
                if index < 0:
                    ended = BROKEN
                    break
                if end <= seen or seen - at >= TOLD_SIZE:
                    score += min(fit, EXACT)
                if index == asked:
                    score += 1
                if at > start:
                    score += 1
                asked = index + 1
            if window.is_end(end):
                if not is_aligned:
                    score += 1
                is_aligned = True
            if score >= trust and is_aligned:
                return start
            score = min(score, SURE)
            key = chain_state(at, asked, score, trust, is_aligned, may_be_nested)
            known = self._ends.get(key)
            if known is not None:
                ended = known
                was_walked = True
                break
            walked.append(key)
            at = end
        if not was_walked:
            if ended == 0:
                ended = at
            ended = ended << 2
            if score >= trust:
                ended |= TRUSTED
            if score > trust:
                ended |= MORE
        for one in walked:
            self._ends[one] = ended
        return self._answer(start, is_start, may_be_nested, ended)

    def _answer(self, start: i64, is_start: bool, may_be_nested: bool, ended: i64) -> i64:
        """Result for a guess whose chain alone was not trusted."""
        window = self.window
        end = ended >> 2
        if end == BROKEN:
            return NOT_HERE
        if end == HOLED:
            # A hole in the header.
            return start if ended & TRUSTED != 0 and is_start else NOT_HERE
        if window.can_wait(start):
            return window.wait(start, max(end, window.end + 1))
        # A chain that does not end with a segment needs more certainty.
        return start if ended & MORE != 0 and not may_be_nested else NOT_HERE

    def _add(self, index: int, exchange: Exchange) -> None:
        """Add a request, the newest, to those with its id."""
        layouts = self._indices.setdefault(exchange.correlation_id, [])
        for indices in layouts:
            other = self.pending[indices[0]]
            if (other.api_key, other.api_version) == (exchange.api_key, exchange.api_version):
                indices.append(index)
                return
        layouts.append([index])

    def _find(self, correlation_id: i64, first: i64) -> list[int]:
        """Indices from `first` on of requests with the id, in order: the first of each layout."""
        found: list[int] = []
        for indices in self._indices.get(correlation_id, NO_INDICES):
            # FRAME_STEPS include the first.
            self.window.work += len(indices) - 1
            for index in indices:
                if index >= first:
                    found.append(index)
                    break
        if len(found) > 1:
            found.sort()
        return found

    def _fit(self, at: i64, seen: i64, size: i64, index: i64) -> i64:
        """Fit of the frame at `at` as the answer to a request."""
        request = self.pending[index]
        key = request.api_key
        version = request.api_version
        place = ((key & 0x7FFF) << 16 | (version & 0xFFFF)) << 32 | at
        known = self._fits.get(place, -1)
        if known >= 0:
            return known
        window = self.window
        layout_fit = self.layout_fit
        stop = min(at + 4 + size, seen)
        before = layout_fit.steps
        fit = layout_fit.response_in(key, version, window.data, at + 4, stop, size)
        window.work += layout_fit.steps - before
        self._fits[place] = fit
        return fit


def chain_state(
    at: i64, asked: i64, score: i64, trust: i64, is_aligned: bool, may_be_nested: bool
) -> i64:
    """State on which the rest of a chain depends, behind the frame at `at`."""
    known = asked << 3 | score
    known = known << 1 | (1 if trust == TRUST else 0)
    known = known << 1 | (1 if is_aligned else 0)
    return (known << 1 | (1 if may_be_nested else 0)) << 32 | at
