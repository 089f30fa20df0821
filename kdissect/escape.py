"""Makes text from the wire harmless for where it is printed."""

from typing import Final

# Control characters move the cursor, set colours or titles, and ring; C1 ones (80-9F) do so on
# some terminals. Bidirectional controls make text read as what it is not.
_BIDIRECTIONAL: Final = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINE_ENDS: Final = (0x2028, 0x2029)
_SHORT: Final = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x1B: "\\e"}


def _escape_of(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_HARMFUL: Final = (*range(0x20), *range(0x7F, 0xA0), *_BIDIRECTIONAL, *_LINE_ENDS)
_TABLE: Final = {code: _escape_of(code) for code in _HARMFUL} | _SHORT
# Lone surrogates cannot be encoded.
_TABLE.update({code: _escape_of(code) for code in range(0xD800, 0xE000)})
_TABLE_WITH_LINES: Final = {code: text for code, text in _TABLE.items() if code != 0x0A}

# A spreadsheet takes cells that start so as formulas.
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def escaped(text: str, keep_lines: bool = False) -> str:
    r"""Give `text` without anything a terminal would act on.

    >>> escaped("a\x1b[31m\n")
    'a\\e[31m\\n'
    """
    return text.translate(_TABLE_WITH_LINES if keep_lines else _TABLE)


def csv_safe(text: str) -> str:
    """Give `text` with an apostrophe in front when a spreadsheet would run it.

    >>> csv_safe("=1+1")
    "'=1+1"
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
