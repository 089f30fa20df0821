"""Findings of several workers: those of one process, though each has some connections."""

import random
import re
from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.api import live_findings
from kdissect.api.finding_states import BEGUN, FindingEvent
from kdissect.api.finding_window import Captured
from kdissect.api.live_findings import findings_of
from kdissect.api.shared_window import (
    SharedFindings,
    SharedWindow,
    decoded,
    encoded,
    merged,
)
from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.listener import Listener
from kdissect.live.watcher import Watcher
from kdissect.live.workers.messages import WindowPart
from kdissect.live.workers.summed_metrics import SummedMetrics
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import flow_of
from kdissect.rules.finding import Finding
from tests.live.made_rows import SECOND, GivenWire, batch, exchange, status
from tests.live.replays import CAPTURES
from tests.live.test_live_findings import HOUR_S, STALLED, told
from tests.seeds import SEED

# Those with TLS have their secrets in blocks, which these tests do not pass on.
SWEPT = sorted(path for path in CAPTURES.glob("*.pcapng") if not path.name.startswith("tls"))
EXAMPLE = re.compile(r"for example [^)]+")
CHOSEN = (
    "cluster-3.9.1.pcapng", "incident-group-changes-4.3.1.pcapng", "sasl-4.3.1.pcapng",
    "incident-leader-killed-4.3.1.pcapng",
)  # fmt: skip


def shares(capture: Path, workers: int) -> list[list[Packet]]:
    """The packets of a capture by connection, each of one worker."""
    found: list[list[Packet]] = [[] for _ in range(workers)]
    decoder = PacketDecoder()
    with open_captures(str(capture)) as packets:
        for part in packets:
            for packet in part:
                segment = decoder.decode(packet)
                found[0 if segment is None else worker_of(flow_of(segment), workers)].append(packet)
    return found


def worker_of(flow: bytes, workers: int) -> int:
    width = (len(flow) - 4) // 2
    ends = [flow[:width] + flow[-4:-2], flow[width : 2 * width] + flow[-2:]]
    return random.Random(f"{SEED} {min(ends).hex()} {max(ends).hex()}").randrange(workers)


class Names(Listener):
    """Names of topics that others know, which workers tell each other."""

    def __init__(self, names: dict[bytes, str]) -> None:
        self._names = names

    def begin(self, watcher: Any) -> None:
        watcher.names.update(self._names)


def names_of(capture: Path) -> dict[bytes, str]:
    with open_captures(str(capture)) as packets:
        watcher = Watcher(GivenWire(*packets), [])
        watcher.run()
    return watcher.names


def taken(window: SharedWindow) -> WindowPart:
    part = window.take_encoded()
    assert part is not None
    return part


def windows(capture: Path, workers: int) -> list[Captured]:
    names = names_of(capture)
    found = []
    for packets in shares(capture, workers):
        window = SharedWindow(10 * HOUR_S, 1)
        Watcher(GivenWire(packets), [Names(names), window]).run()
        part = taken(window)
        assert part.is_last
        found.append(decoded(part))
    return found


def words(findings: list[Finding]) -> list[tuple[str, str, list[str]]]:
    """What is told: which of equal names is first, or an example, depends on the order of rows."""
    return [(id_, severity, sorted(re.findall(r"[^\s,()]+", EXAMPLE.sub("", text))))
            for id_, severity, text in told(findings)]  # fmt: skip


def assert_same(capture: Path) -> None:
    together = merged(windows(capture, random.Random(SEED).randint(2, 4)))
    assert words(findings_of(together)) == words(kdissect.findings(str(capture)))


@pytest.mark.parametrize("name", CHOSEN)
def test_findings_of_workers_are_those_of_the_capture(name: str) -> None:
    assert_same(CAPTURES / name)


@pytest.mark.sweep
@pytest.mark.parametrize("capture", SWEPT, ids=lambda path: path.name)
def test_findings_of_workers_are_those_of_any_capture(capture: Path) -> None:
    assert_same(capture)


class Stepped:
    """A worker whose packets come in as many parts as those of others, and its window."""

    def __init__(self, packets: list[Packet], times_ns: list[int], names: dict[bytes, str]) -> None:
        parts: list[list[Packet]] = [[] for _ in times_ns]
        # Each begins with a packet: until then a replay has the time of this host.
        parts[0].append(packets[0])
        for packet in packets[1:]:
            parts[bisect_left(times_ns, packet.time_ns)].append(packet)
        self.window = SharedWindow(30, 2)
        self.watcher = Watcher(GivenWire(*parts), [Names(names), self.window])
        self.watcher.begin()


