"""Runs the pipeline and the analyses with other versions of PySpark than the installed one.

    python -m tools.spark_versions                  # the lowest that is allowed, and one between
    python -m tools.spark_versions 3.5.0 4.2.*

Each version is installed into a new environment, which takes all else from the running one; needs
pip and, once a version, 320 to 460 MB from the package index. Says each version as a line of JSON;
exit code 1 when tests failed, or did not run.
"""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BETWEEN = "4.1.*"  # the first that finds `read.format("kdissect")` by itself
# Captures into a dataset by executors, batches of a stream, and analyses with Spark as the engine.
TESTS = (
    "tests/spark/test_on_spark.py",
    "tests/spark/test_engines.py",
    "tests/spark/test_same_answers.py",
)
# These use data sources in Python, which PySpark has from 4.1 on.
SOURCES = "the_source or columns_and_filters or a_broken_capture_is_a_row"
# Older versions close sockets late, and use what pandas and Python are about to remove.
IGNORED = ("DeprecationWarning", "FutureWarning", "pytest.PytestUnraisableExceptionWarning")
LIMIT_S = 1800.0


def main() -> int:
    made = argparse.ArgumentParser("spark_versions")
    made.add_argument("versions", nargs="*", default=[f"{lowest()}.*", BETWEEN])
    made.add_argument("--tests", nargs="+", default=TESTS)
    made.add_argument(
        "--environment", type=Path, help="one that has PySpark, in place of a new one"
    )
    chosen = made.parse_args()
    failed = 0
    for version in chosen.versions if chosen.environment is None else [""]:
        with tempfile.TemporaryDirectory(prefix="spark-versions-") as directory:
            begun = time.monotonic()
            place = chosen.environment or installed(version, Path(directory))
            told = outcome(place, chosen.tests)
            failed += not told["held"]
            print(json.dumps({**told, "seconds": round(time.monotonic() - begun)}), flush=True)
    return 1 if failed else 0


def lowest() -> str:
    """The lowest version of PySpark that the extra `spark` allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (wanted,) = (
        one for one in project["optional-dependencies"]["spark"] if one.startswith("pyspark>=")
    )
    return str(wanted).removeprefix("pyspark>=")


def installed(version: str, directory: Path) -> Path:
    """A new environment with this PySpark, and with the packages of the running one behind it."""
    venv.create(directory, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    there = directory / here.relative_to(sys.prefix)
    (there / "behind.pth").write_text(f"{here}\n")
    to = directory / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(to), "install", "--quiet"]
    subprocess.run([*pip, "--target", str(there), f"pyspark=={version}"], check=True)
    return directory


def outcome(place: Path, tests: Sequence[str]) -> dict[str, Any]:
    """What pytest says in an environment, and the version of PySpark there."""
    python = place / "bin" / "python"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "KDISSECT_SPARK": "require"}
    env |= {"PYSPARK_PYTHON": str(python)}
    asked = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
    version = subprocess.run(asked, env=env, check=True, capture_output=True, text=True).stdout
    run = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    run += [part for warning in IGNORED for part in ("-W", f"ignore::{warning}")]
    if [*map(int, version.split(".")[:2])] < [4, 1]:
        run += ["-k", f"not ({SOURCES})"]
    ended = subprocess.run(
        run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    lines = ended.stdout.strip().splitlines() or [ended.stderr.strip()[-500:]]
    broken = [line[:200] for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {
        "pyspark": version.strip(),
        "held": ended.returncode == 0,
        "said": lines[-1],
        "failed": broken,
    }


if __name__ == "__main__":
    raise SystemExit(main())
