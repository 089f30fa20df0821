import pytest

from kdissect.live.counting.snapshot import Focus
from kdissect.screen.heading import History, Marks, crumbs, heading_lines, tab_line
from kdissect.screen.lines import Piece, plain, width_of
from kdissect.sources.packet_source import Behind
from tests.screen.snapshots import (
    HOSTILE,
    NOTHING,
    NOW_NS,
    SNAPSHOT,
    STANDING,
    TROUBLED,
    S,
    hostile,
    is_harmless,
)

MARKS = Marks("eth0", 1.0, 60.0)


def history(*rates: float) -> History:
    made = History()
    for rate in rates:
        made.add(SNAPSHOT._replace(whole=SNAPSHOT.whole._replace(rate=rate)))
    return made


def lines(snapshot=SNAPSHOT, width: int = 80, marks: Marks = MARKS, past: History | None = None):
    return [plain(line) for line in heading_lines(snapshot, past or history(1, 8), marks, width)]


def spaced(*texts: str) -> list[str]:
    """With the narrow space that is between thousands."""
    return [text.replace("_", "\N{NARROW NO-BREAK SPACE}") for text in texts]


def test_heading_shows_source_volume_rates_and_losses() -> None:
    assert lines() == spaced(
        "kdissect top  eth0                                          06:00:00Z  last 60 s",
        " 11_493 exchanges/s                ▂█  0.95 errors/s  in 14.2 MB/s  out 114 MB/s",
        "p50    3 ms p99   24 ms            ██  0 drops  0 problems  312 conn.  190 MB",
    )


def test_on_a_wide_terminal_there_is_more_of_it() -> None:
    first, second, third = lines(width=120)
    assert first.endswith("06:00:00Z  last 60 s  every 1 s")
    assert second.endswith(spaced("40_210 packets/s")[0])
    assert third.endswith("0 drops  0 problems  312 connections  190 MB")


def test_abnormal_values_are_red() -> None:
    found = [piece for line in heading_lines(TROUBLED, history(1), MARKS, 120) for piece in line]
    assert [piece.text for piece in found if piece.style == "hot"] == spaced(
        "0.95 errors/s", "45_300 drops (0.376 %)", "4 problems",
        "shed 120_000 (level 2)", "buffer 83 %",
    )  # fmt: skip


@pytest.mark.parametrize("width", [80, 120])
def test_a_file_that_is_not_caught_up_with_is_red(width: int) -> None:
    status = SNAPSHOT.status._replace(behind=Behind(12_000_000, 65.0))
    found = heading_lines(SNAPSHOT._replace(status=status), history(1), MARKS, width)[2]
    text = "1 m 05 s behind" + (" (12 MB)" if width > 100 else "")
    assert Piece(text, "hot") in found
    status = status._replace(behind=Behind(500, 0.5))
    shown = heading_lines(SNAPSHOT._replace(status=status), history(1), MARKS, width)[2]
    assert "behind" not in plain(shown)


def test_shedding_is_shown_before_anything_was_shed() -> None:
    status = TROUBLED.status._replace(shed={})
    texts = lines(TROUBLED._replace(status=status), 80)[2]
    assert "shed level 2" in texts


def test_a_shorter_window_than_requested_is_shown() -> None:
    assert Piece("last 12 of 60 s", "warm") in heading_lines(TROUBLED, history(1), MARKS, 80)[0]
    assert Piece("last 1 of 60 s") in heading_lines(NOTHING, history(1), MARKS, 80)[0]


@pytest.mark.parametrize("state", ["PAUSED", "capture ended"])
def test_the_reason_of_a_standstill_is_shown(state: str) -> None:
    shown = heading_lines(SNAPSHOT, history(1), MARKS._replace(state=state), 80)[0]
    assert Piece(f" {state} ", "marked") in shown


@pytest.mark.parametrize("snapshot", [SNAPSHOT, TROUBLED, NOTHING, hostile()])
def test_the_heading_fits_every_width(snapshot) -> None:
    for width in range(1, 180):
        marks = MARKS._replace(title=HOSTILE[0] + HOSTILE[3])
        found = heading_lines(snapshot, history(*range(200)), marks, width)
        assert [width_of(line) <= width for line in found] == [True] * 3
        assert all(is_harmless(plain(line)) for line in found)


def test_histories_are_below_each_other() -> None:
    past = history(*range(60))
    _, second, third = lines(width=120, past=past)
    places = [i for i, letter in enumerate(second) if letter in "▁▂▃▄▅▆▇█"]
    assert places == [i for i, letter in enumerate(third) if letter in "▁▂▃▄▅▆▇█"]
    assert len(places) > 20


def test_a_history_begins_anew_with_something_else() -> None:
    past = history(1, 2)
    past.clear()
    assert (list(past.rates), list(past.p99s)) == ([], [])


def test_findings_are_counted_where_they_are_searched_for() -> None:
    assert "4 problems  1 finding  shed" in lines(TROUBLED, width=180)[2]
    assert "finding" not in lines(SNAPSHOT, width=180)[2]


def test_own_cost_is_that_between_two_snapshots() -> None:
    past = history(1)
    later = STANDING._replace(now_ns=NOW_NS + 2 * S, cpu_seconds=101.0)
    past.add(SNAPSHOT._replace(status=later))
    assert past.cpu == 0.5
    assert lines(width=120, past=past)[2].endswith("cpu 50 %, 190 MB")


def test_tabs_have_whole_names_where_there_is_room() -> None:
    texts = [plain(tab_line(0, SNAPSHOT, width)[0]) for width in (120, 80, 60, 20)]
    assert texts == [
        "1 APIs 2 Clients 3 Topics 4 Errors 5 Connections 6 Groups 7 Slowest 8 Problems"
        " 9 Partitions 0 Findings",
        "1 APIs 2 Cli 3 Topics 4 Errors 5 Conn 6 Groups 7 Slow 8 Prob 9 Part 0 Find",
        "1 API 2 Cli 3 Top 4 Err 5 Con 6 Grp 7 Slo 8 Pro 9 Par 0 Fin",
        "1 2 3 4 5 6 7 8 9 0",
    ]


def test_tabs_tell_where_there_is_trouble() -> None:
    styles = [piece.style for piece in tab_line(0, SNAPSHOT, 80)[0][::2]]
    assert styles == ["tab", "", "", "warm", "warm", "warm", "", "dim", "", "dim"]
    styles = [piece.style for piece in tab_line(6, NOTHING, 80)[0][::2]]
    assert styles == ["", "", "", "dim", "dim", "", "tab", "dim", "", "dim"]


def test_places_of_tabs_are_where_their_names_are() -> None:
    line, places = tab_line(0, SNAPSHOT, 120)
    found = [plain(line)[place.start : place.stop].strip() for place in places]
    assert found[0] == "1 APIs"
    assert found[7] == "8 Problems"


def test_breadcrumbs_show_the_focus() -> None:
    assert crumbs(Focus()) == []
    text = plain(crumbs(Focus(api="Fetch", client="a\x1b[2J", topic="orders")))
    assert text == "all › client a\\e[2J › API Fetch › topic orders"
