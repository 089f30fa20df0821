"""Shedding: the order of what is shed, and the rest unchanged."""

import re
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.capture.packet import Packet
from kdissect.dissection.dissector import Dissector
from kdissect.errors import KdissectError
from kdissect.exchanges.memory_budget import MemoryBudget
from kdissect.limits import Limits
from kdissect.live.listener import Listener, Status
from kdissect.live.memory import fixed_bytes, limits_for, scaled_bytes
from kdissect.live.shedding import LEAVES_PACKETS, Shedder
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options, make_balance, make_dissector
from kdissect.sources.packet_source import Counts, PacketSource
from kdissect.tables.schemas import TABLES
from tests.live.shed_runs import ALWAYS, captured, dissected, whole

MIB = 1 << 20
SECOND = 1_000_000_000
EVERYTHING = tuple(TABLES)
SHEDDABLE = ("records", "bodies", "partitions", "batches")
# Their batches are of magic 2, so that headers have the number of records.
NEWER = (
    "quickstart.pcapng", "transactions-2.8.2.pcapng", "groups-4.3.1.pcapng", "sasl-4.3.1.pcapng",
    "share-groups-4.3.1.pcapng", "tls/tls-sasl-4.3.1.pcapng", "incident-lossy-network-4.3.1.pcapng",
    "networks/views/bridged-4.3.1-responses.pcapng", "networks/views/bridged-4.3.1-snap128.pcapng",
)  # fmt: skip
OLDER = ("old/kafka-0.7.pcapng", "old-formats-0.10.2.2.pcapng", "basics-0.8.2.2.pcapng")
CHANGES = st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 3)), min_size=1, max_size=12)


class Scene:
    """A shedder and its dissector, a second after the other."""

    def __init__(
        self,
        max_cpu: float | None = None,
        max_memory: int | None = None,
        tables: tuple[str, ...] = EVERYTHING,
    ) -> None:
        self.cpu_seconds = 0.0
        self.shedder = Shedder(max_cpu, max_memory, cpu=lambda: self.cpu_seconds)
        self.shedder.begin(tables)
        self.dissector = make_dissector(Options(tables=tables), False, False)
        self.now_ns = 1000 * SECOND
        self.dropped = 0
        self.balance = make_balance(self.dissector)

    def second(
        self, backlog: float = 0.0, drops: int = 0, cpu: float = 0.0, memory: int = 0
    ) -> int:
        """The level after one more second like that; `cpu` is in percent."""
        self.now_ns += SECOND
        self.dropped += drops
        self.cpu_seconds += cpu / 100
        status = Status(
            self.now_ns, self.balance, Counts(0, self.dropped), backlog, 0,
            memory=memory, cpu_seconds=self.cpu_seconds,
        )  # fmt: skip
        self.shedder.judge(status, self.now_ns, self.dissector)
        return self.shedder.level

    def seconds(self, count: int, **like: float) -> list[int]:
        return [self.second(**like) for _ in range(count)]  # type: ignore[arg-type]


# When it rises and falls


def test_a_buffer_more_than_half_full_leaves_out_a_level_a_second_in_the_order_of_cost() -> None:
    scene = Scene()
    assert scene.seconds(5, backlog=0.6) == [1, 2, 3, 3, 3]
    made = scene.dissector.detail
    assert (made.makes_records, made.makes_bodies, made.makes_partitions) == (False,) * 3
    assert (made.makes_exchanges, made.makes_errors, made.makes_members) == (True,) * 3


def test_nothing_happens_at_half_a_buffer() -> None:
    assert Scene().seconds(3, backlog=0.5) == [0, 0, 0]


def test_two_judgements_within_a_second_are_one_level() -> None:
    scene = Scene()
    assert scene.second(backlog=1.0) == 1
    scene.now_ns -= SECOND // 2
    assert scene.second(backlog=1.0) == 1


def test_packets_that_are_dropped_leave_out_a_level_for_each_second_with_drops() -> None:
    scene = Scene()
    assert [scene.second(drops=5), scene.second(), scene.second(drops=1)] == [1, 1, 2]


def test_levels_that_leave_out_nothing_asked_for_are_passed_over() -> None:
    scene = Scene(tables=("exchanges", "partitions"))
    assert scene.seconds(2, backlog=0.9) == [3, 3]
    scene = Scene(tables=("exchanges",))
    assert scene.seconds(2, backlog=0.9) == [0, 0]


def test_it_falls_a_level_after_ten_quiet_seconds_each() -> None:
    scene = Scene()
    scene.seconds(3, backlog=0.6)
    assert scene.seconds(31) == [3] * 10 + [2] * 10 + [1] * 10 + [0]


