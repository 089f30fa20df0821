"""Analyses of datasets: the results are those of tables that were made without Spark."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from kdissect import KdissectError, analyse, compare, findings
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.stored_tables import Place, stored_size
from kdissect.capture.pcap import NANOSECONDS
from kdissect.cli.program import run
from kdissect.dataset.locations import place_at
from kdissect.spark.pipeline import dissect
from tests.capture.writers import make_pcap
from tests.spark.datasets import CAPTURES, Both, both_of
from tests.spark.rotated import link_type_of, packets_of

NAMES = (
    "quickstart",
    "transactions-4.3.1",
    "retries-4.3.1",
    "cluster-4.3.1",
    "incident-lagging-follower-4.3.1",
    "incident-old-clients-3.9.1",
)
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("latency", {"by": ["capture", "user", "broker"]}),
    ("latency", {"slowest": 9}),
    ("traffic", {"by": ["window", "client"], "where": "api = 'Produce'"}),
    ("acks", {"by": ["connection"]}),
]
DAY = 86_400 * 1_000_000_000


def place_in(dataset: Path) -> Place:
    found = place_at(str(dataset))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return both_of(NAMES, tmp_path_factory.mktemp("both"))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "options"), [*[(name, {}) for name in QUESTIONS], *OTHERS], ids=str
)
def test_every_question_has_the_same_rows(name: str, options: dict[str, Any], both: Both) -> None:
    found = analyse(name, both.dataset, **options).to_arrow()
    expected = analyse(name, both.directories, **options).to_arrow()
    assert found.num_rows
    assert found.equals(expected, check_metadata=True)


@pytest.mark.slow
def test_changes_are_the_same(both: Both) -> None:
    options: dict[str, Any] = {"before": "api = 'Fetch'", "by": ["client"], "unchanged": True}
    found = compare(both.dataset, **options)
    expected = compare(both.directories, **options)
    assert found.to_arrow().num_rows > 100
    assert found.to_arrow().equals(expected.to_arrow(), check_metadata=True)
    assert (found.before, found.after) == (expected.before, expected.after)


def test_rows_are_grouped_and_chosen_by_tap(both: Both) -> None:
    every = analyse("latency", both.dataset, by=["tap", "api"]).to_arrow().to_pylist()
    alone = {
        directory.name: analyse("latency", directory, by=["api"]).to_arrow().to_pylist()
        for directory in both.directories
    }
    assert sorted(alone) == sorted(NAMES)
    by_tap: dict[str, list[dict[str, Any]]] = {tap: [] for tap in alone}
    for row in every:
        by_tap[row.pop("tap")].append(row)
    assert by_tap == alone
    chosen = analyse("latency", both.dataset, by=["api"], where="tap like 'retries%'")
    assert chosen.to_arrow().to_pylist() == alone["retries-4.3.1"]


@pytest.mark.parametrize(("name", "column"), [("errors", "tap"), ("traffic", "tap"),
    ("clients", "tap"), ("health", "tap"), ("end-to-end", "date"), ("acks", "date")])  # fmt: skip
def test_other_questions_have_taps_and_days_too(name: str, column: str, both: Both) -> None:
    rows = analyse(name, both.dataset, by=[column]).to_arrow()
    place = place_in(both.dataset)
    there = {
        part.removeprefix(f"{column}=")
        for file in place.paths("connections")
        for part in Path(file).parts
        if part.startswith(f"{column}=")
    }
    assert set(rows[column].to_pylist()) <= there
    assert rows.num_rows


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of the same packets on two days, of a tap with a name that looks like another."""
    place = tmp_path_factory.mktemp("days")
    source = CAPTURES / "retries-4.3.1.pcapng"
    for number in (0, 1):
        packets = [one._replace(time_ns=one.time_ns + number * DAY) for one in packets_of(source)]
        path = place / "007 100%" / f"ring.pcap{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=link_type_of(source)))
    dissect(None, [place / "007 100%"], place / "dataset", tap=r"([^/]+)/ring")
    return place / "dataset"


