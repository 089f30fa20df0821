"""Layouts written in the tests, and a sink that remembers its rows."""

from kdissect.protocol.notation import read_definitions
from kdissect.protocol.readers import NULL, Shape, Sink
from kdissect.protocol.specs import MessageSpec


def layout(*fields: str, flexible: bool = False) -> MessageSpec:
    """A message of version 0 with these lines of fields, indented as in a schema file."""
    head = ["data Test", "  versions 0", *(["  flexible 0"] if flexible else []), "  layout"]
    text = "\n".join([*head, *(f"    {line}" for line in fields)])
    return read_definitions(text)[0].layouts["layout"]


def length16(text: str) -> bytes:
    """A string with an int16 length."""
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def compact(text: str) -> bytes:
    """A short compact string."""
    raw = text.encode()
    return bytes([len(raw) + 1]) + raw


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


class Rows(Sink):
    """Remembers each row as its path and the values of its roles by field name."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[str, dict[str, object]]] = []

    def row(self, shape: Shape, data: bytes) -> None:
        values: dict[str, object] = {}
        for slot, name in zip(shape.slots, shape.names, strict=True):
            if slot:
                values[name] = None if self.slots[slot] == NULL else self.slots[slot]
        self.rows.append((shape.path, values))


def span_text(span: object, data: bytes) -> str:
    """The text of a kept string."""
    assert isinstance(span, int)
    return data[span >> 32 : (span >> 32) + (span & 0xFFFFFFFF)].decode()
