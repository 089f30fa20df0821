"""The app with its keys, in Textual's own test terminal."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.screen.app import Top
from kdissect.screen.table import Table
from kdissect.screen.view_state import FAILED, RUNNING, Capture
from kdissect.screen.widgets import Lines, Page
from tests.screen.snapshots import SNAPSHOT, focused, hostile, is_harmless, timed

NEVER_S = 3600.0
Play = Callable[[Top, Pilot[None]], Awaitable[None]]


def played(play: Play, snapshot: Snapshot = SNAPSHOT, size: tuple[int, int] = (80, 24)) -> None:
    """Run the app in a terminal of this size, and play with it."""

    async def run() -> None:
        app = Top(Capture(lambda focus: focused(snapshot, focus), "eth0"), interval_s=NEVER_S)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await play(app, pilot)

    asyncio.run(run())


def screen(app: Top) -> list[str]:
    """The lines that are seen."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def test_numbers_and_tab_choose_the_table() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        seen = []
        for key in ("2", "0", "tab", "tab", "shift+tab"):
            await pilot.press(key)
            seen.append(app.view_state.view.name)
        assert seen == ["Clients", "Findings", "APIs", "Clients", "APIs"]

    played(play)


def test_keys_sort_and_turn_the_order() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("s")
        assert "err/s↓" in screen(app)[4]
        await pilot.press("r")
        assert "err/s↑" in screen(app)[4]
        await pilot.press("left", "left")
        assert "API↑" in screen(app)[4]
        assert screen(app)[5].startswith("ConsumerGroupHeartbeat")

    played(play)


def test_a_click_sorts_chooses_a_row_and_looks_into_it() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.click(Table, offset=(2, 0))
        assert screen(app)[4].startswith("API↑")
        await pilot.click(Table, offset=(2, 3))
        assert app.view_state.selected.name == "Fetch"
        await pilot.click(Table, offset=(2, 3))
        assert app.view_state.focus == Focus(api="Fetch")
        await pilot.click("#tabs", offset=(48, 0))
        assert app.view_state.view.name == "Slowest"

    played(play)


def test_the_cursor_stays_with_its_row_from_refresh_to_refresh() -> None:
    rows = [timed("a", 3.0), timed("b", 2.0), timed("c", 1.0)]
    snapshots = [SNAPSHOT._replace(apis=tuple(rows)),
                 SNAPSHOT._replace(apis=(timed("b", 0.5), *rows[2:], timed("z", 9.0)))]  # fmt: skip

    async def run() -> None:
        app = Top(Capture(lambda _: snapshots[0], "eth0"), interval_s=NEVER_S)
        async with app.run_test() as pilot:
            await pilot.press("down")
            snapshots.pop(0)
            app.refresh_snapshot()
            await pilot.pause()
            assert [line.split()[0] for line in screen(app)[5:8]] == ["z", "c", "b"]
            assert (app.view_state.selected.name, app.view_state.listing.cursor) == ("b", 2)

    asyncio.run(run())


def test_characters_typed_into_the_filter_are_not_commands() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        # q and p would end and pause.
        await pilot.press("2", "/", "p", "a", "y", "q")
        assert (app.view_state.filter, app.view_state.is_paused) == ("payq", False)
        await pilot.press("backspace", "enter")
        assert screen(app)[5].startswith("payments")
        assert screen(app)[-1].startswith("1 of 1 with pay (4 in all)")
        await pilot.press("escape")
        assert app.view_state.filter == ""

    played(play)


def test_space_pauses_and_shows_it() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        assert " PAUSED " in screen(app)[0]
        await pilot.press("p")
        assert "PAUSED" not in screen(app)[0]

    played(play)


def test_enter_looks_into_a_client_its_api_its_slowest_and_escape_goes_back() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("2", "down", "enter")
        assert screen(app)[4] == "all › client payments"
        await pilot.press("enter", "7", "enter")
        assert isinstance(app.screen, Page)
        assert any("queue" in line for line in screen(app))
        await pilot.press("escape", "escape", "escape")
        assert (app.view_state.focus, app.view_state.view.name) == (Focus(), "Clients")
        assert screen(app)[4].startswith("client")
        assert app.view_state.selected.name == "payments"

    played(play)


def test_keys_lead_from_a_slow_exchange_to_its_client() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("7", "down", "c")
        assert screen(app)[4] == "all › client payments"
        await pilot.press("7", "t", "escape", "escape")
        assert (app.view_state.focus, app.view_state.view.name) == (Focus(), "Slowest")

    played(play)


def test_the_help_and_details_are_left_with_their_own_keys() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("?")
        assert screen(app)[0] == " kdissect top: keys"
        await pilot.press("q")
        assert len(app.screen_stack) == 1
        await pilot.press("d")
        assert screen(app)[0].startswith(" APIs, as of")
        await pilot.press("d")
        assert app.is_running

    played(play)


