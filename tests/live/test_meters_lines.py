"""Snapshots as lines and as JSON."""

import cProfile
import json
import re
import threading
import unicodedata
from pathlib import Path
from typing import Any

from hypothesis import given as for_any
from hypothesis import strategies as st

from kdissect.live.counting.lines import WIDTH, cells, duration, json_of, line_of, number
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.live.encryption import Undecrypted
from kdissect.live.watcher import Watcher
from kdissect.sources.packet_source import Behind, Counts
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import exchange, given, handed, many, partition, seconds, status
from tests.test_resynchronisation import pipelined


def shown(*rows: Any, **more: Any) -> Snapshot:
    meters = Meters()
    meters.tick(status(0))
    given(meters, handed({"exchanges": rows}))
    meters.tick(status(1, **more))
    return meters.snapshot()


def test_line_contains_the_key_figures() -> None:
    rows = [exchange(number, latency_ms=2) for number in range(20)]
    rows.append(exchange(20, "Fetch", 400, client_id="slow-one", error_count=2))
    line = line_of(shown(*rows, packet_source=Counts(100, 1234)))
    assert line.split("  ") == [
        "22:13:21", "21 ex/s", "1 err/s", "2ms/320ms", "Produce", "slow: slow-one 400ms",
        "wait 0", "late 0", "drop 1.23k",
    ]  # fmt: skip


def test_a_line_shows_how_far_behind_a_file_it_reads() -> None:
    assert "behind" not in line_of(shown(behind=Behind(5_000, 0.9)))
    snapshot = shown(behind=Behind(5_000_000, 75.2))
    assert line_of(snapshot).endswith("drop 0  behind 75.2s")
    assert json_of(snapshot)["behind"] == {"bytes": 5_000_000, "seconds": 75.2}


def test_streams_that_began_before_the_capture_are_no_problems() -> None:
    found = json_of(shown(problems={"mid-stream": 12, "resync": 3}))
    assert (found["problems"], found["mid_streams"]) == ({"resync": 3}, 12)


def test_a_capture_that_begins_inside_of_connections_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "late.pcap").write_bytes(pipelined(20, 3000).start_late(4).pcap())
    meters, metrics = Meters(), MetricsListener()
    with RecordedSource(tmp_path / "late.pcap") as packet_source:
        Watcher(packet_source, [meters, metrics]).run()
    found = json_of(meters.snapshot())
    assert (found["problems"], found["mid_streams"]) == ({}, 2)
    samples = {one.name: one.value for family in metrics.collect() for one in family.samples}
    assert samples["kdissect_all_problems_total"] == 0
    assert samples["kdissect_mid_streams_total"] == 2
    assert found["exchanges"] > 15


def test_a_line_without_traffic_is_marked() -> None:
    line = line_of(Meters().snapshot())
    assert line == "00:00:00  0 ex/s  0 err/s  -/-  -  -  wait 0  late 0  drop 0"


@for_any(st.text(max_size=300), st.text(max_size=300), st.integers(0, 10**18))
def test_a_line_fits_and_is_safe_for_terminals_with_any_names(
    api: str, client: str, dropped: int
) -> None:
    encodable = client.encode("utf-8", "backslashreplace").decode()
    name = api.encode("utf-8", "backslashreplace").decode() or "Fetch"
    taken = shown(
        exchange(1, name, 123.4, client_id=encodable, error_count=1),
        packet_source=Counts(dropped, dropped),
        undecrypted=Undecrypted({"no-key-log": dropped}, dropped),
        behind=Behind(dropped, float(dropped)),
    )
    whole = taken.whole._replace(rate=dropped / 3, errors=dropped / 7, p50_ns=10**13)
    line = line_of(taken._replace(waiting=dropped, late=dropped, whole=whole))
    assert cells(line) <= WIDTH
    assert not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in line)
    assert re.search(r"late \S+  drop \S+($|  tls \S+  behind \S+$)", line)


@for_any(st.floats(0, 1e17))
def test_numbers_take_five_columns(value: float) -> None:
    assert len(number(value)) <= 5


@for_any(st.integers(-1, 86_400 * 10**9))
def test_durations_take_six_columns(ns: int) -> None:
    assert len(duration(ns)) <= 6


def test_json_has_everything_that_a_screen_shows() -> None:
    meters = Meters()
    rows = [exchange(number, error_count=number % 2, retransmits=1) for number in range(10)]
    errors = [{"exchange_id": 1, "name": "NOT_LEADER_OR_FOLLOWER", "is_retriable": True}]
    members = [{"exchange_id": 1, "time": 1, "group_id": "g", "member_id": "m", "event": "join"}]
    batches = {"exchanges": rows, "errors": errors, "members": members,
               "partitions": [partition(1, high_watermark=7)],
               "problems": [{"kind": "late", "message": "m", "stage": "live"}]}  # fmt: skip
    given(meters, handed(batches))
    meters.tick(status(1, problems={"late": 2}, shed={"records": 3}))
    snapshot = meters.snapshot(Focus(client="app"))
    found = json.loads(json.dumps(json_of(snapshot)))
    for name in ("apis", "clients", "topics", "errors", "connections", "groups", "slowest"):
        assert found[name] == [dict(one._asdict()) for one in getattr(snapshot, name)]
        assert found[name]
    assert found["focus"] == {"api": "", "client": "app", "topic": ""}
    assert (found["problems"], found["shed"]) == ({"late": 2}, {"records": 3})
    whole = json.loads(json.dumps(json_of(meters.snapshot())))
    for name in ("connection_rates", "problem_messages", "partitions"):
        assert whole[name] == [dict(one._asdict()) for one in getattr(meters.snapshot(), name)]
        assert whole[name]
    missing = set(Snapshot._fields) - {"status"} - set(found)
    assert missing == set()


def test_a_snapshot_may_be_taken_by_any_thread_while_rows_come() -> None:
    meters = Meters(window_s=5, kept_rows=6_000)
    failures: list[BaseException] = []
    taken = []
    done = threading.Event()

    def look() -> None:
        try:
            while not done.is_set():
                for focus in (Focus(), Focus(client="c5"), Focus(topic="t3")):
                    taken.append(meters.snapshot(focus).whole.rate)
        except BaseException as failure:
            failures.append(failure)

    lookers = [threading.Thread(target=look, daemon=True) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for second, rows in enumerate(seconds(25, 1000)):
        # New names at each tick, so that old ones are dropped now and then.
        renamed = [exchange(second * 500 + i, client_id=f"n{second}-{i}") for i in range(500)]
        given(meters, rows._asdict())
        given(meters, handed({"exchanges": renamed}))
        meters.tick(status(second + 1))
    done.set()
    for looker in lookers:
        looker.join(30)
        assert not looker.is_alive()
    assert failures == []
    assert max(taken) > 0


def test_a_snapshot_works_on_columns_not_on_rows() -> None:
    """Ten times the rows take no more calls; 300 000 rows take 15 ms on an idle machine."""
    assert calls_of_a_snapshot(30_000) < 1.2 * calls_of_a_snapshot(3_000)


def calls_of_a_snapshot(rows: int) -> int:
    meters = Meters()
    for second in range(10):
        given(meters, many(rows, second * rows)._asdict())
        meters.tick(status(second + 1))
    meters.tick(status(11))
    profile = cProfile.Profile()
    profile.runcall(meters.snapshot)
    return sum(entry.callcount for entry in profile.getstats())
