"""One exchange as an indented tree of its fields, and as JSON."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kdissect.errors import DecodeError
from kdissect.messages.full_bodies import jsonable
from kdissect.messages.old_protocols import old_error_name
from kdissect.messages.opened_records import shaped
from kdissect.protocol.error_codes import error_name
from kdissect.text.escape import escaped
from kdissect.text.human import byte_count, cut, duration, time

if TYPE_CHECKING:
    from kdissect.api.dissected import DissectedExchange

ErrorNames = Callable[[int], str]

TIMES: Final = ("request_start", "request_end", "response_start", "response_end")
SIDES: Final = ("request", "response")
INLINE_WIDTH: Final = 100
PREVIEW_BYTES: Final = 64
HEXDUMP_ROWS: Final = 16
SHOWN_LENGTH: Final = 1_000  # characters of one text; --format json has the full text
ROW: Final = 16
WITHHELD: Final = "its bytes are not shown: credentials or records may be among them; --undecoded"


class _Plain(str):
    """A number with its name, which is no text from the wire and is not quoted."""

    __slots__ = ()


def exchange_lines(
    exchange: "DissectedExchange",
    has_payload: bool,
    has_undecoded: bool = False,
    topics: dict[str, str] | None = None,
) -> Iterator[str]:
    """The exchange as lines for a terminal; text from the wire is escaped.

    `topics` are names by topic id. With `has_undecoded` the bytes of an undecodable body are shown
    even if they contain secrets.
    """
    yield from heading_lines(exchange)
    names = old_error_name if exchange.dialect else error_name
    for side in SIDES:
        size = getattr(exchange, f"{side}_size")
        if size is None:
            continue
        yield f"  {side}, {byte_count(size)}"
        try:
            body = exchange.body(side)
        except DecodeError as error:
            yield f"    cannot be decoded: {escaped(str(error))}"
            if has_undecoded:
                data = exchange.raw_frame(side)
                whole = DecodeError(error.message, offset=error.offset, data=data)
                yield from _undecodable(data, whole)
            else:
                yield from _undecodable(exchange.frame_bytes(side), error)
            continue
        shown = shaped(body, has_payload)
        if topics:
            name_topics(shown, topics)
        yield from tree_lines(shown, "    ", names)


def exchange_json(exchange: "DissectedExchange", has_payload: bool) -> dict[str, Any]:
    """The exchange as one JSON object: its columns, `request` and `response`.

    An undecodable body is null, with the reason in `request_error` or `response_error`.
    """
    content = dict(exchange.columns)
    for name in TIMES:
        content[name] = content[name] and time(content[name]).replace(" ", "T")
    for side in SIDES:
        content[side] = None
        try:
            content[side] = jsonable(shaped(exchange.body(side), has_payload), exchange.shown())
        except DecodeError as error:
            content[f"{side}_error"] = str(error)
    return content


def name_topics(value: Any, topics: dict[str, str]) -> None:
    """Put the names of topics beside their ids, in place: ``topic_id: "cjI4…" "orders"``."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list):
                name_topics(item, topics)
    elif isinstance(value, dict):
        for name, field in value.items():
            if isinstance(field, dict | list):
                name_topics(field, topics)
            elif name.endswith("topic_id") and isinstance(field, str) and field in topics:
                value[name] = _Plain(f"{scalar(field)} {scalar(topics[field])}")


def tree_lines(
    value: object, indent: str, names: ErrorNames = error_name, start: str | None = None
) -> Iterator[str]:
    """Nested dicts and lists as indented lines, like YAML; `names` has the names of error codes.

    The first line begins with `start`, if given.
    """
    start = indent if start is None else start
    if isinstance(value, dict):
        for name, field in _with_labels(value).items():
            yield from _field_lines(escaped(str(name)), field, indent, start, names)
            start = indent
    elif isinstance(value, list):
        for item in value:
            yield from _item_lines(item, indent, start, names)
            start = indent
    elif value is not None:
        yield f"{start}{scalar(value)}"


def scalar(value: object) -> str:
    """One value on one line."""
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is str:
        text = str(value)
        return f'"{escaped(text if len(text) <= SHOWN_LENGTH else cut(text, SHOWN_LENGTH))}"'
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if isinstance(value, bytes):
        return preview(value)
    return str(value)  # _Plain, too


def preview(value: bytes) -> str:
    """Size and the first bytes: as text when they are UTF-8, else in hex."""
    start = value[:PREVIEW_BYTES]
    more = "…" if len(value) > PREVIEW_BYTES else ""
    try:
        # A character may be split at the end of the preview.
        text = start.decode("utf-8") if not more else start[: _whole(start)].decode("utf-8")
        return f'{byte_count(len(value))} "{escaped(text)}"{more}'
    except UnicodeDecodeError:
        return f"{byte_count(len(value))} {start.hex(' ')}{more}"