def test_a_page_that_is_too_long_can_be_moved() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("?")
        before = screen(app)
        await pilot.press("down", "down", "up")
        assert screen(app)[2:5] == before[3:6]
        await pilot.press("end", "pageup", "up", "up", "up", "up", "up", "up", "up", "up", "up")
        assert screen(app) == before

    played(play, size=(60, 12))


@pytest.mark.slow
def test_resizing_keeps_everything() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("7", "s", "s", "/", "p", "r", "o", "d", "enter", "down", "down", "space")
        view_state = app.view_state
        before = (view_state.view, view_state.listing.sort, view_state.filter, view_state.selected,
                  view_state.is_paused)  # fmt: skip
        for size in ((120, 40), (60, 15), (20, 5), (1, 1), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert (
                view_state.view,
                view_state.listing.sort,
                view_state.filter,
                view_state.selected,
                view_state.is_paused,
            ) == before
            lines = screen(app)
            assert len(lines) == size[1]
            assert max(map(len, lines)) <= size[0]
        assert screen(app)[-1].startswith("3 of 38 with prod (50 in all)")

    played(play)


def test_the_cursor_is_seen_after_the_terminal_got_smaller() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("7", "pagedown")
        exchange = app.view_state.selected
        await pilot.resize_terminal(80, 10)
        await pilot.pause()
        listing = app.view_state.listing
        assert listing.selected is exchange
        assert exchange in listing.rows[listing.top : listing.top + 4]

    played(play)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 50), (40, 10)])
def test_hostile_names_do_nothing_anywhere(size: tuple[int, int]) -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        for key in ("1", "2", "3", "4", "5", "o", "6", "7", "8", "9", "0"):
            await pilot.press(key)
            seen = screen(app)
            assert all(map(is_harmless, seen))
            await pilot.press("d")
            assert all(map(is_harmless, screen(app)))
            await pilot.press("escape")
            assert screen(app) == seen
        await pilot.press("2", "enter")
        assert all(map(is_harmless, screen(app)))
        assert app.is_running

    played(play, hostile(), size)


def test_the_interval_and_the_window_change() -> None:
    windows: list[float] = []

    async def run() -> None:
        capture = Capture(lambda _: SNAPSHOT, "eth0", set_window=windows.append)
        app = Top(capture, interval_s=30.0)
        async with app.run_test(size=(120, 24)) as pilot:
            await pilot.press("plus")
            assert screen(app)[0].endswith("every 10 s")
            await pilot.press("minus", "minus")
            assert screen(app)[0].endswith("every 60 s")
            await pilot.press("w")
            assert windows == [300.0]

    asyncio.run(run())


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_it_ends(key: str) -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        assert app._exit

    played(play)


def test_ctrl_c_ends_it_from_the_help_too() -> None:
    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("?", "tab", "ctrl+c")
        assert app._exit

    played(play)


def test_cycles_are_collected_where_the_collector_is_off() -> None:
    async def play(app: Top, _: Pilot[None]) -> None:
        async def refreshed(times: int) -> int:
            before = len(gc.get_objects())
            for _ in range(times):
                app.refresh_snapshot()
                await asyncio.sleep(0.02)
            return len(gc.get_objects()) - before

        await refreshed(5)
        # One refresh leaves about 800 objects.
        assert await refreshed(20) < 4000

    gc.disable()
    try:
        played(play)
    finally:
        gc.enable()


def test_snapshots_come_by_themselves_and_a_failure_ends_it() -> None:
    states = [RUNNING, RUNNING, FAILED]
    taken: list[Focus] = []

    def source(focus: Focus) -> Snapshot:
        taken.append(focus)
        return SNAPSHOT

    async def run() -> None:
        app = Top(Capture(source, "eth0", lambda: states.pop(0)), interval_s=0.01)
        async with app.run_test():
            end = time.monotonic() + 10
            while not app._exit and time.monotonic() < end:
                await asyncio.sleep(0.01)
        assert app.view_state.state == FAILED

    asyncio.run(run())
    assert (len(taken), states) == (4, [])


def test_a_refresh_takes_a_few_milliseconds_with_many_rows() -> None:
    many = tuple(timed(f"client-{number}", number * 1.5) for number in range(1000))
    seconds: list[float] = []

    async def play(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        for _ in range(20):
            before = time.process_time()
            app.refresh_snapshot()
            for lines in app.query(Lines):
                lines.render_line(0)
            table = app.query_one(Table)
            for y in range(table.size.height):
                table.render_line(y)
            seconds.append(time.process_time() - before)

    gc.collect()
    played(play, SNAPSHOT._replace(clients=many), (160, 50))
    # About 3 ms where it was measured; the rest is for slow machines.
    assert sorted(seconds)[10] < 0.03


def test_markup_in_a_title_is_text() -> None:
    async def run() -> Any:
        app = Top(Capture(lambda _: SNAPSHOT, "[red]\x1b[31meth0[/]"), interval_s=NEVER_S)
        async with app.run_test() as pilot:
            await pilot.pause()
            return screen(app)[0]

    assert asyncio.run(run()).startswith("kdissect top  [red]\\e[31meth0[/]")
