"""The law of splits for a dataset: in any order of arrival, its rows are those of the whole."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.spark.pipeline import dissect
from tests.seeds import SEED
from tests.spark.rotated import ALL, CAPTURES, contents_of, dataset_rows, library_rows, rotate

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_or_many_rows")]
EVERY = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.glob("**/*.pcap*"))


@pytest.mark.sweep
@pytest.mark.parametrize("capture", EVERY)
def test_a_dataset_that_grows_has_the_rows_of_the_library(capture: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {capture}")
    count = chance.randint(2, 7)
    paths = rotate(capture, tmp_path / "ring", count, seed=chance.randint(0, 999))
    dataset = tmp_path / "dataset"
    size = chance.choice((20_000, 100_000, 1 << 20))
    for end in sorted({chance.randint(1, count), count}):
        dissect(None, paths[:end], dataset, tables=ALL, split_size=size)
        assert dataset_rows(dataset) == library_rows(paths[:end])
    (tap,) = contents_of(dataset).taps
    assert [one.path for one in tap.captures] == paths
    balance = tap.balance
    assert balance["payload_bytes"] == sum(
        balance[name] for name in ("framed_bytes", "skipped_bytes", "duplicate_bytes", "tls_bytes",
                                   "encrypted_bytes")
    )  # fmt: skip
    assert tap.rows.get("exchanges", 0) == balance["exchanges"]


KILLED = """
import sys
from kdissect.spark.pipeline import dissect
dissect(None, [sys.argv[1]], sys.argv[2], tables=sys.argv[3].split(","), split_size=40_000)
"""


def test_a_driver_that_is_killed_at_any_moment_leaves_no_trace_in_the_rows(tmp_path: Path) -> None:
    paths = rotate("cluster-3.9.1.pcapng", tmp_path / "ring", 3, seed=31)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=ALL, split_size=40_000)
    arguments = [KILLED, str(tmp_path / "ring"), str(dataset), ",".join(ALL)]
    kills = 0
    for number in range(40):
        process = subprocess.Popen([sys.executable, "-c", *arguments])
        try:
            process.wait(timeout=0.4 * 1.15**number)  # busy machines need long
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            assert len(contents_of(dataset).taps[0].captures) in (1, 3)
        else:
            break
    assert process.returncode == 0
    assert kills > 2
    assert dataset_rows(dataset) == library_rows(paths)
