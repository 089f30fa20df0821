"""Finds where a request starts among a client's bytes, without earlier evidence.

A guess is a plausible size field, key, version and client id. From there on frames must follow each
other; an impossible one refutes the guess. Points in favour of it:

    3  very much of a frame that is too large to be seen whole
    2  a frame that decodes to its last byte, and has a body or a client id to speak of
    1  one that is plausible as far as it was captured, or whole with next to nothing in it
    1  a frame starts where the one before it ends, even if only its size, key and version are seen
    1  the guess is the first byte of a segment
    1  a frame ends where a segment ends: the sender had no more to send
    2  the connection's client id, and a correlation id a little after its last one

TRUST is enough, but only where a frame ends with its segment: frames inside a record (Kafka traffic
in Kafka) end anywhere. Where that cannot be seen, because no more comes or is held, the other
points must suffice; at a hole, only with the connection's client or at a segment's start.

A client id that is no printable text is believed where the frame is a segment by itself and decodes
to its last byte: a client may choose its id so that nothing else would find it.

Many guesses lead to the same frames. The results for a frame, and for the chain behind it, are
cached for each window (`Judge`), so that no byte is read again for each guess.

Where the sides are unknown, a client id is required, or a large frame that begins with its segment
and decodes to its last byte: a response may look like less. Where only a port decides the sides,
less is enough.
"""

import re
from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.layout_fit import EXACT, NOT, LayoutFit
from kdissect.exchanges.layout_fit import TELLING_SIZE as BODY_SIZE
from kdissect.framing.frame_search import (
    FRAME_STEPS,
    GUESS_STEPS,
    NOT_HERE,
    TOLD_SIZE,
    TRUST,
    WAIT,
    Window,
)

# int32 size below 112 MiB, an int16 key of Apache or AutoMQ, an int16 version below 32.
HEADER: Final = re.compile(rb"[\0-\x06][\0-\xff]{3}(?:\0[\0-\x7f]|[\x01\x02][\0-\xff])\0[\0-\x1f]")
# Where a guess is worthwhile: with a size of at least MIN_SIZE. Zeros are skipped quickly.
GUESS: Final = re.compile(rb"(?!\0\0\0[\0-\x07])" + HEADER.pattern)
HEADER_SIZE: Final = 8
CLIENT_ID: Final = 12  # offset of the length of a client id in a frame with its size field
JUDGED_SIZE: Final = 12  # size field, key, version and correlation id
MIN_SIZE: Final = 8
MAX_SIZE: Final = 104_857_600  # socket.request.max.bytes, the broker's default
LONG_CHAIN: Final = 16  # frames that decode in a row: no record contains so many
ID_STEP: Final = 1000  # requests that may be lost in a hole
MAX_PRODUCE: Final = 0xFFFF  # key 0 and any version, as one number
TELLING_SIZE: Final = 42  # without client id: 10 bytes of header, and 32 that decode

# End of a chain that was not trusted: at the end of the window, else
BROKEN: Final = -2
HOLED: Final = -3
HAS_CLIENT: Final = 1
FLAGS: Final = 16


class RequestSearch:
    """Implements `Probe.find_start` for the side that sends requests."""

    def __init__(self, layout_fit: LayoutFit) -> None:
        self.layout_fit = layout_fit

    def find(self, state: ConnectionState, window: Window) -> i64:
        """Return the first guess that holds; NOT_HERE, or WAIT for a possible one."""
        judge = Judge(self.layout_fit, state, window)
        wait_at: i64 = -1
        need: i64 = 0
        is_likely = False
        # Zeros in a hole are undecidable, and there may be a megabyte of them.
        for first, last in window.seen_parts():
            at: i64 = first
            while not is_likely and not window.is_spent:
                match = GUESS.search(window.data, at, last)
                if match is None:
                    window.work += last - at
                    break
                window.work += match.start() - at
                at = match.start()
                answer = judge.judge(at)
                if answer >= 0:
                    return answer
                if answer == WAIT and wait_at < 0:
                    wait_at = at
                    need = window.need
                    is_likely = window.is_start(at)
                at += 1
        if window.is_last:
            return NOT_HERE
        if wait_at >= 0:
            return window.wait(wait_at, need)
        # The last bytes may be the first of a header.
        return window.wait(max(window.start, window.end - HEADER_SIZE + 1), window.end + 1)


