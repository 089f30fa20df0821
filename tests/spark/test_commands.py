import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from kdissect.cli.spark import options as spark_options
from kdissect.cli.spark.job import main
from kdissect.cli.spark.options import Place
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import dissect
from tests.spark.conftest import Tables
from tests.spark.endless import ENDLESS
from tests.spark.killing import started
from tests.spark.rotated import dataset_rows, library_rows, rotate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
SOME = ("exchanges", "problems")


@pytest.mark.usefixtures("spark")
def test_the_job_brings_captures_into_a_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=27)
    dataset = tmp_path / "dataset"
    words = ["dissect", *paths, "-o", str(dataset), "--tables", ",".join(SOME)]
    assert main([*words, "--piece-size", "20K", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    expected = library_rows(paths, tables=SOME)
    assert dataset_rows(dataset) == expected
    assert (said["captures"], said["broken"], said["rows"]) == (
        2,
        [],
        {"ring": {"exchanges": len(expected["exchanges"])}},
    )
    assert said["splits"] > 2
    assert said["capture_bytes"] == sum(Path(path).stat().st_size for path in paths)


@pytest.mark.usefixtures("spark")
@pytest.mark.sweep(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stream_that_is_asked_to_end_ends_behind_its_batch(
    number: signal.Signals, tmp_path: Path
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=27)
    dataset = tmp_path / "dataset"
    command = [
        sys.executable, "-m", "kdissect", "spark", "stream", str(tmp_path / "ring"),
        "--quiet", "1s", "--interval", "1s", "-o", str(dataset),
        "--checkpoint", str(tmp_path / "checkpoint"), "--tables", ",".join(SOME),
        "--master", "local[1]",
    ]  # fmt: skip
    with started(command) as process:
        give_up = time.monotonic() + 120
        while not any(dataset.glob("runs/*-done.parquet")) and time.monotonic() < give_up:
            time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert re.fullmatch(r"batch 0: 3 new captures, .*\n", process.stderr.read())
    assert dataset_rows(dataset) == library_rows(paths, tables=SOME)


@pytest.mark.usefixtures("spark")
@pytest.mark.sweep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_all", [False, True])
@pytest.mark.parametrize("name", ["failovers", "compare"])
def test_a_signal_at_any_time_ends_an_answer_of_spark(
    name: str, to_all: bool, number: int, tables: Tables
) -> None:
    """To the command alone, as of `kill`, and to its group with the JVM, as of a terminal.

    The answer would take hours. Nothing is printed, the exit code is the signal's, and no process
    is left: it would hold the other end of stderr.
    """
    directory = str(tables.of("incident-lagging-follower-4.3.1"))
    words = [sys.executable, "-m", "kdissect", name, directory, "--where", ENDLESS]
    words += ["--at", "+1s"] if name == "compare" else []
    words += ["--engine", "spark", "--master", "local[2]"]
    seconds = random.uniform(1, 20)
    with started(words) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        (os.killpg if to_all else os.kill)(process.pid, number)
        _, said = process.communicate(timeout=60)
    drawn = f"signal after {seconds:.3f} s: {said}"
    assert said == "", drawn
    assert process.returncode == 128 + number, drawn


@pytest.mark.usefixtures("spark")
@pytest.mark.sweep(1)
@pytest.mark.parametrize("command", ["stream", "dissect"])
def test_an_interrupt_at_any_time_prints_no_stack_trace(command: str, tmp_path: Path) -> None:
    """Ctrl-C while Spark starts, works or ends."""
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=27)
    for number, seconds in enumerate(random.uniform(1, 12) for _ in range(2)):
        words = [sys.executable, "-m", "kdissect", "spark", command, str(Path(paths[0]).parent)]
        words += ["-o", str(tmp_path / f"dataset-{number}"), "--master", "local[1]"]
        if command == "stream":
            words += ["--checkpoint", str(tmp_path / f"checkpoint-{number}")]
        with started(words) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
        drawn = f"interrupted after {seconds:.3f} s: {said}"
        assert not re.search(r"Traceback|\n\tat |ERROR", said), drawn
        assert process.returncode in (0, 130), drawn


ENDED_AT_ONCE = """
import subprocess
import sys
from pathlib import Path
from kdissect.spark import streaming
from kdissect.spark.sessions import session

ring, dataset, checkpoint = sys.argv[1:]
streaming.LOOK_S = 0.01
planned = Path(checkpoint, "offsets", "0")
with session("local[1]") as spark:
    for number, is_over in enumerate((planned.exists, lambda: True)):
        streaming.stream(
            spark, [ring], f"{dataset}-{number}", [checkpoint, f"{checkpoint}-{number}"][number],
            quiet_s=1.0, interval_s=1.0, is_over=is_over,
        )
"""


@pytest.mark.usefixtures("spark")
def test_a_stream_that_is_ended_while_it_starts_or_plans_prints_no_stack_trace(
    tmp_path: Path,
) -> None:
    rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=27)
    places = [str(tmp_path / name) for name in ("ring", "dataset", "checkpoint")]
    words = [sys.executable, "-c", ENDED_AT_ONCE, *places]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


WORKER_THAT_FAILS = """
import builtins
import sys
from kdissect.spark.stream_source import CaptureFiles

options = {"sources": "[]", "stores_secret": "[]", "dataset": ".", "quiet_s": "1", "max_bytes": "1"}
source = CaptureFiles(options)
source.streamReader(source.schema())
raise getattr(builtins, sys.argv[1])
"""


@pytest.mark.parametrize(
    ("error", "in_worker", "is_told"),
    [
        ("BrokenPipeError", True, False),
        ("EOFError", True, False),
        ("ValueError", True, True),
        ("BrokenPipeError", False, True),
    ],
)
def test_a_worker_disconnected_by_spark_prints_no_stack_trace(
    error: str, in_worker: bool, is_told: bool
) -> None:
    environment = {**os.environ, **({"PYTHON_WORKER_FACTORY_PORT": "1"} if in_worker else {})}
    words = [sys.executable, "-c", WORKER_THAT_FAILS, error]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) == is_told
    assert (error in done.stderr) == is_told


