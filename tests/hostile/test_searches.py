"""Caches of the search for frames change no result, and bound the work."""

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.errors import DecodeError
from kdissect.exchanges.candidates import Candidates, is_sensible, response_layouts
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.layout_fit import FIRST_LOOK, LayoutFit
from kdissect.exchanges.request_search import RequestSearch
from kdissect.exchanges.response_search import FIRST_SEARCH, Needles, ResponseSearch
from kdissect.framing.frame_search import FIRST_STEPS, STEPS_EACH, Window
from kdissect.messages.extracted import FieldSink
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.interner import Interner
from kdissect.protocol.apis import api_name
from kdissect.protocol.error_codes import error_codes
from kdissect.protocol.readers import FAILED
from kdissect.streams.events import Connection
from tests.exchange_builders import request as built
from tests.hostile.plain_searches import answer_of, find_request, find_response
from tests.hostile.searches import SMALL_REQUESTS
from tests.hostile.wire import request, sized
from tests.protocol.test_vectors import ALL_VECTORS
from tests.seeds import SEED

FITTING = LayoutFit(fact_plans())
CONNECTION = Connection(1, 0, bytes(12), 0, 1)


def small(source: random.Random) -> bytes:
    key, version, client, body = source.choice(SMALL_REQUESTS)
    return request(key, version, source.randrange(1, 40), client, body)


def answer(source: random.Random) -> bytes:
    body = source.choice((b"\0\0", b"\0\0\0\0\0\0", bytes(40), b"\x7f\xff"))
    return sized(struct.pack(">i", source.randrange(1, 9)) + body)


def spoilt(source: random.Random, frames: list[bytes]) -> bytes:
    """Frames in a row, some of them with sizes or bytes that are wrong."""
    data = bytearray(b"".join(frames))
    for _ in range(source.choice((0, 1, 8, 40))):
        data[source.randrange(len(data))] = source.choice((0, 0, 1, 3, 14, 18, 255))
    return bytes(data[source.randrange(30) :])


def window_of(source: random.Random, data: bytes) -> Window:
    """Bytes as delivered by segments of some sizes, with holes."""
    is_last, is_full = source.choice(((False, False), (True, False), (False, True)))
    window = Window(data, 0, len(data), is_full, is_last)
    size = source.choice((1, 14, 60, 700))
    places = [*range(0, len(data), size), len(data)]
    for first, last in pairwise(places):
        if source.random() < 0.1 and first > 0 and last < len(data):
            window.holes.append((first, last))
            continue
        if source.random() < 0.7:
            window.starts.append(first)
        window.times.append((first, first))
        window.ends.add(last)
    blank = bytearray(data)
    for first, last in window.holes:
        blank[first:last] = bytes(last - first)
    window.data = bytes(blank)
    return window


def state_of(source: random.Random) -> ConnectionState:
    state = ConnectionState(CONNECTION)
    state.request_direction = source.choice((-1, 0))
    state.broker_side_by = source.choice(("", "port", "content"))
    state.protocol = source.choice(("", "kafka"))
    if source.random() < 0.5:
        state.last_client_id = source.choice(("c", "a", "q"))
        state.last_correlation_id = source.randrange(40)
    for _ in range(source.choice((0, 1, 5, 40))):
        exchange = Exchange(CONNECTION, 0, 1, 0)
        exchange.api_key, exchange.api_version = source.choice(((18, 0), (12, 0), (3, 1), (16, 0)))
        exchange.correlation_id = source.randrange(1, 9)
        exchange.request_start = source.choice((0, 0, 0, 1 << 40))
        state.pending.append(exchange)
    return state


@given(st.integers(0, 1 << 48))
@settings(max_examples=400)
def test_a_request_is_found_where_a_plain_search_finds_it(seed: int) -> None:
    source = random.Random(seed)
    state = state_of(source)
    data = spoilt(source, [small(source) for _ in range(source.choice((1, 4, 30, 60)))])
    window = window_of(source, data)
    expected = find_request(FITTING, state, window)
    found = RequestSearch(FITTING).find(state, window)
    assert answer_of(window, found) == expected


@given(st.integers(0, 1 << 48))
@settings(max_examples=400)
def test_a_response_is_found_where_a_plain_search_finds_it(seed: int) -> None:
    source = random.Random(seed)
    state = state_of(source)
    data = spoilt(source, [answer(source) for _ in range(source.choice((1, 4, 30, 60)))])
    window = window_of(source, data)
    expected = find_response(FITTING, state, window)
    found = ResponseSearch(FITTING, Candidates(FITTING.plans)).find(state, window)
    assert answer_of(window, found) == expected


@given(st.integers(0, 1 << 48))
def test_staged_layout_fit_equals_fit_at_once(seed: int) -> None:
    source = random.Random(seed)
    names = [{"name": "t" * source.randrange(1, 9)} for _ in range(source.choice((1, 99, 900)))]
    whole = built("Metadata", source.choice((1, 4, 9, 12)), 5, topics=names)[4:]
    data = bytearray(whole)
    for _ in range(source.choice((0, 1, 5))):
        data[source.randrange(len(data))] = source.choice((0, 1, 127, 255))
    stop = source.randrange(len(data) + 1)
    body = bytes(data[:stop])
    assert len(whole) < FIRST_LOOK or len(names) > 1
    found = FITTING.request_in(b"xx" + bytes(data), 2, 2 + stop, len(data))
    assert found == FITTING.request(body, len(data))
    there = FITTING.response_in(3, 1, b"xx" + bytes(data), 2, 2 + stop, len(data))
    assert there == FITTING.response(3, 1, body, len(data))


