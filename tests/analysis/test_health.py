"""Health of connections, and the network's part of p99."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.errors import KdissectError
from tests.analysis.made_tables import (
    MS,
    SECOND,
    START,
    Row,
    asked,
    connection,
    exchange,
    write_tables,
)

CAPTURES = Path("captures")


def link(number: int, begin_s: float = 0, end_s: float = 1, **more: Any) -> Row:
    """A connection of one exchange, with 10 segments each way and some payload."""
    row = {
        "syn_seen": True, "exchanges": 1, "first_time": START + round(begin_s * SECOND),
        "last_time": START + round(end_s * SECOND), "packets_to_broker": 10,
        "packets_to_client": 10, "payload_bytes_to_broker": 100, "payload_bytes_to_client": 100,
        "handshake_rtt_ns": 30_000, "min_rtt_broker_ns": 10_000, "min_rtt_client_ns": 15_000,
    }  # fmt: skip
    return connection(number, **(row | more))


def unused(number: int, **more: Any) -> Row:
    """A connection on which nothing was sent."""
    none = {"payload_bytes_to_broker": 0, "payload_bytes_to_client": 0, "exchanges": 0}
    return link(number, protocol="none", **none, **more)


def test_connections_are_counted_by_outcome(tmp_path: Path) -> None:
    connections = [
        link(1, 0, 2, rst_by="client", retransmitted_segments_to_broker=3,
             network_lost_bytes_to_broker=200, zero_windows_to_client=2,
             zero_window_ns_to_client=5 * MS, missing_bytes_to_client=7),
        link(2, 1, 2, rst_by="broker", retransmitted_segments_to_client=1),
        link(3, 3, 4),
    ]  # fmt: skip
    exchanges = [
        exchange(number, "Fetch", connection_id=number, client_id="a") for number in (1, 2, 3)
    ]
    (row,) = asked("health", tmp_path, exchanges=exchanges, connections=connections)
    assert row == {
        "client": "a", "broker": "10.0.0.9:9092", "connections": 3, "refused": 0, "no_answer": 0,
        "reset_by_broker": 1, "closed_by_broker": 0, "idle_min_ns": None, "idle_max_ns": None,
        "reset_by_client": 1, "reconnects": 1, "life_p50_ns": SECOND,
        "retransmitted": 4 / 60, "retransmitted_segments": 4, "lost_bytes": 200,
        "zero_windows": 2, "zero_windows_by_broker": 2, "zero_window_ns": 5 * MS,
        "zero_window_by_broker_ns": 5 * MS, "unacknowledged_ns": 0, "missing_bytes": 7,
        "rtt_p50_ns": 25_000,
        "rtt_broker_p50_ns": 10_000,
        "exchanges": 3, "troubled": 0, "time_p99_ns": MS, "untroubled_p99_ns": MS,
        "troubled_p99_ns": None, "network": 0,
    }  # fmt: skip


def test_connections_that_the_broker_closed_have_been_idle_for_so_long(tmp_path: Path) -> None:
    def closed(number: int, idle_s: int, **more: Any) -> Row:
        return link(number, number, number + idle_s, **({"ended_by": "broker"} | more))

    connections = [
        closed(1, 9), closed(2, 11), closed(3, 50, ended_by="client"),
        closed(4, 50, rst_by="broker"), closed(5, 50),
    ]  # fmt: skip
    exchanges = [
        exchange(number, "Produce", connection_id=number, client_id="a", request_start=start,
                 request_end=start, response_start=start, response_end=start)
        for number, start in ((one, START + one * SECOND) for one in (1, 2, 3, 4))
    ]  # fmt: skip
    unanswered = exchange(5, "Produce", connection_id=5, client_id="a", outcome="unanswered",
                          response_start=None, response_end=None)  # fmt: skip
    (row,) = asked("health", tmp_path, exchanges=[*exchanges, unanswered], connections=connections)
    names = ("closed_by_broker", "idle_min_ns", "idle_max_ns", "reset_by_broker")
    assert [row[name] for name in names] == [2, 9 * SECOND, 11 * SECOND, 1]


def test_refused_and_unanswered_connections_are_nobodys(tmp_path: Path) -> None:
    connections = [
        unused(1, rst_by="broker", packets_to_client=1), unused(2, packets_to_client=0),
        unused(3, rst_by="client"),
        link(4, protocol="http"),
    ]  # fmt: skip
    (row,) = asked("health", tmp_path, connections=connections)
    names = ("client", "connections", "refused", "no_answer", "reset_by_broker", "exchanges")
    assert [row[name] for name in names] == [None, 3, 1, 1, 0, None]


@pytest.mark.parametrize(
    ("more", "no_answer"),
    [({}, 1), ({"bytes_to_broker": 300}, 0), ({"fin_seen": True}, 0), ({"rst_by": "client"}, 0)],
)
def test_a_client_that_goes_on_was_answered(
    more: dict[str, Any], no_answer: int, tmp_path: Path
) -> None:
    """Send data or close, which a client does once the broker has accepted."""
    connections = [unused(1, packets_to_client=0, **more), unused(2, packets_to_client=9)]
    (row,) = asked("health", tmp_path, connections=connections)
    assert row["no_answer"] == no_answer


def test_a_capture_of_one_direction_shows_no_broker_that_does_not_answer(tmp_path: Path) -> None:
    connections = [unused(number, packets_to_client=0) for number in range(1, 9)]
    (row,) = asked("health", tmp_path, connections=connections)
    assert row["no_answer"] == 0


def test_the_networks_share_is_the_p99_above_that_of_untroubled_exchanges(tmp_path: Path) -> None:
    exchanges = [exchange(number, "Produce", 10, client_id="a") for number in range(1, 100)]
    exchanges.append(exchange(100, "Produce", 10, upload_ns=190 * MS, retransmits=1))
    exchanges.append(exchange(101, "Produce", 10, download_ns=390 * MS, zero_windows=1))
    exchanges.append(exchange(102, "Fetch", 500, wait_ns=490 * MS))
    connections = [link(1, network_lost_bytes_to_broker=90)]
    (row,) = asked(
        "health", tmp_path, {"by": ["capture"]}, exchanges=exchanges, connections=connections
    )
    assert (row["exchanges"], row["troubled"]) == (102, 2)
    assert (row["untroubled_p99_ns"], row["troubled_p99_ns"]) == (10 * MS, 398 * MS)
    assert row["time_p99_ns"] > 190 * MS
    assert row["network"] == pytest.approx(1 - 10 * MS / row["time_p99_ns"])


def test_when_all_are_troubled_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    exchanges = [exchange(1, "Produce", 10, retransmits=1)]
    connections = [link(1, network_lost_bytes_to_client=90)]
    (row,) = asked("health", tmp_path, exchanges=exchanges, connections=connections)
    assert (row["untroubled_p99_ns"], row["troubled_p99_ns"], row["network"]) == (
        None, 10 * MS, None,
    )  # fmt: skip


def test_a_condition_leaves_connections_that_have_a_chosen_exchange_or_none(tmp_path: Path) -> None:
    exchanges = [exchange(1, "Fetch"), exchange(2, "Produce", connection_id=2)]
    connections = [link(1), link(2), unused(3, rst_by="broker")]
    tables = write_tables(tmp_path, exchanges=exchanges, connections=connections)
    found = kdissect.analyse("health", tables, where="api = 'Fetch'", by=["connection"])
    assert found.to_arrow()["connection"].to_pylist() == [3, 1]


def test_those_with_most_trouble_come_first(tmp_path: Path) -> None:
    connections = [link(1), link(2, zero_windows_to_broker=2), link(3, rst_by="client")]
    exchanges = [exchange(number, "Fetch", connection_id=number) for number in (1, 2, 3)]
    rows = asked(
        "health", tmp_path, {"by": ["connection"]}, exchanges=exchanges, connections=connections
    )
    assert [row["connection"] for row in rows] == [2, 3, 1]


def test_topics_have_no_connections(tmp_path: Path) -> None:
    with pytest.raises(
        KdissectError, match="cannot group by 'topic'; there are: client_id, client_ip"
    ):
        asked("health", tmp_path, {"by": ["topic"]})


def test_a_cluster_that_starts_refuses_its_nodes_until_controllers_listen() -> None:
    rows = kdissect.analyse("health", CAPTURES / "cluster-4.3.1.pcapng").to_arrow().to_pylist()
    refusing = {row["broker"]: row["refused"] for row in rows if row["refused"]}
    assert refusing == {
        "127.0.0.101:19093": 32, "127.0.0.102:19093": 32, "127.0.0.103:19093": 26
    }  # fmt: skip
    assert all(row["client_id"] is None and not row["reset_by_broker"] for row in rows[:3])


def test_a_login_that_fails_comes_again_and_again() -> None:
    sidecar = json.loads((CAPTURES / "sasl-4.3.1.json").read_text())
    sessions = {one["session"] for one in sidecar["sessions"]}
    rows = kdissect.analyse("health", CAPTURES / "sasl-4.3.1.pcapng").to_arrow().to_pylist()
    again = {row["client_id"]: row["reconnects"] for row in rows if row["client_id"] in sessions}
    # Its token has expired, and it tries ten times in its few seconds.
    assert max(again, key=lambda client: again[client]) == "kafka-python-expired-oauthbearer"
    assert again["kafka-python-expired-oauthbearer"] == 9


def test_retransmissions_on_a_connection_that_lost_nothing_are_no_trouble(tmp_path: Path) -> None:
    exchanges = [exchange(1, "Produce", 10, retransmits=1)]
    (row,) = asked("health", tmp_path, exchanges=exchanges, connections=[link(1)])
    assert (row["troubled"], row["network"]) == (0, 0)


@pytest.mark.parametrize(("packets_to_client", "unacknowledged_ns"), [(9, 7 * SECOND), (0, 0)])
def test_what_is_unacknowledged_is_known_in_captures_of_both_directions(
    packets_to_client: int, unacknowledged_ns: int, tmp_path: Path
) -> None:
    waited = {"packets_to_client": packets_to_client, "unacknowledged_ns_to_client": 8 * SECOND}
    connections = [unused(1, unacknowledged_ns_to_broker=7 * SECOND, **waited), unused(2, **waited)]
    (row,) = asked("health", tmp_path, connections=connections)
    assert row["unacknowledged_ns"] == unacknowledged_ns
