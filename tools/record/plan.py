"""Table of all recordings: scenario, broker version and clients.

`python -m tools.record.plan -o DIRECTORY [NAME ...]` records all, or those whose name contains one.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from tools.record.recording import Options, record
from tools.record.releases import NEWEST
from tools.record.scenarios import SCENARIOS

PORT = 19092
HEAP_MEGABYTES = 512
ON_NETWORKS = ("ipv6", "bridged", "vxlan")


class Row(NamedTuple):
    """One recording; its name is <scenario>-<version>, and -zookeeper where KRaft was possible."""

    scenario: str
    version: str
    clients: tuple[str, ...] = ()
    mode: str | None = None

    @property
    def name(self) -> str:
        """The capture's file name without its ending."""
        return "-".join([self.scenario, self.version, *([self.mode] if self.mode else [])])

    @property
    def directory(self) -> str:
        """Path below the output directory."""
        if self.scenario in ON_NETWORKS:
            return "networks"
        return "tls" if self.scenario.startswith("tls") else ""


OLD_PYTHON, MIDDLE_PYTHON = "kafka_python@1.4.7", "kafka_python@2.0.2"

OF_ALL_AGES = (
    *("java@0.9.0.1", "java@0.10.2.2", "java@0.11.0.3", "java@1.1.1", "java@2.4.1"),
    *(OLD_PYTHON, "librdkafka"),
)