def test_days_are_grouped_and_only_files_of_chosen_days_are_read(
    days: Path, tmp_path: Path
) -> None:
    by = analyse("latency", days, by=["date", "tap"]).to_arrow().to_pylist()
    first, second = sorted(by, key=lambda row: str(row["date"]))
    assert {first.pop("tap"), second.pop("tap")} == {"007 100%"}
    assert first.pop("date") < second["date"]
    condition = f"date < '{second['date']}'"
    assert first == {name: value for name, value in second.items() if name != "date"}
    shutil.copytree(days, tmp_path / "copy")
    for file in tmp_path.glob(f"copy/*/date={second['date']}/*/*"):
        file.write_bytes(b"no Parquet")
    found = analyse("latency", tmp_path / "copy", by=["tap"], where=condition)
    assert found.to_arrow().to_pylist() == [{"tap": "007 100%"} | first]


def test_a_table_without_rows_is_empty_and_one_that_was_not_made_is_an_error(
    days: Path, tmp_path: Path
) -> None:
    assert analyse("transactions", days).to_arrow().num_rows == 0
    dissect(None, [CAPTURES / "retries-4.3.1.pcapng"], tmp_path, tables=["exchanges", "errors"])
    assert analyse("errors", tmp_path).to_arrow().num_rows
    with pytest.raises(KdissectError) as caught:
        analyse("latency", tmp_path, by=["topic"])
    assert (
        str(caught.value)
        == f"{tmp_path} has no table partitions; it was made with exchanges, errors"
    )


def test_only_files_of_the_manifest_are_read(tmp_path: Path) -> None:
    paths = [CAPTURES / f"{name}.pcapng" for name in ("retries-4.3.1", "quickstart")]
    dissect(None, paths, tmp_path)
    place = place_in(tmp_path)
    size = stored_size([place], ["exchanges"])
    before = analyse("latency", tmp_path).to_arrow()
    first, *others = place.paths("exchanges")
    Path(first).with_name("half-moved.parquet").write_bytes(Path(first).read_bytes())
    assert analyse("latency", tmp_path).to_arrow().equals(before)
    assert stored_size([place_in(tmp_path)], ["exchanges"]) == size
    assert size == sum(Path(path).stat().st_size for path in (first, *others))


def test_only_datasets_have_taps(both: Both) -> None:
    with pytest.raises(KdissectError, match=r"^cannot group by 'tap': only datasets have it$"):
        analyse("latency", both.directories, by=["tap"])
    with pytest.raises(KdissectError, match=r"^cannot group by 'date': only datasets have it$"):
        compare(*both.directories[:2], by=["date"])


def test_commands_take_datasets(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["errors", str(both.dataset), "--by", "tap", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = analyse("errors", both.dataset, by=["tap"]).to_arrow()["tap"].to_pylist()
    assert [row["tap"] for row in rows] == expected


def page_of(source: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The page; the commands of its findings name the source."""
    assert run([str(source), "--json", "--findings", "all"]) == 0
    page = json.loads(capsys.readouterr().out)
    for finding in page["findings"]:
        words = shlex.split(finding["command"])
        assert str(source) in words
        finding["command"] = [word for word in words if word != str(source)]
    return page


@pytest.mark.parametrize("capture", ["incident-lagging-follower-4.3.1", "retries-4.3.1"])
def test_the_first_page_of_a_dataset_is_that_of_its_captures(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = CAPTURES / f"{capture}.pcapng"
    dissect(None, [path], tmp_path, split_size=50_000)
    assert page_of(tmp_path, capsys) == page_of(path, capsys)


def test_findings_of_several_taps_come_together(both: Both) -> None:
    found = {finding.id: finding.text for finding in findings(both.dataset)}
    assert "java-retrying at 127.0.0.1" in found["broker-stalls"]
    assert "hanging-id" in found["transactional-id-taken-over"]
    assert "lost-java" in found["error-OFFSET_OUT_OF_RANGE"]
