"""The searches of `exchanges` in their plainest form: every guess is walked from its start.

Quadratic and worse; the real searches must give the same results.
"""

from struct import pack

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.layout_fit import EXACT, LONG, NOT, LayoutFit
from kdissect.exchanges.request_search import (
    BODY_SIZE,
    CLIENT_ID,
    HEADER,
    HEADER_SIZE,
    ID_STEP,
    JUDGED_SIZE,
    LONG_CHAIN,
    MAX_PRODUCE,
    TELLING_SIZE,
    TOLD_SIZE,
    TRUST,
    has_client_id,
    is_told_by_port,
)
from kdissect.exchanges.request_search import MAX_SIZE as LARGEST_REQUEST
from kdissect.exchanges.request_search import MIN_SIZE as SMALLEST_REQUEST
from kdissect.exchanges.response_judge import MAX_SIZE, MIN_SIZE
from kdissect.exchanges.response_search import MAX_ASKED, let_go
from kdissect.framing.frame_search import NOT_HERE, WAIT, Window
from kdissect.streams.acknowledged import REORDER_NS

Answer = tuple[int, int, int]


def number_at(window: Window, at: int, size: int = 4) -> int:
    return int.from_bytes(window.data[at : at + size], "big", signed=True)


def seen_from(window: Window, at: int) -> int:
    """Up to where bytes were captured without a hole."""
    hole = next(((first, last) for first, last in window.holes if at < last), None)
    return window.end if hole is None else max(at, hole[0])


def time_at(window: Window, at: int) -> int:
    return max([(first, time) for first, time in window.times if first <= at], default=(0, 0))[1]


def answer_of(window: Window, answer: int) -> Answer:
    """The answer, with the position and the bytes to wait for."""
    return answer, *((window.at, window.need) if answer == WAIT else (0, 0))


def find_request(fitting: LayoutFit, state: ConnectionState, window: Window) -> Answer:
    waiting: Answer | None = None
    is_likely = False
    for first, last in window.seen_parts():
        at = first
        while not is_likely and (match := HEADER.search(window.data, at, last)) is not None:
            at = match.start()
            answer = judge_request(fitting, state, window, at)
            if number_at(window, at) < SMALLEST_REQUEST:
                answer = NOT_HERE  # also where no more than the header is seen
            if answer >= 0:
                return answer, 0, 0
            if answer == WAIT and waiting is None:
                waiting = WAIT, at, window.need
                is_likely = at in window.starts
            at += 1
    if window.is_last:
        return NOT_HERE, 0, 0
    nothing = WAIT, max(window.start, window.end - HEADER_SIZE + 1), window.end + 1
    return waiting or nothing


def judge_request(fitting: LayoutFit, state: ConnectionState, window: Window, start: int) -> int:
    at, count, kind_before = start, 0, -1
    is_start = start in window.starts
    is_known = continues(state, window, start)
    score = is_start + 2 * is_known
    is_aligned = False
    is_known_side = state.request_direction >= 0 and not is_told_by_port(state)
    has_client = is_known_side
    while at < window.end:
        seen = seen_from(window, at)
        if seen - at < JUDGED_SIZE:
            if seen - at >= HEADER_SIZE and count > 0:
                if HEADER.match(window.data, at) is None:
                    return NOT_HERE
                score += 1
            if seen == window.end:
                break
            is_likely = score >= TRUST and has_client
            return start if is_likely and (is_start or is_known) else NOT_HERE
        size = number_at(window, at)
        if not SMALLEST_REQUEST <= size <= LARGEST_REQUEST:
            return NOT_HERE
        end = at + 4 + size
        body = window.data[at + 4 : min(end, seen)]
        fit = fitting.request(body, size)
        is_of_segments = at in window.starts and end <= seen and end in window.ends
        if fit == NOT and is_of_segments and fitting.is_exact(body, BODY_SIZE):
            fit = EXACT  # an old client's, with some bytes left over
        if fit == NOT or (not is_known_side and fitting.may_be_response(body)):
            return NOT_HERE
        is_damaged = seen < end and seen < window.end
        is_named = has_client_id(window.data, at, seen)
        if count == 0 and is_damaged and not is_known and not is_named:
            return NOT_HERE
        if end <= seen or seen - at >= TOLD_SIZE:
            score += fit
        score += count > 0
        count += 1
        kind = number_at(window, at + 4)
        if not has_client and seen - at >= CLIENT_ID + 2:
            is_request = end <= seen or fit > EXACT or kind > MAX_PRODUCE or kind == kind_before
            has_client = is_request and number_at(window, at + CLIENT_ID, 2) > 0
        kind_before = kind
        if not has_client and fit == EXACT and at in window.starts:
            is_keyed, is_large = number_at(window, at + 4, 2) > 0, size >= TELLING_SIZE
            either = is_keyed or is_large
            has_client = either if is_told_by_port(state) else is_keyed and is_large
        at = end
        if end in window.ends:
            score += not is_aligned
            is_aligned = True
        if score >= TRUST and has_client and (is_aligned or (is_known and fit == EXACT)):
            return start
        if count >= LONG_CHAIN and fit == EXACT:
            return start
    if window.can_wait(start):
        return window.wait(start, max(at, window.end + 1))
    return start if score >= TRUST and has_client else NOT_HERE


