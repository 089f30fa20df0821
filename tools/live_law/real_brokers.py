"""A session with a real broker of some release, and clients of several libraries.

The recorder starts them and plays one of its scenarios; its own recording is discarded. Broker and
clients come from Maven Central and PyPI, which only the first run needs.
"""

from pathlib import Path

from tools.record import installs
from tools.record.agents import parse_library
from tools.record.configuration import KRAFT
from tools.record.recording import Options, record
from tools.record.releases import NEWEST
from tools.record.scenarios import SCENARIOS

PORT = 19092
HEAP_MEGABYTES = 512
SCENARIO = "basics"
PYTHON_CLIENTS = ("librdkafka", "kafka_python", "aiokafka")


def fetch(options: Options) -> None:
    """Have all software here: where the session is there is no network."""
    installs.broker_jars(options.kafka_version)
    installs.broker_plugins(options.kafka_version)
    for text in ("java", *options.clients):
        library = parse_library(text)
        if library.is_java:
            installs.java_agent(library.version or NEWEST)
        elif library.name in PYTHON_CLIENTS:
            installs.client_python(*library)
        else:
            raise SystemExit(f"no client {text!r} here: take java or {', '.join(PYTHON_CLIENTS)}")


def options_of(version: str, clients: list[str]) -> Options:
    """Options of the recorder; without clients, Java of the broker's release and Python's."""
    known = tuple(clients) or (f"java@{version}", "librdkafka")
    return Options(version, PORT, HEAP_MEGABYTES, None, known)


def play(scenario: str, options: Options, directory: Path) -> None:
    """Start the cluster, play the scenario, and end all of it."""
    record(SCENARIOS[scenario], scenario, options, directory / "recorded.pcapng")


def described(scenario: str, options: Options) -> str:
    """One-line description of the scenario."""
    how = "KRaft" if options.cluster_mode == KRAFT else "ZooKeeper"
    clients = ", ".join(options.clients)
    return f"{scenario} on Kafka {options.kafka_version} ({how}) with {clients}"
