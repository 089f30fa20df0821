"""The software that is recorded: Kafka's jars from Maven Central, Python clients from PyPI.

Everything lands in a cache directory outside the repository and is fetched once per version.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tools.record.releases import LOG4J2, RELEASES, version_number

LOG4J_VERSION = "2.25.1"
JACKSON_VERSION = "2.21.2"
KEY_LOGGER_VERSION = "4.0.0"
# The environment of the newest Python clients; one of an older client replaces its line.
PYTHON_CLIENTS = {
    "librdkafka": "confluent-kafka==2.16.1",
    "kafka_python": "kafka-python==3.0.12",
    "aiokafka": "aiokafka==0.14.0",
}
PYTHON_CODECS = (
    "cramjam==2.14.0",
    "lz4==4.4.5",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
    "xxhash==3.6.0",
)
NODE_CLIENTS = ("kafkajs@2.2.4", "kafkajs-snappy@1.1.0")
FIRST_WITH_ADMIN_COMMANDS = (4, 1)
FIRST_WITH_TELEMETRY = (3, 7)
FIRST_WITH_WORK = (2, 4)
FETCH_TIMEOUT_SECONDS = 600
SOURCES = Path(__file__).parent

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
    is_alone: bool = False  # without dependencies

    def to_xml(self) -> str:
        """The coordinate as a pom's dependency element."""
        all_others = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        exclusions = f"<exclusions>{all_others}</exclusions>" if self.is_alone else ""
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version>{exclusions}</dependency>"
        )


def cache_directory() -> Path:
    """Cache of fetched software: $XDG_CACHE_HOME/kdissect-record, created if missing."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    directory = Path(root) / "kdissect-record"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def broker_jars(kafka_version: str) -> Path:
    """The directory of the jars a broker of this version runs on, with a logging backend."""
    release = RELEASES[kafka_version]
    artifacts = [Artifact("org.apache.kafka", f"kafka_{release.scala}", kafka_version)]
    if release.logging == LOG4J2:
        logging = "org.apache.logging.log4j"
        artifacts.append(Artifact(logging, "log4j-slf4j-impl", LOG4J_VERSION))
        artifacts.append(Artifact(logging, "log4j-core", LOG4J_VERSION))
    else:
        artifacts.append(Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"))
        artifacts.append(Artifact("ch.qos.reload4j", "reload4j", "1.2.25"))
    if release.number < (1, 1):  # they need modules that JDK 11 removed
        artifacts.append(Artifact("javax.xml.bind", "jaxb-api", "2.3.1"))
    if release.zookeeper is not None:
        artifacts.append(Artifact("org.apache.zookeeper", "zookeeper", release.zookeeper))
    return _fetch_jars(f"broker-{kafka_version}", artifacts)


def broker_plugins(kafka_version: str) -> Path | None:
    """The directory of our own classes for a broker; None where a release has no use for them."""
    if version_number(kafka_version) < FIRST_WITH_TELEMETRY:
        return None
    name = f"plugins-{kafka_version}"
    _compile(name, broker_jars(kafka_version), ["TelemetryReceiver"], SOURCES / "java" / "broker")
    return cache_directory() / name


def tools_jars(kafka_version: str) -> Path:
    """The directory of the jars of Kafka's own command-line tools."""
    return _fetch_jars(
        f"tools-{kafka_version}", [Artifact("org.apache.kafka", "kafka-tools", kafka_version)]
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


def streams_jars(kafka_version: str) -> Path:
    """The directory of the jars the Kafka Streams agent runs on."""
    return _fetch_jars(
        f"streams-{kafka_version}",
        [
            Artifact("org.apache.kafka", "kafka-streams", kafka_version),
            Artifact("com.fasterxml.jackson.core", "jackson-databind", JACKSON_VERSION),
            Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
        ],
    )


def java_agent(kafka_version: str) -> tuple[list[str], list[str]]:
    """Arguments of `java` before and after the bootstrap address to start the agent."""
    parts = ["Work"] if version_number(kafka_version) >= FIRST_WITH_WORK else []
    if version_number(kafka_version) >= FIRST_WITH_ADMIN_COMMANDS:
        parts = ["AdminCommands", "ClusterCommands", "SecurityCommands", "ShareCommands"]
        parts.append("ShareWork")
    class_path = _compile(f"agent-{kafka_version}", client_jars(kafka_version), ["Agent", *parts])
    return ["-cp", class_path, "Agent"], parts


def streams_agent(kafka_version: str) -> tuple[list[str], list[str]]:
    """The same for the agent of Kafka Streams."""
    jars = streams_jars(kafka_version)
    return ["-cp", _compile(f"streams-{kafka_version}", jars, ["StreamsAgent"]), "StreamsAgent"], []


def client_python(library: str, version: str | None) -> Path:
    """The interpreter of a virtual environment that holds a Python client, or all newest ones."""
    wanted = list(PYTHON_CLIENTS.values())
    name = "python-clients"
    if version is not None:
        package = PYTHON_CLIENTS[library].split("==")[0]
        wanted, name = [f"{package}=={version}"], f"{package}-{version}"
    environment = cache_directory() / name
    python = environment / "bin" / "python"
    installed = environment / "installed.txt"
    wanted += PYTHON_CODECS
    with _alone():
        if not installed.exists() or installed.read_text() != "\n".join(wanted):
            _run([sys.executable, "-m", "venv", "--clear", str(environment)])
            _run([str(python), "-m", "pip", "install", "--quiet", *wanted])
            installed.write_text("\n".join(wanted))
    return python


def go_agent(library: str) -> Path:
    """The program of a Go client's agent, built from the module in `go/`."""
    source = SOURCES / "go"
    program = cache_directory() / f"go-{library}"
    with _alone():
        if _is_older(program, source.rglob("*")):
            _run(["go", "build", "-o", str(program), f"./{library}"], source)
    return program


def node_modules() -> Path:
    """The directory with the JavaScript clients' modules."""
    directory = cache_directory() / "node-clients"
    installed = directory / "installed.txt"
    wanted = "\n".join(NODE_CLIENTS)
    with _alone():
        if not installed.exists() or installed.read_text() != wanted:
            directory.mkdir(exist_ok=True)
            _run(
                ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory)]
                + list(NODE_CLIENTS)
            )
            installed.write_text(wanted)
    return directory / "node_modules"