@pytest.mark.slow
def test_a_broker_that_stalls_is_told_by_the_first_process_while_it_is_captured() -> None:
    packets = shares(STALLED, 2)
    first, last = (
        choose(packet.time_ns for some in packets for packet in some) for choose in (min, max)
    )
    times_ns = list(range(first, last + SECOND, SECOND // 2)) + [last]
    names = names_of(STALLED)
    workers = [Stepped(some, sorted(times_ns), names) for some in packets]
    events: list[FindingEvent] = []
    findings = SharedFindings(30, 2, say=events.append, is_waiting=True)
    for now_ns in sorted(times_ns):
        now = status()._replace(now_ns=now_ns)
        is_due = findings.is_due(now)
        since_ns = max(one.window.begin_ns for one in workers)
        for number, one in enumerate(workers):
            one.window.ask(since_ns, is_due)
            one.watcher.step(0)
            one.watcher._tick()
            data = one.window.take_encoded()
            if data is not None:
                findings.take(number, data)
    assert [(one.event, one.finding.id) for one in events] == [(BEGUN, "broker-stalls")]
    assert findings.labels() == [("broker-stalls", "problem")]
    for number, one in enumerate(workers):
        one.watcher.finish()
        findings.take(number, taken(one.window))
    findings.finish(now)
    assert "broker-stalls" in [one.finding.id for one in findings.current]


def part(number: int, count: int, begin_ns: int = 5, is_last: bool = False) -> WindowPart:
    rows = [exchange(at, connection_id=number) for at in range(count)]
    captured = Captured([("exchanges", batch("exchanges", rows))], {}, begin_ns, 9)
    return encoded(captured, is_last)


def test_connections_and_exchanges_of_workers_are_different_ones() -> None:
    together = merged([decoded(part(3, 4)), decoded(part(3, 2, begin_ns=7))])
    rows = [row for _, one in together.batches for row in one.to_pylist()]
    assert len({row["exchange_id"] for row in rows}) == 6
    assert len({row["connection_id"] for row in rows}) == 2
    assert (together.begin_ns, together.end_ns, together.balance["exchanges"]) == (7, 9, 6)


def test_a_window_is_judged_when_all_workers_have_sent_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def count(captured: Captured) -> list[Any]:
        seen.append(sum(one.num_rows for _, one in captured.batches))
        return []

    monkeypatch.setattr(live_findings, "findings_of", count)
    findings = SharedFindings(10, 2, is_waiting=True)
    assert [findings.is_due(status(at)) for at in (0, 0.5, 1)] == [False, False, True]
    findings.take(0, part(1, 3))
    assert findings.is_due(status(2))  # a worker did not answer: all are asked again
    findings.take(0, part(1, 4))
    findings.take(1, part(1, 5))
    assert seen == [9]
    assert not findings.is_due(status(9, level=1))  # rows are missing
    findings.take(1, part(1, 6, is_last=True))
    findings.take(0, part(1, 1, is_last=True))
    assert seen == [9]
    findings.finish(status(10))
    assert seen == [9, 7]


def test_a_worker_leaves_out_what_another_one_has_no_more() -> None:
    window = SharedWindow(60, 1)
    watcher = Watcher(GivenWire(), [window])
    watcher.begin()
    for at in range(4):
        window.take("exchanges", batch("exchanges", [exchange(at)]))
        window.tick(status(at))
    shown = []
    for since_ns in (0, status(1).now_ns, status(99).now_ns):
        window.ask(since_ns, True)
        assert window.take_encoded() is None
        window.tick(status(4))
        captured = decoded(taken(window))
        shown.append([row["exchange_id"] for _, one in captured.batches for row in one.to_pylist()])
    assert shown == [[0, 1, 2, 3], [2, 3], []]


def test_the_sum_of_metrics_has_the_findings_of_all() -> None:
    both = SummedMetrics(2, 100)
    found: list[tuple[str, str]] = [("broker-slow", "problem")]
    both.findings = lambda: found
    shown = []
    for _ in range(2):
        both.add([MetricsListener().samples(), None], {})
        shown.append(both.samples().values["kdissect_findings"])
        found = []
    assert shown == [[(("broker-slow", "problem"), 1)], [(("broker-slow", "problem"), 0)]]
