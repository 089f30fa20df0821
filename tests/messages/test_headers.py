import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecodeError, InvalidValue, Truncated
from kdissect.messages.headers import (
    RequestHeader,
    is_plausible_request,
    read_request_header,
    response_body_offset,
    response_layout_version,
)

FETCH, CONTROLLED_SHUTDOWN, API_VERSIONS = 1, 7, 18
AUTOMQ_KEY, UNKNOWN_KEY = 503, 4711


def int16(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


def start(key: int, version: int, client_id: str | None = "me", tags: bytes = b"") -> bytes:
    """The header of a request with correlation id 258."""
    raw = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(raw)
    return int16(key) + int16(version) + b"\x00\x00\x01\x02" + int16(size) + raw + tags


def shown(header: RequestHeader) -> tuple[int, ...]:
    return (
        header.api_key, header.api_version, header.correlation_id, header.client_id_start,
        header.client_id_size, header.body_offset,
    )  # fmt: skip


def test_a_header_without_tags_has_a_client_id() -> None:
    assert shown(read_request_header(start(FETCH, 11) + b"body")) == (1, 11, 258, 10, 2, 12)
    assert shown(read_request_header(start(FETCH, 11, None) + b"body")) == (1, 11, 258, 10, -1, 10)
    assert shown(read_request_header(start(FETCH, 11, "") + b"body")) == (1, 11, 258, 10, 0, 10)


def test_a_flexible_header_ends_with_tags() -> None:
    data = start(FETCH, 12, "me", b"\x00") + b"body"
    assert shown(read_request_header(data)) == (1, 12, 258, 10, 2, 13)
    data = start(FETCH, 12, "me", b"\x01\x09\x03abc") + b"body"
    assert shown(read_request_header(data)) == (1, 12, 258, 10, 2, 18)


def test_the_first_controlled_shutdown_has_no_client_id() -> None:
    data = int16(CONTROLLED_SHUTDOWN) + int16(0) + b"\x00\x00\x01\x02" + b"\x00\x00\x00\x05"
    assert shown(read_request_header(data)) == (7, 0, 258, 8, -1, 8)


def test_an_unknown_key_is_read_as_the_oldest_header_with_a_client_id() -> None:
    assert shown(read_request_header(start(UNKNOWN_KEY, 3) + b"?")) == (4711, 3, 258, 10, 2, 12)


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (b"\x00\x01\x00", Truncated, "request header takes 8 bytes, only 3 left, byte 0 of 3"),
        (
            start(FETCH, 11)[:9],
            Truncated,
            "length takes 2 bytes, only 1 left at client_id, byte 8 of 9",
        ),
        (
            start(FETCH, 11)[:11],
            Truncated,
            "length 2, only 1 bytes left at client_id, byte 8 of 11",
        ),
        (start(FETCH, 11)[:8] + b"\xff\xf0", InvalidValue, "length -16 at client_id, byte 8 of 10"),
        (start(FETCH, 12), Truncated, "varint takes 1 bytes, only 0 left, byte 12 of 12"),
    ],
)
def test_the_error_of_an_invalid_header_has_its_offset(
    data: bytes, error: type[DecodeError], text: str
) -> None:
    with pytest.raises(error) as caught:
        read_request_header(data)
    assert str(caught.value) == text


def test_a_response_body_starts_behind_the_correlation_id_and_tags() -> None:
    assert response_body_offset(FETCH, 11, bytes(4)) == 4
    assert response_body_offset(FETCH, 12, bytes(5)) == 5
    assert response_body_offset(FETCH, 12, bytes(4) + b"\x01\x00\x02ab") == 9
    assert response_body_offset(UNKNOWN_KEY, 0, bytes(4)) == 4


def test_an_api_versions_response_never_has_tags() -> None:
    assert [response_body_offset(API_VERSIONS, version, bytes(9)) for version in range(6)] == [
        4
    ] * 6


def test_a_response_header_that_is_cut_is_truncated() -> None:
    with pytest.raises(Truncated):
        response_body_offset(FETCH, 11, bytes(3))
    with pytest.raises(Truncated):
        response_body_offset(FETCH, 12, bytes(4))


def test_an_unsupported_api_versions_request_is_answered_in_the_oldest_layout() -> None:
    unsupported, fine = bytes(4) + int16(35), bytes(4) + int16(0)
    assert response_layout_version(API_VERSIONS, 4, unsupported) == 0
    assert response_layout_version(API_VERSIONS, 4, fine) == 4
    assert response_layout_version(API_VERSIONS, 4, bytes(5)) == 4
    assert response_layout_version(FETCH, 12, unsupported) == 12


@pytest.mark.parametrize(
    ("data", "is_plausible"),
    [
        (start(FETCH, 11), True),
        (start(FETCH, 11, None), True),
        (start(FETCH, 11, "kundendienst-é"), True),
        (start(FETCH, 20), True),
        (start(FETCH, 21), False),
        (start(FETCH, -1), False),
        (start(FETCH, 11, "line\nbreak"), False),
        (start(FETCH, 11, "x" * 255), True),
        (start(FETCH, 11, "x" * 256), False),
        (start(FETCH, 11)[:-1], False),
        (start(FETCH, 11)[:9], False),
        (start(FETCH, 11)[:8] + b"\x00\x01\xff", False),
        (start(CONTROLLED_SHUTDOWN, 0)[:8], True),
        (start(AUTOMQ_KEY, 0), True),
        (start(UNKNOWN_KEY, 0), False),
        (start(-1, 0), False),
        (b"GET / HTTP/1.1\r\n", False),
        (bytes(7), False),
    ],
)
def test_a_plausible_request_has_a_known_key_a_version_in_range_and_a_printable_client_id(
    data: bytes, is_plausible: bool
) -> None:
    assert is_plausible_request(data) is is_plausible


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_within_them_or_a_decode_error(data: bytes) -> None:
    is_plausible_request(data)
    try:
        header = read_request_header(data)
    except DecodeError:
        return
    assert 8 <= header.body_offset <= len(data)
    assert header.client_id_start + max(header.client_id_size, 0) <= header.body_offset
