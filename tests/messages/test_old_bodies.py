"""Frames of the protocols before 0.8: hostile sizes, leftover bytes, arbitrary bytes."""

import struct
import time
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kdissect.errors import DecodeError, InvalidValue, Truncated
from kdissect.messages.old_bodies import decode_old, full_old_body
from kdissect.messages.old_protocols import KAFKA_07, OLD_APIS, PROTOCOLS
from tests.old_builders import (
    fetch,
    fetch_entry,
    fetched,
    message,
    multifetch,
    multifetched,
    offsets,
    produce,
    string16,
    wrapper,
)

SET = message(b"one") + message(b"two")
FULL = [
    pytest.param(
        protocol, api.key, is_response, id=f"{PROTOCOLS[protocol]}-{api.name}-{is_response}"
    )
    for protocol, apis in OLD_APIS.items()
    for api in apis.values()
    for is_response in (False, True)
    if not is_response or api.response
]
PIECES = st.sampled_from(
    [
        b"\0", b"\0\1", b"\0\0\0\1", b"\xff\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff",
        string16("orders"), SET, wrapper(SET), struct.pack(">q", 77),
    ]
)  # fmt: skip
ANY_BYTES = st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=12).map(b"".join))


@pytest.mark.parametrize(("protocol", "key", "is_response"), FULL)
@given(ANY_BYTES, ANY_BYTES)
@example(b"", b"")
def test_any_bytes_give_values_or_decode_error(
    protocol: int, key: int, is_response: bool, data: bytes, request: bytes
) -> None:
    direction = "response" if is_response else "request"
    with suppress(DecodeError):
        assert decode_old(PROTOCOLS[protocol], key, direction, data)
    with suppress(DecodeError):
        assert full_old_body(protocol, key, data, is_response, request)


def test_an_error_has_its_path_and_offset() -> None:
    asked = multifetch(fetch_entry("orders", 0, 5, 99), fetch_entry("audit", 1, 0, 99))
    with pytest.raises(Truncated) as caught:
        decode_old("0.7", "MultiFetch", "request", asked[:-3])
    assert caught.value.path == "fetches[1].max_size"
    assert caught.value.offset == len(asked) - 4


@pytest.mark.parametrize("count", [-1, -(1 << 15), (1 << 15) - 1])
def test_counts_that_cannot_be_are_refused(count: int) -> None:
    with pytest.raises((InvalidValue, Truncated)):
        decode_old("0.7", "MultiProduce", "request", struct.pack(">hh", 3, count) + bytes(60))


def test_a_count_of_many_costs_nothing() -> None:
    data = struct.pack(">hi", 0, (1 << 31) - 1) + bytes(80)
    start = time.process_time()
    with pytest.raises(Truncated, match="2147483647 elements, only 80 bytes left"):
        decode_old("0.7", "Offsets", "response", data)
    assert time.process_time() - start < 0.1


@pytest.mark.parametrize("size", [-1, 27, (1 << 31) - 1, -(1 << 31)])
def test_sizes_of_sets_that_cannot_be_are_refused(size: int) -> None:
    data = struct.pack(">h", 0) + string16("orders") + struct.pack(">ii", 0, size) + SET
    with pytest.raises(DecodeError):
        decode_old("0.7", "Produce", "request", data)


@pytest.mark.parametrize("size", [1, 0, -5])
def test_a_multifetch_set_counts_its_error(size: int) -> None:
    data = struct.pack(">hih", 0, size, 0) + SET
    with pytest.raises(InvalidValue, match=f"size {size}"):
        decode_old("0.7", "MultiFetch", "response", data)


def test_each_multifetch_set_counts_from_its_own_offset() -> None:
    asked = multifetch(fetch_entry("orders", 0, 500, 99), fetch_entry("audit", 1, 70, 99))
    body = full_old_body(KAFKA_07, 2, multifetched((0, SET), (1, b""), (0, SET)), True, asked)
    sets = [[batch["base_offset"] for batch in one["message_set"]] for one in body["responses"]]
    # A third, unrequested one counts from 0.
    assert sets == [[500], [], [0]]


def test_bytes_behind_the_last_field_are_counted() -> None:
    body = full_old_body(KAFKA_07, 4, offsets("orders") + b"more", False)
    assert (body["max_offsets"], body["trailing_size"]) == (1, 4)


def test_a_response_is_read_without_its_request() -> None:
    (batch,) = full_old_body(KAFKA_07, 1, fetched(SET), True, b"")["message_set"]
    assert (batch["base_offset"], batch["record_count"]) == (0, 2)


def test_a_request_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidValue, match="not a request of key 1"):
        decode_old("0.7", "Fetch", "request", offsets("orders"))


def test_the_direction_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="direction is request or response"):
        decode_old("0.7", "Fetch", "both", fetch("orders", 0))


def test_topics_that_are_not_utf_8_are_escaped() -> None:
    data = produce("orders", SET).replace(b"orders", b"ord\xff\xfes")
    assert decode_old("0.7", "Produce", "request", data)["topic"] == r"ord\xff\xfes"
