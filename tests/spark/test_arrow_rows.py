"""Arrays of one value; and that neither a run nor the row of an answer imports pandas."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa

from kdissect.spark.arrow_rows import one_binary
from tests.seeds import SEED

CAPTURES = Path(__file__).parents[2] / "captures"
# What a task does, in a process that has not imported pandas for another reason. The second run
# reads what the first has recorded.
RUNS = """
import sys
import pyarrow as pa
from kdissect.spark.pipeline import dissect
from kdissect.spark.task_runners import answer_of, answer_row
dataset, *captures = sys.argv[1:]
for one in captures:
    outcome = dissect(None, [one], dataset)
    assert outcome.captures == 1
    assert answer_row(4, answer_of(len, "four"))["place"][0].as_py() == 4
print("pandas" in sys.modules)
pa.array([4])
print("pandas" in sys.modules)
"""


def test_an_array_of_one_binary_value_is_that_of_arrow() -> None:
    source = Random(SEED)
    for value in (None, b"", *(source.randbytes(source.randrange(1 << 16)) for _ in range(20))):
        found = one_binary(value)
        found.validate(full=True)
        assert found.equals(pa.array([value], pa.binary()))


def test_a_run_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes 0.2 s of each new worker; what follows shows that this pyarrow would import it."""
    captures = Random(SEED).sample(sorted(map(str, CAPTURES.glob("*.pcapng"))), 2)
    words = [sys.executable, "-c", RUNS, str(tmp_path / "dataset"), *captures]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split() == ["False", "True"], (captures, done.stderr[-2000:])