def test_a_buffer_that_is_neither_full_nor_empty_is_not_quiet() -> None:
    scene = Scene()
    scene.second(backlog=0.6)
    assert set(scene.seconds(30, backlog=0.2)) == {1}
    assert scene.seconds(5) + [scene.second(backlog=0.2)] + scene.seconds(11) == [1] * 16 + [0]


def test_falling_that_was_wrong_makes_the_next_quiet_time_twice_as_long() -> None:
    scene = Scene()
    quiet = []
    for _ in range(8):
        scene.second(backlog=0.6)
        count = 1
        while scene.second():
            count += 1
        quiet.append(count - 1)
    assert quiet == [10, 20, 40, 80, 160, 320, 320, 320]


def test_the_quiet_time_is_short_again_after_a_fall_that_was_right() -> None:
    scene = Scene()
    for _ in range(2):
        scene.second(backlog=0.6)
        scene.seconds(21)
    scene.seconds(70)
    assert scene.second(backlog=0.6) == 1
    assert scene.seconds(11) == [1] * 10 + [0]


# The limit on CPU


def test_cpu_is_judged_over_three_seconds() -> None:
    scene = Scene(max_cpu=50)
    assert scene.seconds(4, cpu=60) == [0, 0, 0, 1]
    assert scene.seconds(4, cpu=60) == [1, 1, 1, 2]


def test_less_cpu_than_allowed_changes_nothing() -> None:
    assert set(Scene(max_cpu=50).seconds(20, cpu=49)) == {0}


def test_cpu_just_below_the_limit_is_not_quiet() -> None:
    scene = Scene(max_cpu=50)
    scene.seconds(4, cpu=60)
    assert set(scene.seconds(60, cpu=40)) == {1}
    assert scene.seconds(20, cpu=30)[-1] == 0


def test_only_the_limit_on_cpu_leaves_packets_to_the_kernel() -> None:
    scene = Scene(max_cpu=50)
    assert scene.seconds(6, backlog=1.0, drops=100) == [1, 2, 3, 3, 3, 3]
    assert scene.seconds(4, cpu=80)[-1] == LEAVES_PACKETS
    assert Scene().seconds(20, cpu=100)[-1] == 0


