"""Bytes that are one whole layout → values; the layouts of other releases are tried in turn.

Kafka changed some layouts in place, under the same key and version (previews and betas). The
newest is tried first; what does not fit or leaves bytes over is read as the older ones. So is, in
records, what fits only with a null where the layout has none: no release wrote such a record.

What this cannot tell: a body of a group, share or quorum API that names nothing (no topics, no
members) has the same bytes and the same values in both layouts, and counts as the newest; a
DelegationTokenRecord of 3.0 to 3.5 whose list of renewers looks like a requester is read as one.
"""

from functools import cache
from typing import Any, Final

from kdissect.errors import DecodeError, InvalidValue, UnknownApi
from kdissect.protocol.apis import find_api
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.notation import load_file
from kdissect.protocol.specs import Definition, FieldSpec, snake_case
from kdissect.protocol.structures import StructReader

REQUEST: Final = "request"
RESPONSE: Final = "response"
LAYOUT: Final = "layout"

Body = dict[str, Any]


def decode_body(api: str | int, version: int, direction: str, data: bytes, offset: int = 0) -> Body:
    """The body from `offset` to the end of `data`, credentials and all. Raises DecodeError."""
    return read_first(api_readers(api, version, direction, data), data, offset)[0]


def decode_strictly(api: str | int, version: int, direction: str, data: bytes) -> Body:
    """As `decode_body`; ``layout_of`` names the releases when the layout is not the newest."""
    values, releases = read_first(api_readers(api, version, direction, data), data, 0)
    return {"layout_of": releases, **values} if releases else values


def decode_loosely(
    api: str | int, version: int, direction: str, data: bytes, offset: int = 0
) -> Body:
    """As `decode_body`, but bytes behind the last field are only counted, as ``trailing_size``.

    When a layout that is not the newest fits, ``layout_of`` names the releases that wrote it.
    """
    readers = api_readers(api, version, direction, data)
    try:
        values, releases = read_first(readers, data, offset)
    except DecodeError:
        body, end = readers[0][0].read(data, offset)
        assert isinstance(body, dict)  # noqa: S101 - what a StructReader gives
        return {**body, "trailing_size": len(data) - end}
    return {"layout_of": releases, **values} if releases else values


def api_readers(
    api: str | int, version: int, direction: str, data: bytes
) -> tuple[tuple[StructReader, str], ...]:
    """The layouts of an API's body, see `body_readers`; raises UnknownApi with `data`."""
    known = find_api(api)
    if direction not in (REQUEST, RESPONSE):
        raise ValueError(f"direction is request or response, not {direction!r}")
    if not known.knows(version):
        raise UnknownApi(f"no layout for {known.name} {direction} v{version}", data=data)
    return body_readers(f"apis/{known.name}", known.name, direction, version)


def decode_message(
    file: str, name: str, version: int, data: bytes, offset: int = 0, first_release: str = ""
) -> Body:
    """A message of schema/messages/`file` from `offset` to the end of `data`. Raises DecodeError.

    When a layout that is not the newest fits, ``layout_of`` names the releases that wrote it. The
    layout of `first_release`, when it had its own, is tried before all others.
    """
    readers = body_readers(f"messages/{file}", name, LAYOUT, version)
    if not readers:
        raise UnknownApi(f"no layout for {name} v{version}", data=data)
    if first_release:
        readers = tuple(sorted(readers, key=lambda choice: first_release not in choice[1].split()))
    if len(readers) > 1:
        readers = _without_odd_nulls(readers, file, name, version, data, offset)
    values, releases = read_first(readers, data, offset)
    return {"layout_of": releases, **values} if releases else values


def read_first(
    readers: tuple[tuple[StructReader, str], ...], data: bytes, offset: int
) -> tuple[Body, str]:
    """What the first layout that fits gives, and its releases; else the first one's error."""
    first_error: DecodeError | None = None
    for reader, releases in readers:
        try:
            return read_whole(reader, data, offset), releases
        except DecodeError as error:
            first_error = first_error or error
    assert first_error is not None  # noqa: S101 - there is a reader
    raise first_error


def _without_odd_nulls(
    readers: tuple[tuple[StructReader, str], ...],
    file: str,
    name: str,
    version: int,
    data: bytes,
    offset: int,
) -> tuple[tuple[StructReader, str], ...]:
    """Those of the layouts that fit without a null that they do not have; all if none does."""
    definition = load_file(f"messages/{file}")[name]
    specs = {" ".join(spec.releases): spec for _, spec in definition.variants}
    specs[""] = definition.layouts[LAYOUT]
    for reader, releases in readers:
        try:
            values = read_whole(reader, data, offset)
        except DecodeError:
            continue
        if not has_odd_null(values, specs[releases].fields, version):
            return ((reader, releases),)
    return readers


def has_odd_null(values: Body, fields: tuple[FieldSpec, ...], version: int) -> bool:
    """Whether a field of a struct, or of one inside it, is null that may not be."""
    for field in fields:
        value = values.get(snake_case(field.name), b"")
        if value is None and version not in field.nullable:
            return True
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict) and has_odd_null(item, field.fields, version):
                return True
    return False


def read_whole(reader: StructReader, data: bytes, offset: int) -> Body:
    """The values from `offset` to the last byte of `data`; raises DecodeError."""
    values, end = reader.read(data, offset)
    if end != len(data):
        left = len(data) - end
        raise InvalidValue(f"{left} bytes left over", offset=end, data=data, length=left)
    assert isinstance(values, dict)  # noqa: S101 - what a StructReader gives
    return values


@cache
def body_readers(
    file: str, name: str, role: str, version: int
) -> tuple[tuple[StructReader, str], ...]:
    """The layouts of one version, the newest first, with the releases of all but that one."""
    definition: Definition = load_file(file)[name]
    newest = definition.layouts[role]
    readers = [(build_reader(newest, version), "")] if version in newest.versions else []
    readers += [
        (build_reader(spec, version), " ".join(spec.releases))
        for variant_role, spec in definition.variants
        if variant_role == role and version in spec.versions
    ]
    return tuple(readers)
