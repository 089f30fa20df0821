"""Commands over captures of Kafka 0.7, and the option --protocol."""

import json
from pathlib import Path

import pytest

import kdissect
from kdissect.analysis.summary.summary import TABLES, summarise
from kdissect.cli.program import run
from tests.conversation import conversation
from tests.exchange_builders import request, response, sized
from tests.old_builders import fetch, fetched, message, multifetch, multifetched, wrapper

CAPTURE = str(Path(__file__).parents[2] / "captures" / "old" / "kafka-0.7.pcapng")


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """0.7 and later Kafka in one capture, with the same keys and codes."""
    talk = conversation().client(sized(fetch("orders", 9)))
    talk = talk.broker(sized(fetched(message(b"secret") + wrapper(message(b"hidden")))))
    asked = multifetch(fetch("orders", 9)[2:])
    talk = talk.client(sized(asked)).broker(sized(multifetched((3, b""))))
    talk = talk.close().port_reuse()
    talk = talk.client(request("ListOffsets", 1, 7)).broker(response("ListOffsets", 1, 7))
    talk = talk.client(request("Heartbeat", 0, 8)).broker(response("Heartbeat", 0, 8, error_code=3))
    path = tmp_path / "mixed.pcap"
    path.write_bytes(talk.pcap())
    return str(path)


def test_show_prints_requests_and_responses_in_full(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", mixed, "--where", "api = 'Fetch'"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "Fetch  10.0.0.1:50000 → 10.0.0.9:9092  packets 4 → 6"
    assert "request_type: 1" in lines
    assert 'topic: "orders"' in lines
    assert "offset: 9" in lines
    assert "message_set (2)" in lines
    assert 'codec: "gzip"' in " ".join(lines)
    assert "secret" not in " ".join(lines)


def test_show_names_errors_in_the_words_of_0_7(
    mixed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", mixed, "--where", "error_code = 3"]) == 0
    shown = capsys.readouterr().out
    assert "error_code: 3 WrongPartition" in shown
    assert "error_code: 3 UNKNOWN_TOPIC_OR_PARTITION" in shown


@pytest.mark.parametrize("payload", [False, True])
def test_payload_is_shown_only_when_asked_for(
    mixed: str, payload: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["show", "--format", "jsonl"], ["table", "bodies", "--format", "jsonl"]):
        options = ["--payload"] if payload else []
        assert run([*command, mixed, *options]) == 0
        shown = capsys.readouterr().out
        assert ("secret" in shown, "hidden" in shown) == (payload, payload)


def test_the_summary_keeps_apis_and_errors_of_one_number_apart(mixed: str) -> None:
    summary = summarise(kdissect.Run(mixed, kdissect.Options(tables=TABLES)))
    assert sorted((row.api, row.api_key, row.exchanges) for row in summary.apis) == [
        ("Fetch", 1, 1),
        ("Heartbeat", 12, 1),
        ("ListOffsets", 2, 1),
        ("MultiFetch", 2, 1),
    ]
    assert sorted((row.name, row.code, row.count) for row in summary.errors) == [
        ("UNKNOWN_TOPIC_OR_PARTITION", 3, 1),
        ("WrongPartition", 3, 1),
    ]


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("auto", "kafka-0.7"), ("0.7", "kafka-0.7"), ("kafka", "other"),
     ("proposal", "kafka-proposal"), ("trunk-2012", "kafka-trunk-2012")],
)  # fmt: skip
def test_the_protocol_can_be_told(
    protocol: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--protocol", protocol, "--format", "jsonl", "--columns", "protocol"]
    assert run(["table", "connections", CAPTURE, *options]) == 0
    found = {json.loads(line)["protocol"] for line in capsys.readouterr().out.splitlines()}
    assert found == {expected}


@pytest.mark.parametrize("command", ["summary", "show", "table exchanges"])
def test_every_command_that_reads_takes_the_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), CAPTURE, "--protocol", "0.7"]) == 0
    assert "MultiProduce" in capsys.readouterr().out


def test_dissect_takes_the_option(tmp_path: Path) -> None:
    assert run(["dissect", CAPTURE, "-o", str(tmp_path / "out"), "--protocol", "0.7"]) == 0


def test_a_protocol_that_is_not_known_is_refused() -> None:
    with pytest.raises(kdissect.KdissectError, match=r"no protocol '0\.6'; there are: auto"):
        kdissect.read(CAPTURE, protocol="0.6").to_arrow()


def test_the_layouts_before_0_8_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", "--protocol", "0.7", "multifetch"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["MultiFetch", "(key", "2)"],
        [],
        ["request"],
        ["request_type", "int16"],
        ["fetches", "[struct]", "counted", "by", "an", "int16"],
        ["topic", "string"],
        ["partition", "int32"],
        ["offset", "int64"],
        ["max_size", "int32"],
        [],
        ["response"],
        ["error_code", "int16"],
        ["responses", "[struct]", "up", "to", "the", "end", "of", "the", "frame"],
        ["size", "int32"],
        ["error_code", "int16"],
        ["message_set", "message_set", "of", "size", "-", "2"],
    ]
    assert run(["protocol", "--protocol", "0.7", "produce"]) == 0
    assert "response: none" in capsys.readouterr().out
    for protocol in ("0.7", "proposal", "trunk-2012"):
        assert run(["protocol", "--protocol", protocol]) == 0
        assert "Fetch (key 1)" in capsys.readouterr().out
    assert run(["protocol", "--protocol", "0.7", "Fetch", "1"]) == 2
    assert "APIs of 0.7 have no versions" in capsys.readouterr().err


def test_the_list_of_all_apis_points_to_older_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["protocol"]) == 0
    assert "kdissect protocol --protocol 0.7" in capsys.readouterr().err
