from kdissect.screen.lines import (
    CUT,
    Group,
    Piece,
    apart,
    cut,
    plain,
    side_by_side,
    sparkline,
    width_of,
)


def test_a_line_that_fits_is_not_cut() -> None:
    line = [Piece("ab", "hot"), Piece("c")]
    assert cut(line, 3) is line


def test_a_line_that_is_cut_ends_in_dots_and_keeps_its_styles() -> None:
    line = [Piece("ab", "hot"), Piece("cdef", "dim")]
    assert cut(line, 4) == [Piece("ab", "hot"), Piece("c", "dim"), CUT]


def test_wide_characters_take_two_columns_and_are_never_halved() -> None:
    assert plain(cut([Piece("注文注文")], 6)) == "注文 …"
    assert width_of(cut([Piece("注文注文")], 6)) == 6


def test_nothing_is_left_of_a_line_without_columns() -> None:
    assert cut([Piece("ab")], 0) == []


def test_groups_go_in_the_order_of_drop_until_the_others_fit() -> None:
    groups = [Group([Piece("aa")]), Group([Piece("bb")], 2), Group([Piece("cc")], 1)]
    widths = (10, 9, 6, 5, 2, 1)
    assert [plain(side_by_side(groups, width)) for width in widths] == [
        "aa  bb  cc", "aa  bb", "aa  bb", "aa", "aa", "…",
    ]  # fmt: skip


def test_no_groups_are_an_empty_line() -> None:
    assert side_by_side([], 10) == []


def test_the_ends_of_a_line_are_apart_and_the_left_one_is_cut() -> None:
    left, right = [Piece("eth0 and more")], [Piece("12:00")]
    assert plain(apart(left, right, 20)) == "eth0 and more  12:00"
    assert plain(apart(left, right, 12)) == "eth0 … 12:00"


def test_bars_reach_to_the_largest_value_and_are_blank_where_there_is_none() -> None:
    assert sparkline([0, 50, 100, -1, 25], 5) == "▁▅█ ▃"
    assert sparkline([0, 0], 5) == "▁▁"
    assert sparkline([1, 2, 3], 2) == "▆█"
    assert sparkline([1, 2, 3], 0) == ""
