import pytest

from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.screen.view_state import ENDED, FAILED, RUNNING, Capture, Looking
from kdissect.screen.views import NUMBERS
from tests.screen.snapshots import NOTHING, NOW_NS, SNAPSHOT, STANDING, S, focused


class Broker:
    """A source whose clock goes on by a second with each snapshot."""

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

    def looking(self) -> Looking:
        capture = Capture(self, "eth0", lambda: self.state, self.windows.append)
        return Looking(capture, 1.0, 60.0)


def names(looking: Looking) -> list[str]:
    return [row.name for row in looking.listing.rows]


def press(looking: Looking, text: str) -> None:
    for letter in text:
        looking.type(letter, letter)


def test_each_refresh_is_a_new_snapshot() -> None:
    broker = Broker()
    looking = broker.looking()
    looking.refresh()
    assert len(broker.asked) == 2
    assert looking.snapshot.status.now_ns == NOW_NS + S


def test_pausing_freezes_what_is_shown_and_going_on_shows_what_is() -> None:
    broker = Broker()
    looking = broker.looking()
    looking.pause()
    for _ in range(5):
        looking.refresh()
    assert (len(broker.asked), looking.marks().state) == (1, "PAUSED")
    looking.pause()
    assert (len(broker.asked), looking.marks().state) == (2, "")


def test_looking_into_a_client_shows_its_apis_and_back_is_where_it_was() -> None:
    broker = Broker()
    looking = broker.looking()
    looking.choose(NUMBERS["Clients"])
    looking.listing.move(1)
    assert looking.look_into()
    assert (looking.focus, looking.view.name) == (Focus(client="payments"), "APIs")
    assert looking.look_into()
    assert looking.focus == Focus(client="payments", api="Produce")
    assert broker.asked[-1] == looking.focus
    assert looking.back()
    assert looking.back()
    assert (looking.focus, looking.view.name) == (Focus(), "Clients")
    assert looking.selected.name == "payments"
    assert not looking.back()


def test_looking_into_what_is_looked_at_already_shows_its_slowest() -> None:
    looking = Broker().looking()
    looking.look_into()
    looking.choose(NUMBERS["APIs"])
    looking.look_into()
    assert (looking.focus, looking.view.name) == (Focus(api="Produce"), "Slowest")
    assert {row.api for row in looking.listing.rows} == {"Produce"}


def test_there_is_nothing_to_look_into_in_other_rows_and_without_rows() -> None:
    looking = Broker().looking()
    looking.choose(NUMBERS["Slowest"])
    assert not looking.look_into()
    assert not Broker(NOTHING).looking().look_into()


def test_the_client_topic_and_api_of_a_slow_exchange_can_be_looked_at() -> None:
    looking = Broker().looking()
    looking.choose(NUMBERS["Slowest"])
    looking.listing.place(1)
    assert looking.look_at("client")
    assert (looking.focus, looking.view.name) == (Focus(client="payments"), "APIs")
    assert looking.back()
    assert looking.view.name == "Slowest"
    assert looking.look_at("topic")
    assert looking.focus == Focus(topic="payments.dead-letters.retry-5m")
    looking.choose(NUMBERS["Slowest"])
    assert looking.look_at("api")
    assert looking.view.name == "Clients"


def test_a_row_without_a_client_or_topic_leads_nowhere() -> None:
    looking = Broker().looking()
    assert not looking.look_at("client")
    looking.choose(NUMBERS["Slowest"])
    looking.listing.place(3)
    assert looking.selected.client == ""
    assert not looking.look_at("client")
    assert looking.trail == []


def test_history_is_of_what_is_looked_at() -> None:
    looking = Broker().looking()
    looking.refresh()
    assert len(looking.history.rates) == 2
    looking.look_into()
    assert len(looking.history.rates) == 1


def test_a_filter_narrows_as_it_is_typed() -> None:
    looking = Broker().looking()
    looking.choose(NUMBERS["Clients"])
    press(looking, "/pay")
    assert (looking.filter, looking.is_typing, names(looking)) == ("pay", True, ["payments"])
    looking.type("backspace", None)
    assert (looking.filter, looking.is_typing) == ("pa", True)
    looking.type("enter", None)
    assert (looking.filter, looking.is_typing) == ("pa", False)
    looking.refresh()
    assert names(looking) == ["payments"]


