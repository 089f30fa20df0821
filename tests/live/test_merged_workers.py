"""Sums of workers: of rows split between them, they are those of one process with all rows."""

import random
import socket
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import given as for_any
from hypothesis import strategies as st

from kdissect.live.counting.mergeable import merge
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.counting.samples import Samples
from kdissect.live.counting.snapshot import Snapshot, Timed
from kdissect.live.workers.forking import Worker
from kdissect.live.workers.messages import (
    CAPTURES,
    FINISH,
    NOTHING,
    Inbox,
    Learned,
    Order,
    Report,
    send,
)
from kdissect.live.workers.summed_metrics import SummedMetrics
from kdissect.live.workers.supervisor import Supervisor
from kdissect.live.workers.totals import total
from kdissect.sources.packet_source import Counts
from tests.live.made_rows import exchange, given, handed, status
from tests.live.test_meters_any_rows import BATCHES
from tests.seeds import IS_EVERY_CASE, SEED

Rows = dict[str, list[dict[str, Any]]]
# Gauges of one process: of several they are not those of one with all rows.
OF_A_PROCESS = {
    "kdissect_label_names", "kdissect_label_names_left_out", "kdissect_group_generation_changes",
}  # fmt: skip


def part(rows: Rows, number: int) -> Rows:
    """The rows of one of two workers."""
    return {
        table: [row for row in some if row[key_of(table)] % 2 == number]
        for table, some in rows.items()
    }


def in_order(ticks: list[Rows]) -> list[Rows]:
    """The rows in the order of their ids, as a dissector gives them."""
    return [
        {table: sorted(some, key=itemgetter(key_of(table))) for table, some in rows.items()}
        for rows in ticks
    ]


def key_of(table: str) -> str:
    return "connection_id" if table == "connections" else "exchange_id"


def counted(listener: Any, ticks: list[Rows]) -> Any:
    """The listener, after a second of each of these rows."""
    for at, rows in enumerate(ticks):
        given(listener, handed(rows))
        listener.tick(status(at + 1.0))
    return listener


def merged(ticks: list[Rows]) -> Snapshot:
    parts = [counted(Meters(), [part(rows, number) for rows in ticks]) for number in (0, 1)]
    return merge([one.mergeable() for one in parts], parts[0].snapshot().status)


def by_name(timed: tuple[Timed, ...]) -> dict[str, Any]:
    return {one.name: pytest.approx(one[1:]) for one in timed}


@settings(max_examples=30 if IS_EVERY_CASE else 8, phases=[Phase.generate], database=None)
@for_any(st.lists(BATCHES, min_size=1, max_size=3))
def test_a_merged_snapshot_is_that_of_all_rows(ticks: list[Rows]) -> None:
    ticks = in_order(ticks)
    whole, both = counted(Meters(), ticks).snapshot(), merged(ticks)
    assert both.window_s == whole.window_s
    assert both.whole[1:] == pytest.approx(whole.whole[1:])
    for name in ("apis", "clients", "topics"):
        shown = {one.name: one[1:] for one in getattr(both, name)}
        assert shown == by_name(getattr(whole, name))
    counts = [{(one.error, one.api): one.errors for one in each.errors} for each in (both, whole)]
    assert counts[0] == counts[1]
    groups = [{one.group_id: one.events for one in each.groups} for each in (both, whole)]
    assert groups[0] == groups[1]
    own = [sorted(one.latency_ns - one.wait_ns for one in each.slowest) for each in (both, whole)]
    assert own[0] == own[1]
    assert (both.clients_seen, both.topics_seen) == (whole.clients_seen, whole.topics_seen)


def page(samples: Samples) -> dict[Any, float]:
    """Samples that are not 0, by metric and labels; without those that are of a process."""
    found = {
        (name, labels): value
        for name, some in samples.values.items()
        if name not in OF_A_PROCESS
        for labels, value in some
        if value
    }
    for name, some in samples.distributions.items():
        for one in some:
            found |= {(name, one.labels, bound): value for bound, value in one.buckets if value}
            found[name, one.labels] = one.total
    return found


@settings(max_examples=30 if IS_EVERY_CASE else 8, phases=[Phase.generate], database=None)
@for_any(st.lists(BATCHES, min_size=1, max_size=3))
def test_summed_metrics_are_those_of_all_rows(ticks: list[Rows]) -> None:
    """But generations of groups, whose changes are seen by the workers of all their members."""
    whole = MetricsListener()
    parts = [MetricsListener(), MetricsListener()]
    both = SummedMetrics(2, 100)
    for at, rows in enumerate(in_order(ticks)):
        del rows["connections"]  # counts of ended connections are never missing in real ones
        counted_at(whole, rows, at)
        for number, one in enumerate(parts):
            counted_at(one, part(rows, number), at)
        both.add([one.samples() for one in parts], {})
    assert page(both.samples()) == pytest.approx(page(whole.samples()))


def counted_at(listener: MetricsListener, rows: Rows, at: int) -> None:
    given(listener, handed(rows))
    listener.tick(status(at + 1.0))


def test_names_beyond_the_limit_share_one_label_and_no_count_is_lost() -> None:
    draw = random.Random(SEED)
    parts = [MetricsListener(4), MetricsListener(4)]
    both = SummedMetrics(2, 4)
    sent = 0
    for at in range(5):
        for one in parts:
            count = draw.randrange(1, 20)
            rows = [exchange(n, client_id=f"c{draw.randrange(9)}") for n in range(count)]
            counted_at(one, {"exchanges": rows}, at)
            sent += count
        both.add([one.samples() for one in parts], {})
    values = dict(both.samples().values)
    names = {labels[1] for labels, _ in values["kdissect_exchanges"]}
    assert len(names - {"other"}) <= 4
    assert sum(value for _, value in values["kdissect_exchanges"]) == sent
    assert dict(values["kdissect_all_exchanges"]) == {(): sent}


