"""Makes text from the wire harmless for what reads it: a terminal, or a spreadsheet."""

from typing import Final

from kdissect.escape import escaped

__all__ = ["csv_safe", "escaped"]

# A spreadsheet takes cells that start so as formulas.
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_safe(text: str) -> str:
    """Give `text` with an apostrophe in front when a spreadsheet would run it.

    >>> csv_safe("=1+1")
    "'=1+1"
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
