"""Summaries of the committed captures name the incidents that their side-cars describe."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kdissect
from kdissect.cli.program import run
from kdissect.rules.finding import NOTICE, PROBLEM, SEVERITIES

CAPTURES = Path(__file__).parent.parent.parent / "captures"
ALL = sorted(path.relative_to(CAPTURES).as_posix() for path in CAPTURES.rglob("*.pcap*"))

# Problems and warnings of the default page, as what the side-cars tell has them.
TOLD = {
    "quickstart.pcapng": {
        "broker-stalls": "up to 1.2 s",  # `pauses`: the broker's process was stopped for 1.2 s
        "produce-gave-up": "tiny-kp",
        "error-OFFSET_OUT_OF_RANGE": "lost-java",
    },
    "retries-2.8.2.pcapng": {
        "broker-stalls": "java-2.8.2-retrying",
        "duplicates-in-log": "6 records of java-2.8.2-retrying",
        "produce-sent-again": "4 batches",
    },
    "sasl-4.3.1.pcapng": {"authentication-fails": "java-wrong-plain"},
    "throttling-4.3.1.pcapng": {"throttled-by-quota": "hasty-reader"},
    "throttling-1.1.1.pcapng": {"throttled-by-quota": "hasty-writer"},
    "networks/views/bridged-4.3.1-snap96.pcapng": {"capture-loses-packets": "by snaplen"},
    "transactions-4.3.1.pcapng": {"transactional-id-taken-over": "hanging-id"},
    "topic-configs-4.3.1.pcapng": {"produce-gave-up": "INVALID_RECORD"},
    "sasl-0.10.2.2.pcapng": {"client-breaks-on-4.0": "Produce v2"},
    "groups-4.3.1.pcapng": {},
    "streams-4.3.1.pcapng": {},
    "consumer-groups-4.3.1.pcapng": {},
    "other/beside.pcapng": {"no-kafka": "291 packets"},
    "other/proxied.pcapng": {},
    "tls/tls13-4.3.1.pcapng": {"connections-encrypted": "38 of 38 connections"},
}


@pytest.fixture
def page_of(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, object]]:
    """The page of a capture as JSON, made in this process."""

    def page(capture: Path, *options: str) -> dict[str, object]:
        run([str(capture), "--json", *options])
        content = json.loads(capsys.readouterr().out)
        assert isinstance(content, dict)
        return content

    return page


@pytest.mark.parametrize("name", TOLD)
def test_page_reports_the_staged_incident(
    name: str, page_of: Callable[..., dict[str, object]]
) -> None:
    found = page_of(CAPTURES / name)["findings"]
    assert isinstance(found, list)
    worse = {one["id"]: one["text"] for one in found if one["severity"] != NOTICE}
    assert list(worse) == list(TOLD[name])
    for id_, words in TOLD[name].items():
        assert words in worse[id_].replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", ALL)
def test_every_capture_has_findings(name: str) -> None:
    found = kdissect.findings(CAPTURES / name)
    assert found
    assert [one.severity for one in found] == sorted(
        (one.severity for one in found), key=SEVERITIES.index
    )
    assert all(one.id != "not-asked" for one in found)
    for one in found:
        assert (one.first_time_ns or 0) <= (one.last_time_ns or 0) or not one.last_time_ns
        assert one.text
        assert one.text[0].strip()


# A count of one in front of a plural: "1 packets", "1 more findings". Units and verbs are none.
ONE_OF_SEVERAL = re.compile(
    r"(?<![\d.\N{NARROW NO-BREAK SPACE}])1 "
    r"(?:(?:more|other|first|duplicate|degraded|partition|produce|zero|Kafka|TLS) )?"
    r"(?!(?:ms|ns|us|µs|was|is|has|redis|spurious)\b)[a-zA-Z]+s\b"
)


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [("1 packets", True), ("1 of 1 exchanges", True), ("1 more findings", True),
     ("1 packet", False), ("21 packets", False), ("1 ms, 0.1 seconds", False),
     ("1 of 5 packets", False), ("1 was no TCP", False)],
)  # fmt: skip
def test_a_count_of_one_before_a_plural_is_found(text: str, is_wrong: bool) -> None:
    assert bool(ONE_OF_SEVERAL.search(text)) == is_wrong


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", ALL)
def test_nouns_on_the_page_agree_with_their_counts(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100000")  # no sentence is folded
    run([str(CAPTURES / name), "--full", "--findings", "all"])
    printed = capsys.readouterr()
    assert not ONE_OF_SEVERAL.findall(printed.out + printed.err)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2_000, 5_000, 30_000])
def test_truncated_capture_has_findings_of_its_complete_part(
    size: int, tmp_path: Path, page_of: Callable[..., dict[str, object]]
) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes((CAPTURES / "retries-2.8.2.pcapng").read_bytes()[:size])
    content = page_of(cut)
    assert content["findings"]


def test_the_sentence_of_a_stall_is_the_pause_of_the_side_car() -> None:
    truth = json.loads((CAPTURES / "quickstart.json").read_text())["pauses"]
    (pause,) = (dict(zip(truth["columns"], row, strict=True)) for row in truth["rows"])
    (stall,) = [
        one
        for one in kdissect.findings(CAPTURES / "quickstart.pcapng")
        if one.id == "broker-stalls"
    ]
    assert stall.severity == PROBLEM
    lasted = stall.numbers["work_ns"]
    assert lasted is not None
    assert abs(lasted - (pause["end_ns"] - pause["start_ns"])) < 20_000_000
    assert stall.first_time_ns is not None
    assert stall.last_time_ns is not None
    assert stall.first_time_ns < pause["end_ns"] < stall.last_time_ns
    assert stall.concerns["broker"] == "127.0.0.1:9092"


def test_findings_none_counts_only(page_of: Callable[..., dict[str, object]]) -> None:
    assert page_of(CAPTURES / "quickstart.pcapng", "--findings", "none")["findings"] == []


def test_the_summary_begins_with_findings_and_the_number_omitted() -> None:
    command = [sys.executable, "-m", "kdissect", "captures/quickstart.pcapng"]
    done = subprocess.run(command, cwd=CAPTURES.parent, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "captures/quickstart.pcapng"
    assert lines[2:4] == ["", "Findings"]
    assert lines[4].startswith("problem  Broker 127.0.0.1:9092 stalled for up to 1.2 s")
    end = lines.index("", 4)
    more = " more findings: kdissect captures/quickstart.pcapng --findings all --full"
    assert lines[end - 1].endswith(more)
    assert lines[end + 1].startswith("1318 packets")
