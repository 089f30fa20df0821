"""Recorded sessions: what was shown is shown again, and any other bytes are refused."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_any
from hypothesis import settings
from hypothesis import strategies as st

from kdissect.errors import CaptureError, KdissectError, OutputError
from kdissect.live.counting.lines import json_of
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.narrowing import narrowed
from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.live.recorded_sessions import RecordedSession, Recorder
from kdissect.live.watcher import Watcher
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import status
from tests.screen.snapshots import SNAPSHOT, TROUBLED, hostile

CAPTURES = Path(__file__).parents[2] / "captures"
HEAD = {"schema_version": 1, "command": "top"}


def recorded(path: Path, snapshot: Snapshot) -> RecordedSession:
    path.write_text(json.dumps({**HEAD, **json_of(snapshot)}) + "\n")
    return RecordedSession(path)


@pytest.mark.parametrize("snapshot", [SNAPSHOT, TROUBLED, Meters().snapshot()])
def test_a_snapshot_is_the_same_again(tmp_path: Path, snapshot: Snapshot) -> None:
    found = recorded(tmp_path / "one", snapshot).snapshot()
    assert json_of(found) == json_of(snapshot)
    for name in Snapshot._fields:
        if name not in ("status", "problems"):
            assert getattr(found, name) == getattr(snapshot, name), name
    assert dict(found.problems) == dict(snapshot.problems)


@pytest.mark.parametrize("capture", ["consumer-groups-4.3.1", "groups-4.3.1"])
def test_a_session_of_a_capture_has_every_snapshot(tmp_path: Path, capture: str) -> None:
    meters = Meters()
    shown: list[Any] = []

    def snapshot() -> Snapshot:
        shown.append(json_of(meters.snapshot()))
        return meters.snapshot()

    path = tmp_path / "session"
    with RecordedSource(CAPTURES / f"{capture}.pcapng") as packet_source:
        recorder = Recorder(path, 1.0, snapshot, HEAD)
        Watcher(packet_source, [meters, recorder]).run()
    session = RecordedSession(path)
    assert len(session) == recorder.count > 3
    for number in range(len(session)):
        session.seek(number - session.number)
        assert json_of(session.snapshot()) == shown[number]
    assert session.is_over
    assert shown[-1]["groups"]
    assert shown[-1]["partitions"]


def test_a_session_is_for_its_owner_alone_and_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "session"
    Recorder(path, 1.0, Meters().snapshot, HEAD).finish(status())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(OutputError, match="exists"):
        Recorder(path, 1.0, Meters().snapshot, HEAD)
    with pytest.raises(OutputError, match="No such file"):
        Recorder(tmp_path / "no" / "session", 1.0, Meters().snapshot, HEAD)


def test_a_line_that_was_not_written_to_its_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "session"
    recorded(path, SNAPSHOT)
    whole = path.read_bytes()
    path.write_bytes(whole * 3 + whole[:1000])
    assert len(RecordedSession(path)) == 3
    path.write_bytes(whole[:1000])
    with pytest.raises(CaptureError, match="no snapshot"):
        RecordedSession(path)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("command", "latency", "no document of"),
        ("apis", [{"name": "Fetch"}], "apis has no rate"),
        ("apis", {}, "apis is no list"),
        ("whole", None, "whole is no object"),
        ("packets", 1 << 70, "packets is no number"),
        ("problems", {"late": "many"}, "problems of 'late' is no number"),
        ("time_ns", -1, "time_ns is no number"),
        ("window_s", True, "window_s is no number"),
        ("clients", [0] * 10_001, "more than 10000 rows"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, name: str, value: object, says: str) -> None:
    path = tmp_path / "session"
    path.write_text(json.dumps({**HEAD, **json_of(SNAPSHOT), name: value}) + "\n")
    with pytest.raises(CaptureError, match=says) as caught:
        RecordedSession(path).snapshot()
    assert "line 1" in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
)


@settings(max_examples=150, deadline=None)
@for_any(st.data())
def test_any_document_is_a_snapshot_or_an_error(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("any") / "session"
    document: dict[str, Any] = {**HEAD, **json_of(TROUBLED)}
    for name in data.draw(st.lists(st.sampled_from(sorted(document)), max_size=3)):
        document[name] = data.draw(JSON)
    path.write_text(json.dumps(document) + "\n")
    try:
        found = RecordedSession(path).snapshot()
    except KdissectError:
        return
    assert json_of(found).keys() == json_of(TROUBLED).keys()


def test_hostile_names_stay_as_they_are(tmp_path: Path) -> None:
    session = recorded(tmp_path / "session", hostile())
    assert [one.name for one in session.snapshot().apis] == [one.name for one in hostile().apis]


def test_a_focus_has_only_what_is_known_to_be_of_it() -> None:
    found = narrowed(SNAPSHOT, Focus(client="payments"))
    assert [one.name for one in found.clients] == ["payments"]
    assert found.whole.rate == found.clients[0].rate
    assert {one.client for one in found.slowest} == {"payments"}
    assert [one.client for one in found.connection_rates] == ["payments"]
    assert (found.apis, found.topics, found.groups) == ((), (), ())
    both = narrowed(SNAPSHOT, Focus(client="payments", api="Fetch"))
    assert (both.clients, both.whole.rate) == ((), 0.0)
    assert all((one.client, one.api) == ("payments", "Fetch") for one in both.slowest)
    assert narrowed(SNAPSHOT, Focus()) is SNAPSHOT
