"""Frames and message bodies → plain Python values: dicts in wire order, names in snake_case.

uuids are Kafka's 22 characters of base64, bytes and records stay bytes, null is None. A body must
be used up to its last byte. When the layout of a version does not fit, the other layouts that
releases used under the same version (previews and betas) are tried before the error is raised.
"""

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.messages.embedded import NEED_REQUEST, NO_PROTOCOL, GroupProtocol, open_body
from kdissect.messages.headers import (
    RequestHeader,
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.layout_choice import (
    REQUEST,
    RESPONSE,
    Body,
    decode_body,
    decode_loosely,
)
from kdissect.messages.redaction import redacted, withholding
from kdissect.protocol.apis import find_api
from kdissect.protocol.primitives import read_int32

__all__ = [
    "REQUEST",
    "RESPONSE",
    "Body",
    "decode",
    "decode_body",
    "decode_frame",
    "decode_request",
    "decode_response",
    "header_values",
]


def decode(api: str | int, version: int, direction: str, data: bytes) -> Body:
    """Decode a body without its header; `direction` is "request" or "response".

    `api` is a key, a name or a former name. The value is a dict of the fields in wire order, names
    in snake_case; ``layout_of``, first, names the releases when the body is in a layout that later
    ones changed under the same version, ``unexpected_nulls`` path and offset of nulls that the
    layout does not allow. Tagged fields are present if they are on the wire, unknown ones are in
    ``unknown_tags``. Credentials are redacted.

    Raises DecodeError with the path and the byte offset for missing bytes, with the offset for
    bytes left over; UnknownApi, a DecodeError, for an unknown API or version.

    >>> decode("Heartbeat", 0, "response", bytes([0, 27]))
    {'error_code': 27}
    """
    with withholding(api, direction):
        body = decode_body(api, version, direction, data)
    known = find_api(api)
    open_body(known.key, body, direction == RESPONSE)
    return redacted(known.name, direction, body)


def decode_request(
    data: bytes, protocol: GroupProtocol = NO_PROTOCOL, keeps_records: bool = False
) -> tuple[Body, Body]:
    """Decode header and body of a request without its 4 bytes of size. Raises DecodeError.

    The API and version are in the header. The body is as returned by `decode_frame`: bytes behind
    the last field are counted in ``trailing_size``.
    """
    header = read_request_header(data)
    body = _decode_request_body(header, data, protocol, keeps_records)
    return header_values(header, data), body


def decode_response(
    api: str | int, version: int, data: bytes, request: bytes = b""
) -> tuple[Body, Body]:
    """Decode header and body of a response without its 4 bytes of size. Raises DecodeError.

    `api` and `version` are those of its request, which the response does not contain. The body is
    as returned by `decode_frame`, which also describes the use of `request`.
    """
    key = find_api(api).key
    body = decode_frame(key, version, data, True, request)
    return {"correlation_id": int(read_int32(data, 0)[0])}, body


def decode_frame(
    key: int,
    version: int,
    data: bytes,
    is_response: bool,
    request: bytes = b"",
    protocol: GroupProtocol = NO_PROTOCOL,
    keeps_records: bool = False,
    is_opened: bool = True,
) -> Body:
    """Decode the body of a frame of known API key and version. Credentials are redacted.

    Bytes behind the last field are counted in ``trailing_size``; ``layout_of`` names the releases
    of a layout that is not the newest, ``unexpected_nulls`` nulls that the layout does not allow.
    Raises DecodeError. An ApiVersions response may be in an older layout than requested. The
    contents of Envelope and JoinGroup responses are decoded with the frame of their `request`,
    those of SyncGroup with the `protocol` of its group. Unless `is_opened`, contents of a response
    stay bytes. `keeps_records`: see `redacted`.
    """
    if not is_response:
        return _decode_request_body(read_request_header(data), data, protocol, keeps_records)
    with withholding(key, RESPONSE):
        offset: i64 = response_body_offset(key, version, data)
        version = response_layout_version(key, version, data)
        body = decode_loosely(key, version, RESPONSE, data, offset)
    if is_opened:
        asked = _request_body(request) if key in NEED_REQUEST else None
        open_body(key, body, True, asked, protocol)
    return redacted(find_api(key).name, RESPONSE, body, keeps_records)


def _decode_request_body(
    header: RequestHeader, data: bytes, protocol: GroupProtocol, keeps_records: bool
) -> Body:
    """Decode the body of a request behind its header, opened and redacted."""
    key = header.api_key
    with withholding(key, REQUEST):
        body = decode_loosely(key, header.api_version, REQUEST, data, header.body_offset)
    open_body(key, body, is_response=False, protocol=protocol)
    return redacted(find_api(key).name, REQUEST, body, keeps_records)


def header_values(header: RequestHeader, data: bytes) -> Body:
    """Decode a request header: api_key, api_version, correlation_id, client_id."""
    client_id = None
    if header.client_id_size >= 0:
        raw = data[header.client_id_start : header.client_id_start + header.client_id_size]
        client_id = raw.decode("utf-8", "backslashreplace")
    return {
        "api_key": header.api_key,
        "api_version": header.api_version,
        "correlation_id": header.correlation_id,
        "client_id": client_id,
    }


def _request_body(data: bytes) -> Body | None:
    """Decoded body of a request, not opened; None if absent or not decodable."""
    try:
        header = read_request_header(data)
        return decode_body(header.api_key, header.api_version, REQUEST, data, header.body_offset)
    except DecodeError:
        return None
