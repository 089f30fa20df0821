from kdissect.screen.lines import plain, width_of
from kdissect.screen.listing import Listing
from kdissect.screen.views import APIS, CLIENTS, CONNECTIONS, ERRORS, VIEWS
from tests.screen.snapshots import CONNECTIONS as TROUBLED
from tests.screen.snapshots import ERRORS as FAILING
from tests.screen.snapshots import NOW_NS, SNAPSHOT, hostile, is_harmless, timed

ROWS = (timed("b", 2.0), timed("a", 3.0), timed("c", 1.0))
NAME, RATE = 0, 1


def listing() -> Listing:
    made = Listing(CLIENTS)
    made.show(ROWS, NOW_NS)
    return made


def names(shown: Listing) -> list[str]:
    return [row.name for row in shown.rows]


def test_rows_are_sorted_by_the_column_of_the_view_the_most_first() -> None:
    assert names(listing()) == ["a", "b", "c"]


def test_sorting_by_a_column_again_turns_the_order() -> None:
    shown = listing()
    shown.sort_by(RATE)
    assert names(shown) == ["c", "b", "a"]
    shown.sort_by(RATE)
    assert names(shown) == ["a", "b", "c"]


def test_names_are_sorted_from_a_on() -> None:
    shown = listing()
    shown.sort_by(NAME)
    assert (names(shown), shown.is_descending) == (["a", "b", "c"], False)


def test_rows_with_the_same_value_stay_in_their_order() -> None:
    shown = Listing(CLIENTS)
    shown.show([timed(name, 1.0) for name in "cab"], NOW_NS)
    assert names(shown) == ["c", "a", "b"]


def test_sorting_beside_goes_round_the_columns_that_are_shown() -> None:
    shown = listing()
    shown.lines(52, 10)
    assert [column.header for column in columns_sorted_by(shown, 5)] == [
        "err/s", "p50", "p99", "client", "ex/s",
    ]  # fmt: skip


def columns_sorted_by(shown: Listing, times: int) -> list:
    found = []
    for _ in range(times):
        shown.sort_beside(1)
        found.append(shown.view.fields[shown.sort].column)
    return found


def test_a_view_in_the_order_of_the_snapshot_can_be_sorted_and_put_back() -> None:
    shown = Listing(CONNECTIONS)
    shown.show(TROUBLED, NOW_NS)
    shown.lines(160, 10)
    assert [row.connection_id for row in shown.rows] == [7, 9]
    shown.sort_beside(1)
    assert [row.connection_id for row in shown.rows] == [9, 7]  # "bi" is before "payments"
    shown.sort_beside(-1)
    assert (shown.sort, [row.connection_id for row in shown.rows]) == (None, [7, 9])


def test_the_order_of_the_snapshot_can_be_turned() -> None:
    shown = Listing(CONNECTIONS)
    shown.show(TROUBLED, NOW_NS)
    shown.sort_by(None)
    assert [row.connection_id for row in shown.rows] == [9, 7]


def test_the_cursor_stays_with_its_row_when_rows_move() -> None:
    shown = listing()
    shown.move(1)
    assert shown.selected.name == "b"
    shown.show([timed("d", 9.0), timed("b", 0.5), *ROWS[1:]], NOW_NS)
    assert (names(shown), shown.selected.name) == (["d", "a", "c", "b"], "b")


def test_a_cursor_at_the_top_stays_at_the_top() -> None:
    shown = listing()
    shown.move(1)
    shown.move(-1)
    shown.show([timed("d", 9.0), *ROWS], NOW_NS)
    assert shown.selected.name == "d"


def test_the_cursor_stays_in_its_place_when_its_row_goes_and_finds_it_again() -> None:
    shown = listing()
    shown.move(1)
    shown.show([ROWS[1], ROWS[2]], NOW_NS)
    assert shown.selected.name == "c"
    shown.show(ROWS, NOW_NS)
    assert shown.selected.name == "b"


def test_without_rows_nothing_is_selected() -> None:
    shown = listing()
    shown.move(2)
    shown.show([], NOW_NS)
    assert (shown.selected, shown.cursor) == (None, 0)


def test_a_filter_leaves_rows_that_have_all_its_words_in_any_case() -> None:
    shown = Listing(ERRORS)
    shown.show(FAILING, NOW_NS, "not_leader PAYM")
    assert [row.error for row in shown.rows] == ["NOT_LEADER_OR_FOLLOWER"]
    assert shown.total == 2


def test_a_filter_looks_at_names_as_they_are_shown() -> None:
    shown = Listing(CLIENTS)
    shown.show(hostile().clients, NOW_NS, "\\e]0;owned")
    assert len(shown.rows) == 1


def test_lines_are_as_wide_as_the_page_and_columns_of_numbers_to_the_right() -> None:
    header, first, second, third = listing().lines(80, 10)
    assert plain(header).split() == ["client", "ex/s↓", "err/s", "in/s", "out/s", "p50", "p95",
                                     "p99", "max"]  # fmt: skip
    assert plain(second).index("b") == 0
    end = plain(header).index("↓")
    assert [plain(line)[end] for line in (first, second, third)] == ["3", "2", "1"]


def test_only_rows_around_the_cursor_are_shown() -> None:
    shown = Listing(CLIENTS)
    shown.show([timed(f"client-{number:02}", 50.0 - number) for number in range(50)], NOW_NS)
    shown.place(30)
    lines = [plain(line).split()[0] for line in shown.lines(80, 11)[1:]]
    assert lines == [f"client-{number:02}" for number in range(21, 31)]
    shown.move(-5)
    assert [plain(line).split()[0] for line in shown.lines(80, 11)[1:]] == lines
    shown.place(0)
    assert plain(shown.lines(80, 11)[1]).split()[0] == "client-00"


def test_columns_do_not_get_narrower_until_the_view_changes() -> None:
    shown = listing()
    shown.show([timed("a-rather-long-name", 1.0)], NOW_NS)
    shown.lines(120, 10)
    before = list(shown.widths)
    shown.show(ROWS, NOW_NS)
    shown.lines(120, 10)
    assert shown.widths == before
    shown.widen()
    shown.lines(120, 10)
    assert shown.widths[NAME] < before[NAME]


def test_less_important_columns_go_first_and_names_are_shortened_last() -> None:
    shown = Listing(APIS)
    shown.show(SNAPSHOT.apis, NOW_NS)
    headers = {width: plain(shown.lines(width, 10)[0]).split() for width in (120, 90, 80, 60, 40)}
    assert headers == {
        120: ["API", "ex/s↓", "err/s", "in/s", "out/s", "p50", "p95", "p99", "max", "history"],
        90: ["API", "ex/s↓", "err/s", "in/s", "out/s", "p50", "p95", "p99"],
        80: ["API", "ex/s↓", "err/s", "in/s", "out/s", "p50", "p99"],
        60: ["API", "ex/s↓", "err/s", "p50", "p99"],
        40: ["API", "ex/s↓", "err/…"],
    }


def test_a_column_is_found_where_it_is() -> None:
    shown = listing()
    header = plain(shown.lines(120, 10)[0])
    assert [shown.column_at(header.index(text)) for text in ("client", "ex/s", "max")] == [0, 1, 8]
    assert shown.column_at(119) is None


def test_every_view_of_hostile_names_fits_and_has_no_control_characters() -> None:
    for view in VIEWS:
        shown = Listing(view)
        shown.show(view.rows(hostile()), NOW_NS)
        for width in (200, 80, 41):
            for line in shown.lines(width, 20):
                assert width_of(line) <= width
                assert is_harmless(plain(line))
