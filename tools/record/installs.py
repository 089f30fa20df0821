"""The software that is recorded: Kafka's jars from Maven Central, Python clients from PyPI.

Everything lands in a cache directory outside the repository and is fetched once per version.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

LOG4J_VERSION = "2.25.1"
JACKSON_VERSION = "2.21.2"
PYTHON_CLIENTS = (
    "confluent-kafka==2.16.1",
    "kafka-python==3.0.12",
    "aiokafka==0.14.0",
    "cramjam==2.14.0",
    "lz4==4.4.5",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
)
FETCH_TIMEOUT_SECONDS = 600

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>kdissect</groupId><artifactId>recorded-software</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies>
</project>
"""


class Artifact(NamedTuple):
    """A Maven coordinate."""

    group: str
    name: str
    version: str

    def to_xml(self) -> str:
        """The coordinate as a pom's dependency element."""
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version></dependency>"
        )


def cache_directory() -> Path:
    """Where fetched software is kept: $XDG_CACHE_HOME/kdissect-record, created if missing."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(root) / "kdissect-record"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def broker_jars(kafka_version: str) -> Path:
    """The directory of the jars a broker of this version runs on, with a logging backend."""
    logging = "org.apache.logging.log4j"
    return _fetch_jars(
        f"broker-{kafka_version}",
        [
            Artifact("org.apache.kafka", "kafka_2.13", kafka_version),
            Artifact(logging, "log4j-slf4j-impl", LOG4J_VERSION),
            Artifact(logging, "log4j-core", LOG4J_VERSION),
        ],
    )


def client_jars(kafka_version: str) -> Path:
    """The directory of the jars the Java agent runs on."""
    return _fetch_jars(
        f"client-{kafka_version}",
        [
            Artifact("org.apache.kafka", "kafka-clients", kafka_version),
            Artifact("com.fasterxml.jackson.core", "jackson-databind", JACKSON_VERSION),
            Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
        ],
    )


def java_agent(kafka_version: str) -> str:
    """The class path of the compiled Java agent with its jars."""
    jars = client_jars(kafka_version)
    source = Path(__file__).parent / "java" / "Agent.java"
    classes = cache_directory() / f"agent-{kafka_version}"
    compiled = classes / "Agent.class"
    class_path = f"{classes}{os.pathsep}{jars}/*"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        classes.mkdir(exist_ok=True)
        _run(["javac", "-Xlint:-options", "-cp", class_path, "-d", str(classes), str(source)])
    return class_path


def client_python() -> Path:
    """The interpreter of a virtual environment that holds the Python clients."""
    environment = cache_directory() / "python-clients"
    python = environment / "bin" / "python"
    installed = environment / "installed.txt"
    wanted = "\n".join(PYTHON_CLIENTS)
    if not installed.exists() or installed.read_text() != wanted:
        _run([sys.executable, "-m", "venv", "--clear", str(environment)])
        _run([str(python), "-m", "pip", "install", "--quiet", *PYTHON_CLIENTS])
        installed.write_text(wanted)
    return python


def java_version() -> str:
    """The first line `java -version` prints."""
    done = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stderr.splitlines()[0]


def _fetch_jars(name: str, artifacts: list[Artifact]) -> Path:
    """Copy the artifacts and all they depend on into the cache, or find them there."""
    target = cache_directory() / "jars" / name
    if target.exists():
        return target
    project = cache_directory() / "poms" / name
    project.mkdir(parents=True, exist_ok=True)
    pom = POM.format(dependencies="".join(artifact.to_xml() for artifact in artifacts))
    (project / "pom.xml").write_text(pom)
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    _run(
        ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), "dependency:copy-dependencies"]
        + ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    )
    partial.rename(target)
    return target


def _run(command: list[str]) -> None:
    """Run a bounded command; its output is shown when it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
