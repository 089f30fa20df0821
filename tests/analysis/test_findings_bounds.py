"""Pages stay small and correct for any names and numbers from the wire."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.capture.pcap import NANOSECONDS
from kdissect.cli.program import run
from kdissect.rules.context import ROWS, Context
from kdissect.rules.engine import LISTED, SENTENCE_LENGTH, bounded, judged
from kdissect.rules.finding import NOTICE, WARNING, Finding
from kdissect.text.human import NAME_LENGTH, TEXT_LENGTH, cut
from tests.analysis.made_findings import seen
from tests.capture.writers import Captured, make_pcap
from tests.checkpoint.law import CAPTURES, link_type_of, read_packets
from tests.conversation import conversation
from tests.exchange_builders import request, response

LINES = 2_000  # of a page
CHARACTERS = 400_000


def row(number: int) -> dict[str, object]:
    return {"client": f"c{number}", "client_ip": "10.0.0.1", "failed_logins": 1}


def seen_with(rows: int) -> Context:
    return seen(logins=[row(number) for number in range(rows)])


def counting(evidence: Context) -> Iterator[Finding]:
    rows = evidence.rows("logins")
    yield Finding("logins-fail", WARNING, f"{len(rows)} logins failed", {"failed": len(rows)})


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS])
def test_counts_of_complete_evidence_are_exact(rows: int) -> None:
    (found,) = judged(seen_with(rows), counting)
    assert (found.text, found.numbers) == (f"{rows} logins failed", {"failed": rows})


def test_counts_of_truncated_evidence_are_lower_bounds() -> None:
    (found,) = judged(seen_with(ROWS + 1), counting)
    assert found.text.startswith(f"{ROWS} logins failed; at least: ")
    assert found.numbers == {"failed": ROWS, "is_at_least": True}


def test_a_finding_is_no_longer_than_a_page_can_show() -> None:
    names = ["n" * 30_000] * (LISTED + 7)
    found = bounded(
        Finding("healthy", NOTICE, "x" * 90_000, {}, {"clients": names, "client": names[0]})
    )
    assert len(found.text) < SENTENCE_LENGTH + 40
    assert found.text.endswith("88\u202f500 more characters)")
    assert len(found.concerns["clients"]) == LISTED
    assert found.concerns["clients_count"] == LISTED + 7
    assert len(found.concerns["client"]) < TEXT_LENGTH + 40


def test_names_are_truncated_with_the_number_of_omitted_characters() -> None:
    assert cut("a" * NAME_LENGTH) == "a" * NAME_LENGTH
    assert cut("a" * (NAME_LENGTH + 1)) == "a" * NAME_LENGTH + "… (1 more character)"


def mechanisms(count: int, size: int) -> bytes:
    """A client requests logins with mechanisms that have long names; they are refused."""
    talk = conversation()
    for number in range(1, count + 1):
        name = f"{number:05}" + "M" * size
        talk = talk.client(request("SaslHandshake", 1, number, mechanism=name))
        answer = response("SaslHandshake", 1, number, error_code=33, mechanisms=["PLAIN"])
        talk = talk.broker(answer)
    return talk.close().pcap()


@pytest.mark.parametrize("options", [[], ["--findings", "all"], ["--json"]])
def test_names_of_mechanisms_do_not_fill_the_page(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sasl.pcap"
    path.write_bytes(mechanisms(60, 30_000))
    assert run(["summary", *options, str(path)]) == 0
    shown = capsys.readouterr().out
    assert len(shown) < CHARACTERS
    assert len(shown.splitlines()) < LINES
    if "--json" in options:
        json.loads(shown)


def test_client_ids_of_any_size_do_not_fill_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each client id of a capture is made as long as may be, in frames that stay whole."""
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    # By a usual one the connection is known to be Kafka's.
    talk = conversation().client(request("Metadata", 1, 0)).broker(response("Metadata", 1, 0))
    for number in range(1, 40):
        name = "".join(source.choice("\x1b\n\u202eé☃x ") for _ in range(source.randrange(9_000)))
        talk = talk.client(request("Metadata", 1, number, name))
        talk = talk.broker(response("Metadata", 1, number))
    path = tmp_path / "clients.pcap"
    path.write_bytes(talk.close().pcap())
    as_table = ["--format", "table"]
    for command in (
        ["summary", "--findings", "all"], ["clients", *as_table],
        ["latency", "--by", "client", *as_table], ["table", "exchanges", *as_table],
    ):  # fmt: skip
        assert run([*command, str(path)]) == 0
        shown = capsys.readouterr().out
        assert len(shown.splitlines()) < LINES, f"seed {seed}, {command}"
        assert len(shown) < CHARACTERS, f"seed {seed}, {command}"
        assert "\x1b" not in shown


def hostile_topics() -> bytes:
    """Topics, groups and members with names as long as Kafka's strings may be."""
    talk = conversation().client(request("Metadata", 1, 0)).broker(response("Metadata", 1, 0))
    for number in range(2, 40, 2):
        name = f"{number}" + "\x1b\n☃T" * 4000
        partition = {"index": 0, "records": None}
        topics = [{"name": name, "partition_data": [partition]}]
        talk = talk.client(request("Produce", 3, number, acks=1, topic_data=topics))
        refused = [{"name": name, "partition_responses": [{"index": 0, "error_code": 3}]}]
        talk = talk.broker(response("Produce", 3, number, responses=refused))
        joins = {"group_id": name, "member_id": name, "protocol_type": "consumer"}
        talk = talk.client(request("JoinGroup", 5, number + 1, **joins))
        talk = talk.broker(response("JoinGroup", 5, number + 1, error_code=25, member_id=name))
    return talk.close().pcap()


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("topics") / "topics.pcap"
    path.write_bytes(hostile_topics())
    return path


def commands() -> list[str]:
    shown = ["summary --findings all", "summary --json", "show"]
    shown += [f"{name} --format table" for name in QUESTIONS]
    return shown + [
        f"table {name} --format table" for name in ("exchanges", "partitions", "errors")
    ]


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("command", commands())
def test_names_of_topics_and_groups_do_not_fill_any_page(
    command: str, topics: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), str(topics)]) in (0, 1)
    shown = capsys.readouterr().out
    assert len(shown) < CHARACTERS
    lines = shown.split("\n")
    assert len(lines) < LINES
    assert max(map(len, lines)) < 3_000


def test_a_capture_without_hostile_names_is_shown_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(CAPTURES / "quickstart.pcapng")
    packets: list[Captured] = read_packets(name)
    path = tmp_path / "same.pcap"
    path.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=link_type_of(name)))
    assert run(["summary", "--findings", "all", str(path)]) == 0
    assert "more characters)" not in capsys.readouterr().out