def hexdump(data: bytes, rows: int = HEXDUMP_ROWS) -> Iterator[str]:
    """Hex dump: offset, 16 bytes in hex and as ASCII per line; at most `rows` lines."""
    for start in range(0, min(len(data), rows * ROW), ROW):
        row = data[start : start + ROW]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{start:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  {text}"
    if len(data) > rows * ROW:
        yield f"          {len(data) - rows * ROW} more bytes"


def heading_lines(exchange: "DissectedExchange") -> Iterator[str]:
    """API, addresses, packets, outcome and client of an exchange."""
    api = exchange.api or "unknown API"
    if exchange.api_key is not None:
        api = escaped(api)
        if exchange.api_version is not None:
            api += f" v{exchange.api_version}"
    packets = (exchange.request_packet, exchange.response_packet)
    numbers = " → ".join(str(number) for number in packets if number is not None)
    client = f"{exchange.client_ip}:{exchange.client_port}"
    broker = f"{exchange.broker_ip}:{exchange.broker_port}"
    heading = f"{api}  {client} → {broker}  packets {numbers}"
    if exchange.correlation_id is not None:
        heading += f"  correlation id {exchange.correlation_id}"
    yield heading
    yield f"  {_outcome(exchange)}"
    client_id = "none" if exchange.client_id is None else scalar(exchange.client_id)
    when = exchange.request_start or exchange.response_start
    yield f"  client id {client_id}, at {time(when) if when is not None else '?'}"


def _outcome(exchange: "DissectedExchange") -> str:
    text = (exchange.outcome or "outcome unknown").replace("_", " ")
    if exchange.latency_ns is not None:
        text += f" after {duration(exchange.latency_ns)}"
        parts = [
            f"{part} {duration(ns)}"
            for part, ns in (
                ("queue", exchange.queue_ns),
                ("wait", exchange.wait_ns),
                ("broker time", exchange.work_ns),
            )
            if ns
        ]
        text += f" ({', '.join(parts)})" if parts else ""
    if exchange.error:
        text += f", {exchange.error} ({exchange.error_code})"
    if exchange.decode_status != "ok":
        text += f", decoded: {exchange.decode_status}"
    return text


def _field_lines(
    name: str, value: object, indent: str, start: str, names: ErrorNames
) -> Iterator[str]:
    if isinstance(value, dict):
        text = _inline(value, names)
        if text is not None:
            yield f"{start}{name}: {text or '{}'}"
            return
        yield f"{start}{name}"
        yield from tree_lines(value, indent + "  ", names)
    elif isinstance(value, list) and _is_nested(value):
        yield f"{start}{name} ({len(value)})"
        yield from tree_lines(value, indent + "  ", names)
    else:
        yield f"{start}{_flat_field(name, value, names)}"


def _item_lines(item: object, indent: str, start: str, names: ErrorNames) -> Iterator[str]:
    """An item of a list: a dash before its first line; on one line when it fits."""
    text = _inline(item, names) if isinstance(item, dict) else None
    if text is not None:
        yield f"{start}- {text}"
    elif item is None or item == []:
        yield f"{start}- {{}}"
    else:
        yield from tree_lines(item, indent + "  ", names, start + "- ")


def _is_nested(values: list[Any]) -> bool:
    return any(isinstance(item, dict | list) for item in values)


def _inline(value: dict[str, Any], names: ErrorNames) -> str | None:
    """A struct on one line; None where it is too long, or has others inside."""
    parts = []
    room = INLINE_WIDTH + 2
    for name, field in _with_labels(value).items():
        if isinstance(field, dict) or (isinstance(field, list) and _is_nested(field)):
            return None
        part = _flat_field(escaped(str(name)), field, names)
        room -= len(part) + 2
        if room < 0:
            return None
        parts.append(part)
    return ", ".join(parts)


def _with_labels(value: dict[str, Any]) -> dict[str, Any]:
    """A struct with ``operation: 3 READ`` instead of ``operation`` and ``operation_name``."""
    named = [name for name in value if f"{name}_name" in value]
    labels = [name for name in named if _is_label(value[f"{name}_name"], value[name])]
    if not labels:
        return value
    left = {f"{name}_name" for name in labels}
    return {
        name: _Plain(f"{field} {value[f'{name}_name']}") if name in labels else field
        for name, field in value.items()
        if name not in left
    }


def _is_label(label: object, number: object) -> bool:
    return isinstance(number, int) and isinstance(label, str)


def _flat_field(name: str, value: object, names: ErrorNames) -> str:
    if isinstance(value, list):
        return f"{name}: [{', '.join(map(scalar, value))}]"
    if isinstance(value, int) and name.endswith("error_code") and value:
        return f"{name}: {value} {names(value)}"
    return f"{name}: {scalar(value)}"


def _undecodable(data: bytes, error: DecodeError) -> Iterator[str]:
    lines = error.hexdump().splitlines() if error.hexdump() else list(hexdump(data))
    for line in lines or (WITHHELD,):
        yield f"    {escaped(line)}".rstrip()


def _whole(start: bytes) -> int:
    """Length of `start` without an incomplete UTF-8 character at its end (at most 3 bytes)."""
    for back in range(1, min(4, len(start)) + 1):
        byte = start[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(start) if needed == back else len(start) - back
    return len(start)
