"""A capture's clock that is set: what the tables report of it, and do not make up.

The truth is the same capture before its clock was set. Seeds are drawn, and printed on failure.
"""

import random
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.capture.pcap import NANOSECONDS
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.sources.recorded_source import RecordedSource
from kdissect.streams.clock import JUMP_NS, STEP_NS
from kdissect.streams.connections import REPORTED_STEPS
from kdissect.tables.schemas import TABLES
from tests.capture.writers import Captured, make_pcap
from tests.checkpoint.clocks import HOUR_NS, SECOND_NS, Step, stepped
from tests.checkpoint.law import CAPTURES, link_type_of, read_packets
from tests.conversation import conversation
from tests.exchange_builders import Found, found_in, request, response
from tests.live.listening import Kept

Rows = dict[str, list[dict[str, Any]]]
NAME = str(CAPTURES / "quickstart.pcapng")
DURATIONS = [column.name for column in TABLES["exchanges"].columns if column.unit == "ns"]
MS = 1_000_000


def written(packets: list[Captured], path: Path) -> Path:
    path.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=link_type_of(NAME)))
    return path


def tables_of(path: Path) -> Rows:
    rows: Rows = {name: [] for name in TABLES}
    for name, batch in kdissect.Run(path, Options(tables=tuple(TABLES))):
        rows[name] += batch.to_pylist()
    return rows


def by_id(rows: Rows) -> dict[int, dict[str, Any]]:
    return {row["exchange_id"]: row for row in rows["exchanges"]}


def steps_in(rows: Rows) -> list[dict[str, Any]]:
    return [row for row in rows["problems"] if row["kind"] == "clock-step"]


def test_the_durations_of_the_table_are_those_meant() -> None:
    assert {"latency_ns", "queue_ns", "service_ns", "work_ns", "wait_ns", "rtt_ns"} <= set(
        DURATIONS
    )


