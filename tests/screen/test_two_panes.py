"""Wide terminals: a pane beside the table, histories of rows; and styles without colours."""

import asyncio
from itertools import combinations

import pytest
from textual.pilot import Pilot

from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.screen.app import Top
from kdissect.screen.beside import WIDE, graph, pane_width
from kdissect.screen.lines import plain
from kdissect.screen.row_histories import KEPT, UNKNOWN, RowHistories
from kdissect.screen.table import Table
from kdissect.screen.view_state import RUNNING, Capture
from kdissect.screen.views import APIS, PARTITIONS
from kdissect.screen.widgets import STYLES
from tests.screen.snapshots import NOW_NS, SNAPSHOT, STANDING, S, focused, timed
from tests.screen.snapshots import PARTITIONS as ROWS
from tests.screen.test_app import NEVER_S, played, screen


def later(seconds: int, *apis: float) -> Snapshot:
    """A snapshot so many seconds on, with APIs of these rates."""
    rows = tuple(timed(f"api-{number}", rate) for number, rate in enumerate(apis))
    return SNAPSHOT._replace(status=STANDING._replace(now_ns=NOW_NS + seconds * S), apis=rows)


@pytest.mark.parametrize(("width", "has_pane"), [(80, False), (139, False), (140, True)])
def test_there_are_two_panes_from_140_columns_on(width: int, has_pane: bool) -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("2", "down")
        lines = screen(app)
        assert any("its APIs" in line for line in lines) == has_pane
        assert app.query_one(Table).size.width == width - pane_width(width)
        assert max(map(len, lines)) <= width

    assert (pane_width(width) > 0) == (width >= WIDE)
    played(play, size=(width, 30))


def test_the_pane_follows_keys_clicks_and_the_wheel() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        def client() -> str:
            return next(line for line in screen(app) if "  client  " in line[80:]).split()[-1]

        await pilot.press("2", "down")
        assert client() == "payments"
        await pilot.click(Table, offset=(2, 3))
        assert (client(), app.view_state.selected.name) == ("rdkafka", "rdkafka")
        await pilot._post_mouse_events([], Table, button=0)
        table = app.query_one(Table)
        table.on_mouse_scroll_up(None)  # type: ignore[arg-type]  # its event is not used
        await pilot.pause()
        assert client() == "payments"

    played(play, size=(160, 40))


def test_the_rows_behind_the_selected_one_are_taken_once_for_each_snapshot() -> None:
    taken: list[Focus] = []

    def source(focus: Focus) -> Snapshot:
        taken.append(focus)
        return focused(SNAPSHOT, focus)

    async def run() -> None:
        app = Top(Capture(source, "eth0"), interval_s=NEVER_S)
        async with app.run_test(size=(160, 40)) as pilot:
            await pilot.pause()
            await pilot.press("down")
            taken.clear()
            await pilot.press("r", "s", "r")
            assert taken == []
            app.refresh_snapshot()
            await pilot.pause()
            assert taken == [Focus(), Focus(api="Fetch")]
            await pilot.resize_terminal(100, 40)
            await pilot.pause()
            taken.clear()
            app.refresh_snapshot()
            await pilot.pause()
            assert taken == [Focus()]

    asyncio.run(run())


def test_a_row_has_its_own_history_and_a_hole_where_it_was_missing() -> None:
    histories = RowHistories()
    for snapshot in (later(0, 1, 5), later(1, 2), later(1, 9), later(2, 3, 6)):
        histories.add(snapshot)
    row = later(0, 1, 5).apis
    assert list(histories.of(APIS, row[0])) == [1, 2, 3]
    assert list(histories.of(APIS, row[1])) == [5, UNKNOWN, 6]
    assert list(histories.of(PARTITIONS, ROWS[0])) == [48_211] * 3


def test_rows_that_are_gone_are_forgotten() -> None:
    histories = RowHistories()
    for seconds in range(300):
        rows = tuple(timed(f"{seconds}-{number}", 1.0) for number in range(100))
        histories.add(later(seconds)._replace(apis=(), clients=rows))
    assert len(histories._values) <= 100 * (KEPT + 1) + 50


def test_a_graph_has_each_value_as_high_as_it_is() -> None:
    lines = [plain(line) for line in graph([0, 1, 2, 4, 8, UNKNOWN], 2)]
    assert lines == ["    █ ", "▁▂▄██ "]


def test_a_new_focus_has_no_history_of_the_old_one() -> None:
    snapshots = iter([later(number, number + 1) for number in range(9)])

    async def run() -> None:
        app = Top(Capture(lambda _: next(snapshots), "eth0"), interval_s=NEVER_S)
        async with app.run_test(size=(120, 24)) as pilot:
            app.refresh_snapshot()
            state = app.view_state
            assert len(state.row_histories.of(APIS, state.snapshot.apis[0])) == 2
            await pilot.press("enter")
            assert len(state.row_histories.of(APIS, state.snapshot.apis[0])) == 1

    asyncio.run(run())


def test_good_and_bad_differ_by_more_than_colour() -> None:
    def without_colour(name: str) -> tuple[bool | None, ...]:
        style = STYLES[name]
        return style.bold, style.underline, style.dim, style.reverse

    for one, other in combinations(("good", "warm", "hot"), 2):
        assert without_colour(one) != without_colour(other)
    assert without_colour("warm") != without_colour("dim")  # of names of tables


def test_a_recorded_session_goes_on_and_back() -> None:
    snapshots = [later(number, number + 1.0) for number in range(100)]
    at = [0]

    def seek(by: int) -> None:
        at[0] = max(0, min(at[0] + by, 99))

    def rate(app: Top) -> float:
        return float(app.view_state.snapshot.apis[0].rate)

    capture = Capture(
        lambda _: snapshots[at[0]],
        "night.jsonl",
        lambda: "capture ended" if at[0] == 99 else RUNNING,
        advance=lambda: seek(1),
        seek=seek,
        place=lambda: f"{at[0] + 1} of 100",
    )

    async def run() -> None:
        app = Top(capture, interval_s=NEVER_S)
        async with app.run_test(size=(120, 24)) as pilot:
            app.refresh_snapshot()
            assert rate(app) == 2
            await pilot.press("}")
            assert (rate(app), " PAUSED 62 of 100 " in screen(app)[0]) == (62, True)
            await pilot.press("[", "[", "]")
            assert rate(app) == 61
            app.refresh_snapshot()
            assert rate(app) == 61
            await pilot.press("space")
            assert rate(app) == 62
            await pilot.press("}", "}")
            assert rate(app) == 100
            await pilot.press("space")
            assert " capture ended 100 of 100 " in screen(app)[0]
            await pilot.press("{")
            assert rate(app) == 40

    asyncio.run(run())
