"""Byte balances as read from the files of a dataset or a live capture."""

from typing import Any, Final

from kdissect.errors import DatasetError
from kdissect.system import strict_json

# The fields of `pipeline.Balance`: numbers, and counts by name.
NUMBERS: Final = (
    "packets", "captured_bytes", "payload_bytes", "framed_bytes", "skipped_bytes",
    "duplicate_bytes", "tls_bytes", "encrypted_bytes", "missing_bytes", "connections",
    "encrypted_connections", "exchanges",
)  # fmt: skip
COUNTS: Final = ("packets_by_reason", "protocols", "problems")
FIELDS: Final = frozenset((*NUMBERS, *COUNTS))


def checked_balance(value: Any) -> dict[str, Any]:
    """Return a balance with all fields; raise DatasetError for another value."""
    balance = strict_json.mapping(value, "balance")
    if balance.keys() != FIELDS:
        raise DatasetError("a balance has other numbers than kdissect counts")
    for name in NUMBERS:
        strict_json.number(balance[name], name)
    for name in COUNTS:
        strict_json.counts(balance[name], name)
    return balance
