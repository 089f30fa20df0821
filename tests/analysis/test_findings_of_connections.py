"""Findings about connections alone, from packets: TLS on one side, and nothing but metadata."""

from collections.abc import Callable
from pathlib import Path

import pytest

import kdissect
from kdissect.rules.engine import judge
from kdissect.rules.finding import PROBLEM, WARNING, Finding
from tests.analysis.made_findings import api, made_summary, seen
from tests.conversation import Conversation, conversation
from tests.exchange_builders import request, response

SECOND = 1_000_000_000
HELLO = bytes.fromhex("160301002d0100002903 03") + bytes(32) + bytes.fromhex("00000213010100")
ALERT = bytes.fromhex("15030300020246")  # fatal, protocol_version

Step = Callable[[Conversation], Conversation]


def found(tmp_path: Path, times: int, step: Step) -> dict[str, Finding]:
    """The findings of a capture of so many connections, each with the same step."""
    talk = step(conversation().open())
    for number in range(1, times):
        talk = step(talk.port_reuse(900_000_000 + number * 10_000, 2_500_000_000 + number * 10_000))
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.pcap())
    return {one.id: one for one in kdissect.findings(path)}


def refused(talk: Conversation) -> Conversation:
    return talk.client(HELLO).close(is_client=False)


def alerted(talk: Conversation) -> Conversation:
    return talk.client(request("ApiVersions", 3, 1)).broker(ALERT).close(is_client=False)


def looked(talk: Conversation) -> Conversation:
    asked, told = request("Metadata", 9, 2, topics=[]), response("Metadata", 9, 2, topics=[])
    return talk.client(asked, gap_ns=SECOND).broker(told).close()


def test_tls_at_a_plaintext_listener_is_reported(tmp_path: Path) -> None:
    said = found(tmp_path, 2, refused)
    one = said["tls-on-plaintext-port"]
    assert (one.severity, one.numbers["connections"]) == (PROBLEM, 2)
    assert "10.0.0.9:9092, which ended 2 connections without a response" in one.text
    assert "connections-encrypted" not in said


def test_plaintext_at_a_tls_listener_is_reported(tmp_path: Path) -> None:
    said = found(tmp_path, 2, alerted)
    one = said["plaintext-on-tls-port"]
    assert (one.severity, one.numbers["connections"]) == (PROBLEM, 2)
    assert "without TLS to 10.0.0.9:9092, which answered 2 connections with a TLS alert" in one.text
    assert "requests-unanswered" not in said


@pytest.mark.parametrize("step", [refused, alerted])
def test_a_single_probe_is_not_told(tmp_path: Path, step: Step) -> None:
    assert not found(tmp_path, 1, step).keys() & {"tls-on-plaintext-port", "plaintext-on-tls-port"}


def test_a_hello_that_the_client_itself_gives_up_is_not_told(tmp_path: Path) -> None:
    said = found(tmp_path, 3, lambda talk: talk.client(HELLO).close())
    assert "tls-on-plaintext-port" not in said


def test_a_client_that_only_looks_for_brokers_is_reported(tmp_path: Path) -> None:
    one = found(tmp_path, 5, looked)["advertised-listener-unreachable"]
    assert (one.severity, one.numbers["metadata"]) == (WARNING, 5)
    assert "requested metadata 5 times and did nothing else" in one.text


def test_a_client_that_looks_rarely_or_works_is_not_told(tmp_path: Path) -> None:
    assert "advertised-listener-unreachable" not in found(tmp_path, 4, looked)

    def worked(talk: Conversation) -> Conversation:
        asked = request("Heartbeat", 4, 1, group_id="g")
        return looked(talk.client(asked).broker(response("Heartbeat", 4, 1)))

    assert "advertised-listener-unreachable" not in found(tmp_path, 9, worked)


def test_a_monitor_that_lists_topics_on_one_connection_is_not_told(tmp_path: Path) -> None:
    talk = conversation().open()
    for number in range(20):
        asked = request("Metadata", 9, number, topics=[])
        told = response("Metadata", 9, number, topics=[])
        talk = talk.client(asked, gap_ns=2 * SECOND).broker(told)
    path = tmp_path / "monitor.pcap"
    path.write_bytes(talk.close().pcap())
    said = [one.id for one in kdissect.findings(path)]
    assert "advertised-listener-unreachable" not in said


def test_brokers_that_refuse_all_are_reported_without_captured_kafka(tmp_path: Path) -> None:
    said = found(tmp_path, 3, lambda talk: talk.reset(is_client=False))
    assert "broker-refuses-connections" in said
    assert "10.0.0.9:9092 refused 3 connections" in said["broker-refuses-connections"].text


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({}, True),
        ({"time_ns": 17 * SECOND}, False),
        ({"payload_bytes": 12_600_000}, False),
        ({"zero_windows": 1}, False),
    ],
)
def test_a_client_that_fills_a_link_is_reported_and_the_broker_is_not_slow(
    changes: dict[str, int], is_said: bool
) -> None:
    given = {"time_ns": 18 * SECOND, "payload_bytes": 12_500_000, "zero_windows": 0} | changes
    time_ns = given.pop("time_ns")
    work = {"api": "Produce", "broker": "10.0.0.9:9092", "exchanges": 200, "p50_ns": 60_000_000,
            "p99_ns": 247_000_000}  # fmt: skip
    context = seen(summary=made_summary(api("Produce"), network=given), work=[work])
    context.signs.downloads["backfill"] = (time_ns, 10_000_000)
    said = {one.id: one.text.replace("\N{NARROW NO-BREAK SPACE}", " ") for one in judge(context)}
    assert ("client-fills-link" in said) is is_said
    assert ("broker-slow" in said) is not is_said
    if is_said:
        assert said["client-fills-link"] == (
            "backfill fills its link: 80 % of all payload is responses to it, at up to 556 kB/s; "
            "receiving them took 18 s of 1 m 00 s"
        )
