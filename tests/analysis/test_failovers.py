"""Failovers: blackouts of partitions, from the first error to the first success."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

import kdissect
from tests.analysis.made_tables import MS, START, Row, asked, connection, exchange
from tests.seeds import SEED

NOT_LEADER, FENCED, TOO_LARGE, LEADERLESS = 6, 74, 10, 5
NAMES = {
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    74: "FENCED_LEADER_EPOCH",
    10: "MESSAGE_TOO_LARGE",
}
SHOWN = (
    "access", "cause", "blackout_ns", "slowest_client_ns", "errors", "clients", "unrecovered",
    "old_broker", "refused_by", "new_broker",
)  # fmt: skip


class Served:
    """Tables of client requests to brokers A and B for partition 0 of topic t."""

    def __init__(self, api: str = "Produce") -> None:
        self.api = api
        self.rows: dict[str, list[Row]] = {
            "exchanges": [],
            "partitions": [],
            "connections": [
                connection(1, broker_ip="A", broker_port=1),
                connection(2, broker_ip="B", broker_port=2),
            ],
        }

    def add(
        self, at_s: float, broker: str, code: int | None = 0, client: str = "p", **more: Any
    ) -> "Served":
        number = len(self.rows["exchanges"]) + 1
        lost = {"outcome": "unanswered", "response_start": None, "response_end": None}
        about = lost if code is None else {"error_code": code}
        self.rows["exchanges"].append(
            exchange(
                number, self.api, 10, at_s, connection_id="AB".index(broker) + 1,
                client_id=client, **(about | more),
            )
        )  # fmt: skip
        name = None if code is None else NAMES.get(code)
        place = {"exchange_id": number, "topic": "t", "partition": 0}
        self.rows["partitions"].append(place | {"error_code": code, "error": name})
        return self

    def shown(self, directory: Path, **options: Any) -> list[tuple[Any, ...]]:
        found = asked("failovers", directory, options, **self.rows)
        return [tuple(row[name] for name in SHOWN) for row in found]


def test_a_blackout_ends_with_the_first_success_by_anybody(tmp_path: Path) -> None:
    served = Served().add(0, "A").add(1, "A", NOT_LEADER).add(1.5, "A", NOT_LEADER, "q")
    served.add(2, "B", 0, "q").add(4, "B")
    assert served.shown(tmp_path) == [
        (
            "produce", "NOT_LEADER_OR_FOLLOWER", 1000 * MS, 3000 * MS, 2, 2, 0,
            "A:1", "A:1", "B:2",
        )
    ]  # fmt: skip


@pytest.mark.parametrize("access", ["Produce", "Fetch"])
def test_a_leader_that_metadata_lacks_is_the_broker_that_served_before(
    access: str, tmp_path: Path
) -> None:
    """Clients that know of no leader send nothing else: no request to it fails."""
    served = Served(access).add(0, "A").add(1, "A").add(13, "B").add(14, "B")
    served.api = "Metadata"
    served.add(2, "B", LEADERLESS).add(11, "A", LEADERLESS).add(12, "A")
    ((*_, old_broker, refused_by, new_broker),) = served.shown(tmp_path)
    assert (old_broker, refused_by, new_broker) == ("A:1", None, "B:2")
    ((access_, cause, blackout_ns, *_),) = served.shown(tmp_path)
    assert (access_, cause, blackout_ns) == ("metadata", "LEADER_NOT_AVAILABLE", 10_000 * MS)


def test_a_new_topic_without_a_leader_had_none_before(tmp_path: Path) -> None:
    served = Served("Metadata").add(0, "A", LEADERLESS).add(1, "A")
    served.api = "Produce"
    ((*_, old_broker, _, new_broker),) = served.add(2, "B").shown(tmp_path)
    assert (old_broker, new_broker) == (None, "B:2")


def test_its_packets_and_times_are_those_of_the_first_error(tmp_path: Path) -> None:
    served = Served().add(0, "A").add(1, "A", NOT_LEADER).add(2, "B")
    (row,) = asked("failovers", tmp_path, **served.rows)
    assert (row["topic"], row["partition"]) == ("t", 0)
    assert (row["first_packet"], row["success_packet"]) == (5, 7)
    times = [row[name].timestamp() - START / 1e9 for name in ("last_success", "started")]
    assert [round(time, 3) for time in times] == [0.01, 1.01]


def test_other_errors_make_no_blackout(tmp_path: Path) -> None:
    assert Served().add(0, "A").add(1, "A", TOO_LARGE).shown(tmp_path) == []


def test_a_blackout_without_success_has_no_length(tmp_path: Path) -> None:
    assert Served().add(0, "A", NOT_LEADER).shown(tmp_path) == [
        ("produce", "NOT_LEADER_OR_FOLLOWER", None, None, 1, 1, 1, None, "A:1", None)
    ]


def test_late_clients_belong_to_the_same_blackout(tmp_path: Path) -> None:
    served = Served().add(0, "A", NOT_LEADER).add(1, "B").add(2, "A", NOT_LEADER, "late")
    assert served.shown(tmp_path) == [
        (
            "produce", "NOT_LEADER_OR_FOLLOWER", 1000 * MS, 1000 * MS, 2, 2, 1,
            None, "A:1", "B:2",
        )
    ]  # fmt: skip


def test_errors_far_apart_are_two_blackouts(tmp_path: Path) -> None:
    served = Served().add(0, "A", FENCED).add(1, "A").add(9, "A", FENCED).add(11, "A")
    assert [row[2] for row in served.shown(tmp_path)] == [1000 * MS, 2000 * MS]
    assert [row[2] for row in served.shown(tmp_path, quiet=10_000 * MS)] == [1000 * MS]


def test_errors_far_apart_without_success_between_are_one_blackout(tmp_path: Path) -> None:
    served = Served().add(0, "A", FENCED).add(60, "A", FENCED).add(61, "A")
    assert [row[2] for row in served.shown(tmp_path)] == [61_000 * MS]


def test_a_new_leader_that_is_deposed_makes_another_blackout(tmp_path: Path) -> None:
    served = Served().add(0, "A", NOT_LEADER).add(1, "B").add(2, "B", NOT_LEADER).add(2.5, "A")
    assert [(row[2], row[7], row[9]) for row in served.shown(tmp_path)] == [
        (1000 * MS, None, "B:2"),
        (500 * MS, "B:2", "A:1"),
    ]


def test_a_client_that_leaves_a_silent_broker_has_lost_it(tmp_path: Path) -> None:
    served = Served().add(0, "A").add(1, "A", None).add(4, "B")
    assert served.shown(tmp_path) == [
        ("produce", "unanswered", 3010 * MS, 3010 * MS, 1, 1, 0, "A:1", "A:1", "B:2")
    ]


def unnamed(served: Served) -> Served:
    """The last exchange does not name the partition: it continues a fetch session."""
    served.rows["partitions"].pop()
    return served


def test_abandoned_fetch_session_loses_its_partitions(tmp_path: Path) -> None:
    served = unnamed(Served("Fetch").add(0, "A").add(1, "A", None)).add(4, "B")
    assert served.shown(tmp_path) == [
        ("fetch", "unanswered", 3010 * MS, 3010 * MS, 1, 1, 0, "A:1", "A:1", "B:2")
    ]


def test_a_fetch_session_that_forgot_the_partition_has_not_lost_it(tmp_path: Path) -> None:
    served = unnamed(Served("Fetch").add(0, "A").add(1, "B").add(2, "A", None)).add(4, "B")
    assert served.shown(tmp_path) == []


def test_a_client_that_stays_or_ends_has_not(tmp_path: Path) -> None:
    assert Served().add(0, "A").add(1, "A", None).add(4, "A").add(5, "A", None).shown(
        tmp_path
    ) == []  # fmt: skip


def test_consumers_and_followers_are_apart(tmp_path: Path) -> None:
    served = Served("Fetch").add(0, "A", FENCED).add(0, "A", FENCED, "broker-2-fetcher-0")
    served.add(1, "A").add(3, "A", 0, "broker-2-fetcher-0")
    assert [(row[0], row[2]) for row in served.shown(tmp_path)] == [
        ("fetch", 1000 * MS),
        ("replicate", 3000 * MS),
    ]


def test_a_fetch_is_a_success_before_its_long_poll(tmp_path: Path) -> None:
    served = Served("Fetch").add(0, "A", FENCED).add(1, "A", wait_ns=8 * MS)
    assert [row[2] for row in served.shown(tmp_path)] == [992 * MS]


def test_a_fetch_that_waited_at_the_new_leader_already_means_no_blackout(tmp_path: Path) -> None:
    waited = {"wait_ns": 8 * MS}  # of 10
    served = Served("Fetch").add(0, "A").add(0.993, "B", **waited).add(0.99, "A", FENCED, "q")
    served.add(9, "B")
    assert [row[2] for row in served.shown(tmp_path)] == [0]


def test_a_fetch_waiting_at_the_refusing_broker_is_ignored(tmp_path: Path) -> None:
    waited = {"wait_ns": 8 * MS}
    served = Served("Fetch").add(0, "A").add(0.993, "A", **waited).add(0.99, "A", FENCED, "q")
    served.add(9, "B")
    assert [row[2] for row in served.shown(tmp_path)] == [8010 * MS]


def test_partitions_omitted_by_an_incremental_fetch_are_healthy(tmp_path: Path) -> None:
    served = Served("Fetch").add(0, "A", FENCED).add(1, "A")
    unmentioned = {**served.rows["partitions"][1], "error_code": None}
    served.rows["partitions"][1] = unmentioned
    assert [row[2] for row in served.shown(tmp_path)] == [1000 * MS]


def test_metadata_is_no_evidence_about_the_responding_broker(tmp_path: Path) -> None:
    served = Served("Metadata").add(0, "A", 5).add(1, "B")
    served.rows["partitions"][0] = {
        **served.rows["partitions"][0], "error": "LEADER_NOT_AVAILABLE",
    }  # fmt: skip
    assert served.shown(tmp_path) == [
        (
            "metadata", "LEADER_NOT_AVAILABLE", 1000 * MS, 1000 * MS, 1, 1, 0,
            None, None, None,
        )
    ]  # fmt: skip


def test_kafka_07_has_other_errors_of_the_same_numbers() -> None:
    assert kdissect.analyse("failovers", "captures/old/kafka-0.7.pcapng").to_arrow().num_rows == 0


def expected(events: list[tuple[float, str, int, str]], quiet_s: float) -> list[tuple[Any, ...]]:
    """The rule in plain Python: blackouts of one partition as (length, errors, clients)."""
    rows: list[dict[str, Any]] = []
    last_error = went = None
    went_here: dict[str, float] = {}
    for at, broker, code, client in events:
        if code == 0:
            went = went_here[broker] = at
            if rows and rows[-1]["success"] is None:
                rows[-1]["success"] = at
            continue
        is_new = last_error is None
        if last_error is not None:
            is_new |= went is not None and went >= last_error and at - last_error > quiet_s
            is_new |= code == NOT_LEADER and went_here.get(broker, -1.0) >= last_error
        if is_new:
            rows.append({"start": at, "success": None, "errors": 0, "clients": set()})
        rows[-1]["errors"] += 1
        rows[-1]["clients"].add(client)
        last_error = at
    return [
        (
            None if row["success"] is None else round((row["success"] - row["start"]) * 1000) * MS,
            row["errors"],
            len(row["clients"]),
        )
        for row in rows
    ]


@pytest.mark.parametrize("number", range(4))
def test_any_sequence_of_events_follows_the_rule(number: int, tmp_path: Path) -> None:
    random = Random(f"{SEED} {number}")
    served, events, at = Served(), [], 0.0
    for _ in range(80):
        at = round(at + random.choice([0.1, 0.5, 3, 7]), 3)
        broker, client = random.choice("AB"), random.choice("pqr")
        code = random.choice([0, 0, 0, FENCED, NOT_LEADER])
        served.add(at, broker, code, client)
        events.append((at, broker, code, client))
    found = asked("failovers", tmp_path, {"quiet": 5_000 * MS}, **served.rows)
    assert [(row["blackout_ns"], row["errors"], row["clients"]) for row in found] == expected(
        events, 5
    )


def test_followers_of_a_real_cluster_see_the_leader_move_and_leave() -> None:
    """Partition 1 was reassigned from broker 1 to 3, then broker 3 was stopped and 2 led."""
    answer = kdissect.analyse("failovers", "captures/cluster-2.4.1.pcapng")
    rows = [row for row in answer.to_arrow().to_pylist() if row["topic"] == "copied"]
    moved = [
        (row["access"], row["cause"], row["old_broker"], row["new_broker"])
        for row in rows
        if row["partition"] == 1
    ]
    one, two, three = (f"127.0.0.{number}:19092" for number in (1, 2, 3))
    assert moved == [
        ("replicate", "UNKNOWN_TOPIC_OR_PARTITION", None, one),
        ("replicate", "NOT_LEADER_OR_FOLLOWER", one, three),
        ("replicate", "NOT_LEADER_OR_FOLLOWER", three, two),
    ]
