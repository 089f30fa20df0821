"""Types that a document may declare, except for classes of objects, which are in `classes`.

A type writes a value to a `Sink` and reads it from a `Source`; `least` is the minimum size of a
value in bytes.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Final

from kdissect.encoding.sinks import NONE, Sink, not_declared
from kdissect.encoding.sources import Source
from kdissect.errors import EncodingError


class Kind:
    """A declared type."""

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def write(self, sink: Sink, value: Any) -> None:
        """Write a value."""
        raise NotImplementedError

    def read(self, source: Source) -> Any:
        """Read a value; raises EncodingError and the errors of `documents.DAMAGE`."""
        raise NotImplementedError


class Int(Kind):
    """A 64-bit integer."""

    def write(self, sink: Sink, value: Any) -> None:
        """Write it."""
        sink.integer(value)

    def read(self, source: Source) -> int:
        """Read it."""
        return source.integer()


class Bool(Kind):
    """A bool."""

    def write(self, sink: Sink, value: Any) -> None:
        """Write it."""
        sink.integer(value)

    def read(self, source: Source) -> bool:
        """Read it."""
        number = source.integer()
        if number not in (0, 1):
            raise EncodingError(f"{number} is no bool")
        return number == 1


class Text(Kind):
    """A text; with `or_none` also None."""

    def __init__(self, or_none: bool = False) -> None:
        super().__init__()
        self.or_none = or_none

    def write(self, sink: Sink, value: Any) -> None:
        """Write it."""
        if value is None and self.or_none:
            sink.integer(NONE)
        elif isinstance(value, str):
            sink.text(value)
        else:
            raise not_declared(value, "str")

    def read(self, source: Source) -> str | None:
        """Read it."""
        text = source.text()
        if text is None and not self.or_none:
            raise EncodingError("a text is missing")
        return text


class Bytes(Kind):
    """Bytes; `made` converts them to another type, such as a bytearray."""

    def __init__(self, made: Callable[[bytes], Any] | None = None) -> None:
        super().__init__()
        self.made = made

    def write(self, sink: Sink, value: Any) -> None:
        """Write them."""
        sink.blob(value if isinstance(value, bytes) else bytes(value))

    def read(self, source: Source) -> Any:
        """Read them."""
        content = source.blob()
        if content is None:
            raise EncodingError("bytes are missing")
        return content if self.made is None else self.made(content)


class Maybe(Kind):
    """None, or a value of a type."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind

    def write(self, sink: Sink, value: Any) -> None:
        """Write it."""
        sink.integer(value is not None)
        if value is not None:
            self.kind.write(sink, value)

    def read(self, source: Source) -> Any:
        """Read it."""
        return self.kind.read(source) if BOOL.read(source) else None


class Many(Kind):
    """Collection of any length with items of one type; `made` converts it from a list."""

    def __init__(self, kind: Kind, made: Callable[[list[Any]], Any] = list) -> None:
        super().__init__()
        self.kind = kind
        self.made = made

    def write(self, sink: Sink, value: Any) -> None:
        """Write the items; those of a set sorted, so that equal values have equal bytes."""
        items = sorted(value) if isinstance(value, set | frozenset) else value
        sink.integer(len(items))
        if isinstance(self.kind, Int):
            sink.integers(items)
            return
        for one in items:
            self.kind.write(sink, one)

    def read(self, source: Source) -> Any:
        """Read the items."""
        count = source.count(self.kind.least)
        if isinstance(self.kind, Int):
            found: list[Any] = source.integers(count)
        else:
            found = [self.kind.read(source) for _ in range(count)]
        made = found if self.made is list else self.made(found)
        if len(made) != count:
            raise EncodingError(f"{count} items, of which only {len(made)} are different")
        return made


