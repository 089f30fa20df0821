import json
import sys
import threading
from pathlib import Path

import pytest

from kdissect.cli.program import run
from kdissect.cli.spark.job import main
from kdissect.cli.spark.options import SPLIT_SIZE
from kdissect.cli.spark.outcome import show, show_batch
from kdissect.dataset.planning import SPARK_SPLIT_SIZE, Failed
from kdissect.dataset.taps import Broken
from kdissect.limits import parse_number
from kdissect.spark.pipeline import Outcome, dissect
from kdissect.system.extras import install_command


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    capture = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
    return dissect(None, [capture], tmp_path_factory.mktemp("dataset"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--setting", "spark.cores.max"], "'spark.cores.max' is not KEY=VALUE"),
        (["--split-size", "big"], "'big' is no number of bytes; write it like 64M, 1G"),
        (["--split-size", "0"], "'0' is no number of bytes; write it like 64M, 1G"),
        (
            ["--tables", "exchanges,partition"],
            "no table 'partition'; did you mean 'partitions'? there are connections,",
        ),
    ],
)
def test_a_wrong_option_is_an_error(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["spark", "dissect", "x.pcap", "-o", "dataset", *words]) == 2
    assert told in capsys.readouterr().err


def test_without_pyspark_one_line_names_the_extra(
    quickstart: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert main(["dissect", quickstart, "-o", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("kdissect: PySpark (")
    assert error.endswith(f') needs the extra "spark": {install_command("spark")}\n')
    assert error.count("\n") == 1


def test_the_size_of_splits_is_that_of_the_library() -> None:
    assert parse_number(SPLIT_SIZE) == SPARK_SPLIT_SIZE


def test_outcome_is_printed_in_lines(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(outcome, is_json=False) == 0
    (tap,) = outcome.contents.taps
    said = capsys.readouterr()
    assert said.out == ""
    first, *others = said.err.replace("\N{NARROW NO-BREAK SPACE}", "").splitlines()
    assert first == "1 new capture, 328 kB, in 1 split"
    assert [(words[0], int(words[1])) for words in map(str.split, others)] == sorted(
        tap.rows.items()
    )


def test_outcome_is_one_line_of_json(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(outcome, is_json=True) == 0
    said = capsys.readouterr()
    (tap,) = outcome.contents.taps
    assert said.err == ""
    assert json.loads(said.out) == {
        "schema_version": 1,
        "command": "spark dissect",
        "captures": 1,
        "capture_bytes": outcome.capture_bytes,
        "splits": 1,
        "boundary_bytes": outcome.boundary_bytes,
        "broken": [],
        "failed": {},
        "rows": {"quickstart": tap.rows},
    }


def test_unreadable_captures_are_listed_up_to_a_limit(
    outcome: Outcome, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tuple(Broken(f"{n}.pcap", f"{n}.pcap: torn\n  00 00") for n in range(13))
    failed = (Failed("b1", "b1/2.pcap: no such file"),)
    worse = Outcome(0, 0, 0, 0, 0, broken, failed, outcome.contents)
    assert show(worse, is_json=True) == 1
    assert capsys.readouterr().err.splitlines() == [
        *(f"kdissect: {n}.pcap: torn" for n in range(10)),
        "kdissect: 3 more captures that cannot be read",
        "kdissect: tap b1: b1/2.pcap: no such file",
    ]


def test_a_batch_is_reported_in_any_thread(
    outcome: Outcome, capsys: pytest.CaptureFixture[str]
) -> None:
    thread = threading.Thread(target=show_batch, args=(7, outcome, True))
    thread.start()
    thread.join()
    told = json.loads(capsys.readouterr().out)
    assert (told["command"], told["batch"], told["captures"]) == ("spark stream", 7, 1)


def test_a_dataset_without_kafka_is_a_result_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.capture.writers import Captured, make_pcap

    (tmp_path / "a.pcap").write_bytes(make_pcap([Captured(b"x" * 60, 10**18)]))
    outcome = dissect(None, [tmp_path / "a.pcap"], tmp_path / "dataset")
    assert show(outcome, is_json=False) == 0
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("kdissect: no Kafka exchanges in the dataset: read 1 packet, 0 Kafka")
    assert told.endswith("Try --port.")
