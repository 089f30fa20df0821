import pytest

from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.screen.view_state import ENDED, FAILED, RUNNING, Capture, ViewState
from kdissect.screen.views import NUMBERS
from tests.screen.snapshots import NOTHING, NOW_NS, SNAPSHOT, STANDING, S, focused


class Broker:
    """A source whose clock advances by a second with each snapshot."""

    def __init__(self, snapshot: Snapshot = SNAPSHOT) -> None:
        self.snapshot = snapshot
        self.asked: list[Focus] = []
        self.windows: list[float] = []
        self.state = RUNNING

    def __call__(self, focus: Focus) -> Snapshot:
        status = STANDING._replace(
            balance=self.snapshot.status.balance, now_ns=NOW_NS + len(self.asked) * S
        )
        self.asked.append(focus)
        return focused(self.snapshot, focus)._replace(status=status)

    def view_state(self) -> ViewState:
        capture = Capture(self, "eth0", lambda: self.state, self.windows.append)
        return ViewState(capture, 1.0, 60.0)


def names(view_state: ViewState) -> list[str]:
    return [row.name for row in view_state.listing.rows]


def press(view_state: ViewState, text: str) -> None:
    for letter in text:
        view_state.type(letter, letter)


def test_each_refresh_is_a_new_snapshot() -> None:
    broker = Broker()
    view_state = broker.view_state()
    view_state.refresh()
    assert len(broker.asked) == 2
    assert view_state.snapshot.status.now_ns == NOW_NS + S


def test_pausing_freezes_the_screen_and_resuming_shows_the_present() -> None:
    broker = Broker()
    view_state = broker.view_state()
    view_state.pause()
    for _ in range(5):
        view_state.refresh()
    assert (len(broker.asked), view_state.marks().state) == (1, "PAUSED")
    view_state.pause()
    assert (len(broker.asked), view_state.marks().state) == (2, "")


def test_looking_into_a_client_shows_its_apis_and_back_is_where_it_was() -> None:
    broker = Broker()
    view_state = broker.view_state()
    view_state.choose(NUMBERS["Clients"])
    view_state.listing.move(1)
    assert view_state.look_into()
    assert (view_state.focus, view_state.view.name) == (Focus(client="payments"), "APIs")
    assert view_state.look_into()
    assert view_state.focus == Focus(client="payments", api="Produce")
    assert broker.asked[-1] == view_state.focus
    assert view_state.back()
    assert view_state.back()
    assert (view_state.focus, view_state.view.name) == (Focus(), "Clients")
    assert view_state.selected.name == "payments"
    assert not view_state.back()


def test_focusing_on_the_current_focus_shows_its_slowest_exchanges() -> None:
    view_state = Broker().view_state()
    view_state.look_into()
    view_state.choose(NUMBERS["APIs"])
    view_state.look_into()
    assert (view_state.focus, view_state.view.name) == (Focus(api="Produce"), "Slowest")
    assert {row.api for row in view_state.listing.rows} == {"Produce"}


def test_there_is_nothing_to_look_into_in_other_rows_and_without_rows() -> None:
    view_state = Broker().view_state()
    view_state.choose(NUMBERS["Slowest"])
    assert not view_state.look_into()
    assert not Broker(NOTHING).view_state().look_into()


def test_the_client_topic_and_api_of_a_slow_exchange_can_be_looked_at() -> None:
    view_state = Broker().view_state()
    view_state.choose(NUMBERS["Slowest"])
    view_state.listing.place(1)
    assert view_state.look_at("client")
    assert (view_state.focus, view_state.view.name) == (Focus(client="payments"), "APIs")
    assert view_state.back()
    assert view_state.view.name == "Slowest"
    assert view_state.look_at("topic")
    assert view_state.focus == Focus(topic="payments.dead-letters.retry-5m")
    view_state.choose(NUMBERS["Slowest"])
    assert view_state.look_at("api")
    assert view_state.view.name == "Clients"


def test_a_row_without_a_client_or_topic_leads_nowhere() -> None:
    view_state = Broker().view_state()
    assert not view_state.look_at("client")
    view_state.choose(NUMBERS["Slowest"])
    view_state.listing.place(3)
    assert view_state.selected.client == ""
    assert not view_state.look_at("client")
    assert view_state.trail == []


def test_history_follows_the_focus() -> None:
    view_state = Broker().view_state()
    view_state.refresh()
    assert len(view_state.history.rates) == 2
    view_state.look_into()
    assert len(view_state.history.rates) == 1


