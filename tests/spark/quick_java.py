"""Java that starts quickly: compiled less, and with Spark's classes from an archive.

Until it has done a first small job, a JVM of Spark takes 21 s of processor time, 13 s where code is
compiled only once, and 6 s where its classes come from an archive (class data sharing). Tests start
dozens of them. The archive is made once for an environment of Python, beside its packages, by a
program that does what tests do. A JVM that the archive does not fit runs without it.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kdissect.spark.java import java_home

ROOT: Final = Path(__file__).parents[2]
OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
# What bin/spark-submit gives to the JVM that it starts, and to the one that says how to start it.
VARIABLE: Final = "SPARK_SUBMIT_OPTS"
LAUNCHER: Final = "SPARK_LAUNCHER_OPTS"
PATIENCE: Final = 600.0
WORK: Final = """
import sys
from pathlib import Path
import kdissect
from kdissect.spark.pipeline import dissect
from kdissect.spark.sessions import session
from kdissect.spark.streaming import stream
capture, place = sys.argv[1], Path(sys.argv[2])
spark = session("local[1]", memory="1g")
dissect(spark, [capture], place / "dataset")
stream(
    spark, [capture], place / "streamed", place / "checkpoint", available_now=True, quiet_s=0
)
for question in ("latency", "errors", "clients"):
    kdissect.analyse(question, place / "dataset", session=spark).to_arrow()
spark.stop()
"""


def variables() -> dict[str, str]:
    """Environment variables by which all JVMs that PySpark and spark-submit start do so quickly."""
    path = archive()
    if not path.exists():
        make_archive(path)
    return {VARIABLE: f"{OPTIONS} -XX:SharedArchiveFile={path}", LAUNCHER: OPTIONS}


def options() -> str:
    """The same, for the settings of a session whose executors are JVMs of their own."""
    return os.environ.get(VARIABLE, OPTIONS)


def archive() -> Path:
    """The archive for this Java and this PySpark."""
    import pyspark

    name = f"{java_home()} {pyspark.__version__} {pyspark.__file__} {OPTIONS}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-classes-{digest}.jsa"


def make_archive(path: Path) -> None:
    with TemporaryDirectory(dir=path.parent) as place:
        made = Path(place, "made.jsa")
        surroundings = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            VARIABLE: f"{OPTIONS} -XX:ArchiveClassesAtExit={made}",
        }
        capture = ROOT / "captures" / "quickstart.pcapng"
        # Its pipes are closed when the JVM has ended too, which writes the archive then.
        done = subprocess.run(
            [sys.executable, "-c", WORK, str(capture), place],
            cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        made.replace(path)
