"""Captures that have no answer to give: a sentence each, and a finding."""

import json
import struct
from pathlib import Path

import pytest

import kdissect
from kdissect.cli.program import run
from tests.capture.writers import make_pcap
from tests.conversation import conversation

SECOND = 1_000_000_000


def heartbeat(number: int) -> bytes:
    """A Heartbeat request, version 0, with its size."""
    header = struct.pack(">hhih", 12, 0, number, 6) + b"silent"
    body = header + struct.pack(">h", 1) + b"g" + struct.pack(">ih", 1, 1) + b"m"
    return struct.pack(">i", len(body)) + body


def unanswered(directory: Path) -> Path:
    talk = conversation()
    for number in range(40):
        talk = talk.client(heartbeat(number)).ack("broker")
    path = directory / "unanswered.pcap"
    packets = talk.captured()
    start = packets[0].time_ns
    # Ten minutes in all: no request is in flight when the capture ends.
    slow = [one._replace(time_ns=start + number * 5 * SECOND) for number, one in enumerate(packets)]
    path.write_bytes(make_pcap(slow))
    return path


def without_keys(directory: Path) -> Path:
    """A capture of TLS, away from its key log."""
    path = directory / "encrypted.pcapng"
    path.write_bytes(Path("captures/tls/tls12-4.3.1.pcapng").read_bytes())
    return path


def without_kafka(_: Path) -> Path:
    return Path("captures/other/beside.pcapng")


CASES = [
    (without_kafka, "no-kafka", "No Kafka was found in 291 packets"),
    (without_keys, "connections-encrypted", "cannot be read: TLS without secrets"),
    (unanswered, "requests-unanswered", "(100 %) got no response: 40 Heartbeat"),
]


@pytest.mark.parametrize(("made", "id_", "sentence"), CASES, ids=[case[1] for case in CASES])
def test_a_capture_without_answers_has_a_sentence_and_a_finding(
    made: object, id_: str, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(made)
    path = made(tmp_path)
    assert run(["summary", str(path)]) == 0
    page = " ".join(capfd.readouterr().out.split())
    assert f"[{id_}" in page
    assert sentence in page
    assert run(["summary", str(path), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)["findings"]
    assert id_ in [one["id"] for one in found]
    assert "healthy" not in [one["id"] for one in found]
    assert id_ in [one.id for one in kdissect.findings(path)]


@pytest.mark.parametrize("command", ["latency", "show"])
def test_no_rows_are_explained(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for made, words in ((without_kafka, "0 Kafka exchanges"), (without_keys, "--keylog")):
        assert run([command, str(made(tmp_path))]) == 0
        assert words in capfd.readouterr().err


def test_an_empty_directory_is_an_error_in_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for command in ("summary", "latency", "show"):
        assert run([command, str(tmp_path)]) == 1
        said = capfd.readouterr()
        assert (said.out, said.err) == ("", f"kdissect: {tmp_path}: no capture in it\n")
