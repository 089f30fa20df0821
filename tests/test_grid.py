import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kdissect.text.grid import Column, Grid, folded


def grid() -> Grid:
    made = Grid(
        Column("client", is_text=True), Column("count"), Column("bytes", drop=1), Column("p99")
    )
    made.add("a-rather-long-client-id", 7, "1 kB", "1.5 ms")
    made.add("注文", 12345, "", "-")
    return made


def test_numbers_are_right_aligned_and_wide_characters_count_double() -> None:
    assert list(grid().lines(60)) == [
        "client                   count  bytes     p99",
        "───────────────────────  ─────  ─────  ──────",
        "a-rather-long-client-id      7   1 kB  1.5 ms",
        "注文                     12345              -",
    ]


def test_text_is_shortened_first() -> None:
    assert list(grid().lines(40))[2] == "a-rather-long-cli…      7   1 kB  1.5 ms"


def test_a_column_is_left_out_when_shortening_is_not_enough() -> None:
    assert list(grid().lines(32))[2] == "a-rather-long-cl…      7  1.5 ms"


@pytest.mark.parametrize("width", range(31, 60))
def test_no_line_is_wider_than_the_page(width: int) -> None:
    assert max(map(cell_len, grid().lines(width))) <= width


def test_text_from_the_wire_is_escaped() -> None:
    made = Grid(Column("client", is_text=True))
    made.add("\x1b[31m")
    assert list(made.lines(80))[2] == "\\e[31m"


@given(st.text("ab注 ", max_size=60), st.integers(2, 20))
def test_a_folded_line_fits_and_has_all_its_words(line: str, width: int) -> None:
    pieces = folded(line, width)
    assert all(cell_len(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == line.replace(" ", "")


def test_lines_are_folded_between_words_and_inside_those_that_are_too_wide() -> None:
    assert folded("client software: 注文注文注 (11)", 8) == [
        "client", "software", ":", "注文注文", "注 (11)",
    ]  # fmt: skip
    assert folded("", 8) == [""]