class Judge:
    """Judges the guesses of one window, in order.

    `_fits` are those of frames, by index. A chain that has TRUST, but was not believed, is not
    walked again from where it was walked with the same `flags` and as many frames before: `_walked`
    holds that number, and `_ends` the result.
    """

    __slots__ = (
        "layout_fit", "state", "window", "known", "is_hinted", "is_known_side", "_fits", "_walked",
        "_ends",
    )  # fmt: skip

    def __init__(self, layout_fit: LayoutFit, state: ConnectionState, window: Window) -> None:
        self.layout_fit = layout_fit
        self.state = state
        self.window = window
        self.known = state.last_client_id.encode() if state.last_client_id else b""
        # Where the sides are unknown, a response may look like a request without a client.
        self.is_hinted = is_told_by_port(state)
        self.is_known_side = state.request_direction >= 0 and not self.is_hinted
        self._fits: dict[int, int] = {}
        self._walked: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def judge(self, start: i64) -> i64:
        """Return the index if a chain of requests starts at `start`, NOT_HERE or WAIT."""
        window = self.window
        data = window.data
        at = start
        is_start = window.is_start(start)
        score: i64 = 1 if is_start else 0
        is_known = self._continues(start)
        if is_known:
            score += 2
        is_aligned = False
        has_client = self.is_known_side
        count: i64 = 0
        kind_before: i64 = -1
        walked: list[int] = []
        end_of_chain: i64 = -1
        window.work += GUESS_STEPS
        while at < window.end:
            window.work += FRAME_STEPS
            seen = window.seen_from(at)
            if seen - at < JUDGED_SIZE:
                if seen - at >= HEADER_SIZE and count > 0:
                    if HEADER.match(data, at) is None:
                        end_of_chain = BROKEN
                        break
                    score += 1
                if seen != window.end:
                    end_of_chain = HOLED
                break
            size: i64 = i64(read_i32_be(data, at))
            if size < MIN_SIZE or size > MAX_SIZE:
                end_of_chain = BROKEN
                break
            kind: i64 = i64(read_i32_be(data, at + 4))
            if count > 0 and score >= TRUST:
                key = at * FLAGS + flags_of(has_client, is_aligned, is_known, kind == kind_before)
                if self._walked.get(key, 0) >= min(count, LONG_CHAIN):
                    end_of_chain = self._ends[key]
                    has_client = end_of_chain & HAS_CLIENT != 0
                    end_of_chain = end_of_chain >> 1
                    break
                self._walked[key] = min(count, LONG_CHAIN)
                walked.append(key)
            end = at + 4 + size
            fit = self._fit(at, seen, size)
            if fit == NOT:
                end_of_chain = BROKEN
                break
            is_damaged = seen < end and seen < window.end
            if count == 0 and is_damaged and not is_known and not has_client_id(data, at, seen):
                # It may end by chance where a request starts: the bytes behind it are no evidence.
                return NOT_HERE
            if end <= seen or seen - at >= TOLD_SIZE:
                score += fit
            if count > 0:
                score += 1
            count += 1
            if not has_client and seen - at >= CLIENT_ID + 2:
                # A response's correlation id reads as key 0 and a version, which changes.
                is_seen = end <= seen or fit > EXACT
                is_request = is_seen or kind > MAX_PRODUCE or kind == kind_before
                has_client = is_request and i64(read_i16_be(data, at + CLIENT_ID)) > 0
            kind_before = kind
            if not has_client and fit == EXACT and window.is_start(at):
                # Small correlation ids of responses read as key 0 and a version.
                is_keyed = i64(read_i16_be(data, at + 4)) > 0
                is_large = size >= TELLING_SIZE
                has_client = is_keyed or is_large if self.is_hinted else is_keyed and is_large
            at = end
            if window.is_end(end):
                if not is_aligned:
                    score += 1
                is_aligned = True
            if score >= TRUST and has_client and (is_aligned or (is_known and fit == EXACT)):
                return start
            if count >= LONG_CHAIN and fit == EXACT:
                return start
        if end_of_chain == -1:
            end_of_chain = at
        for key in walked:
            self._ends[key] = end_of_chain << 1 | (HAS_CLIENT if has_client else 0)
        is_likely = score >= TRUST and has_client
        if end_of_chain == BROKEN:
            return NOT_HERE
        if end_of_chain == HOLED:
            # A hole in the header.
            return start if is_likely and (is_start or is_known) else NOT_HERE
        if window.can_wait(start):
            return window.wait(start, max(end_of_chain, window.end + 1))
        return start if is_likely else NOT_HERE

    def _fit(self, at: i64, seen: i64, size: i64) -> i64:
        """Fit of the frame at `at` as a request; a possible response does not fit."""
        known = self._fits.get(at, -1)
        if known >= 0:
            return known
        window = self.window
        stop = min(at + 4 + size, seen)
        layout_fit = self.layout_fit
        before = layout_fit.steps
        fit = layout_fit.request_in(window.data, at + 4, stop, size)
        is_whole = stop == at + 4 + size
        if fit == NOT and is_whole and window.is_start(at) and window.is_end(stop):
            frame = window.data[at + 4 : stop]
            fit = EXACT if layout_fit.is_exact(frame, BODY_SIZE) else NOT
        window.work += layout_fit.steps - before
        may_be_either = fit != NOT and not self.is_known_side
        if may_be_either and layout_fit.may_be_response(window.data[at + 4 : min(at + 8, stop)]):
            fit = NOT
        self._fits[at] = fit
        return fit

    def _continues(self, at: i64) -> bool:
        """Return whether the frame at `at` has the client id of the connection and a next id."""
        known = self.known
        if not known:
            return False
        window = self.window
        data = window.data
        start = at + CLIENT_ID
        if start + 2 + len(known) > window.seen_from(at):
            return False
        step = i64(read_i32_be(data, at + 8)) - self.state.last_correlation_id
        size: i64 = i64(read_i16_be(data, start))
        if step < 1 or step > ID_STEP or size != len(known):
            return False
        return data[start + 2 : start + 2 + size] == known


def flags_of(has_client: bool, is_aligned: bool, is_known: bool, is_same_kind: bool) -> i64:
    """State beside the frames on which the rest of a chain depends, as a number below FLAGS."""
    flags: i64 = 1 if has_client else 0
    if is_aligned:
        flags |= 2
    if is_known:
        flags |= 4
    if is_same_kind:
        flags |= 8
    return flags


def is_told_by_port(state: ConnectionState) -> bool:
    """Return whether only a port decides the broker's side, without contradiction so far."""
    return state.broker_side_by == "port" and state.protocol == ""


def has_client_id(data: bytes, at: i64, seen: i64) -> bool:
    """Return whether enough of the frame at `at` was captured, and it has a client id."""
    return seen - at >= TOLD_SIZE and i64(read_i16_be(data, at + CLIENT_ID)) > 0
