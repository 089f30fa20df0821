"""Commits: committed offsets of groups against the records delivered to them."""

from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.from_sidecars import tables_of_sidecar
from tests.analysis.made_tables import SECOND, Row, asked, connection, exchange

SHOWN = ("risk", "rhythm", "commits", "committed", "delivered_to", "uncommitted", "redelivered")


class Reading:
    """Tables of group g reading partition 0 of topic t."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {
            "exchanges": [], "partitions": [], "batches": [], "connections": [connection()],
        }  # fmt: skip
        self._exchange(0, "JoinGroup", "c", group_id="g")

    def _exchange(self, at_s: float, api: str, client: str, **more: Any) -> Row:
        number = len(self.rows["exchanges"]) + 1
        self.rows["exchanges"].append(exchange(number, api, 1, at_s, client_id=client, **more))
        return {"exchange_id": number, "topic": "t", "partition": 0}

    def fetch(
        self, at_s: float, start: int, end: int | None = None, client: str = "c"
    ) -> "Reading":
        place = self._exchange(at_s, "Fetch", client)
        self.rows["partitions"].append(place | {"error_code": 0, "fetch_offset": start})
        if end is not None:
            self.rows["batches"].append(place | {"base_offset": start, "last_offset": end - 1})
        return self

    def commit(
        self, at_s: float, offset: int, error: tuple[int, str | None] = (0, None), client: str = "c"
    ) -> "Reading":
        place = self._exchange(at_s, "OffsetCommit", client, group_id="g")
        code, name = error
        self.rows["partitions"].append(
            place | {"error_code": code, "error": name, "committed_offset": offset}
        )
        return self

    def found(self, directory: Path) -> dict[str, Any]:
        (row,) = asked("commits", directory, **self.rows)
        return row

    def shown(self, directory: Path) -> tuple[Any, ...]:
        row = self.found(directory)
        return tuple(row[name] for name in SHOWN)


def test_delivered_and_committed_records_are_no_risk(tmp_path: Path) -> None:
    reading = Reading().fetch(1, 0, 10).commit(2, 10).fetch(3, 10)
    assert reading.shown(tmp_path) == ("none", "few", 1, 10, 10, 0, 0)


def test_uncommitted_records_would_be_repeated(tmp_path: Path) -> None:
    reading = Reading().fetch(1, 0, 10).commit(2, 10).fetch(3, 10, 14)
    assert reading.shown(tmp_path) == (
        "would repeat: not committed", "few", 1, 10, 14, 4, 0,
    )  # fmt: skip


def test_groups_that_never_commit_are_reported(tmp_path: Path) -> None:
    assert Reading().fetch(1, 0, 10).shown(tmp_path) == (
        "never commits", "never", 0, None, 10, None, 0,
    )  # fmt: skip


def test_records_redelivered_to_the_next_member_are_repeated(tmp_path: Path) -> None:
    reading = Reading().fetch(1, 0, 10).commit(2, 4)
    reading._exchange(3, "JoinGroup", "d", group_id="g")
    reading.fetch(4, 4, 12, "d").commit(5, 12, client="d")
    assert reading.shown(tmp_path) == ("repeated: delivered again", "few", 2, 12, 12, 0, 6)


def test_records_committed_before_delivery_may_be_lost(tmp_path: Path) -> None:
    reading = Reading().fetch(1, 0, 10).commit(2, 25).fetch(3, 25)
    row = reading.found(tmp_path)
    assert (row["risk"], row["ahead_max"]) == ("skips: committed beyond what was delivered", 15)


def test_positions_without_records_are_deliveries_too(tmp_path: Path) -> None:
    assert Reading().fetch(1, 7).commit(2, 7).shown(tmp_path) == ("none", "few", 1, 7, 7, 0, 0)


def test_crash_would_repeat_uncommitted_records(tmp_path: Path) -> None:
    reading = Reading().fetch(1, 0, 10).commit(2, 10).fetch(3, 10, 50).commit(4, 20)
    assert reading.commit(5, 50).found(tmp_path)["exposed_max"] == 40


def test_commits_of_each_delivery_are_not_of_a_timer(tmp_path: Path) -> None:
    reading = Reading()
    for second in range(6):
        reading.fetch(second, second * 10, second * 10 + 10).commit(second + 0.1, second * 10 + 10)
    row = reading.found(tmp_path)
    assert (row["rhythm"], row["interval_p50_ns"]) == ("each delivery", SECOND)


def test_records_before_the_first_commit_are_exposed_to_a_crash(tmp_path: Path) -> None:
    reading = Reading().fetch(1, 7, 10).fetch(2, 10, 20).commit(3, 20)
    assert reading.found(tmp_path)["exposed_max"] == 13


def test_commits_of_a_timer_are_known(tmp_path: Path) -> None:
    reading = Reading().fetch(0, 0, 10)
    for number in range(8):
        reading.commit(5 * number + 0.1 * (number % 2), 10)
    row = reading.found(tmp_path)
    assert (row["rhythm"], round(row["interval_p50_ns"] / SECOND, 1)) == ("timer", 5.1)


def test_commits_of_a_program_are_irregular(tmp_path: Path) -> None:
    reading = Reading().fetch(0, 0, 10)
    for at_s in (1, 2, 9, 9.5, 30, 31):
        reading.commit(at_s, 10)
    assert reading.found(tmp_path)["rhythm"] == "irregular"


def test_commits_that_are_refused_commit_nothing(tmp_path: Path) -> None:
    row = Reading().fetch(1, 0, 10).commit(2, 10, (22, "ILLEGAL_GENERATION")).found(tmp_path)
    assert (row["commits"], row["failed_commits"], row["last_error"], row["risk"]) == (
        0, 1, "ILLEGAL_GENERATION", "never commits",
    )  # fmt: skip


def test_clients_that_speak_for_two_groups_fetch_for_none(tmp_path: Path) -> None:
    reading = Reading()
    reading._exchange(0, "JoinGroup", "c", group_id="h")
    assert reading.fetch(1, 0, 10).commit(2, 10).shown(tmp_path) == (
        "unknown: deliveries not seen", "few", 1, 10, None, None, 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["quickstart", "basics-4.3.1", "cluster-4.3.1", "consumer-groups-4.3.1"]
)
def test_real_groups_committed_the_offsets_in_their_logs(name: str) -> None:
    told: dict[tuple[str, str, int], int] = {}
    sidecar = tables_of_sidecar(name)
    for row in sidecar["commits"]:
        told[(row["group"], row["topic"], row["partition"])] = row["offset"]
    answer = kdissect.analyse("commits", f"captures/{name}.pcapng").to_arrow().to_pylist()
    found = {(row["group_id"], row["topic"], row["partition"]): row for row in answer}
    assert told
    assert {key: found[key]["committed"] for key in told} == told
    for row in sidecar["consumed"]:
        key = (row["group"], row["topic"], row["partition"])
        if key in told:
            assert found[key]["delivered_to"] > row["offset"]
    assert {row["redelivered"] for row in answer} == {0}


def test_real_consumer_leaves_fetched_but_undelivered_records() -> None:
    """reader-2 was closed after the records of partition 0; partition 1 was in its buffer."""
    sidecar = tables_of_sidecar("cluster-2.4.1")
    handed_out = [row for row in sidecar["consumed"] if row["session"] == "reader-2"]
    assert {row["partition"] for row in handed_out} == {0}
    answer = kdissect.analyse("commits", "captures/cluster-2.4.1.pcapng").to_arrow().to_pylist()
    assert [(row["partition"], row["risk"], row["uncommitted"]) for row in answer] == [
        (1, "would repeat: not committed", 11),
        (0, "none", 0),
    ]


def test_an_operators_reset_is_a_commit_of_the_group() -> None:
    answer = kdissect.analyse("commits", "captures/groups-2.4.1.pcapng").to_arrow().to_pylist()
    (row,) = [row for row in answer if row["risk"] != "none"]
    (reset,) = [
        each["arguments"] for each in tables_of_sidecar("groups-2.4.1")["operations"]
        if each["operation"] == "alter_group_offsets"
    ]  # fmt: skip
    assert (row["group_id"], row["committed"]) == (reset["group"], reset["offset"])
    assert [row["topic"], row["partition"]] == list(reset["place"])