PLAN = (
    Row("basics", "0.8.2.2", (OLD_PYTHON, "sarama", "librdkafka")),
    Row("basics", "0.9.0.1", ("java@0.9.0.1", OLD_PYTHON, "sarama", "librdkafka")),
    Row("basics", "0.10.2.2", ("java@0.10.2.2", OLD_PYTHON, "sarama", "librdkafka", "kafkajs")),
    Row("basics", "0.11.0.3", ("java@0.11.0.3", MIDDLE_PYTHON, "franz", "kafkajs")),
    Row("basics", "1.1.1", ("java@1.1.1", "java@2.4.1", "sarama", "librdkafka")),
    Row("basics", "2.4.1", ("java@2.4.1", "aiokafka", "sarama", "franz")),
    Row("basics", "2.8.2", ("java@2.8.2", "kafkajs", "librdkafka", MIDDLE_PYTHON)),
    Row("basics", "3.4.1", ("java@3.4.1", "java@0.11.0.3", "sarama", "kafka_python")),
    Row("basics", "3.9.1", ("java@3.9.1", "java@1.1.1", "franz", "librdkafka")),
    Row("basics", "4.0.1", ("java@4.0.1", "kafkajs", "aiokafka")),
    Row("basics", NEWEST, ("java", "kafkajs", "sarama", "franz")),
    Row("old-formats", "0.10.2.2", ("java@0.10.2.2", OLD_PYTHON)),
    Row("old-formats", "2.4.1", ("java@2.4.1", OLD_PYTHON)),
    Row("old-formats", "3.9.1", ("java@3.9.1", OLD_PYTHON), "zookeeper"),
    Row("admin", "2.4.1"),
    Row("admin", "3.4.1"),
    Row("admin", "3.9.1", (), "zookeeper"),
    Row("admin", NEWEST),
    Row("transactions", "0.11.0.3", ("java@0.11.0.3",)),
    Row("transactions", "2.8.2", ("java@2.8.2", "franz", "librdkafka")),
    Row("transactions", NEWEST, ("java", "sarama", "franz", "librdkafka")),
    Row("retries", "2.8.2", ("java@2.8.2", "librdkafka")),
    Row("retries", NEWEST, ("java", "librdkafka")),
    Row("groups", "0.10.2.2", ("java@0.10.2.2",)),
    Row("groups", "2.4.1", ("java@2.4.1",)),
    Row("groups", NEWEST, ("java",)),
    Row("consumer-groups", "4.0.1", ("java@4.0.1", "librdkafka")),
    Row("consumer-groups", NEWEST, ("java", "librdkafka")),
    Row("share-groups", NEWEST),
    Row("streams", "2.8.2", ("streams@2.8.2",)),
    Row("streams", NEWEST, ("streams",)),
    Row("streams-groups", NEWEST, ("streams",)),
    Row("throttling", "1.1.1", ("java@1.1.1",)),
    Row("throttling", NEWEST, ("java",)),
    Row("topic-configs", "2.8.2", ("java@2.8.2",)),
    Row("topic-configs", NEWEST, ("java",)),
    Row("tracing", NEWEST, ("java", "kafka_python")),
    Row("sasl", "0.10.2.2", (OLD_PYTHON, "sarama", "librdkafka")),
    Row("sasl", "2.8.2", ("java@2.8.2", MIDDLE_PYTHON, "sarama", "franz")),
    Row("sasl", NEWEST, ("java", "kafka_python", "librdkafka", "franz")),
    Row("tokens", "2.8.2"),
    Row("tokens", NEWEST),
    Row("telemetry", "3.9.1", ("java@3.9.1", "librdkafka")),
    Row("telemetry", NEWEST, ("java",)),
    Row("cluster", "2.4.1", ("java@2.4.1",)),
    Row("cluster", "2.8.2", ("java@2.8.2",)),
    Row("cluster", "3.9.1", ("java@3.9.1",)),
    Row("cluster", NEWEST, ("java",)),
    Row("voters", NEWEST),
    Row("ipv6", NEWEST, ("java", "franz")),
    Row("bridged", NEWEST, ("java", "librdkafka")),
    Row("vxlan", NEWEST, ("java", "franz")),
    Row("tls12", NEWEST),
    Row("tls12-old", "2.8.2", ("java@2.8.2", "franz", "kafkajs")),
    Row("tls13", NEWEST),
    Row("tls13-rekeyed", NEWEST, ("java", "librdkafka")),
    Row("tls-sasl", NEWEST),
    Row("tls-resumed", NEWEST),
    Row("tls-closed", NEWEST, ("kafka_python",)),
    Row("quorum", "3.9.1"),
    Row("quorum", NEWEST),
    Row("incident-killed-member", NEWEST),
    Row("incident-static-member", NEWEST),
    Row("incident-slow-poller", NEWEST),
    Row("incident-group-changes", NEWEST),
    Row("incident-hanging-transaction", NEWEST),
    Row("incident-crashes", NEWEST),
    Row("incident-old-clients", "3.9.1", OF_ALL_AGES),
    Row("incident-old-clients", NEWEST, OF_ALL_AGES),
    Row("client-latency", NEWEST),
    Row("incident-slow-follower", NEWEST),
    Row("incident-slow-leader", NEWEST),
    Row("incident-leader-killed", NEWEST),
    Row("incident-leader-stopped", NEWEST),
    Row("incident-lagging-follower", NEWEST),
    Row("incident-lost-answers", NEWEST, ("java", "librdkafka")),
    Row("incident-lossy-network", NEWEST),
)


def main() -> int:
    """Record the rows that were asked for; how many failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.record.plan", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a directory")
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = [
        row
        for row in PLAN
        if not arguments.names or any(part in row.name for part in arguments.names)
    ]
    return sum(not record_row(row, arguments.output) for row in rows)


def record_row(row: Row, directory: Path) -> bool:
    """Record one row; False when it failed."""
    options = Options(row.version, PORT, HEAP_MEGABYTES, row.mode, row.clients)
    capture = directory / row.directory / f"{row.name}.pcapng"
    capture.parent.mkdir(exist_ok=True)
    start = time.monotonic()
    try:
        record(SCENARIOS[row.scenario], row.scenario, options, capture)
    except Exception:  # the others shall be recorded all the same
        traceback.print_exc()
        print(f"{row.name}: failed", flush=True)
        return False
    seconds = time.monotonic() - start
    print(f"{row.name}: {capture.stat().st_size} bytes, {seconds:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
