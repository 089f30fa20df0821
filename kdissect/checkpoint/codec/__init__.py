"""Encodes values between and inside the stages as bytes, for other processes, machines and days.

Each class is declared with its fields and their types (`kdissect.encoding`), so that decoding can
only produce these classes, with values of these types. Both builds read each other's bytes.
"""

from typing import Final

from kdissect.checkpoint.codec.captures import CAPTURE_VALUES
from kdissect.checkpoint.codec.exchanges import EXCHANGE_VALUES
from kdissect.checkpoint.codec.old import OLD_VALUES
from kdissect.checkpoint.codec.streams import STREAM_VALUES
from kdissect.checkpoint.codec.tls import TLS_VALUES
from kdissect.encoding.classes import Fields

DECLARED: Final[dict[type, Fields]] = {
    one.kind: one
    for one in (*STREAM_VALUES, *EXCHANGE_VALUES, *OLD_VALUES, *TLS_VALUES, *CAPTURE_VALUES)
}
FIELDS: Final[dict[type, tuple[str, ...]]] = {
    kind: tuple(sorted(fields.names)) for kind, fields in DECLARED.items()
}


def fields_of(kind: type) -> tuple[str, ...]:
    """The fields of one of these classes, sorted by name; none for other classes."""
    return FIELDS.get(kind, ())
