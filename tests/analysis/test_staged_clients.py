"""Clients in staged incidents: hanging transactions, quotas, old releases, lost records."""

import functools
from pathlib import Path

import pytest

import kdissect
from tests.analysis.incidents import (
    POLL,
    SLACK,
    answer,
    assigned,
    chosen,
    operation,
    produced_by,
    truth,
    until,
)
from tests.analysis.made_tables import MS, SECOND, Row


class TestTransactions:
    """A producer killed within a transaction, a fenced zombie, and the clients that wait."""

    NAME = "incident-hanging-transaction-4.3.1"

    def payment(self) -> Row:
        """The first record of the transaction that hangs."""
        return next(
            row
            for row in truth(self.NAME)["produced"]
            if row["session"] == "payer" and row["transaction"] == "aborted"
        )

    def test_the_broker_ends_it_when_its_time_is_over(self) -> None:
        rows = answer("transactions", self.NAME)
        row = next(row for row in rows if row["outcome"] == "timed out")
        columns = ("client_id", "transactional_id", "records", "ended_by", "timeout_ns")
        assert chosen([row], *columns) == [("payer", "till", 3, None, 4 * SECOND)]
        begin, kill = (operation(self.NAME, "payer", *what) for what in (("begin", 1), ("kill",)))
        assert begin["start_ns"] < row["started"].value < kill["start_ns"]
        # The coordinator looks every 500 ms; the marker has its clock in milliseconds.
        assert 4 * SECOND - MS < row["duration_ns"] < 4 * SECOND + 500 * MS + SLACK

    @pytest.mark.parametrize(("seconds", "outcome"), [(3.0, "open"), (4.3, "hanging")])
    def test_a_capture_that_ends_before_has_it_open_or_hanging(
        self, seconds: float, outcome: str, tmp_path: Path
    ) -> None:
        kill = operation(self.NAME, "payer", "kill")["end_ns"]
        part = tmp_path / "part.pcapng"
        part.write_bytes(until(Path(f"captures/{self.NAME}.pcapng"), kill + int(seconds * SECOND)))
        rows = kdissect.analyse("transactions", part).to_arrow().to_pylist()
        assert [row["outcome"] for row in rows] == [outcome, "committed"]

    def test_the_zombie_is_refused_and_its_transaction_taken_over(self) -> None:
        rows = [
            row for row in answer("transactions", self.NAME)
            if row["transactional_id"] == "drawer"
        ]  # fmt: skip
        columns = ("client_id", "outcome", "ended_by", "records", "last_error")
        assert sorted(chosen(rows, *columns)) == [
            ("heir", "committed", "heir", 3, None),
            ("zombie", "refused", None, 3, "PRODUCER_FENCED"),
            ("zombie", "taken over", "heir", 3, "CONCURRENT_TRANSACTIONS"),
        ]
        told = {row["name"].split(":")[0] for row in truth(self.NAME)["errors"]}
        fenced = "org.apache.kafka.common.errors.ProducerFencedException"
        assert told == {"INVALID_PRODUCER_EPOCH", fenced}

    def test_the_last_stable_offset_stays_where_it_began(self) -> None:
        capture = f"captures/{self.NAME}.pcapng"
        exchanges = {
            row["exchange_id"]: row
            for row in kdissect.read(capture, table="exchanges").to_arrow().to_pylist()
            if row["client_id"] == "reader-committed" and row["response_end"] is not None
        }
        began = self.payment()
        ended = began["acknowledged_ns"] + 4 * SECOND - SLACK
        found = [
            (row["last_stable_offset"], row["high_watermark"])
            for row in kdissect.read(capture, table="partitions").to_arrow().to_pylist()
            if row["high_watermark"] is not None and row["exchange_id"] in exchanges
            and began["acknowledged_ns"]
            < exchanges[row["exchange_id"]]["response_end"].value < ended
        ]  # fmt: skip
        assert {stable for stable, _ in found} == {began["offset"]}
        ends = [end for _, end in found]
        assert ends == sorted(ends)
        assert ends[-1] - ends[0] >= 15

    def test_read_committed_consumers_lag_behind_open_transactions(self) -> None:
        rows = answer("lag", self.NAME, window=SECOND)
        began = self.payment()
        until = began["acknowledged_ns"] + 4 * SECOND - SLACK
        joined = assigned(self.NAME, "reader-committed")[0]["time_ns"] + SLACK
        found = {
            (row["group_id"], row["window"].value): row
            for row in rows
            if joined < row["window"].value + SECOND < until
        }
        starts = {start for _, start in found}
        assert len(starts) == 3
        for start in starts:
            stuck, free = (found[f"read-{level}", start] for level in ("committed", "uncommitted"))
            # Three offsets are those of the transaction and one the marker of the one before.
            least, most = produced_by(self.NAME, start + SECOND)
            assert least + 1 <= stuck["end_offset"] <= most + 1
            assert stuck["committed_offset"] == began["offset"]
            assert stuck["undelivered"] == stuck["lag"] == stuck["end_offset"] - began["offset"]
            # It has received all but the records of its last long poll of 500 ms.
            assert stuck["lag"] - 3 <= stuck["held_back"] <= stuck["lag"]
            assert free["lag"] <= 1 < 9 <= free["held_back"]
            waited = start + SECOND - began["sent_ns"]
            assert waited - 200 * MS - SLACK < stuck["lag_time_ns"] < waited + SLACK

    def test_records_reach_them_only_when_it_is_over(self) -> None:
        found = {row["group"]: row for row in answer("end-to-end", self.NAME, by=["group"])}
        sent = {row["offset"]: row["sent_ns"] for row in truth(self.NAME)["produced"]}
        for level in ("committed", "uncommitted"):
            waited = [
                row["time_ns"] - sent[row["offset"]]
                for row in truth(self.NAME)["consumed"]
                if row["session"] == f"reader-{level}"
            ]
            row = found[f"read-{level}"]
            # A client sends it a little before the request, and has it at its next poll.
            assert max(waited) - SLACK - POLL < row["max_ns"] < max(waited)