@pytest.mark.parametrize("by_ns", [-HOUR_NS, -10 * SECOND_NS, -SECOND_NS])
def test_no_duration_spans_a_clock_that_was_set_back(by_ns: int, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    packets = read_packets(NAME)
    true = tables_of(written(packets, tmp_path / "true.pcap"))
    asked = [row for row in true["exchanges"] if row["latency_ns"]]
    chosen = source.choice(asked)
    # So that at least one exchange is in the middle.
    at = source.randrange(chosen["request_packet"], chosen["response_packet"])
    set_back = stepped(packets, Step(at, by_ns, len(packets)))
    found = tables_of(written(set_back, tmp_path / "set.pcap"))
    (problem,) = steps_in(found)
    assert problem["packet_number"] == at + 1, f"seed {seed}"
    amount = (packets[at - 1].time_ns - set_back[at].time_ns) / 1e9
    assert f"goes back by {amount:.6f} s" in problem["message"]
    exchanges = by_id(found)
    assert set(exchanges) == set(by_id(true))
    spanning = 0
    for exchange_id, row in by_id(true).items():
        other = exchanges[exchange_id]
        if row["response_packet"] and row["request_packet"] <= at < row["response_packet"]:
            spanning += 1
            assert (other["latency_ns"], other["service_ns"]) == (None, None), f"seed {seed}"
            assert "clock-set" in other["decode_status"]
        elif other["decode_status"] == row["decode_status"]:
            assert other["latency_ns"] == row["latency_ns"], f"seed {seed}"
            assert other["upload_ns"] == row["upload_ns"], f"seed {seed}"
    assert spanning > 0
    flagged = sum("clock-set" in row["decode_status"] for row in found["exchanges"])
    # Those with a message on either side are among them.
    assert spanning <= flagged <= spanning + 10


@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS, 10 * SECOND_NS, -10 * SECOND_NS, -SECOND_NS])
def test_single_wrong_time_affects_only_its_exchange(by_ns: int, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    packets = read_packets(NAME)
    true = tables_of(written(packets, tmp_path / "true.pcap"))
    at = source.randrange(1, len(packets) - 1)
    found = tables_of(written(stepped(packets, Step(at, by_ns, 1)), tmp_path / "set.pcap"))
    (problem,) = steps_in(found)
    assert problem["packet_number"] == at + 1, f"seed {seed}"
    assert "this packet alone is" in problem["message"]
    assert ("ahead" if by_ns > 0 else "behind") in problem["message"]
    exchanges = by_id(found)
    assert set(exchanges) == set(by_id(true)), f"seed {seed}"
    for exchange_id, row in by_id(true).items():
        other = exchanges[exchange_id]
        assert other["outcome"] == row["outcome"]
        assert other["latency_ns"] in (row["latency_ns"], None), f"seed {seed}"
        if other["latency_ns"] != row["latency_ns"]:
            assert row["request_packet"] <= at + 1, f"seed {seed}"
            assert "clock-set" in other["decode_status"]
        assert abs((other["request_start"] - row["request_start"]).value) < SECOND_NS
    ends = [row["closed_by"] for row in true["connections"]]
    assert [row["closed_by"] for row in found["connections"]] == ends, f"seed {seed}"


def test_no_duration_is_negative_or_made_up_however_the_clock_is_set(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    packets = read_packets(NAME)
    longest = max(row["latency_ns"] or 0 for row in tables_of(Path(NAME))["exchanges"])
    for number in range(5):
        steps = [
            Step(source.randrange(1, len(packets)), source.choice((-1, 1)) * HOUR_NS, 1)
            for _ in range(5)
        ]
        steps += [Step(source.randrange(1, len(packets)), -HOUR_NS, len(packets)) for _ in range(3)]
        found = tables_of(written(stepped(packets, *steps), tmp_path / f"{number}.pcap"))
        for row in found["exchanges"]:
            for name in DURATIONS:
                value = row[name]
                assert value is None or 0 <= value <= longest + SECOND_NS, f"seed {seed}, {name}"
        for row in found["connections"]:
            for name in row:
                if name.endswith("_ns") and row[name] is not None:
                    assert 0 <= row[name] < HOUR_NS // 2, f"seed {seed}, {name}"


def test_clock_steps_are_reported_up_to_a_number(tmp_path: Path) -> None:
    packets = read_packets(NAME)
    back = [Step(at, -HOUR_NS, 2) for at in range(10, 10 + 4 * (REPORTED_STEPS + 20), 4)]
    found = tables_of(written(stepped(packets, *back), tmp_path / "many.pcap"))
    told = steps_in(found)
    assert len(told) == REPORTED_STEPS
    assert told[-1]["message"].endswith("; further ones are not reported")
    assert "further" not in told[-2]["message"]


@pytest.mark.parametrize(("gap_ns", "kinds"), [(-STEP_NS - 1, ["clock-step"]), (-STEP_NS + 1, [])])
def test_a_little_disorder_is_no_step(gap_ns: int, kinds: list[str]) -> None:
    talk = conversation().open()
    for number in range(1, 5):
        gap = gap_ns if number == 3 else MS
        talk = talk.client(request("Heartbeat", 4, number), gap_ns=gap)
        talk = talk.broker(response("Heartbeat", 4, number), gap_ns=MS)
    found = found_in(talk.close())
    assert [kind for kind in found.column("kind", "problems") if kind == "clock-step"] == kinds


def test_a_response_captured_before_its_request_has_no_latency() -> None:
    talk = conversation(has_acks=False).broker(response("Heartbeat", 4, 1))
    found = found_in(talk.client(request("Heartbeat", 4, 1)))
    assert found.columns("outcome", "latency_ns", "queue_ns", "service_ns", "work_ns") == [
        ("answered", None, None, None, None)
    ]


def talk_with_jump(gap_ns: int, back_ns: int = 0) -> Found:
    """A response comes `gap_ns` after its request, and the next request `back_ns` earlier."""
    talk = conversation(has_acks=False).open().client(request("Heartbeat", 4, 1))
    talk = talk.broker(response("Heartbeat", 4, 1), gap_ns=gap_ns)
    talk = talk.client(request("Heartbeat", 4, 2), gap_ns=MS - back_ns)
    return found_in(talk.broker(response("Heartbeat", 4, 2), gap_ns=MS).close())


def test_a_response_that_took_long_keeps_its_latency_and_one_with_a_wrong_time_has_none() -> None:
    slow = talk_with_jump(10 * JUMP_NS)
    (outcome, latency_ns), *_ = slow.columns("outcome", "latency_ns")
    assert (outcome, latency_ns // JUMP_NS) == ("answered", 10)
    assert slow.tables["problems"] == []
    wrong = talk_with_jump(10 * JUMP_NS, 10 * JUMP_NS)
    assert [row[0] for row in wrong.columns("outcome", "latency_ns")] == ["answered"] * 2
    assert wrong.columns("latency_ns", "decode_status")[0] == (None, "clock-set")
    assert wrong.column("kind", "problems") == ["clock-step"]


def test_durations_after_a_clock_step_are_measured() -> None:
    talk = conversation(has_acks=False).open().client(request("Heartbeat", 4, 1))
    talk = talk.broker(response("Heartbeat", 4, 1), gap_ns=-HOUR_NS)
    for number in (2, 3):
        talk = talk.client(request("Heartbeat", 4, number), gap_ns=MS)
        talk = talk.broker(response("Heartbeat", 4, number), gap_ns=3 * MS)
    found = found_in(talk.close())
    assert found.columns("latency_ns", "queue_ns", "decode_status") == [
        (None, None, "clock-set"), (3 * MS, 0, "ok"), (3 * MS, 0, "ok"),
    ]  # fmt: skip


@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS])
def test_a_live_capture_reports_the_same(by_ns: int, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    packets = read_packets(NAME)
    steps = [
        Step(source.randrange(1, len(packets)), by_ns, count) for count in (1, 2, len(packets))
    ]
    path = written(stepped(packets, *steps), tmp_path / "set.pcap")
    kept = Kept()
    with RecordedSource(path) as wire:
        Watcher(wire, [kept]).run()
    expected = tables_of(path)
    for name, rows in kept.rows.items():
        assert sorted(map(repr, rows)) == sorted(map(repr, expected[name])), f"seed {seed}, {name}"
