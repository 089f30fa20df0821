"""Names of topics from a broker's log directories, whatever lies there."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kdissect
from kdissect.cli.program import run
from kdissect.errors import CaptureError, Problem
from kdissect.live import broker_names
from kdissect.live.broker_names import FILE, FILE_BYTES, BrokerNames
from kdissect.protocol.primitives import uuid_text
from tests.live.made_rows import status
from tests.seeds import SEED
from tests.test_late_names import OFFSETS_ID, fetch, talk_of

ROOT = Path(__file__).parent.parent.parent
ORDERS, PAYMENTS = bytes(range(16)), bytes(range(200, 216))


def replica(logs: Path, name: str, raw: bytes) -> Path:
    """A partition's directory as Kafka writes it."""
    (logs / name).mkdir(parents=True)
    (logs / name / FILE).write_text(f"version: 0\ntopic_id: {uuid_text(raw)}")
    return logs / name / FILE


class Capture(SimpleNamespace):
    """What a listener sees: names, and where problems go."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        dissector = SimpleNamespace(add_problems=self.problems.extend)
        super().__init__(names={}, now_ns=5, dissector=dissector)


def begun(*directories: Path) -> tuple[BrokerNames, Any]:
    names, capture = BrokerNames(directories), Capture()
    names.begin(capture)
    return names, capture


def test_partitions_of_several_directories_name_their_topics(tmp_path: Path) -> None:
    replica(tmp_path / "a", "orders-0", ORDERS)
    replica(tmp_path / "a", "orders-12", ORDERS)
    replica(tmp_path / "b", "a.b_c-d-3-0", PAYMENTS)
    (tmp_path / "a" / "meta.properties").write_text("version=1")
    _, capture = begun(tmp_path / "a", tmp_path / "b")
    assert capture.names == {ORDERS: "orders", PAYMENTS: "a.b_c-d-3"}
    assert capture.problems == []


def test_any_legal_name_and_id_is_read(tmp_path: Path) -> None:
    draw = random.Random(f"{SEED} names")
    letters = "abcXYZ019._-"
    expected = {}
    for number in range(50):
        name = "".join(draw.choices(letters, k=draw.choice([1, 3, 20, 240])))
        raw = draw.randbytes(16)
        if raw[0] and name not in expected.values():
            expected[raw] = name
            replica(tmp_path, f"{name}-{number}", raw)
    _, capture = begun(tmp_path)
    assert capture.names == expected, f"seed {SEED}"


def test_names_known_from_the_wire_are_kept(tmp_path: Path) -> None:
    replica(tmp_path, "orders-0", ORDERS)
    names, capture = BrokerNames([tmp_path]), Capture()
    capture.names[ORDERS] = "renamed"
    names.begin(capture)
    assert capture.names == {ORDERS: "renamed"}


def test_new_topics_are_found_while_it_runs_some_at_each_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_names, "FILES_OF_TICK", 2)
    replica(tmp_path, "orders-0", ORDERS)
    names, capture = begun(tmp_path)
    names.tick(status(0))
    for number in range(5):
        replica(tmp_path, f"late-{number}-0", bytes([number + 1]) * 16)
    (tmp_path / "unfinished-0").mkdir()
    names.tick(status(1))
    assert set(capture.names.values()) == {"orders"}, "it looks every half a minute"
    found = []
    for second in range(31, 36):
        names.tick(status(second))
        found.append(len(capture.names))
    assert found[-1] == 6
    assert found == sorted(found)
    assert found[0] <= 3
    content = f"version: 0\ntopic_id: {uuid_text(PAYMENTS)}\n"
    (tmp_path / "unfinished-0" / FILE).write_text(content)
    names.reopen()
    names.tick(status(36))
    assert capture.names[PAYMENTS] == "unfinished"
    names.finish(status(40))
    assert capture.problems == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not in the format of Kafka"),
        ("version: 0\ntopic_id: ../../../../etc/passwd", "not in the format of Kafka"),
        ("version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "not in the format of Kafka"),
        ("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0OD\x00", "not in the format of Kafka"),
        ("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw" + " " * FILE_BYTES, "more than 1024 bytes"),
        ("version: 0\ntopic_id: " + uuid_text(ORDERS), "it has the id of orders"),
    ],
)
def test_a_file_that_is_not_kafkas_is_a_problem_and_names_nothing(
    tmp_path: Path, content: str, why: str
) -> None:
    replica(tmp_path, "orders-0", ORDERS)
    logs, capture = begun(tmp_path)
    replica(tmp_path, "payments-0", b"").write_text(content)
    logs.tick(status(0))
    logs.tick(status(1))
    assert capture.names == {ORDERS: "orders"}
    (problem,) = capture.problems
    assert (problem.stage, problem.kind, problem.time_ns) == ("live", "unread-names", 5)
    assert "payments-0/partition.metadata" in problem.message
    assert why in problem.message
    logs.reopen()
    logs.tick(status(2))
    assert len(capture.problems) == 1, "each once"


def test_links_pipes_and_directories_are_not_read(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    replica(logs, "orders-0", ORDERS)
    elsewhere = replica(tmp_path / "elsewhere", "secret-0", PAYMENTS)
    (logs / "linked-0").symlink_to(elsewhere.parent)
    (logs / "inside-0").mkdir()
    (logs / "inside-0" / FILE).symlink_to(elsewhere)
    (logs / "pipe-0").mkdir()
    os.mkfifo(logs / "pipe-0" / FILE)
    (logs / "folder-0" / FILE).mkdir(parents=True)
    (logs / "file-0").write_text("")
    (logs / "-0").mkdir()
    _, capture = begun(logs)
    assert capture.names == {ORDERS: "orders"}
    (problem,) = capture.problems
    assert problem.message.startswith("names of topics were not read: ")
    assert problem.message.endswith(" and 2 more")


def test_replicas_to_be_deleted_are_not_read(tmp_path: Path) -> None:
    replica(tmp_path, "orders-0", ORDERS)
    replica(tmp_path, f"old-0.{'0f' * 16}-delete", PAYMENTS)
    replica(tmp_path, f"lost-0.{'0f' * 16}-stray", PAYMENTS)
    assert BrokerNames([tmp_path]).names == {ORDERS: "orders"}


def test_a_topic_created_anew_has_its_new_id_too(tmp_path: Path) -> None:
    replica(tmp_path, "orders-0", ORDERS)
    names, capture = begun(tmp_path)
    (tmp_path / "orders-0").rename(tmp_path / f"orders-0.{'0f' * 16}-delete")
    replica(tmp_path, "orders-0", PAYMENTS)
    names.tick(status(0))
    assert capture.names == {ORDERS: "orders", PAYMENTS: "orders"}


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_names, "PARTITIONS", 7)
    for number in range(20):
        replica(tmp_path, f"t{number}-0", bytes([number + 1]) * 16)
    assert len(BrokerNames([tmp_path]).names) <= 7


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.exists, "No such file or directory"),
        (lambda path: path.write_text(""), "Not a directory"),
        (lambda path: path.mkdir(), "no directory of a partition has partition.metadata"),
        (lambda path: replica(path, "a-0", b""), "a-0/partition.metadata: not in the format"),
    ],
)
def test_a_directory_without_names_is_an_error_with_advice(
    tmp_path: Path, make: Any, why: str
) -> None:
    make(tmp_path / "logs")
    with pytest.raises(CaptureError, match=why) as raised:
        BrokerNames([tmp_path / "logs"])
    assert str(tmp_path / "logs") in str(raised.value)


DENIED = """
import os, sys
from pathlib import Path
from kdissect.errors import CaptureError
from kdissect.live.broker_names import BrokerNames
os.setgid(65534); os.setuid(65534)
try:
    print(BrokerNames([Path(sys.argv[1])]).names)
