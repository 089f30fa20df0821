import json
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kdissect.text import escape
from kdissect.text.escape import KNOWN_LIMIT, UNSEEN_LIMIT, csv_safe, escaped, json_safe


def test_escape_sequences_of_terminals_are_shown_not_obeyed() -> None:
    assert escaped("\x1b]0;owned\x07\x1b[31mred") == "\\e]0;owned\\x07\\e[31mred"


def test_line_ends_and_tabs_are_shown() -> None:
    assert escaped("a\r\nb\tc\u2028d\x85") == "a\\r\\nb\\tc\\u2028d\\x85"


def test_text_cannot_be_made_to_read_backwards() -> None:
    assert escaped("exe.\u202egpj") == "exe.\\u202egpj"


def test_lone_surrogates_are_shown() -> None:
    assert escaped("a\udcffb") == "a\\udcffb"


def test_other_scripts_stay_as_they_are() -> None:
    assert escaped("заказы 注文 🎉 é") == "заказы 注文 🎉 é"


@given(st.text())
def test_nothing_that_controls_a_terminal_is_left(text: str) -> None:
    left = escaped(text)
    assert not any(
        unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp") for letter in left
    )
    left.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("pay\U000e0041\U000e007f", "pay\\U000e0041\\U000e007f"),
        ("\u2764\ufe0f\U000e0100", "\u2764\\ufe0f\\U000e0100"),
        ("a\ue000\U000f0000\U0010fffd", "a\\ue000\\U000f0000\\U0010fffd"),
        ("a\u00ad\u3164\u180e", "a\\xad\\u3164\\u180e"),
    ],
)
def test_invisible_characters_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_every_character_that_unicode_lets_be_ignored_is_escaped() -> None:
    """Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 16."""
    ignorable = [
        0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810),
        *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164,
        *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4),
        *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000),
    ]  # fmt: skip
    assert all(escaped(chr(code)) != chr(code) for code in ignorable)


def test_however_many_characters_there_are_few_are_remembered() -> None:
    every = "".join(map(chr, range(0x20000, 0x20000 + 3 * KNOWN_LIMIT)))
    assert escaped(every) == every
    assert escaped("\u200b" + every[-1]) == "\\u200b" + every[-1]
    assert len(escape._ESCAPES) <= KNOWN_LIMIT


@given(st.text())
def test_json_decodes_to_the_same_text_and_has_nothing_harmful(text: str) -> None:
    assume(not any(unicodedata.category(one) == "Cs" for one in text))
    safe = json_safe(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(safe) == {"a": text}
    assert escaped(safe) == safe


def test_lone_surrogates_are_escaped_in_json() -> None:
    safe = json_safe(json.dumps("a\udcff", ensure_ascii=False))
    assert safe == '"a\\udcff"'
    assert json.loads(safe) == "a\udcff"


@pytest.mark.parametrize("start", ["\n", "\r\n", " ", "\u200b", "\ufeff", "\x00", "\u00a0", ""])
@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u2212"]
)
def test_formulas_after_invisible_characters_are_escaped(start: str, sign: str) -> None:
    assert csv_safe(f"{start}{sign}1+1") == f"'{start}{sign}1+1"


def test_other_cells_stay_as_they_are() -> None:
    for text in ("a=1", "1-2", "\u0437\u0430", "_=1", "(=1)", "#", "\u6ce8=", ""):
        assert csv_safe(text) == text


def test_formulas_of_spreadsheets_become_text() -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "plain", ""]
    safe = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", "plain", ""]
    assert [csv_safe(text) for text in texts] == safe


@pytest.mark.parametrize("unseen", ["\0", " ", "\u200b"])
def test_only_the_start_of_a_cell_is_searched_for_a_formula(unseen: str) -> None:
    for count in (0, 1, UNSEEN_LIMIT - 1):
        assert csv_safe(unseen * count + "=1") == "'" + unseen * count + "=1"
        assert csv_safe(unseen * count + "a=1") == unseen * count + "a=1"
    for count in (UNSEEN_LIMIT, 100 * UNSEEN_LIMIT):
        assert csv_safe(unseen * count + "a=1") == "'" + unseen * count + "a=1"
