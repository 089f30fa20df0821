"""Values of one of several types, identified by a byte, and plain values of any type."""

from collections.abc import Mapping
from typing import Any, Final

from kdissect.encoding.kinds import BOOL, BYTES, INT, TEXT, Dict, Kind, Many
from kdissect.encoding.sinks import Sink, not_declared
from kdissect.encoding.sources import Source
from kdissect.errors import EncodingError

# Of `Plain` values: joins need a depth of seven.
DEEPEST: Final = 16


class OneOf(Kind):
    """Value of one of several types, chosen by its class and identified by a byte."""

    def __init__(self, **kinds: tuple[type, Kind]) -> None:
        self.classes = {of: number for number, (of, _) in enumerate(kinds.values())}
        self.kinds = [kind for _, kind in kinds.values()]
        super().__init__(1 + min([kind.least for kind in self.kinds]))

    def write(self, sink: Sink, value: Any) -> None:
        """Write it."""
        number = self.classes.get(type(value))
        if number is None:
            raise not_declared(value, f"one of {len(self.kinds)} types")
        sink.integer(number)
        self.kinds[number].write(sink, value)

    def read(self, source: Source) -> Any:
        """Read it."""
        number = source.integer()
        if not 0 <= number < len(self.kinds):
            raise EncodingError(f"there is no type {number} of {len(self.kinds)}")
        return self.kinds[number].read(source)


class Nothing(Kind):
    """None."""

    def __init__(self) -> None:
        super().__init__(0)

    def write(self, sink: Sink, value: Any) -> None:
        """Write nothing."""
        if value is not None:
            raise not_declared(value, "None")

    def read(self, source: Source) -> None:
        """Read nothing."""


class Plain(Kind):
    """None, bool, int, text, bytes, and lists, tuples and dicts of these, nested DEEPEST deep."""

    def __init__(self, depth: int = DEEPEST, **more: tuple[type, Kind]) -> None:
        super().__init__()
        self.inner = OneOf(
            none=(type(None), Nothing()),
            bool=(bool, BOOL),
            int=(int, INT),
            text=(str, TEXT),
            bytes=(bytes, BYTES),
            **self._nested(depth, more),
            **more,
        )

    def _nested(
        self, depth: int, more: Mapping[str, tuple[type, Kind]]
    ) -> dict[str, tuple[type, Kind]]:
        if not depth:
            return {}
        inside = Plain(depth - 1, **more)
        return {
            "list": (list, Many(inside)),
            "tuple": (tuple, Many(inside, tuple)),
            "dict": (dict, Dict(inside, inside)),
        }

    def write(self, sink: Sink, value: Any) -> None:
        """Write it."""
        self.inner.write(sink, value)

    def read(self, source: Source) -> Any:
        """Read it."""
        return self.inner.read(source)