def test_counters_do_not_fall_when_a_worker_forgets_a_name() -> None:
    def of(**counts: int) -> Samples:
        return Samples({"kdissect_throttled_exchanges": [((c,), n) for c, n in counts.items()]}, {})

    both = SummedMetrics(2, 100)
    shown = []
    for one, other in (({"a": 5}, {"a": 3}), ({}, {"a": 4}), ({"a": 2}, {"a": 4}), ({}, {})):
        both.add([of(**one), of(**other)], {})
        shown.append(both.samples().values.get("kdissect_throttled_exchanges"))
    assert shown == [[(("a",), 8)], [(("a",), 9)], [(("a",), 11)], None]


def test_a_generation_that_two_workers_see_is_one_change() -> None:
    def of(generation: int, changes: int) -> Samples:
        return Samples(
            {
                "kdissect_group_generation": [(("g",), generation)],
                "kdissect_group_generation_changes": [(("g",), changes)] if changes else [],
            },
            {},
        )

    both = SummedMetrics(2, 100)
    counts = []
    # Generation and changes of each worker: the second one sees the same a little later.
    for one, other in (
        ((1, 0), (1, 0)), ((2, 1), (1, 0)), ((2, 1), (2, 1)), ((4, 3), (4, 2)), ((4, 3), (5, 3)),
    ):  # fmt: skip
        both.add([of(*one), of(*other)], {})
        counts.append(both.samples().values.get("kdissect_group_generation_changes"))
    assert counts == [None, *([(("g",), n)] for n in (1, 1, 3, 4))]


def test_statuses_add_up_and_the_worst_is_shown() -> None:
    one = status(1, 10, problems={"a": 1}, backlog=0.5, level=2, shed={"records": 3}, memory=100)
    other = status(2, 20, problems={"a": 2, "b": 1}, open_connections=7, cpu_seconds=1.5)
    other = other._replace(packet_source=Counts(30, 10))
    both = total([one, other], memory=50, cpu_seconds=0.25)
    assert both == other._replace(
        balance=both.balance, backlog=0.5, level=2, shed={"records": 3}, memory=150,
        cpu_seconds=1.75,
    )  # fmt: skip
    assert (both.balance.packets, both.balance.problems) == (30, {"a": 3, "b": 1})


def test_messages_arrive_whole_however_they_are_cut() -> None:
    ours, theirs = socket.socketpair()
    orders = [Order("report", NOTHING._replace(names={b"x" * 16: "orders"}), True), Order("stop")]
    for order in orders:
        send(ours, order)
    ours.close()
    content = b"".join(iter(lambda: theirs.recv(1 << 16), b""))
    again, there = socket.socketpair()
    inbox, found = Inbox(), []
    for at in range(0, len(content), 7):
        again.sendall(content[at : at + 7])
        found += inbox.receive(there)
    assert found == orders
    again.close()
    with pytest.raises(EOFError):
        inbox.receive(there)
    for one in (theirs, there):
        one.close()


def test_a_window_that_is_shorter_counts_more() -> None:
    """Rates are per second of each worker's window: one had more rows than are kept."""
    full = counted(Meters(), [{"exchanges": [exchange(n) for n in range(50)]}])
    short = counted(Meters(kept_rows=10), [{"exchanges": [exchange(n) for n in range(50)]}])
    both = merge([full.mergeable(), short.mergeable()], full.snapshot().status)
    assert both.is_sampled
    assert both.whole.rate == pytest.approx(100, rel=0.1)


def test_a_worker_that_does_not_answer_gets_silent() -> None:
    """The service manager is not told any more that the service is alive."""
    now = [100.0]
    ours, theirs = socket.socketpair()
    supervisor = Supervisor([Worker(0, 0, ours)], clock=lambda: now[0])
    reports = Inbox()
    supervisor.ask(False, 0)
    assert [order.kind for order in reports.receive(theirs)] == ["report"]
    send(theirs, Report(CAPTURES, 0.5, NOTHING, None, None, (), None))
    now[0] += 1
    supervisor.listen(0)
    assert supervisor.silent_s == 0.5
    now[0] += 30
    supervisor.ask(False, 0)  # it is asked, and does not answer
    supervisor.ask(False, 0)
    assert len(reports.receive(theirs)) == 1
    assert (supervisor.silent_s, supervisor.phase, supervisor.lost) == (30.5, CAPTURES, {})
    ours.close()
    theirs.close()


def test_what_one_worker_learns_goes_to_the_others_with_their_next_order() -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    supervisor = Supervisor([Worker(number, 0, ours) for number, (ours, _) in enumerate(pairs)])
    learned = Learned({b"i" * 16: "orders"}, {"readers": ("consumer", "range")})
    supervisor.ask(False, 0)
    send(pairs[1][1], Report(CAPTURES, 0.0, learned, None, None, (), None))
    supervisor.listen(0)
    supervisor.order(FINISH)
    orders = [Inbox().receive(theirs) for _, theirs in pairs]
    assert [one[-1].learned for one in orders] == [learned, NOTHING, learned]
    for ours, theirs in pairs:
        ours.close()
        theirs.close()
