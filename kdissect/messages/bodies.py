"""Frames and message bodies → plain Python values: dicts in wire order, names in snake_case.

uuids are Kafka's 22 characters of base64, bytes and records stay bytes, null is None. A body must
be used up to its last byte. When the layout of a version does not fit, the other layouts that
releases used under the same version (previews and betas) are tried before the error is raised.
"""

from functools import cache
from typing import Any, Final

from kdissect.errors import DecodeError, InvalidValue, UnknownApi
from kdissect.messages.headers import (
    RequestHeader,
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.redaction import redacted
from kdissect.protocol.apis import ApiKey, find_api
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.structures import StructReader

REQUEST: Final = "request"
RESPONSE: Final = "response"

Body = dict[str, Any]


def decode(api: str | int, version: int, direction: str, data: bytes) -> Body:
    """A body without its header; `direction` is "request" or "response". Raises DecodeError.

    `api` is a key or a name. Credentials are redacted.
    """
    return _redacted(decode_body(api, version, direction, data))


def decode_request(data: bytes) -> tuple[Body, Body]:
    """Header and body of a request frame. Credentials are redacted. Raises DecodeError."""
    header = read_request_header(data)
    body = decode_body(header.api_key, header.api_version, REQUEST, data, header.body_offset)
    return header_values(header, data), _redacted(body)


def decode_frame(key: int, version: int, data: bytes, is_response: bool) -> Body:
    """The body of a frame whose API key and version are known. Credentials are redacted.

    An ApiVersions response may be in an older layout than the one asked for.
    """
    if not is_response:
        return decode_request(data)[1]
    offset = response_body_offset(key, version, data)
    version = response_layout_version(key, version, data)
    return _redacted(decode_body(key, version, RESPONSE, data, offset))


def decode_body(api: str | int, version: int, direction: str, data: bytes, offset: int = 0) -> Body:
    """The body from `offset` to the end of `data`, credentials and all. Raises DecodeError."""
    known = find_api(api)
    if direction not in (REQUEST, RESPONSE):
        raise ValueError(f"direction is request or response, not {direction!r}")
    if not known.knows(version):
        raise UnknownApi(f"no layout for {known.name} {direction} v{version}", data=data)
    try:
        return _read_whole(_reader(known, version, direction), data, offset)
    except DecodeError:
        for reader in _variant_readers(known, version, direction):
            try:
                return _read_whole(reader, data, offset)
            except DecodeError:
                continue
        raise


def header_values(header: RequestHeader, data: bytes) -> Body:
    """A request header as values: api_key, api_version, correlation_id, client_id."""
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


def _read_whole(reader: StructReader, data: bytes, offset: int) -> Body:
    values, end = reader.read(data, offset)
    if end != len(data):
        left = len(data) - end
        raise InvalidValue(f"{left} bytes left over", offset=end, data=data, length=left)
    assert isinstance(values, dict)  # noqa: S101 - what a StructReader gives
    return values


def _redacted(body: Body) -> Body:
    safe = redacted(body)
    assert isinstance(safe, dict)  # noqa: S101 - a dict stays one
    return safe


@cache
def _reader(api: ApiKey, version: int, direction: str) -> StructReader:
    return build_reader(api.definition().layouts[direction], version)


@cache
def _variant_readers(api: ApiKey, version: int, direction: str) -> tuple[StructReader, ...]:
    return tuple(
        build_reader(spec, version)
        for role, spec in api.definition().variants
        if role == direction and version in spec.versions
    )