class Rows(Kind):
    """List of values that consist of a few integers, 8 bytes each.

    `split` returns the integers of a value, `made` creates a value from them, and `whole` the
    collection from a list.
    """

    def __init__(
        self,
        width: int,
        split: Callable[[Any], Iterable[int]] = tuple,
        made: Callable[..., Any] = lambda *row: row,
        whole: Callable[[list[Any]], Any] = list,
    ) -> None:
        super().__init__()
        self.row = Struct(f"<{width}q")
        self.split = split
        self.made = made
        self.whole = whole

    def write(self, sink: Sink, value: Any) -> None:
        """Write the values."""
        sink.integer(len(value))
        pack, split = self.row.pack, self.split
        sink.out += b"".join([pack(*split(one)) for one in value])

    def read(self, source: Source) -> Any:
        """Read the values."""
        content = source.take(source.count(self.row.size) * self.row.size)
        made = self.made
        return self.whole([made(*row) for row in self.row.iter_unpack(content)])


class Dict(Kind):
    """A dict."""

    def __init__(self, key: Kind, value: Kind) -> None:
        super().__init__()
        self.key = key
        self.value = value

    def write(self, sink: Sink, value: Any) -> None:
        """Write the items in their order."""
        sink.integer(len(value))
        for key, one in value.items():
            self.key.write(sink, key)
            self.value.write(sink, one)

    def read(self, source: Source) -> dict[Any, Any]:
        """Read the items."""
        count = source.count(self.key.least + self.value.least)
        found = {}
        for _ in range(count):
            key = self.key.read(source)
            found[key] = self.value.read(source)
        if len(found) != count:
            raise EncodingError(f"{count} keys, of which only {len(found)} are different")
        return found


class Fixed(Kind):
    """Fixed number of values, with a type each; `made` creates a value from their list."""

    def __init__(self, *kinds: Kind, made: Callable[[list[Any]], Any] = tuple) -> None:
        super().__init__(sum([kind.least for kind in kinds]))
        self.kinds = kinds
        self.made = made

    def write(self, sink: Sink, value: Any) -> None:
        """Write the values."""
        if len(value) != len(self.kinds):
            raise not_declared(value, f"{len(self.kinds)} values")
        for kind, one in zip(self.kinds, value, strict=True):
            kind.write(sink, one)

    def read(self, source: Source) -> Any:
        """Read the values."""
        return self.made([kind.read(source) for kind in self.kinds])


class Record(Kind):
    """Named tuple, or another value that `make` creates from its fields in order."""

    def __init__(self, make: Callable[..., Any], **fields: Kind) -> None:
        super().__init__(sum([kind.least for kind in fields.values()]))
        self.make = make
        self.names = tuple(fields)
        self.kinds = tuple(fields.values())

    def write(self, sink: Sink, value: Any) -> None:
        """Write the fields."""
        for name, kind in zip(self.names, self.kinds, strict=True):
            kind.write(sink, getattr(value, name))

    def read(self, source: Source) -> Any:
        """Read the fields."""
        return self.make(*[kind.read(source) for kind in self.kinds])


class Converted(Kind):
    """Value written as another one: `split` converts to that, `made` converts back."""

    def __init__(self, kind: Kind, split: Callable[[Any], Any], made: Callable[[Any], Any]) -> None:
        super().__init__(kind.least)
        self.kind = kind
        self.split = split
        self.made = made

    def write(self, sink: Sink, value: Any) -> None:
        """Write it."""
        self.kind.write(sink, self.split(value))

    def read(self, source: Source) -> Any:
        """Read it."""
        return self.made(self.kind.read(source))


INT: Final = Int()
BOOL: Final = Bool()
TEXT: Final = Text()
TEXT_OR_NONE: Final = Text(or_none=True)
BYTES: Final = Bytes()
INTS: Final = Many(INT)
TEXTS: Final = Many(TEXT)
TEXT_COUNTS: Final = Dict(TEXT, INT)
INT_PAIR: Final = Fixed(INT, INT)


def named(make: Callable[..., Any], **fields: Kind) -> Record:
    """Named tuple; raises TypeError unless `fields` are its own, in order."""
    own: Sequence[str] = getattr(make, "_fields", ())
    if tuple(own) != tuple(fields):
        wrong = next(islice({*own} ^ {*fields}, 1), "their order")
        raise TypeError(f"{make}: {wrong}")
    return Record(make, **fields)