def continues(state: ConnectionState, window: Window, at: int) -> bool:
    known = (state.last_client_id or "").encode()
    place = at + CLIENT_ID
    if not known or place + 2 + len(known) > seen_from(window, at):
        return False
    step = number_at(window, at + 8) - state.last_correlation_id
    if not 1 <= step <= ID_STEP or number_at(window, place, 2) != len(known):
        return False
    return window.data[place + 2 : place + 2 + len(known)] == known


def find_response(fitting: LayoutFit, state: ConnectionState, window: Window) -> Answer:
    pending = state.pending[state.pending_head : state.pending_head + MAX_ASKED]
    ids = {pack(">i", exchange.correlation_id) for exchange in pending}
    waiting: tuple[int, int] | None = None
    for at in range(window.start, window.end - 7):
        if window.data[at + 4 : at + 8] not in ids:
            continue
        answer = judge_response(fitting, state, window, at)
        if answer >= 0:
            return answer, 0, 0
        if answer == WAIT and waiting is None:
            waiting = at, window.need
            if at in window.starts:
                break
    answer = let_go(state, window)
    if waiting is not None:
        return WAIT, min(window.at, waiting[0]), min(window.need, waiting[1])
    return answer_of(window, answer)


def judge_response(fitting: LayoutFit, state: ConnectionState, window: Window, start: int) -> int:
    pending = state.pending[state.pending_head : state.pending_head + MAX_ASKED]
    at, asked, before, trust = start, 0, -1, TRUST + 1
    is_start = start in window.starts
    score = int(is_start)
    is_aligned = may_be_nested = False
    while at < window.end:
        seen = seen_from(window, at)
        if seen - at < 8 and seen < window.end:
            return start if score >= trust and is_start else NOT_HERE
        if seen - at < 8:
            break
        size, number = number_at(window, at), number_at(window, at + 4)
        if not MIN_SIZE <= size <= MAX_SIZE:
            return NOT_HERE
        end = at + 4 + size
        same = [i for i in range(asked, len(pending)) if pending[i].correlation_id == number]
        if number < before and not same:
            return NOT_HERE
        before = number
        if same:
            if pending[same[0]].request_start > time_at(window, at) + REORDER_NS:
                return NOT_HERE
            body = window.data[at + 4 : min(end, seen)]
            fits = {
                i: fitting.response(pending[i].api_key, pending[i].api_version, body, size)
                for i in same
            }
            index = next((i for i in same if fits[i] != NOT), -1)
            if index < 0:
                return NOT_HERE
            if end <= seen:
                trust = TRUST
            elif at == start and not is_start and fits[index] != LONG:
                may_be_nested = True
                if seen < window.end:
                    return NOT_HERE
            if end <= seen or seen - at >= TOLD_SIZE:
                score += min(fits[index], EXACT)
            score += (index == asked) + (at > start)
            asked = index + 1
        at = end
        if end in window.ends:
            score += not is_aligned
            is_aligned = True
        if score >= trust and is_aligned:
            return start
    if window.can_wait(start):
        return window.wait(start, max(at, window.end + 1))
    return start if score > trust and not may_be_nested else NOT_HERE