except CaptureError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_directory_of_another_user_is_an_error_with_advice(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    replica(logs, "orders-0", ORDERS)

    def said() -> str:
        directory = os.open(logs, os.O_RDONLY)
        command = [sys.executable, "-c", DENIED, f"/proc/self/fd/{directory}"]
        try:
            return subprocess.run(
                command, pass_fds=[directory], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()
        finally:
            os.close(directory)

    logs.chmod(0o755)
    (logs / "orders-0").chmod(0o700)
    assert "Permission denied" in said()
    logs.chmod(0o700)
    assert said().endswith(
        "Permission denied; log directories belong to the broker's user: start as root with "
        "--user NAME, or as that user"
    )


def fetches_by_id(tmp_path: Path) -> list[str]:
    """A capture whose topic has no name, the directory that has it, and their options."""
    (tmp_path / "fetches.pcap").write_bytes(talk_of(fetch(1), fetch(2)).pcap())
    replica(tmp_path / "logs", "__consumer_offsets-3", OFFSETS_ID.bytes)
    return [str(tmp_path / "fetches.pcap"), "--topic-names-from", str(tmp_path / "logs"), "--json"]


def test_top_shows_traffic_by_id_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["top", *fetches_by_id(tmp_path), "--once"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [topic["name"] for topic in shown["topics"]] == ["__consumer_offsets"]


@pytest.mark.slow
def test_files_of_live_have_the_names(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kdissect", "live", *fetches_by_id(tmp_path)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "tables")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    shown = json.loads(done.stdout.splitlines()[-1])
    assert [topic["name"] for topic in shown["topics"]] == ["__consumer_offsets"]
    rows = kdissect.read(str(tmp_path / "tables"), table="partitions").to_arrow()
    assert rows["topic"].to_pylist() == ["__consumer_offsets"] * 2


def test_a_wrong_directory_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(ROOT / "captures" / "quickstart.pcapng"), "--topic-names-from", str(tmp_path)]
    assert run(["live", *words]) == 1
    assert "name a directory of the broker's log.dirs" in capsys.readouterr().err