def key_logger() -> Path:
    """The jar of an agent for JVMs that writes the keys of their TLS sessions."""
    name = f"extract-tls-secrets-{KEY_LOGGER_VERSION}"
    artifact = Artifact("name.neykov", "extract-tls-secrets", KEY_LOGGER_VERSION, True)
    return _fetch_jars(name, [artifact]) / f"{name}.jar"


def java_version(java: str) -> str:
    """The first line that `java -version` prints."""
    done = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=30, check=True
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


def _compile(name: str, jars: Path, classes: list[str], sources: Path = SOURCES / "java") -> str:
    """Compile the classes of a directory against jars; return the class path of both."""
    target = cache_directory() / name
    class_path = f"{target}{os.pathsep}{jars}/*"
    if _is_older(target / f"{classes[0]}.class", sources.glob("*.java")):
        target.mkdir(exist_ok=True)
        files = [str(sources / f"{each}.java") for each in classes]
        options = ["-Xlint:-options", "-nowarn", "-sourcepath", str(sources)]
        _run(["javac", *options, "-cp", class_path, "-d", str(target), *files])
    return class_path


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the cache's lock: two recorders would install into one environment."""
    with (cache_directory() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_older(product: Path, sources: Iterable[Path]) -> bool:
    newest = max(source.stat().st_mtime for source in sources)
    return not product.exists() or product.stat().st_mtime < newest


def _run(command: list[str], directory: Path | None = None) -> None:
    """Run a bounded command; its output is shown when it fails."""
    done = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
