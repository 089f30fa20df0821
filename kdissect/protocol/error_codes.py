"""Kafka's error codes: name and whether clients may retry."""

from functools import cache
from typing import NamedTuple

from kdissect.protocol.notation import read_index


class ErrorCode(NamedTuple):
    """One error code; `is_retriable` as Kafka's clients treat it."""

    code: int
    name: str
    is_retriable: bool


@cache
def error_codes() -> dict[int, ErrorCode]:
    """All known error codes, read from schema/error_codes.tsv on first use."""
    rows = read_index("error_codes")
    return {int(code): ErrorCode(int(code), name, retry == "yes") for code, name, retry in rows}


def error_name(code: int) -> str:
    """Name of an error code, or a text with the code itself.

    >>> error_name(3), error_name(9999)
    ('UNKNOWN_TOPIC_OR_PARTITION', 'error-9999')
    """
    known = error_codes().get(code)
    return known.name if known is not None else f"error-{code}"


def is_retriable(code: int) -> bool:
    """Return whether a client may retry after this error; False for unknown codes."""
    known = error_codes().get(code)
    return known is not None and known.is_retriable
