"""Groups in staged incidents: why they rebalanced, for how long, and how far they were behind."""

import functools
from itertools import pairwise

import pytest

from tests.analysis.incidents import (
    BROKER_TIMER,
    HEARTBEAT,
    POLL,
    SLACK,
    answer,
    assigned,
    chosen,
    operation,
    produced_by,
    truth,
)
from tests.analysis.made_tables import MS, SECOND, Row


class TestRebalances:
    """Causes and times of rebalances, and the assignment after each."""

    KILLED, STATIC = "incident-killed-member-4.3.1", "incident-static-member-4.3.1"
    CHANGES, SLOW = "incident-group-changes-4.3.1", "incident-slow-poller-4.3.1"

    @staticmethod
    @functools.cache
    def rows_of(name: str) -> list[Row]:
        return answer("rebalances", name)

    def of_group(self, name: str, group: str) -> list[Row]:
        return [row for row in self.rows_of(name) if row["group_id"] == group]

    @pytest.mark.parametrize(("group", "session_s"), [("tellers", 6), ("tellers-new", 3)])
    def test_a_member_that_was_killed_had_its_session_time_out(
        self, group: str, session_s: int
    ) -> None:
        *_, row, _ = self.of_group(self.KILLED, group)
        victim, survivor = f"{group}-2", f"{group}-1"
        columns = ("cause", "client_id", "lost", "gone", "members_before", "members", "outcome")
        assert chosen([row], *columns) == [("session timeout", victim, 1, 0, 2, 1, "complete")]
        lost = assigned(self.KILLED, victim)[-1]["partitions"]
        assert row["moved_partitions"] == " ".join(f"{topic}:{each}" for topic, each in lost)
        kill = operation(self.KILLED, victim, "kill")
        timeout = session_s * SECOND
        # The session restarted with the last heartbeat; the survivor learns of it at its own next
        # one.
        assert kill["start_ns"] - HEARTBEAT + timeout < row["start"].value
        assert row["start"].value < kill["end_ns"] + timeout + HEARTBEAT + BROKER_TIMER
        taken = assigned(self.KILLED, survivor)[-1]
        assert taken["generation"] == row["generation"]
        earliest, latest = (taken["time_ns"] - kill[when] for when in ("end_ns", "start_ns"))
        assert earliest - SLACK < row["stopped_ns"] < latest + SLACK

    @pytest.mark.parametrize("group", ["tellers", "tellers-new"])
    def test_partitions_were_unread_for_as_long(self, group: str) -> None:
        *_, row, _ = self.of_group(self.KILLED, group)
        moved = row["moved_partitions"].split()
        times: dict[str, list[int]] = {}
        for record in truth(self.KILLED)["consumed"]:
            if f"{record['topic']}:{record['partition']}" in moved:
                times.setdefault(record["session"], []).append(record["time_ns"])
        assert times.keys() == {f"{group}-1", f"{group}-2"}
        last = max(times[f"{group}-2"])
        first = min(time_ns for time_ns in times[f"{group}-1"] if time_ns > last)
        kill = operation(self.KILLED, f"{group}-2", "kill")
        assert first - kill["end_ns"] > row["stopped_ns"] - SLACK
        # Two partitions have a record every 400 ms, and the survivor's last fetch waits for 500.
        assert first - last < row["stopped_ns"] + (400 + 500) * MS + SLACK

    @pytest.mark.parametrize("group", ["desks", "desks-new"])
    def test_a_static_member_may_be_away_for_less_than_its_session(self, group: str) -> None:
        before, in_time, too_late = (
            f"{group}-2-{turn}" for turn in ("before", "in-time", "too-late")
        )
        restart, expired, back = self.of_group(self.STATIC, group)[-3:]
        columns = ("cause", "client_id", "joined", "lost", "members_before", "members")
        assert chosen([restart, expired, back], *columns) == [
            ("static restart", in_time, 0, None, 2, 2),
            ("session timeout", in_time, 0, 1, 2, 1),
            ("join", too_late, 1, None, 1, 2),
        ]
        assert restart["generation"] == restart["generation_before"]
        assert (restart["moved"], expired["moved"], back["moved"]) == (0, 2, 2)
        close = operation(self.STATIC, before, "close")
        there = assigned(self.STATIC, in_time)[0]["time_ns"]
        assert there - close["end_ns"] - SLACK < restart["stopped_ns"]
        assert restart["stopped_ns"] < there - close["start_ns"] + SLACK

    @pytest.mark.parametrize("group", ["desks", "desks-new"])
    def test_a_static_member_that_is_away_for_longer_is_given_up(self, group: str) -> None:
        expired = self.of_group(self.STATIC, group)[-2]
        close = operation(self.STATIC, f"{group}-2-in-time", "close")
        timeout = 3 * SECOND
        assert close["start_ns"] - HEARTBEAT + timeout < expired["start"].value
        assert expired["start"].value < close["end_ns"] + timeout + HEARTBEAT + BROKER_TIMER
        taken = next(
            row["time_ns"]
            for row in assigned(self.STATIC, f"{group}-1")
            if row["time_ns"] > close["end_ns"]
        )
        assert taken - close["end_ns"] - SLACK < expired["stopped_ns"]
        assert expired["stopped_ns"] < taken - close["start_ns"] + SLACK

    def test_a_member_that_polls_too_slowly_is_recognized_by_its_leave_reason(self) -> None:
        columns = ("group_id", "cause", "reason", "outcome", "members")
        too_slow = "consumer poll timeout has expired."
        rows = [
            row
            for group in ("slow-java", "slow-librdkafka", "slow-new")
            for row in self.of_group(self.SLOW, group)[1:3]
        ]
        assert chosen(rows, *columns) == [
            ("slow-java", "max poll exceeded", too_slow, "emptied", 0),
            ("slow-java", "join", "consumer pro-actively leaving the group", "complete", 1),
            # Neither librdkafka nor the new protocol states the reason.
            ("slow-librdkafka", "leave", None, "emptied", 0),
            ("slow-librdkafka", "join", None, "complete", 1),
            ("slow-new", "leave", None, "emptied", 0),
            ("slow-new", "join", None, "complete", 1),
        ]

    @pytest.mark.parametrize("group", ["slow-java", "slow-librdkafka", "slow-new"])
    def test_it_leaves_when_its_poll_interval_is_over(self, group: str) -> None:
        _, leave, join, _ = self.of_group(self.SLOW, group)
        polled = operation(self.SLOW, f"{group}-1", "poll")["end_ns"]
        # librdkafka looks once a second.
        assert polled - POLL + 3 * SECOND < leave["start"].value < polled + 4 * SECOND
        again = operation(self.SLOW, f"{group}-1", "poll", 1)
        assert again["start_ns"] < join["start"].value < again["start_ns"] + 100 * MS
        back = assigned(self.SLOW, f"{group}-1")[1]["time_ns"]
        stopped = back - leave["start"].value
        assert stopped - SLACK < join["stopped_ns"] < stopped + SLACK

    def test_ordinary_causes(self) -> None:
        columns = ("cause", "client_id", "reason", "members", "moved")
        changed, closed = "cached metadata has changed", "the consumer is being closed"
        assert chosen(self.of_group(self.CHANGES, "watchers")[1:], *columns) == [
            ("join", "watchers-2", None, 2, 1),
            ("metadata change", "watchers-1", changed, 2, 1),
            ("metadata change", "watchers-1", changed, 2, 0),
            ("leave", "watchers-2", closed, 1, 3),
            ("leave", "watchers-1", closed, 0, None),
        ]
        assert chosen(self.of_group(self.CHANGES, "watchers-new")[1:], *columns) == [
            ("join", "watchers-new-2", None, 2, 1),
            # The broker sees partitions that are new by itself.
            ("metadata change", None, None, 2, 0),
            # Clients tell it which topics fit the pattern, one after the other.
            ("subscription change", "watchers-new-2", None, 2, 1),
            ("subscription change", "watchers-new-1", None, 2, None),
            ("leave", "watchers-new-2", None, 1, 3),
            ("leave", "watchers-new-1", None, 0, None),
        ]

    @pytest.mark.parametrize("group", ["watchers", "watchers-new"])
    def test_ordinary_causes_follow_staged_actions(self, group: str) -> None:
        join, partitions, topic = self.of_group(self.CHANGES, group)[1:4]
        leave = self.of_group(self.CHANGES, group)[-2]
        polled = operation(self.CHANGES, f"{group}-2", "poll")
        assert polled["start_ns"] < join["start"].value < polled["start_ns"] + SECOND
        turn = ["watchers", "watchers-new"].index(group)
        added = operation(self.CHANGES, "admin-java", "create_partitions", turn)
        made = operation(self.CHANGES, "admin-java", "create_topics", turn * 2 + 1)
        for row, change in ((partitions, added), (topic, made)):
            # Metadata may be 500 ms old; heartbeats carry it.
            latest = change["end_ns"] + 500 * MS + HEARTBEAT
            assert change["start_ns"] < row["start"].value < latest
        closed = operation(self.CHANGES, f"{group}-2", "close")
        assert closed["start_ns"] < leave["start"].value < closed["end_ns"]

    @pytest.mark.parametrize("name", [KILLED, STATIC, CHANGES])
    def test_partitions_move_as_the_members_were_told(self, name: str) -> None:
        owners = {
            row["session"]: row["arguments"]["settings"].get("group.instance.id", row["session"])
            for row in truth(name)["operations"]
            if row["operation"] == "open_consumer"
        }
        for group in {row["group_id"] for row in self.rows_of(name)}:
            before: dict[str, str] = {}
            for row, following in pairwise(self.of_group(name, group)):
                # Members are counted until the next begins, or for a little longer.
                end = max(row["end"].value + SLACK, following["start"].value)
                after = held(name, group, end, owners)
                moved = [place for place, who in after.items() if before.get(place, who) != who]
                assert (row["moved_partitions"] or "").split() == sorted(moved), row
                before = after