def test_a_filter_is_left_by_escape_and_emptied_by_ctrl_u() -> None:
    looking = Broker().looking()
    press(looking, "/zzz")
    assert names(looking) == []
    looking.type("ctrl+u", None)
    assert (looking.filter, len(names(looking))) == ("", 8)
    press(looking, "zzz")
    looking.type("escape", None)
    assert (looking.filter, looking.is_typing, len(names(looking))) == ("", False, 8)


def test_keys_that_print_nothing_keep_what_they_do_while_typing() -> None:
    looking = Broker().looking()
    assert not looking.type("q", "q")
    press(looking, "/")
    assert not looking.type("down", None)
    assert looking.type("q", "q")


def test_back_undoes_a_filter_before_it_leaves_what_is_looked_at() -> None:
    looking = Broker().looking()
    looking.look_into()
    looking.narrow("pay")
    assert looking.back()
    assert (looking.filter, looking.focus) == ("", Focus(api="Produce"))


def test_views_go_round() -> None:
    looking = Broker().looking()
    looking.choose(-1)
    assert looking.view.name == "Problems"
    looking.choose(looking.number + 1)
    assert looking.view.name == "APIs"


def test_the_interval_has_steps_and_ends() -> None:
    looking = Broker().looking()
    seen = []
    for by in (1, 1, -1, -1, -1, -1, -1, -1):
        looking.hurry(by)
        seen.append(looking.interval_s)
    assert seen == [2.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.2, 0.2]


def test_windows_go_round_and_are_asked_for() -> None:
    broker = Broker()
    looking = broker.looking()
    for _ in range(3):
        looking.change_window()
    assert broker.windows == [300.0, 10.0, 30.0]


def test_after_the_end_one_more_snapshot_is_taken_and_then_none() -> None:
    broker = Broker()
    looking = broker.looking()
    broker.state = ENDED
    for _ in range(3):
        looking.refresh()
    assert (len(broker.asked), looking.marks().state) == (2, ENDED)


def test_what_is_left_can_still_be_looked_into_after_the_end() -> None:
    broker = Broker()
    looking = broker.looking()
    broker.state = ENDED
    looking.refresh()
    looking.look_into()
    assert looking.snapshot.focus == Focus(api="Produce")


def test_a_failure_is_seen() -> None:
    broker = Broker()
    looking = broker.looking()
    broker.state = FAILED
    looking.refresh()
    assert looking.state == FAILED


@pytest.mark.parametrize(
    ("view", "reasons"),
    [
        ("Errors", ["no errors in the last 1 s"]),
        ("Problems", ["no problems since the beginning"]),
    ],
)
def test_an_empty_table_says_why(view: str, reasons: list[str]) -> None:
    snapshot = NOTHING._replace(status=STANDING)
    looking = Broker(snapshot).looking()
    looking.choose(NUMBERS[view])
    assert looking.nothing() == reasons


def test_where_no_exchange_was_ever_seen_it_is_told_what_was() -> None:
    assert Broker(NOTHING).looking().nothing() == [
        "no exchanges in the last 1 s",
        "so far no exchange in 1\N{NARROW NO-BREAK SPACE}200 packets",
        "of 312 connections",
        "other ports of brokers: --port",
    ]


def test_where_rows_are_not_made_an_empty_table_says_so() -> None:
    looking = Broker(SNAPSHOT._replace(topics=())).looking()
    looking.snapshot = looking.snapshot._replace(status=STANDING._replace(level=3))
    looking.choose(NUMBERS["Topics"])
    assert looking.nothing() == [
        "no topics in the last 60 s",
        "some rows are not made: shed level 3",
    ]


def test_a_filter_that_nothing_has_says_so() -> None:
    looking = Broker().looking()
    looking.narrow("zzz")
    assert looking.nothing() == ["none of 8 rows has all words of the filter; Esc clears it"]