class TestThrottling:
    """Quotas of clients, and for how long the broker throttled them."""

    @pytest.mark.parametrize(("client", "api"), [("hasty-writer", 0), ("hasty-reader", 1)])
    def test_throttling_matches_the_brokers_log(self, client: str, api: int) -> None:
        name = "throttling-4.3.1"
        traffic = self.of_client(name, client)
        told = self.logged(name, client, api)
        held_back = [milliseconds for milliseconds in told if milliseconds]
        assert chosen([traffic], "throttled", "throttle_max_ms") == [
            (len(held_back), max(held_back))
        ]
        rows = answer("latency", name, by=["client", "api"], of="throttle")
        key = "Produce" if api == 0 else "Fetch"
        (latency,) = (row for row in rows if (row["client"], row["api"]) == (client, key))
        assert chosen([latency], "exchanges", "max_ns") == [(len(told), max(told) * MS)]

    @pytest.mark.parametrize(("client", "api"), [("hasty-writer", 0), ("hasty-reader", 1)])
    def test_old_brokers_throttle_before_they_answer(self, client: str, api: int) -> None:
        name = "throttling-1.1.1"
        rows = answer("latency", name, by=["client"], of="service", where="throttle_ms > 0")
        (row,) = (row for row in rows if row["client"] == client)
        # They log how long a response was delayed, a few milliseconds more than it states.
        told = self.of_client(name, client)["throttle_max_ms"]
        logged = max(self.logged(name, client, api))
        assert logged - 6 < told <= logged
        assert told * MS <= row["max_ns"]

    def test_a_consumer_that_is_held_back_waits_for_as_long(self) -> None:
        name = "throttling-4.3.1"
        poll = operation(name, "hasty-reader", "poll")
        milliseconds = self.of_client(name, "hasty-reader")["throttle_max_ms"]
        assert 0 < milliseconds * MS < poll["end_ns"] - poll["start_ns"]

    @staticmethod
    def of_client(name: str, client: str) -> Row:
        rows = answer("traffic", name, by=["client"])
        return next(row for row in rows if row["client"] == client)

    @staticmethod
    def logged(name: str, client: str, api: int) -> list[float]:
        rows = truth(name)["exchanges"]
        return [
            row["throttle_ms"]
            for row in rows
            if (row["client_id"], row["api_key"]) == (client, api)
        ]

    def test_throttle_time_matches_the_bytes_beyond_the_quota(self) -> None:
        name = "throttling-4.3.1"
        quota = operation(name, "admin-java", "alter_quota")["arguments"]
        capture = f"captures/{name}.pcapng"
        sizes = [
            row["request_size"] + 4
            for row in kdissect.read(capture, table="exchanges").to_arrow().to_pylist()
            if (row["client_id"], row["api"]) == (quota["client_id"], "Produce")
        ]
        row = self.of_client(name, quota["client_id"])
        # The rate covers the last eleven samples of a second, the first of which has begun: until
        # it is back at the quota, so many seconds have to pass.
        seconds = sum(sizes) / quota["limit"]
        assert seconds - 11 < row["throttle_max_ms"] / 1000 < seconds - 10


