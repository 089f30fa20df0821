"""A program of its own, as a process has one Spark: captures into a dataset, on some cluster."""

import os
import sys
from pathlib import Path

from kdissect.spark.pipeline import dissect
from kdissect.spark.sessions import session
from tests.spark import quick_java
from tests.spark.everything import SPLIT_SIZE
from tests.spark.rotated import ALL


def main(master: str, rings: str, dataset: str) -> None:
    settings = {
        # A standalone worker has nothing of ours; docs/spark.md has the archive for that.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick_java.options(),
    }
    spark = session(master, memory="512m", settings=settings)
    sources = [str(path) for path in sorted(Path(rings).iterdir())]
    outcome = dissect(spark, sources, dataset, tables=ALL, split_size=SPLIT_SIZE)
    assert outcome.failed == ()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