def test_at_the_last_level_it_rests_until_the_limit_is_kept() -> None:
    scene = Scene(max_cpu=50)
    assert scene.shedder.pause_s(scene.now_ns) == 0.0
    scene.seconds(20, cpu=80)
    shedder = scene.shedder
    assert shedder.level == LEAVES_PACKETS
    assert shedder.pause_s(0) == 0.0
    scene.cpu_seconds += 0.1  # which are 0.2 s of half a processor
    assert shedder.pause_s(0) == pytest.approx(0.2)
    assert shedder.pause_s(SECOND // 20) == pytest.approx(0.15)
    scene.cpu_seconds += 10
    assert shedder.pause_s(SECOND // 20) == 0.5
    assert shedder.pause_s(60 * SECOND) == 0.0
    # Unused capacity is no credit.
    scene.cpu_seconds += 0.1
    assert shedder.pause_s(60 * SECOND) == pytest.approx(0.2)


# The limit on memory


def test_memory_over_the_limit_leaves_out_a_level_and_keeps_it_near_the_limit() -> None:
    scene = Scene(max_memory=100 * MIB)
    assert scene.seconds(4, memory=101 * MIB) == [1, 2, 3, 3]
    assert set(scene.seconds(30, memory=95 * MIB)) == {3}
    assert scene.seconds(11, memory=80 * MIB)[-1] == 2


def silent_connections() -> tuple[Dissector, int, int]:
    """A dissector with open connections: how many, and the time of the last packet."""
    taken = captured("quickstart.pcapng").packets
    dissector = make_dissector(Options(tables=EVERYTHING), False, False)
    dissector.feed(taken[:300])
    return dissector, len(dissector.streams.connections), taken[299].time_ns


def test_at_the_last_level_the_connections_that_were_silent_longest_end() -> None:
    dissector, count, last_ns = silent_connections()
    silent = sorted(one.last_time_ns for one in dissector.streams.connections)
    assert count > 4
    assert dissector.end_silent(silent[0] - 1, 10) == 0
    assert dissector.end_silent(last_ns, 3) == 3
    assert sorted(one.last_time_ns for one in dissector.streams.connections) == silent[3:]
    assert "limit" in dissector.sink.tables["connections"].column("closed_by").indices


def test_memory_that_stays_over_the_limit_ends_silent_connections_and_counts_them() -> None:
    scene = Scene(max_memory=100 * MIB)
    scene.dissector, count, last_ns = silent_connections()
    scene.now_ns = last_ns + 61 * SECOND
    scene.seconds(30, memory=120 * MIB)
    ended = count - len(scene.dissector.streams.connections)
    assert ended == 2  # one in sixteen, and at least one, every ten seconds
    assert scene.shedder.shed(scene.dissector)["connections"] == ended


def test_connections_that_still_speak_do_not_end_for_want_of_memory() -> None:
    scene = Scene(max_memory=100 * MIB)
    scene.dissector, count, last_ns = silent_connections()
    scene.now_ns = last_ns - 1000 * SECOND
    scene.seconds(30, memory=120 * MIB)
    assert len(scene.dissector.streams.connections) == count


# Limits that fit


def test_limits_fit_into_the_memory_that_there_may_be() -> None:
    for size in (352, 512, 1024):
        limits = limits_for(size * MIB, 32 * MIB)
        assert fixed_bytes(32 * MIB) + scaled_bytes(limits) <= size * MIB
        assert fixed_bytes(32 * MIB) + scaled_bytes(limits) > (size - 1) * MIB


def test_limits_never_grow() -> None:
    assert limits_for(1 << 40) == Limits()
    own = Limits(connections=10, frame_bytes=1000)
    assert limits_for(1 << 40, limits=own) == own


def test_too_little_memory_is_an_error_with_the_required_size() -> None:
    with pytest.raises(KdissectError) as raised:
        limits_for(64 * MIB, 32 * MIB)
    told = "64 MiB of memory are too few: the process and its buffer of 32 MiB need 320 MiB"
    least = fixed_bytes(32 * MIB) + int(scaled_bytes(Limits()) / 32) + MIB
    assert str(raised.value) == told.replace("320", str(least // MIB)) + " at least"
    assert limits_for(least // MIB * MIB, 32 * MIB).connections >= 2048


# Shed data


def known(table: str, rows: list[str]) -> Counter[str]:
    """The rows without columns that need unpacked records."""
    if table != "batches":
        return Counter(rows)
    return Counter(re.sub(r"'uncompressed_size': (None|\d+)", "", row) for row in rows)


@pytest.mark.sweep
@pytest.mark.parametrize("name", NEWER)
@settings(max_examples=8)
@given(changes=CHANGES)
def test_shedding_at_any_time_leaves_other_tables_unchanged_and_is_counted(
    name: str, changes: list[tuple[int, int]]
) -> None:
    made = dissected(name, changes)
    for table in ALWAYS:
        assert made.rows[table] == whole(name).rows[table]
    for table in SHEDDABLE:
        everything = whole(name).rows[table]
        assert known(table, made.rows[table]) <= known(table, everything)
        assert len(made.rows[table]) + made.shed[table] == len(everything)


@pytest.mark.parametrize("name", OLDER)
@settings(max_examples=8)
@given(changes=CHANGES)
def test_of_old_formats_too_but_records_of_wrappers_are_counted_as_batches(
    name: str, changes: list[tuple[int, int]]
) -> None:
    made = dissected(name, changes)
    for table in ALWAYS:
        assert made.rows[table] == whole(name).rows[table]
    for table in ("bodies", "partitions", "batches"):
        assert len(made.rows[table]) + made.shed[table] == len(whole(name).rows[table])
    missing = len(whole(name).rows["records"]) - len(made.rows["records"])
    assert made.shed["records"] <= missing
    assert (made.shed["record_batches"] > 0) == (missing > 0)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_from_the_first_packet_on_each_level_leaves_out_its_tables(level: int) -> None:
    made = dissected("quickstart.pcapng", [(0, level)])
    left_out = {1: ("records",), 2: ("records", "bodies"), 3: SHEDDABLE}[level]
    everything = whole("quickstart.pcapng").rows
    for table in SHEDDABLE:
        expected = [] if table in left_out else everything[table]
        assert known(table, made.rows[table]) == known(table, expected)
        assert made.shed[table] == (len(everything[table]) if table in left_out else 0)


def test_nothing_is_counted_where_nothing_was_asked_for() -> None:
    options = Options(tables=("exchanges", "partitions"))
    shed = dissected("quickstart.pcapng", [(0, 3)], options).shed
    rows = len(whole("quickstart.pcapng").rows["partitions"])
    assert shed == {
        "records": 0, "record_batches": 0, "bodies": 0, "partitions": rows, "batches": 0,
    }  # fmt: skip


def test_messages_that_are_kept_for_bodies_are_let_go() -> None:
    dissector = make_dissector(Options(tables=("exchanges", "bodies")), False, False)
    taken = captured("quickstart.pcapng").packets
    held = []
    for packet in taken:
        dissector.feed([packet])
        if dissector.exchanges.memory_budget.request_bytes > 2000:
            break
    held.append(dissector.exchanges.memory_budget.request_bytes)
    dissector.set_detail(2)
    held.append(dissector.exchanges.memory_budget.request_bytes)
    waiting = [
        exchange
        for state in dissector.exchanges.states.values()
        for exchange in state.pending[state.pending_head :]
    ]
    assert {exchange.request_frame for exchange in waiting} == {None}
    alone = MemoryBudget()
    for exchange in waiting:
        alone.add_request(exchange)
    assert held[0] > held[1] == alone.request_bytes


# All together


class BusyWire(PacketSource):
    """Packets of a capture, some each second; there are too many in the first two."""

    def __init__(self, name: str, clock: "Clock", count: int) -> None:
        taken = captured(name)
        self.names = taken.names
        self._clock = clock
        self._left = [taken.packets[at : at + count] for at in range(0, len(taken.packets), count)]
        self.reads = 0

    def read(self, wait_s: float) -> list[Packet] | None:
        self._clock.ns += SECOND
        self.reads += 1
        taken = self._left.pop(0) if self._left else None
        return taken and [self._now(packet) for packet in taken]

    def _now(self, packet: Packet) -> Packet:
        return Packet(
            packet.number, self._clock.ns, packet.link_type, packet.data, packet.start,
            packet.end, packet.original_length, packet.ordinal, packet.capture,
        )  # fmt: skip

    def close(self) -> None:
        pass

    def backlog(self) -> float:
        return 0.9 if self.reads <= 2 else 0.0


class Clock:
    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


class Keeping(Listener):
    def __init__(self) -> None:
        self.tables = frozenset(TABLES)
        self.rows: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}
        self.levels: list[int] = []
        self.last: Status | None = None

    def take(self, table: str, batch: "object") -> None:
        self.rows[table] += batch.to_pylist()  # type: ignore[attr-defined]

    def tick(self, status: Status) -> None:
        self.levels.append(status.level)

    def finish(self, status: Status) -> None:
        self.last = status


def test_watcher_sheds_as_its_shedder_decides_and_reports_it() -> None:
    clock, keeping = Clock(), Keeping()
    Watcher(BusyWire("quickstart.pcapng", clock, 40), [keeping], clock=clock).run()
    assert keeping.levels[:24] == [1, *[2] * 11, *[1] * 10, 0, 0]
    assert keeping.last is not None
    shed = keeping.last.shed
    everything = whole("quickstart.pcapng").rows
    for table in SHEDDABLE:
        assert len(keeping.rows[table]) + shed.get(table, 0) == len(everything[table])
    assert set(shed) == {"records", "record_batches", "bodies"}
    told = [
        (row["stage"], row["kind"], row["message"])
        for row in keeping.rows["problems"]
        if row["stage"] == "live"
    ]
    levels = ["level 0 (all)", "level 1 (no records)", "level 2 (no bodies)"]
    full, quiet = "the buffer is 90 % full", "quiet for 10 s"
    assert told == [
        ("live", "load-shed", f"from {levels[0]} to {levels[1]}: {full}"),
        ("live", "load-shed", f"from {levels[1]} to {levels[2]}: {full}"),
        ("live", "load-restored", f"from {levels[2]} to {levels[1]}: {quiet}"),
        ("live", "load-restored", f"from {levels[1]} to {levels[0]}: {quiet}"),
    ]


class HungryWire(PacketSource):
    """Each packet takes 5 ms of a processor."""

    def __init__(self, seconds: float) -> None:
        self.names = ["hungry"]
        self._packets = captured("quickstart.pcapng").packets
        self._end = time.monotonic() + seconds
        self.reads = 0

    def read(self, wait_s: float) -> list[Packet] | None:
        until = time.process_time() + 0.005
        while time.process_time() < until:
            pass
        self.reads += 1
        return self._packets[self.reads :][:1] if time.monotonic() < self._end else None

    def close(self) -> None:
        pass


def test_a_process_at_the_last_level_takes_no_more_than_it_may() -> None:
    packet_source, shedder = HungryWire(1.0), Shedder(max_cpu=20)
    watcher = Watcher(packet_source, [Keeping()], Options(), shedder=shedder)
    shedder.level = LEAVES_PACKETS
    began, cpu = time.monotonic(), time.process_time()
    while watcher.step():
        pass
    used = (time.process_time() - cpu) / (time.monotonic() - began)
    assert 4 < packet_source.reads < 80
    assert used < 0.4