class TestUpgrade:
    """Verdict on clients of 3.9.1, compared with their use of 4.3.1."""

    BEFORE, AFTER = "incident-old-clients-3.9.1", "incident-old-clients-4.3.1"

    @staticmethod
    def succeeded(name: str) -> set[str]:
        """Sessions that did everything they should."""
        failed = {row["session"] for row in truth(name)["errors"]}
        calls = [
            row for row in truth(name)["operations"] if row["operation"] in ("produce", "poll")
        ]
        done = {row["session"] for row in calls if (row["result"] or {}).get("records")}
        return done - failed

    def test_the_clients_that_break_are_those_that_did(self) -> None:
        everybody = self.succeeded(self.BEFORE)
        assert len(everybody) == 2 * 8 + 1
        breaks = {
            row["client"]
            for row in answer("upgrade", self.BEFORE, by=["client"])
            if row["verdict"] in ("breaks", "may break")
        }
        assert everybody - self.succeeded(self.AFTER) == breaks
        assert breaks == {
            f"{client}-{role}"
            for client in ("java-0.9.0.1", "java-0.10.2.2", "librdkafka-as-0.9")
            for role in ("reader", "writer")
        }

    def test_versions_that_are_said_to_break_are_those_that_were_refused(self) -> None:
        breaks = {
            (row["client"], row["api"], row["api_version"])
            for row in answer("upgrade", self.BEFORE, by=["client"])
            if row["verdict"] == "breaks"
        }
        capture = f"captures/{self.AFTER}.pcapng"
        answered = {
            (row["client_id"], row["api"], row["api_version"])
            for row in kdissect.read(capture, table="exchanges").to_arrow().to_pylist()
            if row["outcome"] == "answered"
        }
        assert breaks & answered == set()
        assert len(breaks) == 8


class TestCommits:
    """Consumers that lost or repeated records when they crashed."""

    NAME = "incident-crashes-4.3.1"

    @staticmethod
    @functools.cache
    def rows() -> dict[str, Row]:
        return {row["group_id"]: row for row in answer("commits", TestCommits.NAME)}

    def offsets(self, table: str, group: str, process: int) -> list[int]:
        rows = truth(self.NAME)[table]
        return [row["offset"] for row in rows if row["session"] == f"{group}-{process}"]

    def committed(self, group: str) -> list[int]:
        """Offsets that the crashed process had committed."""
        capture = f"captures/{self.NAME}.pcapng"
        exchanges = {
            row["exchange_id"]
            for row in kdissect.read(capture, table="exchanges").to_arrow().to_pylist()
            if (row["client_id"], row["api"]) == (f"{group}-1", "OffsetCommit")
        }
        rows = kdissect.read(capture, table="partitions").to_arrow().to_pylist()
        return [row["committed_offset"] for row in rows if row["exchange_id"] in exchanges]

    @pytest.mark.parametrize(
        ("group", "rhythm", "lost"),
        [("commits-first", "each delivery", 6), ("auto-ahead", "timer", 15)],
    )
    def test_committed_but_unprocessed_records_are_lost(
        self, group: str, rhythm: str, lost: int
    ) -> None:
        done, given = self.offsets("processed", group, 1), self.offsets("consumed", group, 2)
        # The time in between has no work: the wire cannot show it, but it shows the cause.
        assert given[0] - (done[-1] + 1) == lost
        assert self.committed(group)[-1] == given[0]
        row = self.rows()[group]
        assert (row["rhythm"], row["redelivered"], row["committed"]) == (rhythm, 0, 40)

    def test_the_timer_is_the_one_that_was_configured(self) -> None:
        opened = operation(self.NAME, "auto-ahead-1", "open_consumer")
        interval_ms = int(opened["arguments"]["settings"]["auto.commit.interval.ms"])
        assert abs(self.rows()["auto-ahead"]["interval_p50_ns"] - interval_ms * MS) < 20 * MS

    def test_processed_but_uncommitted_records_are_repeated(self) -> None:
        group = "auto-behind"
        done = self.offsets("processed", group, 1)
        again = set(done) & set(self.offsets("processed", group, 2))
        assert self.committed(group) == []
        row = self.rows()[group]
        assert (row["risk"], row["redelivered"]) == ("repeated: delivered again", len(again))
        assert len(again) == 20
        assert row["exposed_max"] == 40
