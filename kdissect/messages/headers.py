"""Request and response headers: the first bytes of every frame.

    request header    v0 = int16 api_key, int16 api_version, int32 correlation_id
                      v1 = v0, client_id (nullable string, int16 length in every version)
                      v2 = v1, tags                              (KIP-482)
    response header   v0 = int32 correlation_id
                      v1 = v0, tags

The API key and version determine the header version (`protocol.apis`).
"""

from typing import Final

from librt.strings import read_i16_be, read_i64_be
from mypy_extensions import i64, mypyc_attr

from kdissect.errors import DecodeError
from kdissect.protocol.apis import (
    API_VERSIONS,
    KEY_COUNT,
    highest_version,
    request_header_version,
    response_header_version,
)
from kdissect.protocol.primitives import check_offset, read_length16, truncated
from kdissect.protocol.structures import skip_tags

FIXED_HEADER_SIZE: Final = 8
NO_BODY: Final = -1  # body_offset of an incomplete header, whose end is unknown
# A field of fewer bits out of 64: exclusive or with its sign bit, minus that, extends the sign.
U16: Final = 0xFFFF
SIGN16: Final = 0x8000
U32: Final = 0xFFFFFFFF
SIGN32: Final = 0x80000000
UNSUPPORTED_VERSION: Final = 35
# A client's version may be newer than the newest known one.
VERSION_SLACK: Final = 2
MAX_PLAUSIBLE_CLIENT_ID: Final = 255
# Of ASCII, which needs no decoding.
FIRST_PRINTABLE: Final = 0x20
LAST_PRINTABLE: Final = 0x7E
# Keys of AutoMQ and Inkless, forks that extend Apache's keys: see `apis.VENDOR_APIS`.
VENDOR_KEYS: Final = ((500, 521), (600, 603))


@mypyc_attr(acyclic=True, free_list_len=1)
class RequestHeader:
    """A request header; `client_id_size` is -1 for null and for versions without it.

    `client_id_start` and `body_offset` are offsets in the frame's body. For an unknown API key the
    header is taken for v1, the oldest of any API still in use. Of an incomplete header
    `body_offset` is NO_BODY.
    """

    __slots__ = (
        "api_key", "api_version", "correlation_id", "client_id_start", "client_id_size",
        "body_offset", "header_version",
    )  # fmt: skip

    def __init__(
        self, api_key: i64, api_version: i64, correlation_id: i64, header_version: i64
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.header_version = header_version
        self.client_id_start: i64 = FIXED_HEADER_SIZE
        self.client_id_size: i64 = -1
        self.body_offset: i64 = FIXED_HEADER_SIZE


def read_request_header(data: bytes) -> RequestHeader:
    """Read the header of a request frame; raise DecodeError."""
    if len(data) < FIXED_HEADER_SIZE:
        raise truncated(data, 0, FIXED_HEADER_SIZE, "request header")
    header = read_fixed_header(data)
    if header.header_version == 0:
        return header
    start: i64 = FIXED_HEADER_SIZE + 2
    size: i64 = -1
    # Nearly always the id is not null and complete.
    if len(data) >= start:
        size = data[FIXED_HEADER_SIZE] << 8 | data[FIXED_HEADER_SIZE + 1]
    if size < 0 or start + size > len(data):
        try:
            size, start = read_length16(data, FIXED_HEADER_SIZE)
        except DecodeError as error:
            error.within("client_id")
            raise
    header.client_id_start = start
    header.client_id_size = size
    header.body_offset = start if size < 0 else start + size
    if header.header_version == 2:
        header.body_offset = skip_tags(data, header.body_offset)
    return header


def read_cut_header(data: bytes) -> RequestHeader:
    """Read the captured part of a request header, at least 8 bytes: the rest is missing.

    The client id is read if it is complete.
    """
    header = read_fixed_header(data)
    start: i64 = FIXED_HEADER_SIZE + 2
    if header.header_version > 0 and len(data) >= start:
        size = i64(read_i16_be(data, FIXED_HEADER_SIZE))
        if 0 <= size <= len(data) - start:
            header.client_id_start = start
            header.client_id_size = size
    header.body_offset = NO_BODY
    return header


def read_fixed_header(data: bytes) -> RequestHeader:
    """Read the fields of fixed size at the start of a request frame of at least 8 bytes."""
    fields = read_i64_be(data, 0)
    key = fields >> 48
    version = (fields >> 32 & U16 ^ SIGN16) - SIGN16
    correlation_id = (fields & U32 ^ SIGN32) - SIGN32
    return RequestHeader(key, version, correlation_id, request_header_version(key, version))


def response_body_offset(key: i64, version: i64, data: bytes) -> i64:
    """Offset of the body of a response; `key` and `version` are its request's."""
    check_offset(data, 0, 4, "response header")
    if response_header_version(key, version) == 1:
        return skip_tags(data, 4)
    return 4


def response_layout_version(key: i64, version: i64, data: bytes) -> i64:
    """Version of a response body's layout; `version` is the requested one.

    A broker that does not know the version of an ApiVersions request answers in the layout of v0,
    with error 35 (KIP-511). All other answers are in the requested version.
    """
    if key == API_VERSIONS and version > 0 and len(data) >= 6:
        return 0 if read_i16_be(data, 4) == UNSUPPORTED_VERSION else version
    return version


def is_plausible_request(data: bytes, is_whole: bool = True) -> bool:
    """Return whether `data` may start a request: known key, version in range, printable client id.

    Unless it `is_whole`, the client id may extend beyond `data`.
    """
    if len(data) < FIXED_HEADER_SIZE:
        return False
    key = i64(read_i16_be(data, 0))
    version = i64(read_i16_be(data, 2))
    if version < 0 or not _may_have(key, version):
        return False
    if request_header_version(key, version) == 0:
        return True
    if len(data) < FIXED_HEADER_SIZE + 2:
        return not is_whole
    size = i64(read_i16_be(data, FIXED_HEADER_SIZE))
    start: i64 = FIXED_HEADER_SIZE + 2
    if size < -1 or size > MAX_PLAUSIBLE_CLIENT_ID:
        return False
    is_cut = start + size > len(data)
    if is_cut and is_whole:
        return False
    return size <= 0 or _is_printable(data, start, min(start + size, len(data)), is_cut)


def _may_have(key: i64, version: i64) -> bool:
    if 0 <= key < KEY_COUNT:
        return version <= highest_version(key) + VERSION_SLACK
    for first, last in VENDOR_KEYS:
        if i64(first) <= key <= i64(last):
            return version <= VERSION_SLACK
    return False


def _is_printable(data: bytes, start: i64, end: i64, is_cut: bool) -> bool:
    at = start
    while at < end and FIRST_PRINTABLE <= data[at] <= LAST_PRINTABLE:
        at += 1
    if at == end:
        return True
    raw = data[start:end]
    try:
        return raw.decode("utf-8").isprintable()
    except UnicodeDecodeError as error:
        # A character of up to 4 bytes may be the truncated one.
        if is_cut and error.reason == "unexpected end of data":
            return raw[: error.start].decode("utf-8").isprintable()
        return False
