import os
import threading
import time
from pathlib import Path

import pytest

import kdissect
from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.errors import CaptureError, OutputError
from kdissect.live.listener import Listener, Status
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.sources.delay_buffer import DelayBuffer
from kdissect.sources.packet_source import Counts
from kdissect.sources.pipe_source import PipeSource
from kdissect.sources.recorded_source import RecordedSource
from kdissect.tables.schemas import TABLES
from tests.live.listening import Given, Kept, Row, packet_at

CAPTURES = Path(__file__).parents[2] / "captures"
SECOND_NS = 1_000_000_000
NOON_NS = 1_700_000_000 * SECOND_NS


def in_order(rows: list[Row]) -> list[str]:
    return sorted(map(repr, rows))


def tables_of(source: Path, **options: object) -> dict[str, list[str]]:
    """All tables as they are read from a file, the rows in any order."""
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    run = kdissect.Run(source, Options(tables=tuple(TABLES), **options))  # type: ignore[arg-type]
    for name, batch in run:
        rows[name] += batch.to_pylist()
    return {name: in_order(found) for name, found in rows.items()}


def packets_of(source: Path) -> list[Packet]:
    with open_captures(source) as capture:
        return [packet for batch in capture for packet in batch]


@pytest.mark.parametrize(
    "name", ["quickstart.pcapng", "tls/tls13-4.3.1.pcapng", "tls/tls12-4.3.1.pcapng"]
)
def test_a_replay_has_the_rows_of_a_run(name: str) -> None:
    keylog = sorted(CAPTURES.glob(name.replace(".pcapng", ".keys")))
    kept = Kept()
    with RecordedSource(CAPTURES / name) as packet_source:
        watcher = Watcher(packet_source, [kept], Options(keylog=keylog))
        watcher.run()
    assert kept.said == ["begin", "finish"]
    found = {table: in_order(rows) for table, rows in kept.rows.items()}
    assert found == tables_of(CAPTURES / name, keylog=keylog)
    assert kept.ticks[-1].balance == watcher.status().balance