# A job with an accumulator, which opens the JVM's connection for updates; then the JVM is gone.
JVM_THAT_ENDS = """
import os, signal, time
from kdissect.cli.spark.options import Place
try:
    with Place("local[1]", "512m", {}, False).session() as spark:
        context = spark.sparkContext
        counted = context.accumulator(0)
        context.parallelize(range(4), 1).foreach(lambda number: counted.add(number))
        print(counted.value, flush=True)
        os.kill(context._gateway.proc.pid, signal.SIGKILL)
        time.sleep(2)
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.usefixtures("spark")
def test_a_jvm_that_ends_before_this_process_prints_no_stack_trace() -> None:
    words = [sys.executable, "-c", JVM_THAT_ENDS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("6\n"), done.stderr
    assert "Exception occurred during processing" not in done.stdout + done.stderr
    assert "EOFError" not in done.stderr


def test_captures_that_are_not_there_are_an_error(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dissect", str(tmp_path / "nothing"), "-o", str(tmp_path / "dataset")]) == 1
    assert capsys.readouterr().err == f"kdissect: {tmp_path}/nothing: no file matches\n"
    # The session was there before, and stays.
    assert spark.range(3).count() == 3


def test_the_job_puts_questions_to_spark(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=27)
    dissect(None, paths, tmp_path / "dataset")
    before = spark.sparkContext.statusTracker().getJobIdsForGroup()
    words = ["latency", str(tmp_path / "dataset"), "--by", "api", "--format", "json"]
    assert main(words) == 0
    by_spark = json.loads(capsys.readouterr().out)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup()) > len(before)
    assert main([*words, "--engine", "duckdb"]) == 0
    assert json.loads(capsys.readouterr().out) == by_spark


def cut_off() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise KdissectError("Spark: Answer from Java side is empty") from None


def test_failures_after_an_interrupt_are_reported_as_the_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that is cut off may fail in another way before its KeyboardInterrupt ends."""
    spark = mock.Mock()
    monkeypatch.setattr(spark_options, "session", lambda *_, **__: spark)
    monkeypatch.setattr(spark_options, "imported", lambda: mock.Mock(getActiveSession=lambda: None))
    place = Place("local[1]", "1g", {}, has_bar=False)
    with pytest.raises(KeyboardInterrupt), place.session():
        cut_off()
    assert spark.mock_calls == [mock.call.sparkContext.setLogLevel("OFF"), mock.call.stop()]
    with pytest.raises(KdissectError, match="no such"), place.session():
        raise KdissectError("no such")
