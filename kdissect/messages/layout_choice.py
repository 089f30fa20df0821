"""Decodes bytes that are one whole layout; the layouts of other releases are tried in turn.

Kafka changed some layouts in place, under the same key and version (previews and betas). The newest
is tried first; bytes that do not fit or are left over are read as the older ones. So are records
that fit only with a null that the layout does not allow: no release wrote such a record.

Ambiguous: a body of a group, share or quorum API that names nothing (no topics, no members) has the
same bytes and the same values in both layouts, and counts as the newest; a DelegationTokenRecord of
3.0 to 3.5 whose list of renewers looks like a requester is read as one.
"""

from functools import cache
from typing import Any, Final, NamedTuple

from mypy_extensions import i64

from kdissect.errors import DecodeError, left_over, no_layout
from kdissect.messages.value_budget import current, note_of, spending
from kdissect.protocol.apis import find_api
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.notation import load_file
from kdissect.protocol.readers import Reader
from kdissect.protocol.specs import Definition, MessageSpec
from kdissect.protocol.structures import StructReader
from kdissect.protocol.unexpected_nulls import Required, has_null, null_places, required_of

REQUEST: Final = "request"
RESPONSE: Final = "response"
LAYOUT: Final = "layout"
UNEXPECTED_NULLS: Final = "unexpected_nulls"

Body = dict[str, Any]

# What `api_readers` found so far: as many as there are versions that have a layout.
_known_readers: dict[tuple[str | int, int, str], tuple["Layout", ...]] = {}


class Layout(NamedTuple):
    """One layout of a message: `releases` are those that wrote it, "" for the newest."""

    reader: StructReader
    releases: str
    spec: MessageSpec
    version: int
    required: Required


def decode_body(api: str | int, version: int, direction: str, data: bytes, offset: int = 0) -> Body:
    """Decode the body from `offset` to the end of `data`, not redacted. Raises DecodeError.

    Oddities are reported in front, see `noted`.
    """
    return read_first(api_readers(api, version, direction, data), data, offset)


def decode_loosely(
    api: str | int, version: int, direction: str, data: bytes, offset: int = 0
) -> Body:
    """Like `decode_body`; bytes behind the last field are only counted, as ``trailing_size``."""
    layouts = api_readers(api, version, direction, data)
    try:
        return read_first(layouts, data, offset)
    except DecodeError:
        body, end = read_values(layouts[0].reader, data, offset)
        return {**noted(layouts[0], body, data, offset), "trailing_size": len(data) - end}


def api_readers(api: str | int, version: int, direction: str, data: bytes) -> tuple[Layout, ...]:
    """Layouts of an API's body, see `body_readers`; raise UnknownApi with `data`."""
    asked = (api, version, direction)
    layouts = _known_readers.get(asked)
    if layouts is None:
        known = find_api(api)
        if direction not in (REQUEST, RESPONSE):
            raise ValueError(f"direction is request or response, not {direction!r}")
        if not known.knows(version):
            raise no_layout(f"{known.name} {direction}", version, data)
        layouts = body_readers(f"apis/{known.name}", known.name, direction, version)
        _known_readers[asked] = layouts
    return layouts


def decode_message(
    file: str, name: str, version: int, data: bytes, offset: int = 0, first_release: str = ""
) -> Body:
    """Decode a message of schema/messages/`file` from `offset` to the end. Raises DecodeError.

    Oddities are reported in front, see `noted`. The layout of `first_release`, if it has its own,
    is tried before all others.
    """
    layouts = body_readers(f"messages/{file}", name, LAYOUT, version)
    if not layouts:
        raise no_layout(name, version, data)
    if first_release:
        layouts = tuple(sorted(layouts, key=lambda each: first_release not in each.spec.releases))
    if len(layouts) > 1:
        layouts = _without_odd_nulls(layouts, data, offset)
    return read_first(layouts, data, offset)


def read_first(layouts: tuple[Layout, ...], data: bytes, offset: i64) -> Body:
    """Values of the first layout that fits, `noted`; else raise the first one's error."""
    first_error: DecodeError | None = None
    value_budget = current()
    left, left_out, path = value_budget.left, value_budget.left_out, value_budget.path
    for layout in layouts:
        try:
            values = read_whole(layout.reader, data, offset)
        except DecodeError as error:
            first_error = first_error or error
            value_budget.left, value_budget.left_out, value_budget.path = left, left_out, path
        else:
            return noted(layout, values, data, offset)
    assert first_error is not None  # noqa: S101 - there is a reader
    try:
        raise first_error
    finally:
        first_error = None  # else this frame and the error keep each other, and all callers


def _without_odd_nulls(layouts: tuple[Layout, ...], data: bytes, offset: int) -> tuple[Layout, ...]:
    """Layouts that fit without a null that they do not allow; all if none does."""
    limit = int(current().left)
    for layout in layouts:
        try:
            # Read only to be checked.
            with spending(limit):
                values = read_whole(layout.reader, data, offset)
        except DecodeError:
            continue
        if not has_null(layout.required, values):
            return (layout,)
    return layouts


def noted(layout: Layout, values: Body, data: bytes, offset: i64) -> Body:
    """Return `values` of `data` from `offset` on, with oddities reported in front.

    ``layout_of`` names the releases of a layout that is not the newest, ``unexpected_nulls`` are
    the places of nulls that the layout does not allow.
    """
    notes: Body = {"layout_of": layout.releases} if layout.releases else {}
    if has_null(layout.required, values):
        spec, version = layout.spec, layout.version
        is_flexible = version in spec.flexible
        notes[UNEXPECTED_NULLS] = null_places(spec.fields, version, is_flexible, data, offset)
    return {**notes, **values} if notes else values


def read_whole(reader: StructReader, data: bytes, offset: i64) -> Body:
    """Decode the values from `offset` to the last byte of `data`; raise DecodeError."""
    values, end = read_values(reader, data, offset)
    if end != len(data):
        raise left_over(end, data)
    return values


def read_values(reader: Reader, data: bytes, offset: i64) -> tuple[Body, i64]:
    """Decode the values of a struct at `offset`; also return the offset behind it.

    ``left_out``, in front, is the number of elements without room, and the place of the first.
    """
    value_budget = current()
    before = value_budget.left_out
    values, end = reader.read_within(data, offset, value_budget)
    assert isinstance(values, dict)  # noqa: S101 - what a StructReader gives
    count = int(value_budget.left_out - before)
    if count:
        values = {**note_of(count, "" if before else value_budget.path), **values}
    return values, end


@cache
def body_readers(file: str, name: str, role: str, version: int) -> tuple[Layout, ...]:
    """Layouts of one version, the newest first."""
    definition: Definition = load_file(file)[name]
    newest = definition.layouts[role]
    specs = [newest] if version in newest.versions else []
    specs += [
        spec
        for variant_role, spec in definition.variants
        if variant_role == role and version in spec.versions
    ]
    return tuple([layout_of(spec, version) for spec in specs])


def layout_of(spec: MessageSpec, version: int) -> Layout:
    """Reader of one version of a spec."""
    return Layout(
        build_reader(spec, version),
        " ".join(spec.releases),
        spec,
        version,
        required_of(spec.fields, version),
    )