def test_a_filter_narrows_as_it_is_typed() -> None:
    view_state = Broker().view_state()
    view_state.choose(NUMBERS["Clients"])
    press(view_state, "/pay")
    assert (view_state.filter, view_state.is_typing, names(view_state)) == (
        "pay",
        True,
        ["payments"],
    )
    view_state.type("backspace", None)
    assert (view_state.filter, view_state.is_typing) == ("pa", True)
    view_state.type("enter", None)
    assert (view_state.filter, view_state.is_typing) == ("pa", False)
    view_state.refresh()
    assert names(view_state) == ["payments"]


def test_a_filter_is_left_by_escape_and_emptied_by_ctrl_u() -> None:
    view_state = Broker().view_state()
    press(view_state, "/zzz")
    assert names(view_state) == []
    view_state.type("ctrl+u", None)
    assert (view_state.filter, len(names(view_state))) == ("", 8)
    press(view_state, "zzz")
    view_state.type("escape", None)
    assert (view_state.filter, view_state.is_typing, len(names(view_state))) == ("", False, 8)


def test_non_printing_keys_work_while_typing() -> None:
    view_state = Broker().view_state()
    assert not view_state.type("q", "q")
    press(view_state, "/")
    assert not view_state.type("down", None)
    assert view_state.type("q", "q")


def test_back_clears_the_filter_before_the_focus() -> None:
    view_state = Broker().view_state()
    view_state.look_into()
    view_state.narrow("pay")
    assert view_state.back()
    assert (view_state.filter, view_state.focus) == ("", Focus(api="Produce"))


def test_views_go_round() -> None:
    view_state = Broker().view_state()
    view_state.choose(-1)
    assert view_state.view.name == "Findings"
    view_state.choose(view_state.number + 1)
    assert view_state.view.name == "APIs"


def test_the_interval_has_steps_and_ends() -> None:
    view_state = Broker().view_state()
    seen = []
    for by in (1, 1, -1, -1, -1, -1, -1, -1):
        view_state.hurry(by)
        seen.append(view_state.interval_s)
    assert seen == [2.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.2, 0.2]


def test_windows_go_round_and_are_asked_for() -> None:
    broker = Broker()
    view_state = broker.view_state()
    for _ in range(3):
        view_state.change_window()
    assert broker.windows == [300.0, 10.0, 30.0]


def test_after_the_end_one_more_snapshot_is_taken_and_then_none() -> None:
    broker = Broker()
    view_state = broker.view_state()
    broker.state = ENDED
    for _ in range(3):
        view_state.refresh()
    assert (len(broker.asked), view_state.marks().state) == (2, ENDED)


def test_remaining_rows_can_be_inspected_after_the_end() -> None:
    broker = Broker()
    view_state = broker.view_state()
    broker.state = ENDED
    view_state.refresh()
    view_state.look_into()
    assert view_state.snapshot.focus == Focus(api="Produce")


def test_a_failure_is_seen() -> None:
    broker = Broker()
    view_state = broker.view_state()
    broker.state = FAILED
    view_state.refresh()
    assert view_state.state == FAILED


@pytest.mark.parametrize(
    ("view", "reasons"),
    [
        ("Errors", ["no errors in the last 1 s"]),
        ("Problems", ["no problems since the beginning"]),
    ],
)
def test_an_empty_table_shows_its_reason(view: str, reasons: list[str]) -> None:
    snapshot = NOTHING._replace(status=STANDING)
    view_state = Broker(snapshot).view_state()
    view_state.choose(NUMBERS[view])
    assert view_state.nothing() == reasons


def test_without_exchanges_the_screen_reports_the_traffic_seen() -> None:
    assert Broker(NOTHING).view_state().nothing() == [
        "no exchanges in the last 1 s",
        "so far no exchange in 1\N{NARROW NO-BREAK SPACE}200 packets",
        "of 312 connections",
        "other ports of brokers: --port",
    ]


def test_an_empty_table_shows_that_its_rows_are_shed() -> None:
    view_state = Broker(SNAPSHOT._replace(topics=())).view_state()
    view_state.snapshot = view_state.snapshot._replace(status=STANDING._replace(level=3))
    view_state.choose(NUMBERS["Topics"])
    assert view_state.nothing() == [
        "no topics in the last 60 s",
        "some rows are not made: shed level 3",
    ]


def test_a_filter_without_matches_is_shown() -> None:
    view_state = Broker().view_state()
    view_state.narrow("zzz")
    assert view_state.nothing() == ["none of 8 rows has all words of the filter; Esc clears it"]
