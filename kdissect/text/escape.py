"""Escape text from the wire so that it is safe to print.

Harmful characters move the cursor, set colours or titles, or ring the bell (control characters; C1
ones, 80-9F, do so on some terminals), make text appear different (bidirectional controls, line
separators), are invisible (zero-width characters, tags, variation selectors, soft hyphens), differ
between fonts (private use), or cannot be encoded (lone surrogates).
"""

import unicodedata
from collections.abc import Callable
from typing import Final

# Control, format (bidirectional, zero-width, tags), private use, surrogate, line and paragraph
# separator.
HARMFUL_CATEGORIES: Final = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
# Of other categories, and invisible (Default_Ignorable_Code_Point of Unicode).
INVISIBLE: Final = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2065, 0x3164)
    + (*range(0xFE00, 0xFE10), 0xFFA0, *range(0xFFF0, 0xFFF9))
)
SUPPLEMENTARY_INVISIBLE: Final = range(0xE0000, 0xE1000)  # tags and further variation selectors
SHORT: Final = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x1B: "\\e"}
# Number of cached escapes: enough for a language and more; a capture may have all characters.
KNOWN_LIMIT: Final = 10_000

# A spreadsheet treats cells with these first characters as formulas, also after invisible
# characters; some treat MINUS SIGN as a hyphen. Similar characters, such as full-width ones, are
# these in NFKC.
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\u2212")
CELL_STARTS: Final = ("\t", "\r", "\n")
# Invisible characters at the start of a cell that are looked at; behind more anything may come.
UNSEEN_LIMIT: Final = 1000


def escaped(text: str, keep_lines: bool = False) -> str:
    r"""Return `text` with harmful characters escaped.

    >>> escaped("a\x1b[31m\n\u200b")
    'a\\e[31m\\n\\u200b'
    """
    if text.isascii() and text.isprintable():  # most texts: 20 times as fast
        return text
    return text.translate(_WITH_LINES if keep_lines else _ESCAPES)


def escaped_within(text: str, most: int) -> str:
    r"""Return `text` escaped and truncated to `most` characters; the last one marks the cut.

    >>> escaped_within("a\u202eb", 8), escaped_within("orders", 4)
    ('a\\u202eb', 'ord…')
    """
    safe = escaped(text[:most])  # enough: escaping only makes it longer
    is_whole = len(text) <= most and len(safe) <= most
    return safe if is_whole else safe[: most - 1] + "…"


def json_safe(text: str) -> str:
    r"""Return JSON with harmful characters as JSON escapes; it decodes to the same values.

    >>> json_safe('"a\x9b\U000e0041"')
    '"a\\u009b\\udb40\\udc41"'
    """
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON)


def csv_safe(text: str) -> str:
    """Return `text`, prefixed by an apostrophe if a spreadsheet would run it as a formula.

    >>> csv_safe("=1+1"), csv_safe(" \uff1d1+1")
    ("'=1+1", "' \uff1d1+1")
    """
    if not text or (text[0].isalnum() and text[0].isascii()):
        return text
    start = text[:UNSEEN_LIMIT]
    seen = next((one for one in start if not one.isspace() and not is_harmful(ord(one))), "")
    is_formula = unicodedata.normalize("NFKC", seen).startswith(FORMULA_STARTS)
    is_formula = is_formula or (not seen and len(start) == UNSEEN_LIMIT)
    return f"'{text}" if is_formula or text.startswith(CELL_STARTS) else text


def is_harmful(code: int) -> bool:
    """Return whether a character must be escaped in output."""
    return (
        unicodedata.category(chr(code)) in HARMFUL_CATEGORIES
        or code in INVISIBLE
        or code in SUPPLEMENTARY_INVISIBLE
    )


class _Table(dict[int, int | str]):
    """Table for `str.translate`, with entries computed on first use."""

    def __init__(self, escape: Callable[[int], str], kept: tuple[int, ...] = ()) -> None:
        super().__init__({code: code for code in kept})
        self.escape = escape

    def __missing__(self, code: int) -> int | str:
        found = self.escape(code) if is_harmful(code) else code
        if len(self) < KNOWN_LIMIT:
            self[code] = found
        return found


def _shown(code: int) -> str:
    if code in SHORT:
        return SHORT[code]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _in_json(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


_ESCAPES: Final = _Table(_shown)
_WITH_LINES: Final = _Table(_shown, kept=(0x0A,))
# Control characters in strings are escaped already: the rest are between the values.
_JSON: Final = _Table(_in_json, kept=tuple(range(0x20)))