def held(name: str, group: str, time_ns: int, owners: dict[str, str]) -> dict[str, str]:
    """Last owner of each partition."""
    found: dict[str, str] = {}
    told = [row for row in truth(name)["rebalances"] if row["event"] == "assigned"]
    for row in sorted(told, key=lambda row: row["time_ns"]):
        if row["group"] == group and row["time_ns"] <= time_ns:
            for topic, partition in row["partitions"]:
                found[f"{topic}:{partition}"] = owners[row["session"]]
    return found


class TestLag:
    """Lag of groups by the second, compared with produced and committed records."""

    SLOW = "incident-slow-poller-4.3.1"

    @pytest.mark.parametrize("group", ["slow-java", "slow-librdkafka", "slow-new"])
    def test_lag_grows_while_a_consumer_is_busy(self, group: str) -> None:
        commit = next(row for row in truth(self.SLOW)["commits"] if row["group"] == group)
        again = operation(self.SLOW, f"{group}-1", "poll", 1)["start_ns"]
        waiting = next(
            row for row in truth(self.SLOW)["produced"] if row["offset"] == commit["offset"]
        )
        rows = [row for row in answer("lag", self.SLOW, window=SECOND) if row["group_id"] == group]
        busy = [row for row in rows if commit["time_ns"] < row["window"].value + SECOND < again]
        assert len(busy) == 5
        for row in busy:
            end = row["window"].value + SECOND
            least, most = produced_by(self.SLOW, end)
            assert row["committed_offset"] == commit["offset"]
            assert least <= row["end_offset"] <= most
            assert row["lag"] == row["end_offset"] - row["committed_offset"]
            # The last event in the window is a record; one is produced every 200 ms.
            waited = end - waiting["sent_ns"]
            assert waited - 200 * MS - SLACK < row["lag_time_ns"] < waited
        assert [row["lag"] for row in busy] == sorted({row["lag"] for row in busy})
        last = next(row for row in reversed(truth(self.SLOW)["commits"]) if row["group"] == group)
        assert chosen(rows[-1:], "lag", "committed_offset", "end_offset", "lag_time_ns") == [
            (0, last["offset"], len(truth(self.SLOW)["produced"]), 0)
        ]