def test_ticks_are_a_second_of_the_packets_clock_apart() -> None:
    kept = Kept()
    times = [NOON_NS + at * SECOND_NS // 10 for at in range(35)]
    packet_source = Given(*([packet_at(time_ns)] for time_ns in times))
    Watcher(packet_source, [kept], clock=lambda: 0).run()
    assert [(tick.now_ns - NOON_NS) / SECOND_NS for tick in kept.ticks] == [0, 1, 2, 3, 3.4]


def test_where_no_packets_come_ticks_go_on_by_this_machines_clock() -> None:
    kept = Kept()
    now = [0]
    watcher = Watcher(Given([packet_at(NOON_NS)], *[[]] * 30), [kept], clock=lambda: now[0])
    watcher.begin()
    for tenths in range(30):
        now[0] = tenths * SECOND_NS // 10
        watcher.step()
    assert [(tick.now_ns - NOON_NS) / SECOND_NS for tick in kept.ticks] == [0, 1, 2]


def test_when_the_packets_clock_goes_back_ticks_go_on() -> None:
    kept = Kept()
    clock = iter(range(0, 10_000 * SECOND_NS, SECOND_NS // 10))
    times = [NOON_NS + 7200 * SECOND_NS, *(NOON_NS + at * SECOND_NS for at in range(20))]
    packet_source = Given(*([packet_at(time_ns)] for time_ns in times))
    Watcher(packet_source, [kept], clock=lambda: next(clock)).run()
    known = [tick.now_ns for tick in kept.ticks]
    assert len(known) > 5
    assert known == sorted(known)


class Slow(Given):
    """Takes five seconds to count."""

    now_ns = 0

    def counts(self) -> Counts:
        self.now_ns = 5 * SECOND_NS
        return super().counts()


@pytest.mark.parametrize("ahead_ns", [0, 1_000_000])
def test_ticks_go_on_where_the_packets_clock_stands_still_or_lags(ahead_ns: int) -> None:
    """Packets arrive every half second, by a clock that stands still or is slow."""
    kept = Kept()
    now = [0]
    batches = [[packet_at(NOON_NS + number * ahead_ns)] for number in range(12)]
    watcher = Watcher(
        Given(*(batch for few in batches for batch in (few, []))), [kept], clock=lambda: now[0]
    )
    watcher.begin()
    for halves in range(12):
        now[0] = halves * SECOND_NS // 2
        watcher.step()
        now[0] += SECOND_NS // 2
        watcher.step()
    assert [round((tick.now_ns - NOON_NS) / SECOND_NS) for tick in kept.ticks] == [*range(7)]


def test_ticks_go_on_where_a_clock_was_set_back_while_nothing_came() -> None:
    """An hour without packets; the clock was set back by half of it, so its times still grow."""
    kept = Kept()
    now = [0]
    hour = 3_600 * SECOND_NS
    batches = [[packet_at(NOON_NS)], [], [packet_at(NOON_NS + hour // 2)], [], [], []]
    watcher = Watcher(Given(*batches), [kept], clock=lambda: now[0])
    watcher.begin()
    for now[0] in (0, hour, hour, hour + SECOND_NS, hour + 2 * SECOND_NS, hour + 3 * SECOND_NS):
        watcher.step()
    assert [(tick.now_ns - NOON_NS - hour) / SECOND_NS for tick in kept.ticks[1:]] == [0, 1, 2, 3]


def test_how_things_are_at_the_end_is_not_of_a_time_before_the_last_tick() -> None:
    kept = Kept()
    packet_source = Slow([packet_at(NOON_NS)], [packet_at(NOON_NS + SECOND_NS // 2)])
    Watcher(packet_source, [kept], clock=lambda: packet_source.now_ns).run()
    assert [(tick.now_ns - NOON_NS) / SECOND_NS for tick in kept.ticks] == [5, 5]


class Failing(Kept):
    """One of its operations fails."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def begin(self, watcher: object) -> None:
        if self.what == "begin":
            raise OutputError("no begin")
        super().begin(watcher)

    def tick(self, status: Status) -> None:
        if self.what == "tick":
            raise OutputError("no tick")

    def finish(self, status: Status) -> None:
        super().finish(status)
        if self.what == "finish":
            raise OutputError("no finish")


@pytest.mark.parametrize("what", ["begin", "tick", "finish"])
def test_when_one_listener_fails_the_others_finish(what: str) -> None:
    one, failing, other = Kept(), Failing(what), Kept()
    with RecordedSource(CAPTURES / "quickstart.pcapng") as packet_source:
        watcher = Watcher(packet_source, [one, failing, other])
        with pytest.raises(OutputError, match=f"no {what}"):
            watcher.run()
    assert one.said == ["begin", "finish"]
    assert failing.said == ([] if what == "begin" else ["begin", "finish"])
    assert other.said == ([] if what == "begin" else ["begin", "finish"])


def test_rows_read_before_a_source_failure_reach_listeners() -> None:
    class Broken(Given):
        def read(self, wait_s: float) -> list[Packet] | None:
            packets = super().read(wait_s)
            if packets is None:
                raise CaptureError("gone")
            return packets

    packets = packets_of(CAPTURES / "quickstart.pcapng")
    kept = Kept()
    with pytest.raises(CaptureError, match="gone"):
        Watcher(Broken(packets), [kept]).run()
    assert len(kept.rows["exchanges"]) == 331


def test_it_stops_soon_where_nothing_comes() -> None:
    source, sink = os.pipe()
    kept = Kept()
    watcher = Watcher(PipeSource(source), [kept])
    running = threading.Thread(target=watcher.run)
    running.start()
    time.sleep(0.05)
    begin = time.monotonic()
    watcher.stop()
    running.join(10)
    assert time.monotonic() - begin < 0.5
    assert kept.said == ["begin", "finish"]
    os.close(source)
    os.close(sink)


def test_packets_before_a_stop_request_are_processed() -> None:
    source, sink = os.pipe()
    packet_source = PipeSource(source)
    capture = CAPTURES / "quickstart.pcapng"
    os.write(sink, capture.read_bytes())
    kept = Kept()
    # The deadline after a stop is on a stopped clock, however slow the machine is.
    watcher = Watcher(packet_source, [kept], clock=lambda: 0)
    watcher.stop()
    watcher.run()
    found = {table: in_order(rows) for table, rows in kept.rows.items()}
    expected = {table: [row.replace(str(capture), f"descriptor {source}") for row in rows]
                for table, rows in tables_of(capture).items()}  # fmt: skip
    assert found == expected
    os.close(source)
    os.close(sink)


def test_packets_that_the_host_lost_are_problems() -> None:
    kept = Kept(["problems"])
    packet_source = Given(*([packet_at(NOON_NS + at * SECOND_NS)] for at in range(3)))
    watcher = Watcher(packet_source, [kept], clock=lambda: 0)
    watcher.begin()
    watcher.step()
    packet_source.counted = Counts(100, 7)
    watcher.step()
    packet_source.counted = Counts(200, 9)
    watcher.finish()
    assert [(row["kind"], row["message"]) for row in kept.rows["problems"]][-2:] == [
        ("dropped-packets", "given: the capturing host lost 7 packets"),
        ("dropped-packets", "given: the capturing host lost 2 packets"),
    ]


def test_source_that_cannot_be_reopened_is_a_problem_and_capture_continues() -> None:
    class Closed(Given):
        def reopen(self) -> None:
            raise CaptureError("given: permission denied")

    kept = Kept(["problems"])
    watcher = Watcher(Closed([packet_at(NOON_NS)]), [kept])
    watcher.reopen()
    watcher.run()
    assert kept.said == ["begin", "reopen", "finish"]
    assert kept.rows["problems"][0]["kind"] == "not-reopened"


def test_keys_that_come_a_moment_after_the_packets_are_used(tmp_path: Path) -> None:
    capture = CAPTURES / "tls/tls13-4.3.1.pcapng"
    secrets = (CAPTURES / "tls/tls13-4.3.1.keys").read_bytes()
    keylog = tmp_path / "keys"
    keylog.write_bytes(b"# keys\n")
    packets = packets_of(capture)
    kept = Kept(["exchanges"])
    now = [0.0]
    packet_source = DelayBuffer(Given(packets, []), 0.25, lambda: now[0])
    watcher = Watcher(packet_source, [kept], Options(keylog=keylog))
    watcher.begin()
    assert watcher.step()
    assert watcher.status().balance.packets == 0
    keylog.write_bytes(secrets)
    now[0] = 0.3
    watcher.step()
    assert watcher.status().balance.packets == len(packets)
    watcher.finish()
    expected = kdissect.read(capture, table="exchanges", keylog=CAPTURES / "tls/tls13-4.3.1.keys")
    assert len(kept.rows["exchanges"]) == expected.to_arrow().num_rows > 0


def test_listeners_need_override_nothing() -> None:
    with RecordedSource(CAPTURES / "quickstart.pcapng") as packet_source:
        Watcher(packet_source, [Listener()]).run()
