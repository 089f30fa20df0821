"""Findings while packets come: equal to those of the capture, told once, and over at the end."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st

import kdissect
from kdissect.api import live_findings
from kdissect.api.finding_states import (
    BEGINS,
    BEGUN,
    ENDS,
    FOLLOWED,
    OVER,
    WORSE,
    FindingEvent,
    FindingStates,
    key_of,
)
from kdissect.api.finding_window import (
    COUNTERS,
    IS_LONGEST,
    OPEN,
    FindingWindow,
    counters_of,
    within,
)
from kdissect.api.live_findings import LiveFindings, findings_of
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.listener import Listener, Status
from kdissect.live.watcher import Watcher
from kdissect.rules.finding import NOTICE, PROBLEM, SEVERITIES, WARNING, Finding
from tests.live.made_rows import SECOND, START, batch, exchange, status
from tests.live.replays import CAPTURES, SlicedWire
from tests.live.test_metrics import by, page, samples, served
from tests.seeds import SEED

ROOT = Path(__file__).parent.parent.parent
STALLED = CAPTURES / "incident-slow-leader-4.3.1.pcapng"
SWEPT = sorted([*CAPTURES.glob("*.pcapng"), *CAPTURES.glob("tls/*.pcapng")])
HOUR_S = 3600.0


class Last(LiveFindings):
    """Keeps the findings of the last window, which has the whole capture."""

    found: list[Finding]

    def finish(self, status: Status) -> None:
        self._window.tick(status.now_ns)
        self.found = findings_of(self._captured())


def whole(capture: Path) -> list[Finding]:
    last = Last(10 * HOUR_S, is_waiting=True)
    with SlicedWire(capture, 200) as packet_source:
        Watcher(packet_source, [last]).run()
    return last.found


def told(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(one.id, one.severity, one.text) for one in findings]


@pytest.mark.sweep
@pytest.mark.parametrize("capture", SWEPT, ids=lambda path: path.name)
def test_findings_of_a_window_with_everything_are_those_of_the_capture(capture: Path) -> None:
    assert told(whole(capture)) == told(kdissect.findings(str(capture)))


@pytest.mark.slow
def test_a_broker_that_stalls_is_told_while_its_connections_are_open() -> None:
    assert told(whole(STALLED)) == told(kdissect.findings(str(STALLED)))
    events: list[FindingEvent] = []
    findings = LiveFindings(30, events.append, is_waiting=True)
    open_then: list[int] = []

    class Seen(Listener):
        def tick(self, status: Status) -> None:
            if events and not open_then:
                open_then.append(status.open_connections)

    with SlicedWire(STALLED, 100) as packet_source:
        Watcher(packet_source, [findings, Seen()]).run()
    first = events[0]
    assert (first.event, first.finding.id, first.severity) == (BEGUN, "broker-stalls", PROBLEM)
    assert "Broker 127.0.0.3:39092 stalled" in first.finding.text
    assert open_then
    assert open_then[0] > 0
    data = findings.take_data()
    assert [one["id"] for one in data["findings"]] == ["broker-stalls"]
    assert data["finding_events"][0]["event"] == BEGUN
    assert findings.take_data()["finding_events"] == []


def made(severity: str = PROBLEM, id_: str = "broker-slow", **concerns: Any) -> Finding:
    return Finding(id_, severity, "text", {}, concerns or {"broker": "b:9092"})


def run(windows: list[list[Finding]], **more: Any) -> list[tuple[int, str, str]]:
    states = FindingStates(**more)
    return [
        (at, event.event, event.severity)
        for at, found in enumerate(windows)
        for event in states.update(found, at)
    ]


def test_a_finding_begins_gets_worse_and_is_over() -> None:
    windows = [[made(WARNING)]] * 3 + [[made(PROBLEM)]] * 3 + [[]] * 6
    assert run(windows) == [(1, BEGUN, WARNING), (4, WORSE, PROBLEM), (9, OVER, PROBLEM)]


def test_a_finding_at_its_threshold_is_told_once() -> None:
    flapping = [[made()], [made()], [], [made()], [], [], [made(WARNING)], [made()], [], []] * 5
    assert [event for _, event, _ in run(flapping)] == [BEGUN]
    once = [[], [made()], [], [], [made()], []] * 5
    assert run(once) == []


def test_notices_have_no_effect() -> None:
    assert run([[made(NOTICE)]] * 5) == []


def test_findings_of_several_brokers_are_followed_apart() -> None:
    one, other = made(broker="a:1"), made(broker="b:1")
    windows = [[one]] * 2 + [[one, other]] * 2 + [[other]] * 4
    assert [event for _, event, _ in run(windows)] == [BEGUN, BEGUN, OVER]
    assert key_of(one) != key_of(other)


def test_the_last_window_begins_at_once() -> None:
    states = FindingStates()
    (event,) = states.update([made()], 7, is_last=True)
    assert (event.event, event.since_ns, event.time_ns) == (BEGUN, 7, 7)
    assert event.data()["event"] == BEGUN


def test_a_lower_severity_is_taken_over_without_an_event() -> None:
    states = FindingStates()
    for at in range(2):
        states.update([made(PROBLEM)], at)
    for at in range(ENDS):
        assert states.current[0].severity == PROBLEM
        assert states.update([made(WARNING)], at) == []
    assert states.current[0].severity == WARNING
    assert [states.update([made(PROBLEM)], at) for at in range(BEGINS)][-1][0].event == WORSE


def test_findings_that_are_followed_are_bounded() -> None:
    states = FindingStates()
    many = [made(broker=f"b:{number}") for number in range(5 * FOLLOWED)]
    for at in range(3):
        states.update(many, at)
    assert len(states.current) == FOLLOWED


@for_any(st.lists(st.lists(st.sampled_from([PROBLEM, WARNING, NOTICE]), max_size=1), max_size=60))
def test_events_of_any_sequence_are_in_order(severities: list[list[str]]) -> None:
    """Begun, any number of worse with a rising severity, over; each after enough windows."""
    events = run([[made(one) for one in some] for some in severities])
    is_on = [bool(some) and some[0] != NOTICE for some in severities]
    last, begun = "", -1
    for at, event, severity in events:
        if event == BEGUN:
            assert last in ("", OVER)
            assert all(is_on[at - BEGINS + 1 : at + 1])
            begun = at
        elif event == WORSE:
            assert last in (BEGUN, WORSE)
            assert all(severities[at - BEGINS + 1 + one] == [severity] for one in range(BEGINS))
            assert severity == SEVERITIES[0]
        else:
            assert last in (BEGUN, WORSE)
            assert at - begun >= ENDS
            assert not any(is_on[at - ENDS + 1 : at + 1])
        last = event


def connection(number: int, draw: random.Random, **more: Any) -> dict[str, Any]:
    row = {"connection_id": number, "closed_by": OPEN}
    return row | {name: draw.randrange(1000) for name in COUNTERS} | more


def test_counters_of_connections_are_those_of_the_window() -> None:
    draw = random.Random(f"{SEED} within")
    before = [connection(number, draw) for number in range(6)]
    grown = [{name: draw.choice([0, draw.randrange(50)]) for name in COUNTERS} for _ in before]
    after = [
        row | {name: row[name] + more[name] for name in COUNTERS}
        for row, more in zip(before, grown, strict=True)
    ]
    new = connection(9, draw)
    known = counters_of(batch("connections", before))
    rows = within(batch("connections", [*after, new]), known).to_pylist()
    expected = []
    for row, more in zip([*after, new], [*grown, new], strict=True):
        values = {
            name: row[name] if is_longest and more[name] else more[name]
            for name, is_longest in zip(COUNTERS, IS_LONGEST, strict=True)
        }
        if values["packets_to_broker"] or values["packets_to_client"]:
            expected.append({"connection_id": row["connection_id"]} | values)
    wanted = ("connection_id", *COUNTERS)
    assert [{name: row[name] for name in wanted} for row in rows] == expected, f"seed {SEED}"


def test_silent_connections_have_a_row_only_when_they_ended() -> None:
    draw = random.Random(0)
    rows = [connection(1, draw), connection(2, draw, closed_by="fin")]
    known = counters_of(batch("connections", rows))
    assert within(batch("connections", rows), known)["connection_id"].to_pylist() == [2]


def test_rows_leave_the_window_by_time_and_number() -> None:
    window = FindingWindow(10 * SECOND, kept_rows=100)
    for second in range(30):
        window.take("exchanges", batch("exchanges", [exchange(second), exchange(second + 1)]))
        window.tick(START + second * SECOND)
    assert window._rows == 20
    for second in range(30, 33):
        rows = [exchange(number) for number in range(60)]
        window.take("exchanges", batch("exchanges", rows))
        window.tick(START + second * SECOND)
    assert window._rows == 60
    assert len(window._buckets) == 1


class Fixed(LiveFindings):
    """Judges no rows: each window has the next findings."""

    windows: list[list[Finding]]

    def _captured(self) -> Any:
        return None


def followed(monkeypatch: pytest.MonkeyPatch, windows: list[Any], is_waiting: bool) -> Fixed:
    left = list(windows)

    def answer(_: Any) -> Any:
        return START, left.pop(0) if left else []

    monkeypatch.setattr(live_findings, "answer_of", answer)
    return Fixed(10, is_waiting=is_waiting)


def test_a_metric_has_the_findings_and_is_0_when_they_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    findings = followed(monkeypatch, [[made()]] * 3, is_waiting=True)
    metrics = MetricsListener()
    metrics.findings = findings.labels
    pages = []
    with served(metrics) as server:
        for second in range(20):
            findings.tick(status(second))
            metrics.tick(status(second))
            found = samples(page(server))
            pages.append(found.get(("kdissect_findings", frozenset(
                {("id", "broker-slow"), ("severity", "problem")}))))  # fmt: skip
    assert pages[0] is None
    # Judged once a second; two windows begin it, four without it end it.
    assert pages[1:] == [None] + [1.0] * 5 + [0.0] * 13
    assert by(found, "kdissect_findings", "id") == {}


def test_nothing_is_judged_while_load_is_shed(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = followed(monkeypatch, [[made()]] * 100, is_waiting=True)
    for second in range(30):
        findings.tick(status(second, level=1))
    findings.finish(status(30, level=1))
    assert findings.current == []
    for second in range(31, 35):
        findings.tick(status(second))
    assert len(findings.current) == 1


def test_a_rule_that_fails_is_a_problem_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> Any:
        raise ZeroDivisionError("of a rule")

    monkeypatch.setattr(live_findings, "findings_of", fail)
    for is_waiting in (True, False):
        findings = LiveFindings(10, is_waiting=is_waiting)
        with SlicedWire(STALLED, 500) as packet_source:
            watcher = Watcher(packet_source, [findings])
            watcher.run()
        problems = watcher.status().balance.problems
        assert problems["findings-failed"] >= 1
        assert findings.take_data() == {"findings": [], "finding_events": []}


def test_a_thread_judges_while_packets_are_read() -> None:
    findings = LiveFindings(30)
    with SlicedWire(STALLED, 100) as packet_source:
        Watcher(packet_source, [findings]).run()
    assert [state.finding.id for state in findings.current] == ["broker-stalls"]
    assert findings._thread is not None
    assert not findings._thread.is_alive()


@pytest.mark.slow
def test_the_command_tells_findings_as_lines_and_in_documents() -> None:
    command = [sys.executable, "-m", "kdissect", "live", str(STALLED), "--findings", "30s"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = [one for one in done.stderr.splitlines() if " begun: " in one]
    assert line.startswith(
        "kdissect: 23:21:16 begun: problem broker-stalls: Broker 127.0.0.3:39092"
    )
    done = subprocess.run(
        [*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    documents = [json.loads(one) for one in done.stdout.splitlines()]
    assert [one["id"] for one in documents[-1]["findings"]] == ["broker-stalls"]
    events = [event for one in documents for event in one["finding_events"]]
    assert [(one["event"], one["id"]) for one in events] == [("begun", "broker-stalls")]
    assert events[0]["since"] <= events[0]["time"]
    assert " begun: " not in done.stderr


def test_a_window_that_is_too_short_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    from kdissect.cli.program import run as run_command

    assert run_command(["live", str(STALLED), "--findings", "5s"]) == 2
    assert "10 s is the least" in capsys.readouterr().err
