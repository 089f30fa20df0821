"""A job for spark-submit: captures into a dataset.

    spark-submit --master spark://host:7077 kdissect/spark/job.py /captures -o /data/kafka

Says as a line of JSON what it did. Exit codes: 0 done, 2 an error or a tap that could not be gone
on with, which is on stderr.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from kdissect.errors import KdissectError
from kdissect.spark.pipeline import Outcome, dissect
from kdissect.spark.planning import SPARK_PIECE_SIZE
from kdissect.tables.schemas import DEFAULT_TABLES

FAILED: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job in the session that spark-submit makes; gives the exit code."""
    chosen = parser().parse_args(arguments)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("kdissect").getOrCreate()
    try:
        outcome = dissect(
            spark,
            chosen.captures,
            chosen.output,
            tap=chosen.tap,
            tables=chosen.tables.split(","),
            piece_size=chosen.piece_size,
            ports=chosen.port,
            brokers=chosen.broker,
            keylog=chosen.keylog,
            payload=chosen.payload,
        )
    except KdissectError as error:
        sys.stderr.write(f"kdissect: {error}\n")
        return FAILED
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(told(outcome)) + "\n")
    for one in outcome.failed:
        sys.stderr.write(f"kdissect: tap {one.tap}: {one.message}\n")
    return FAILED if outcome.failed else 0


def parser() -> argparse.ArgumentParser:
    """The options of the job."""
    made = argparse.ArgumentParser("kdissect-job", description="Captures into a dataset, on Spark.")
    made.add_argument("captures", nargs="+", help="files, globs, directories")
    made.add_argument("-o", "--output", required=True, metavar="DATASET")
    made.add_argument("--tap", metavar="REGEX", help="tells the tap of a file by its path")
    made.add_argument("--tables", default=",".join(DEFAULT_TABLES), metavar="A,B,...")
    made.add_argument("--piece-size", type=int, default=SPARK_PIECE_SIZE, metavar="BYTES")
    made.add_argument("--port", type=int, action="append", default=[], help="a broker's port")
    made.add_argument("--broker", action="append", default=[], metavar="ADDRESS:PORT")
    made.add_argument("--keylog", action="append", default=[], metavar="FILE")
    made.add_argument("--payload", action="store_true", help="keys and values of records too")
    return made


def told(outcome: Outcome) -> dict[str, Any]:
    """What was done, and what is in the dataset now."""
    return {
        "captures": outcome.captures,
        "capture_bytes": outcome.capture_bytes,
        "pieces": outcome.pieces,
        "seam_bytes": outcome.seam_bytes,
        "broken": [one.path for one in outcome.broken],
        "failed": [one.tap for one in outcome.failed],
        "rows": {tap.name: tap.rows for tap in outcome.manifest.taps},
    }


if __name__ == "__main__":
    raise SystemExit(main())
