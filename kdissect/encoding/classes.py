"""Classes of objects: their fields and the types of these."""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import repeat
from operator import attrgetter
from typing import Any, Final

from kdissect.encoding.kinds import BYTES, TEXT, Dict, Kind
from kdissect.encoding.sinks import MOST_CLASSES, NONE, Sink, Writable, not_declared
from kdissect.encoding.sources import Source
from kdissect.errors import EncodingError


class Layout(Writable):
    """Encoding of the objects of a class, of at least `least` bytes each."""

    def __init__(self, kind: type, least: int) -> None:
        super().__init__()
        self.kind = kind
        self.least = least

    def blank(self) -> Any:
        """An object without field values, which are read later."""
        raise NotImplementedError

    def read(self, source: Source, value: Any) -> None:
        """Read the fields of an object."""
        raise NotImplementedError


class Fields(Layout):
    """A class with fields: integers, then bools, then other types.

    `make` creates an object with arbitrary field values. Fields in `left_out` are not written: the
    reader sets the value given here, which the owner of the object replaces.
    """

    def __init__(
        self,
        kind: type,
        make: Callable[[], Any] | None = None,
        *,
        ints: str = "",
        bools: str = "",
        left_out: Mapping[str, Any] | None = None,
        **others: Kind,
    ) -> None:
        self.ints = tuple(ints.split())
        self.bools = tuple(bools.split())
        self.others = tuple(others.values())
        self.left_out = dict(left_out or {})
        self.names = (*self.ints, *self.bools, *others, *self.left_out)
        least = sum([one.least for one in self.others])
        super().__init__(kind, len(self.ints) + bool(self.bools) + least)
        self._make = make
        self._get_ints = getter(self.ints)
        self._get_bools = getter(self.bools)
        self._get_others = getter(tuple(others))

    def blank(self) -> Any:
        """An object without field values, which are read later."""
        # An object of an interpreted class takes less memory when created like this.
        return object.__new__(self.kind) if self._make is None else self._make()

    def write(self, sink: Sink, value: Any) -> None:
        """Write the fields."""
        if type(value) is not self.kind:
            raise not_declared(value, self.kind.__name__)
        sink.integers(self._get_ints(value))
        if self.bools:
            bits = sum(bool(one) << at for at, one in enumerate(self._get_bools(value)))
            sink.integer(bits)
        for kind, one in zip(self.others, self._get_others(value), strict=True):
            kind.write(sink, one)

    def read(self, source: Source, value: Any) -> None:
        """Read the fields."""
        fields: list[Any] = source.integers(len(self.ints))
        if self.bools:
            bits = source.integer()
            if not 0 <= bits < 1 << len(self.bools):
                raise EncodingError(f"{bits:#x} are not {len(self.bools)} bools")
            fields += [bits >> at & 1 == 1 for at in range(len(self.bools))]
        fields += [kind.read(source) for kind in self.others]
        fields += self.left_out.values()
        # Without a loop in Python: a state has thousands of fields.
        deque(map(setattr, repeat(value), self.names, fields), 0)


# Types of attributes that need no declaration, besides integers and bools.
BY_TYPE: Final[dict[type, Kind]] = {str: TEXT, bytes: BYTES}


def fields_by_value(
    kind: type,
    make: Callable[[], Any],
    *,
    left_out: Mapping[str, Any] | None = None,
    **others: Kind,
) -> Fields:
    """Fields of a class: types not in `others` follow from the values of the object by `make`.

    Integers, bools, texts and bytes are found, in the order of their names, so that both builds
    read each other's bytes. Raises TypeError for an attribute of another type.
    """
    blank = make()
    found: dict[type, list[str]] = {int: [], bool: []}
    for name in sorted(attribute_names(blank) - {*others, *(left_out or ())}):
        of_value = type(getattr(blank, name))
        if of_value in found:
            found[of_value].append(name)
        elif of_value in BY_TYPE:
            others[name] = BY_TYPE[of_value]
        else:
            raise TypeError(f"{kind.__name__}.{name}: declare its type, {of_value.__name__}")
    ints, bools = (" ".join(found[one]) for one in (int, bool))
    return Fields(kind, make, ints=ints, bools=bools, left_out=left_out, **others)


def attribute_names(value: Any) -> set[str]:
    """Names of an object's attributes, in either build."""
    declared = getattr(type(value), "__mypyc_attrs__", None)
    if declared is None:
        slots = (vars(base).get("__slots__", ()) for base in type(value).__mro__)
        declared = (*(name for names in slots for name in names), *getattr(value, "__dict__", ()))
    return set(declared)


class Inline(Kind):
    """An object with a single owner, written in place."""

    def __init__(self, layout: Fields) -> None:
        super().__init__(max(layout.least, 1))
        self.layout = layout

    def write(self, sink: Sink, value: Any) -> None:
        """Write its fields."""
        self.layout.write(sink, value)

    def read(self, source: Source) -> Any:
        """Read its fields."""
        value = self.layout.blank()
        self.layout.read(source, value)
        return value


class SharedDict(Layout):
    """A dict shared by several objects, as one object."""

    def __init__(self, key: Kind, value: Kind) -> None:
        self.items = Dict(key, value)
        super().__init__(dict, self.items.least)

    def blank(self) -> Any:
        """A dict without items."""
        return {}

    def write(self, sink: Sink, value: Any) -> None:
        """Write the items."""
        self.items.write(sink, value)

    def read(self, source: Source, value: Any) -> None:
        """Read the items."""
        value.update(self.items.read(source))


class Ref(Kind):
    """Reference to an object of certain classes; with `or_none` also None."""

    def __init__(self, *kinds: type, or_none: bool = False) -> None:
        super().__init__()
        self.kinds = frozenset(kinds)
        self.or_none = or_none

    def write(self, sink: Sink, value: Any) -> None:
        """Write a reference to it."""
        if value is None and self.or_none:
            sink.integer(NONE)
        elif type(value) in self.kinds:
            sink.reference(LAYOUTS[type(value)], value)
        else:
            raise not_declared(value, " or ".join(sorted(kind.__name__ for kind in self.kinds)))

    def read(self, source: Source) -> Any:
        """Read a reference to it."""
        number = source.integer()
        if number == NONE and self.or_none:
            return None
        if not 0 <= number < len(source.objects):
            raise EncodingError(f"there is no object {number} of {len(source.objects)}")
        value = source.objects[number]
        if type(value) not in self.kinds:
            raise EncodingError(f"object {number} is a {type(value).__name__}")
        return value


LAYOUTS: Final[dict[type, Layout]] = {}
NUMBERED: Final[dict[int, Layout]] = {}


def declare(number: int, layout: Layout) -> None:
    """Allow references to objects of a class, under a number that is part of the format."""
    if layout.kind in LAYOUTS or number in NUMBERED or not 0 <= number < MOST_CLASSES:
        raise ValueError(f"{layout.kind.__name__} cannot be class {number}")
    layout.number = number
    LAYOUTS[layout.kind] = layout
    NUMBERED[number] = layout


def getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Function that returns the values of these attributes."""
    if not names:
        return lambda _: ()
    found: Any = attrgetter(*names)
    return found if len(names) > 1 else lambda value: (found(value),)
