"""Meanings of Kafka's enum values: ACL operations, config sources and so on, as data.

schema/enums.tsv has the names of each enum's values, schema/enum_fields.tsv the fields that hold
one; the message definitions do not have them.
"""

from functools import cache
from typing import Final, NamedTuple

from kdissect.protocol.notation import read_index
from kdissect.protocol.specs import snake_case

BITS: Final = " bits"  # after an enum's name in enum_fields.tsv: bit n means value n


class EnumFields(NamedTuple):
    """The fields of a struct that hold an enum, by snake_case name, and those of structs in it."""

    enums: dict[str, str]
    structs: dict[str, "EnumFields"]


@cache
def enum_values(enum: str) -> dict[int, str]:
    """The names of an enum's values.

    >>> enum_values("permission")
    {0: 'UNKNOWN', 1: 'ANY', 2: 'DENY', 3: 'ALLOW'}
    """
    return {int(value): name for known, value, name in read_index("enums") if known == enum}


def enum_words(enum: str) -> dict[int, str]:
    """The names of an enum's values as words; UNKNOWN is none.

    >>> enum_words("config resource")
    {2: 'topic', 4: 'broker', 8: 'broker logger', 16: 'client metrics', 32: 'group'}
    """
    names = enum_values(enum).items()
    return {value: name.lower().replace("_", " ") for value, name in names if name != "UNKNOWN"}


@cache
def enum_fields() -> dict[tuple[str, str], EnumFields]:
    """The fields that hold enums by message and side: request, response or layout."""
    found: dict[tuple[str, str], EnumFields] = {}
    for message, side, path, enum in read_index("enum_fields"):
        *structs, field = (snake_case(step) for step in path.split("."))
        at = found.setdefault((message, side), EnumFields({}, {}))
        for struct in structs:
            at = at.structs.setdefault(struct, EnumFields({}, {}))
        at.enums[field] = enum
    return found


def enum_text(enum: str, value: object) -> str | list[str] | None:
    """Name of a value; names of a list of values or of the bits that are set; None: none.

    >>> enum_text("operation", 3), enum_text("operation bits", 24), enum_text("operation", 99)
    ('READ', ['READ', 'WRITE'], None)
    """
    names = enum_values(enum.removesuffix(BITS))
    if isinstance(value, list):
        return [names.get(item, str(item)) for item in value]
    if not isinstance(value, int):
        return None
    if not enum.endswith(BITS):
        return names.get(value)
    # The smallest number means that it was not requested.
    return [name for bit, name in names.items() if value >> bit & 1] if value >= 0 else None
