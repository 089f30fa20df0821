import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kdissect.escape import csv_safe, escaped


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
    assert not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in left)
    left.encode()


def test_formulas_of_spreadsheets_become_text() -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "plain", ""]
    safe = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", "plain", ""]
    assert [csv_safe(text) for text in texts] == safe