@given(st.binary(max_size=60), st.lists(st.binary(min_size=1, max_size=2), max_size=3))
def test_needles_are_found_in_order_however_far_they_are(data: bytes, texts: list[bytes]) -> None:
    spread = b"".join(bytes([byte]) + b"\xee" * (FIRST_SEARCH // 8) for byte in data)
    window = Window(spread, 0, len(spread), False, False)
    needles = Needles(set(texts), window)
    at, found = 0, []
    while (at := needles.next_from(at)) < len(spread):
        found.append(at)
        at += 1
    assert found == [i for i in range(len(spread)) if any(spread[i:].startswith(t) for t in texts)]


def chains(size: int) -> bytes:
    """Small frames that run into each other."""
    source = random.Random(SEED)
    units = [struct.pack(">ihh", source.choice((12, 16, 20, 28)), 18, 0) for _ in range(size // 8)]
    return b"".join(units)


@pytest.mark.parametrize("unit", [request(18, 0, 1, None), request(12, 0, 5, b"c"), b"\0\0\0\x10"])
def test_a_look_takes_a_bounded_number_of_steps_a_byte(unit: bytes) -> None:
    for data in (unit * (40_000 // len(unit)), chains(40_000)):
        window = Window(data, 0, len(data), False, False)
        window.starts.extend(range(0, len(data), 1448))
        state = ConnectionState(CONNECTION)
        RequestSearch(FITTING).find(state, window)
        assert 0 < window.work < FIRST_STEPS + (STEPS_EACH + 20) * len(data)


RESPONSES = [vector.raw for vector in ALL_VECTORS if vector.name.endswith("Response")]


def answers(source: random.Random) -> bytes:
    """A response body that others wrote, some with other bytes in it or cut, or any bytes."""
    kind = source.randrange(4)
    if kind == 0:
        return source.randbytes(source.choice((2, 4, 6, 10, 11, 30)))
    body = bytearray(source.choice(RESPONSES))
    for _ in range(source.choice((1, 2)) if kind == 1 and body else 0):
        # At the start are the values that are looked at first.
        at = source.randrange(min(len(body), source.choice((4, 12, 1 << 20))))
        body[at] = source.choice((0, 1, 2, 127, 128, 255, source.randrange(256)))
    return bytes(body[: source.randrange(len(body) + 1)] if kind == 2 else body)


def test_what_is_looked_at_first_excludes_no_candidate():
    source = random.Random(SEED)
    layouts = response_layouts(fact_plans())
    sink = FieldSink(Interner(), {})
    looked = {True: 0, False: 0}
    for _ in range(1500):
        data = source.choice((b"", b"\0")) + answers(source)
        for layout in layouts:
            may_be = layout.may_be(data, 0)
            looked[may_be] += 1
            if not may_be:
                sink.begin()
                try:
                    is_whole = layout.plan.run(data, 0, sink) == len(data)
                except DecodeError:
                    continue
                assert not (is_whole and is_sensible(sink)), (layout.members, data.hex())
    # Three of four layouts are not tried at all.
    assert looked[False] > 3 * looked[True]


def test_the_end_of_a_body_is_found_without_errors_where_it_is_skipped_to() -> None:
    """Bodies of others, whole, cut and with other bytes, in all layouts, from two places."""
    source = random.Random(SEED)
    layouts = response_layouts(fact_plans())
    counts = {True: 0, False: 0}
    for _ in range(1000):
        start = source.choice((0, 5))
        data = bytes(start) + answers(source)
        for layout in layouts:
            found = layout.whole.end_of(data, start)
            counts[found == FAILED] += 1
            try:
                expected = layout.whole.skip(data, start)
            except DecodeError:
                expected = FAILED
            assert found == expected, (layout.members, start, data.hex())
    assert min(counts.values()) > 10_000


def test_the_layout_of_a_response_that_others_wrote_is_tried() -> None:
    """Which values are plausible is read from what Kafka, kio and kafka-python put in."""
    tried = {
        (f"{api_name(key)}Response", version): layout
        for layout in response_layouts(fact_plans())
        for key, version in layout.members
    }
    counts = {True: 0, False: 0}
    for vector in ALL_VECTORS:
        layout = tried.get((vector.name, vector.version))
        if layout is None or vector.releases:
            continue
        code = vector.values.get("error_code", 0)
        throttle_ms = vector.values.get("throttle_time_ms", 0)
        is_plausible = code in error_codes() and 0 <= throttle_ms <= 3_600_000
        may_be = layout.may_be(vector.raw, 0)
        counts[may_be] += 1
        assert may_be or not is_plausible, vector[:3]
    assert min(counts.values()) > 500
