from kdissect.screen.details import bar, detail_lines
from kdissect.screen.keys import help_lines
from kdissect.screen.lines import plain, width_of
from kdissect.screen.views import CONNECTIONS, SLOWEST, VIEWS
from tests.screen.snapshots import CONNECTIONS as TROUBLED
from tests.screen.snapshots import MS, NOW_NS, SNAPSHOT, hostile, is_harmless

SLOW = SNAPSHOT.slowest[3]  # a Fetch: 2380 ms, 36 of them in the queue, 400 requested as wait


def test_a_slow_exchange_has_everything_there_is_and_a_bar() -> None:
    assert [plain(line) for line in detail_lines(SLOWEST, SLOW, NOW_NS, 40)] == [
        "exchange    4200003",
        "time        2026-11-22",
        "            05:59:57.900000000Z, 2.1 s",
        "            ago",
        "API         Fetch",
        "client      -",
        "from        10.0.0.3:50003",
        "topic       orders",
        "request     16.4 kB",
        "response    58 B",
        "error       none",
        "latency     2.38 s",
        "",
        "░▒▒▒▒▒▒▒" + "█" * 32,
        "",
        "░ queue          36 ms  1.51 %  behind earlier requests of its connection",
        "▒ wait          400 ms  16.8 %  as the request asked it to (long poll)",
        "█ broker time   1.94 s  81.7 %  the rest, with the network to the tap",
    ]


def test_a_bar_has_a_column_for_each_part_at_least_and_fills_the_width() -> None:
    tiny = SLOW._replace(latency_ns=1000 * MS, queue_ns=1, wait_ns=1)
    assert plain(bar(tiny, 20)) == "░▒" + "█" * 18
    all_queue = SLOW._replace(latency_ns=1000 * MS, queue_ns=1000 * MS, wait_ns=0)
    assert plain(bar(all_queue, 20)) == "░" * 20
    assert plain(bar(SLOW._replace(latency_ns=0, queue_ns=0, wait_ns=0), 20)) == ""


def test_parts_that_contradict_the_latency_do_no_harm() -> None:
    odd = SLOW._replace(latency_ns=MS, queue_ns=5 * MS, wait_ns=-1)
    assert plain(bar(odd, 20)) == "░" * 20


def test_other_rows_are_shown_in_full() -> None:
    assert [plain(line) for line in detail_lines(CONNECTIONS, TROUBLED[1], NOW_NS, 80)] == [
        "client      bi",
        "from        [2001:db8::9]:40022",
        "broker      [2001:db8::1]:9092",
        "waiting     0",
        "oldest      -",
        "waits for   -",
        "unanswered  2",
        "retrans     0",
        "0-window    0",
        "missing     14.5 kB",
    ]


def test_hostile_names_are_whole_and_harmless() -> None:
    snapshot = hostile()
    for view in VIEWS:
        for row in view.rows(snapshot):
            lines = detail_lines(view, row, NOW_NS, 80)
            assert all(is_harmless(plain(line)) for line in lines)
            # Those of the parts may be longer; they are cut where they are shown.
            assert all(width_of(line) <= 80 for line in lines[:10])
    long = VIEWS[1].rows(snapshot)[6]
    text = "".join(plain(line) for line in detail_lines(VIEWS[1], long, NOW_NS, 80))
    assert text.replace(" ", "").startswith("client" + "x" * 500)


def test_the_help_fits_a_small_terminal() -> None:
    lines = help_lines(78)
    assert len(lines) <= 21
    assert all(width_of(line) <= 78 for line in lines)
