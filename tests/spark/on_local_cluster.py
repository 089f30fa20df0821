"""Queries Spark on two executors, which are killed in the meantime.

``python -m tests.spark.on_local_cluster TABLES`` prints, as JSON, the question, the number of
attempts, and whether the answer is DuckDB's.
"""

import json
import os
import signal
import sys
import time
from typing import Any

from kdissect import analyse
from kdissect.spark import spark_tables
from kdissect.spark.sessions import session
from kdissect.spark.single_task import SETTING
from tests.spark import quick_java
from tests.spark.clusters import spark_home
from tests.spark.killing import executors

SETTINGS = {
    "spark.executor.extraJavaOptions": quick_java.options(),
    "spark.driver.extraJavaOptions": "-Xss4m",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "2",
    SETTING: "0",
}


class Killer:
    """Kills all executors after the second part is kept, in the first attempt."""

    def __init__(self) -> None:
        self.attempts = 0
        self.parts = 0

    def attempt(self, tables: Any, statements: Any) -> Any:
        self.attempts += 1
        self.parts = 0
        return ROWS(tables, statements)

    def keep(self, frame: Any, read: Any) -> Any:
        made = KEPT(frame, read)
        self.parts += 1
        if self.parts == 2 and self.attempts == 1:
            chosen = executors(os.getpid())
            for pid in chosen:
                os.kill(pid, signal.SIGKILL)
            while set(chosen) & set(executors(os.getpid())):
                time.sleep(0.05)
        return made


KEPT, ROWS = spark_tables.kept, spark_tables.SparkTables._rows


def asked(question: str, tables: str, spark: Any) -> dict[str, Any]:
    killer = Killer()
    spark_tables.kept = killer.keep
    spark_tables.SparkTables._rows = lambda self, one: killer.attempt(self, one)  # type: ignore[method-assign]
    found = analyse(question, tables, session=spark).to_arrow()
    is_same = found.equals(analyse(question, tables).to_arrow())
    return {"rows": found.num_rows, "is_same": is_same, "attempts": killer.attempts}


def main() -> None:
    os.environ["SPARK_HOME"] = str(spark_home())
    spark = session("local-cluster[2,1,1024]", memory="1g", settings=SETTINGS)
    try:
        told = asked("end-to-end", sys.argv[1], spark)
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
