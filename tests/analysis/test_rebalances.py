"""Rebalances: time, cause, the member that caused them, and how long nothing is read."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.made_tables import MS, SECOND, START, Row, asked, connection, exchange

JOIN, SYNC, BEAT, LEAVE = "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"
NEW = "ConsumerGroupHeartbeat"
ERRORS = {
    "REBALANCE_IN_PROGRESS": 27,
    "UNKNOWN_MEMBER_ID": 25,
    "MEMBER_ID_REQUIRED": 79,
    "FENCED_MEMBER_EPOCH": 110,
}


class Story:
    """Exchanges and events of members in the given order, 1 ms each."""

    def __init__(self) -> None:
        self.exchanges: list[Row] = []
        self.members: list[Row] = []
        self.connections: dict[str, int] = {}

    def tell(
        self, at_s: float, who: str, api: str, event: str, took_ms: float = 1.0, **more: Any
    ) -> "Story":
        number = len(self.exchanges) + 1
        on = self.connections.setdefault(who, len(self.connections) + 1)
        said = {"connection_id": on, "client_id": who}
        self.exchanges.append(exchange(number, api, took_ms, at_s, group_id="g", **said))
        error = more.pop("error", None)
        self.members.append(
            {
                "exchange_id": number,
                "time": START + round(at_s * SECOND),
                "group_id": "g",
                "member_id": f"{who}-id",
                "event": event,
                "error": error,
                "error_code": ERRORS[error] if error else 0,
                **said,
                **more,
            }
        )
        return self

    def generation(self, at_s: float, number: int, **held: str) -> "Story":
        """All members join at `at_s`, and have their assignments 10 ms later."""
        for who in held:
            self.tell(at_s, who, JOIN, "join", 5, generation=number, protocol="range")
        for who, assignment in held.items():
            self.tell(
                at_s + 0.009, who, SYNC, "sync", generation=number, assignment=assignment or None
            )
        return self

    def rows(self, directory: Path, silent: dict[str, float] | None = None) -> list[dict[str, Any]]:
        """The answer; connections end `silent` seconds after the start."""
        ends = {on: (silent or {}).get(who, 1000.0) for who, on in self.connections.items()}
        connections = [
            connection(on, last_time=START + round(at_s * SECOND)) for on, at_s in ends.items()
        ]
        return asked(
            "rebalances", directory,
            exchanges=self.exchanges, members=self.members, connections=connections,
        )  # fmt: skip


def chosen(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_a_member_that_joins_stops_all_of_an_eager_group(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0,1")
    story.tell(2, "bob", JOIN, "join", error="MEMBER_ID_REQUIRED")
    story.tell(2.1, "ann", BEAT, "heartbeat", generation=1, error="REBALANCE_IN_PROGRESS")
    story.generation(2.2, 2, ann="t:0", bob="t:1")
    first, second = story.rows(tmp_path)
    assert chosen([first], "cause", "client_id", "members_before", "members", "stopped_ns") == [
        ("join", "ann", 0, 1, None)
    ]
    seconds = round(second.pop("start").timestamp() - START / SECOND, 3)
    assert (seconds, round(second.pop("end").timestamp() - START / SECOND, 3)) == (2.0, 2.21)
    assert second == {
        "group_id": "g", "kind": "classic", "protocol": "range", "generation_before": 1,
        "generation": 2, "duration_ns": 210 * MS, "stopped_ns": 10 * MS, "outcome": "complete",
        "cause": "join", "reason": None, "client_id": "bob", "client_ip": "10.0.0.1",
        "member_id": "bob-id", "group_instance_id": None, "members_before": 1, "members": 2,
        "joined": 1, "gone": 0, "lost": None, "partitions": 2, "moved": 1,
        "moved_partitions": "t:1", "exchange_id": 3, "request_packet": 6,
    }  # fmt: skip


def test_silent_member_had_a_session_timeout(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0", bob="t:1")
    story.tell(50, "ann", BEAT, "heartbeat", generation=1, error="REBALANCE_IN_PROGRESS")
    story.generation(50.1, 2, ann="t:0,1")
    _, row = story.rows(tmp_path, silent={"bob": 5.0})
    assert chosen([row], "cause", "client_id", "lost", "members_before", "members") == [
        ("session timeout", "bob", 1, 2, 1)
    ]
    # t:1 was not read between bob's last packet and its assignment to ann.
    assert row["stopped_ns"] == 45_110 * MS


def test_member_that_leaves_during_a_rebalance_did_not_vanish(tmp_path: Path) -> None:
    """Carl joins, ann leaves; bob learns of it, and leaves instead of joining."""
    story = Story().generation(0, 1, ann="t:0", bob="t:1")
    for who in ("bob", "ann"):
        story.tell(1, who, JOIN, "join", 5, generation=2, protocol="range")
    story.tell(1.3, "carl", JOIN, "join", error="MEMBER_ID_REQUIRED")
    for who, assignment in (("bob", "t:1"), ("ann", "t:0")):
        story.tell(2.5, who, SYNC, "sync", generation=2, assignment=assignment)
    story.tell(2.6, "ann", LEAVE, "leave")
    story.tell(2.9, "bob", BEAT, "heartbeat", generation=2, error="REBALANCE_IN_PROGRESS")
    story.tell(2.95, "carl", JOIN, "join", error="MEMBER_ID_REQUIRED")
    story.tell(3.3, "bob", LEAVE, "leave")
    story.tell(3.4, "carl", JOIN, "join", 5, generation=3, protocol="range")
    rows = story.rows(tmp_path, silent={"bob": 3.31, "ann": 2.61})
    assert [row["lost"] for row in rows if row["lost"]] == []


def test_a_member_that_comes_back_after_its_time_out_joins(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0", bob="t:1").generation(50, 2, ann="t:0,1")
    story.tell(60, "bob", BEAT, "heartbeat", generation=1, error="UNKNOWN_MEMBER_ID")
    story.tell(60.1, "bob", JOIN, "join", error="MEMBER_ID_REQUIRED", member_id="bob-new")
    for who, member in (("ann", "ann-id"), ("bob", "bob-new")):
        story.tell(60.2, who, JOIN, "join", 5, generation=3, protocol="range", member_id=member)
    rows = story.rows(tmp_path)
    assert chosen(rows, "generation", "cause", "client_id", "lost", "outcome") == [
        (1, "join", "ann", None, "complete"),
        (2, "session timeout", "bob", 1, "complete"),
        (3, "join", "bob", None, "open"),
    ]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("consumer poll timeout has expired.", "max poll exceeded"),
        ("the consumer is being closed", "leave"),
        ("member was removed by an admin", "removed"),
        (None, "leave"),
    ],
)
def test_a_leave_has_its_reason(tmp_path: Path, reason: str | None, cause: str) -> None:
    story = Story().generation(1, 1, ann="t:0", bob="t:1")
    story.tell(9, "bob", LEAVE, "leave", reason=reason)
    story.generation(9.5, 2, ann="t:0,1")
    _, row = story.rows(tmp_path)
    columns = ("cause", "reason", "client_id", "gone", "lost", "members", "stopped_ns")
    assert chosen([row], *columns) == [(cause, reason, "bob", 1, None, 1, 510 * MS)]


def test_a_refused_leave_is_no_rebalance(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0")
    story.tell(9, "bob", LEAVE, "leave", error="UNKNOWN_MEMBER_ID")
    assert len(story.rows(tmp_path)) == 1


def test_a_group_that_was_empty_for_long_did_not_rebalance_for_long(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0")
    story.tell(9, "ann", LEAVE, "leave")
    story.generation(900, 3, bob="t:0")
    rows = story.rows(tmp_path)
    assert chosen(rows, "generation_before", "generation", "outcome", "cause", "members") == [
        (None, 1, "complete", "join", 1),
        (1, None, "emptied", "leave", 0),
        (1, 3, "complete", "join", 1),
    ]
    assert rows[2]["duration_ns"] == 10 * MS


def test_a_static_member_comes_back_without_a_rebalance(tmp_path: Path) -> None:
    story = Story()
    for at_s, member in ((1, "d-1"), (20, "d-2")):
        static = {"group_instance_id": "desk", "member_id": member, "generation": 1}
        story.tell(at_s, "ann", JOIN, "join", protocol="range", **static)
        story.tell(at_s + 0.1, "ann", SYNC, "sync", assignment="t:0", **static)
    rows = story.rows(tmp_path, silent={"ann": 15.0})
    columns = ("generation_before", "generation", "cause", "members", "joined", "stopped_ns")
    assert chosen(rows, *columns) == [
        (None, 1, "join", 1, 1, None),
        (1, 1, "static restart", 1, 0, 5_101 * MS),
    ]


def test_a_static_member_of_the_new_protocol_regains_its_partitions(tmp_path: Path) -> None:
    story = Story()
    for at_s, member in ((1, "d-1"), (12, "d-2")):
        static = {"group_instance_id": "desk", "member_id": member}
        story.tell(at_s, "ann", NEW, "join", generation=1, assignment="t:0", **static)
        story.tell(at_s + 9, "ann", NEW, "leave", generation=-2, **static)
    rows = story.rows(tmp_path)
    assert chosen(rows, "generation", "cause", "members", "gone", "stopped_ns") == [
        (1, "join", 1, 0, None),
        (1, "static restart", 1, 0, 2_001 * MS),
    ]


@pytest.mark.parametrize(
    ("told", "stopped_ns"),
    [
        # Nothing is known of the others: one of them may have read it meanwhile.
        ({}, 10 * MS),
        # Nor did it stall where the leader assigned it to another member.
        ({"ann-id": "t:0", "bob-id": "t:1"}, 10 * MS),
        # The leader assigned it to no member.
        ({"ann-id": "t:0"}, 4010 * MS),
    ],
)
def test_unassigned_partition_counts_as_stopped(
    told: dict[str, str], stopped_ns: int, tmp_path: Path
) -> None:
    """Rebalances of a group with one captured member."""
    story = Story().generation(1, 1, ann="t:0,1").generation(5, 2, ann="t:0")
    for member, assignment in told.items():
        more = {"member_id": member, "assignment": assignment, "protocol": "range"}
        story.tell(5.009, "ann", SYNC, "assign", generation=2, **more)
    rows = story.generation(9, 3, ann="t:0,1").rows(tmp_path)
    assert chosen(rows, "generation", "stopped_ns")[-1] == (3, stopped_ns)


def test_a_rebalance_that_another_overtakes_is_interrupted(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0,1")
    story.tell(5, "ann", JOIN, "join", generation=2, protocol="range")
    story.tell(5.1, "ann", SYNC, "sync", generation=2, error="REBALANCE_IN_PROGRESS")
    story.generation(5.5, 3, ann="t:0,1")
    rows = story.rows(tmp_path)
    assert chosen(rows, "generation", "outcome", "duration_ns", "stopped_ns") == [
        (1, "complete", 10 * MS, None),
        (2, "interrupted", None, None),
        (3, "complete", 410 * MS, 510 * MS),
    ]


def test_a_capture_that_ends_in_a_rebalance_leaves_it_open(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0", bob="t:1")
    story.tell(5, "ann", BEAT, "heartbeat", generation=1, error="REBALANCE_IN_PROGRESS")
    story.tell(6, "bob", LEAVE, "leave", reason="the consumer is being closed")
    *_, row = story.rows(tmp_path)
    assert chosen([row], "generation", "outcome", "cause", "members", "end") == [
        (None, "open", "leave", 1, None)
    ]


def test_a_member_that_is_fenced_joins_anew_with_its_id(tmp_path: Path) -> None:
    story = Story().tell(1, "ann", NEW, "join", generation=1, assignment="t:0")
    story.tell(90, "ann", NEW, "heartbeat", generation=1, error="FENCED_MEMBER_EPOCH")
    story.tell(90.1, "ann", NEW, "join", generation=3, assignment="t:0")
    rows = story.rows(tmp_path)
    assert chosen(rows, "generation", "cause", "client_id", "members", "joined") == [
        (1, "join", "ann", 1, 1),
        (3, "join", "ann", 1, 0),
    ]


def test_more_partitions_are_a_change_of_metadata(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0", bob="t:1").generation(9, 2, ann="t:0,2", bob="t:1")
    _, row = story.rows(tmp_path)
    assert chosen([row], "cause", "moved", "partitions") == [("metadata change", 0, 3)]


def test_unsolicited_join_without_reason_names_the_member(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0", bob="t:1").generation(9, 2, ann="t:1", bob="t:0")
    _, row = story.rows(tmp_path)
    assert chosen([row], "cause", "client_id", "member_id", "moved") == [
        ("rejoin", "ann", "ann-id", 2)
    ]


def test_unexplained_rebalances_have_an_unknown_cause(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0", bob="t:1")
    for who in ("ann", "bob"):
        story.tell(8, who, BEAT, "heartbeat", generation=1, error="REBALANCE_IN_PROGRESS")
    _, row = story.generation(9, 2, ann="t:1", bob="t:0").rows(tmp_path)
    assert chosen([row], "cause", "client_id", "moved") == [("unknown", None, 2)]


def test_events_before_the_capture_are_unknown(tmp_path: Path) -> None:
    story = Story().generation(1, 7, ann="t:0", bob="t:1")
    columns = ("cause", "generation_before", "members_before", "joined", "members")
    assert chosen(story.rows(tmp_path), *columns) == [("unknown", None, None, 0, 2)]


def test_a_leave_before_the_first_generation_of_the_capture_is_its_cause(tmp_path: Path) -> None:
    story = Story().tell(1, "bob", LEAVE, "leave").generation(1.5, 7, ann="t:0,1")
    columns = ("cause", "client_id", "generation", "members_before", "members", "outcome")
    assert chosen(story.rows(tmp_path), *columns) == [("leave", "bob", 7, None, 1, "complete")]


def test_a_group_that_was_deleted_begins_anew(tmp_path: Path) -> None:
    story = Story().generation(1, 1, ann="t:0").generation(2, 2, ann="t:0")
    story.tell(3, "ann", LEAVE, "leave").generation(9, 1, bob="t:0")
    rows = story.rows(tmp_path)
    assert chosen(rows, "generation", "outcome", "duration_ns") == [
        (1, "complete", 10 * MS),
        (2, "complete", 10 * MS),
        (None, "emptied", None),
        (1, "complete", 10 * MS),
    ]


def test_a_consumer_group_moves_partitions_while_others_read_on(tmp_path: Path) -> None:
    story = Story().tell(1, "ann", NEW, "join", generation=1, assignment="t:0,1")
    story.tell(5, "bob", NEW, "join", generation=2)
    story.tell(6, "ann", NEW, "assign", generation=1, assignment="t:0")
    story.tell(6.5, "ann", NEW, "owned", generation=2, assignment="t:0")
    story.tell(7, "bob", NEW, "assign", generation=2, assignment="t:1")
    rows = story.rows(tmp_path)
    columns = ("generation", "cause", "client_id", "members", "moved_partitions", "stopped_ns")
    assert chosen(rows, *columns) == [
        (1, "join", "ann", 1, None, None),
        (2, "join", "bob", 2, "t:1", 1000 * MS),
    ]


def test_a_consumer_that_subscribes_to_more_and_gives_up_partitions_for_it(tmp_path: Path) -> None:
    story = Story().tell(1, "ann", NEW, "join", generation=1, assignment="t:0", subscription="t")
    story.tell(2, "bob", NEW, "join", generation=2, assignment="t:1", subscription="t")
    more = {"subscription": "t u"}
    story.tell(5, "bob", NEW, "assign", generation=2, **more)
    story.tell(5.5, "bob", NEW, "assign", generation=3, assignment="u:0")
    story.tell(6, "ann", NEW, "assign", generation=3, assignment="t:0,1")
    *_, row = story.rows(tmp_path)
    columns = ("cause", "client_id", "generation", "moved_partitions", "stopped_ns")
    assert chosen([row], *columns) == [("subscription change", "bob", 3, "t:1", 1000 * MS)]


def test_member_action_causes_the_next_epoch(tmp_path: Path) -> None:
    story = Story()
    for at_s, who in ((1, "ann"), (2, "bob"), (3, "cat")):
        story.tell(at_s, who, NEW, "join", generation=at_s, assignment=f"t:{at_s}")
    story.tell(5, "bob", NEW, "leave", generation=-1).tell(5.1, "cat", NEW, "leave", generation=-1)
    story.tell(6, "ann", NEW, "assign", generation=4, assignment="t:1,2")
    story.tell(7, "ann", NEW, "assign", generation=5, assignment="t:1,2,3")
    columns = ("generation", "cause", "client_id", "moved_partitions")
    assert chosen(story.rows(tmp_path)[3:], *columns) == [
        (4, "leave", "bob", "t:2"),
        (5, "leave", "cat", "t:3"),
    ]


def test_topics_that_are_named_again_change_nothing(tmp_path: Path) -> None:
    story = Story().tell(1, "ann", NEW, "join", generation=1, assignment="t:0", subscription="t")
    story.tell(5, "ann", NEW, "assign", generation=2, assignment="t:0,1", subscription="t")
    *_, row = story.rows(tmp_path)
    assert chosen([row], "cause", "generation") == [("metadata change", 2)]


def test_a_consumer_that_left_and_comes_back_alone_finds_an_empty_group(tmp_path: Path) -> None:
    story = Story().tell(1, "ann", NEW, "join", generation=1, assignment="t:0")
    story.tell(5, "ann", NEW, "leave", generation=-1)
    story.tell(9, "ann", NEW, "join", generation=3, assignment="t:0")
    rows = story.rows(tmp_path)
    columns = ("generation", "cause", "outcome", "members", "joined", "gone", "moved", "stopped_ns")
    assert chosen(rows, *columns) == [
        (1, "join", "complete", 1, 1, 0, 0, None),
        (None, "leave", "emptied", 0, 0, 1, None, None),
        (3, "join", "complete", 1, 1, 0, 0, 4_001 * MS),
    ]


def test_a_silent_consumer_of_the_new_protocol_is_inferred_from_its_partitions(
    tmp_path: Path,
) -> None:
    story = Story().tell(1, "ann", NEW, "join", generation=1, assignment="t:0")
    story.tell(2, "bob", NEW, "join", generation=2, assignment="t:1")
    story.tell(60, "ann", NEW, "assign", generation=3, assignment="t:0,1")
    *_, row = story.rows(tmp_path, silent={"bob": 10.0})
    columns = ("cause", "client_id", "moved_partitions", "stopped_ns", "lost", "members")
    assert chosen([row], *columns) == [("session timeout", "bob", "t:1", 50_001 * MS, 1, 1)]


def test_a_static_member_that_stays_away_too_long_is_one_no_more(tmp_path: Path) -> None:
    story = Story()
    ann, bob = {"group_instance_id": "desk-1"}, {"group_instance_id": "desk-2"}
    story.tell(1, "ann", NEW, "join", generation=1, assignment="t:0", **ann)
    story.tell(2, "bob", NEW, "join", generation=2, assignment="t:1", **bob)
    story.tell(9, "bob", NEW, "leave", generation=-2, **bob)
    story.tell(60, "ann", NEW, "assign", generation=3, assignment="t:0,1", **ann)
    story.tell(70, "ann", NEW, "assign", generation=4, assignment="t:0", **ann)
    back = {"member_id": "bob-new", **bob}
    story.tell(70.1, "bob", NEW, "join", generation=4, assignment="t:1", **back)
    columns = ("generation", "cause", "client_id", "joined", "lost", "members", "stopped_ns")
    assert chosen(story.rows(tmp_path)[2:], *columns) == [
        (3, "session timeout", "bob", 0, 1, 1, 51_001 * MS),
        (4, "join", "bob", 1, None, 2, 100 * MS),
    ]


def test_a_static_member_of_a_classic_group_that_stays_away_too_long_joins(tmp_path: Path) -> None:
    story = Story()

    def join(at_s: float, generation: int, **held: str) -> None:
        members = {"ann": "desk-1", "bob": "desk-2", "bob2": "desk-2", "bob3": "desk-2"}
        named = {who: {"group_instance_id": members[who], "generation": generation} for who in held}
        for who in held:
            story.tell(at_s, who, JOIN, "join", protocol="range", **named[who])
        for who, assignment in held.items():
            story.tell(at_s + 0.1, who, SYNC, "sync", assignment=assignment, **named[who])

    join(1, 1, ann="t:0", bob="t:1")
    join(9, 1, bob2="t:1")
    join(60, 2, ann="t:0,1")
    join(70, 3, ann="t:0", bob3="t:1")
    rows = story.rows(tmp_path, silent={"bob": 5.0, "bob2": 10.0})
    columns = ("generation", "cause", "client_id", "joined", "lost", "members")
    assert chosen(rows[1:], *columns) == [
        (1, "static restart", "bob2", 0, None, 2),
        (2, "session timeout", "bob2", 0, 1, 1),
        (3, "join", "bob3", 1, None, 2),
    ]


@pytest.mark.parametrize("name", ["groups-4.3.1", "streams-4.3.1"])
def test_the_generations_are_those_that_clients_received(name: str) -> None:
    truth = json.loads(Path(f"captures/{name}.json").read_text())["memberships"]
    told = [dict(zip(truth["columns"], row, strict=True)) for row in truth["rows"]]
    joined: dict[tuple[str, int], set[str]] = {}
    for row in told:
        if row["api_key"] == 11 and not row["error_code"]:
            joined.setdefault((row["group"], row["generation"]), set()).add(row["member_id"])
    rows = kdissect.analyse("rebalances", f"captures/{name}.pcapng").to_arrow().to_pylist()
    found = {
        (row["group_id"], row["generation"]): row["members"]
        for row in rows
        if row["outcome"] == "complete" and row["cause"] != "static restart"
    }
    # Both processes of the static member joined generation 1, as one member.
    joined = {key: set(list(ids)[:1]) if key[0] == "static" else ids for key, ids in joined.items()}
    assert found == {key: len(ids) for key, ids in joined.items()}


def test_eager_clients_stop_as_long_as_their_callbacks_say() -> None:
    truth = json.loads(Path("captures/groups-4.3.1.json").read_text())["rebalances"]
    told = [dict(zip(truth["columns"], row, strict=True)) for row in truth["rows"]]
    times = {(row["session"], row["event"], row["generation"]): row["time_ns"] for row in told}
    rows = kdissect.analyse("rebalances", "captures/groups-4.3.1.pcapng").to_arrow().to_pylist()
    found = {(row["group_id"], row["generation"]): row["stopped_ns"] for row in rows}
    for group in ("ranged", "robins", "sticky"):
        member = f"{group}-1"
        own = times[member, "assigned", 2] - times[member, "revoked", 1]
        after_the_other = times[member, "assigned", 3] - times[f"{group}-2", "revoked", 2]
        assert abs(found[group, 2] - own) < 6 * MS
        assert abs(found[group, 3] - after_the_other) < 6 * MS


def test_causes_in_a_real_capture() -> None:
    rows = kdissect.analyse("rebalances", "captures/groups-4.3.1.pcapng").to_arrow().to_pylist()
    told = [
        (row["group_id"], row["generation"], row["cause"], row["client_id"], row["moved"])
        for row in rows
        if row["group_id"] in ("cooperative", "static")
    ]
    assert told == [
        ("cooperative", 1, "join", "cooperative-1", 0),
        ("cooperative", 2, "join", "cooperative-2", 0),
        ("cooperative", 3, "cooperative step", "cooperative-1", 2),
        ("cooperative", 4, "leave", "cooperative-2", 2),
        ("cooperative", None, "leave", "cooperative-1", None),
        ("static", 1, "join", "static-1", 0),
        ("static", 1, "static restart", "static-2", 0),
        ("static", None, "removed", "admin-java", None),
    ]


def test_new_groups_in_real_captures() -> None:
    found = []
    for name in ("consumer-groups-4.3.1", "share-groups-4.3.1", "streams-groups-4.3.1"):
        rows = kdissect.analyse("rebalances", f"captures/{name}.pcapng").to_arrow().to_pylist()
        found += chosen(rows, "group_id", "kind", "generation", "cause", "members", "moved")
    assert found == [
        ("java-new", "consumer", 2, "join", 1, 0),
        ("java-new", "consumer", 3, "join", 2, 2),
        # The other member is static and only away.
        ("java-new", "consumer", None, "leave", 1, None),
        ("librdkafka-new", "consumer", 2, "join", 1, 0),
        ("librdkafka-new", "consumer", 3, "join", 2, 2),
        ("librdkafka-new", "consumer", None, "leave", 1, None),
        ("sharers", "share", 3, "join", 1, None),
        ("sharers", "share", 4, "join", 2, None),
        ("sharers", "share", None, "leave", 0, None),
        ("counters-new", "streams", 3, "join", 1, 0),
        ("counters-new", "streams", 4, "join", 2, 2),
        ("counters-new", "streams", None, "leave", 0, None),
    ]


def test_a_condition_leaves_the_groups_that_it_names() -> None:
    found = kdissect.analyse(
        "rebalances", "captures/groups-4.3.1.pcapng", where="group_id = 'sticky'"
    )
    assert found.to_arrow()["generation"].to_pylist() == [1, 2, 3, None]
