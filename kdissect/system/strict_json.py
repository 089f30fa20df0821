"""JSON of untrusted files: parsed strictly, within limits, and checked by type.

Duplicate keys, NaN and infinite numbers, invalid texts, and nesting deeper than DEEPEST are
rejected by a DatasetError that names the file.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final, NoReturn, TypeVar

from kdissect.errors import DatasetError

# A tap in a dataset is four deep: tap, balance, counts by name, number.
DEEPEST: Final = 16
# A value takes 12 bytes with its name in all files that kdissect writes; small files are exempt.
VALUE_BYTES: Final = 8
FREE_VALUES: Final = 10_000
SMALLEST: Final = -(1 << 63)
LARGEST: Final = (1 << 63) - 1

T = TypeVar("T")


def parsed(content: bytes, where: str) -> Any:
    """Parse a JSON text; `where` is the file that it is in. Raises DatasetError."""
    try:
        check_density(content)
        value = json.loads(
            content,
            object_pairs_hook=distinct,
            parse_constant=refuse_constant,
            parse_float=finite,
        )
        check_values(value)
    except DatasetError as error:
        raise DatasetError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: no JSON: {error}") from error
    return value


def check_density(content: bytes) -> None:
    """Reject many values in few bytes: an empty object of two bytes takes 64 in memory."""
    many = max(content.count(b","), content.count(b"["), content.count(b"{"))
    if many > FREE_VALUES + len(content) // VALUE_BYTES:
        raise DatasetError(f"too many values in {len(content)} bytes")


def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object, rejecting duplicate keys."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DatasetError("a key is there twice in one object")
    return made


def refuse_constant(name: str) -> NoReturn:
    """Reject NaN and Infinity, which are not JSON."""
    raise DatasetError(f"{name} is no number")


def finite(text: str) -> float:
    """Parse a number with a fraction or an exponent; it must be finite."""
    number = float(text)
    if not math.isfinite(number):
        raise DatasetError(f"{text[:20]} is no number")
    return number


def check_values(value: Any) -> None:
    """Reject too deep nesting, and texts that cannot be encoded as bytes."""
    level = [value]
    for _ in range(DEEPEST):
        following: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                check_texts(one)
                following += one.values()
            elif isinstance(one, list):
                following += one
            elif isinstance(one, str):
                check_texts((one,))
        level = following
        if not level:
            return
    raise DatasetError(f"nested deeper than {DEEPEST} levels")


def check_texts(texts: Iterable[str]) -> None:
    """Reject lone surrogates, except those that stand for bytes of a path."""
    for text in texts:
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise DatasetError("a text with a lone surrogate") from None


def mapping(value: Any, what: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise DatasetError(f"{what} is no object")
    return value


def items(value: Any, what: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise DatasetError(f"{what} is no list")
    return value


def text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise DatasetError(f"{what} is no text")
    return value


def number(value: Any, what: str, least: int = 0) -> int:
    """An integer of 64 bits, `least` or more."""
    if type(value) is not int or not least <= value <= LARGEST:
        raise DatasetError(f"{what} is no number from {least} on")
    return value


def flag(value: Any, what: str) -> bool:
    """A bool."""
    if not isinstance(value, bool):
        raise DatasetError(f"{what} is neither true nor false")
    return value


def any_number(value: Any, what: str) -> int:
    """An integer of 64 bits."""
    return number(value, what, SMALLEST)


# Checks of dataclass fields, by type.
CHECKS: Final[Mapping[Any, Callable[[Any, str], Any]]] = {
    str: text,
    int: any_number,
    bool: flag,
}


def entry(kind: Callable[..., T], value: Any, what: str, **made: Any) -> T:
    """Build a dataclass from an object with its fields; those of `made` are already checked."""
    given = {**mapping(value, what), **made}
    known = fields(kind)  # type: ignore[arg-type]  # a dataclass
    for field in known:
        if field.name in made or (field.name not in given and field.default is not MISSING):
            continue
        if field.name not in given:
            raise DatasetError(f"{what} has no {field.name}")
        CHECKS[field.type](given[field.name], f"{what}.{field.name}")
    if unknown := given.keys() - {field.name for field in known}:
        raise DatasetError(f"{what} has {ascii(min(unknown))[:40]}, which is not known")
    return kind(**given)


def counts(value: Any, what: str) -> dict[str, int]:
    """An object whose values are numbers."""
    found = mapping(value, what)
    return {name: number(one, f"{what} of {ascii(name)[:40]}") for name, one in found.items()}
