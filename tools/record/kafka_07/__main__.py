"""Records captures/old/kafka-0.7.pcapng and its side-car: ``python -m tools.record.kafka_07``.

Needs a Python 2.7 with pip for the clients (samsa, brod), which are fetched once into
$XDG_CACHE_HOME/kdissect-record, tcpdump and editcap. Nothing but the loopback is used.
"""

import argparse
import hashlib
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.old_builders import GZIP, SNAPPY, message, wrapper
from tools.record.kafka_07.broker import Broker, Logs
from tools.record.sniffer import Sniffer, to_pcapng

CLIENTS = ("samsa==0.3.11", "brod==0.4.3")
AGENT = Path(__file__).with_name("client_agent.py")
SETTLE_SECONDS = 0.5
TABLES = {
    "operations": ("session", "operation", "start_ns", "end_ns", "arguments", "error"),
    "produced": ("session", "topic", "partition", "value_size", "value_sha256"),
    "consumed": ("session", "topic", "partition", "offset", "value_size", "value_sha256"),
    "listed": ("session", "topic", "partition", "offsets"),
}
PACKED = (b"packed one", b"packed two")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.record.kafka_07",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--python2", default="python2.7", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=9092, help="default: %(default)s")
    arguments = parser.parse_args()
    libraries = install(arguments.python2)
    logs = Logs({"orders": 1, "old-orders": 1, "audit": 2, "packed": 1, "brods": 1})
    # Neither client can compress, so these two messages are ours.
    inner = b"".join(message(payload) for payload in PACKED)
    logs.append("packed", 0, wrapper(inner, GZIP) + wrapper(inner, SNAPPY))
    events, tcpdump = record(arguments, logs, libraries)
    write_sidecar(arguments.output, events, tcpdump)
    for file in (arguments.output, arguments.output.with_suffix(".json")):
        print(f"    {hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}")


def install(python2: str) -> Path:
    """The clients' directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    target = cache / "kdissect-record" / "kafka-07"
    if not (target / "samsa").exists():
        command = [python2, "-m", "pip", "install", "-q", "--target", str(target), *CLIENTS]
        subprocess.run(command, check=True)
    return target


def record(
    arguments: argparse.Namespace, logs: Logs, libraries: Path
) -> tuple[list[dict[str, Any]], str]:
    """Run the clients against the stand-in; return their logs and tcpdump's version."""
    with TemporaryDirectory() as directory, Broker(arguments.port, logs) as broker:
        pcap = Path(directory) / "packets.pcap"
        sniffer = Sniffer([arguments.port], pcap)
        sniffer.start()
        threading.Thread(target=broker.serve_forever, daemon=True).start()
        done = subprocess.run(
            [arguments.python2, str(AGENT), str(arguments.port)],
            env=os.environ | {"PYTHONPATH": str(libraries)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        time.sleep(SETTLE_SECONDS)
        broker.shutdown()
        sniffer.settle()
        report = sniffer.stop()
        to_pcapng(pcap, arguments.output)
    return [json.loads(line) for line in done.stdout.splitlines()], report.version


def write_sidecar(capture: Path, events: list[dict[str, Any]], tcpdump: str) -> None:
    data = capture.read_bytes()
    content: dict[str, Any] = {
        "scenario": "kafka-0.7",
        "capture": {
            "file": capture.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
        },
        "software": {
            "broker": "stand-in of tools/record/kafka_07",
            **{name: version for name, _, version in map(parted, CLIENTS)},
            "tcpdump": tcpdump,
        },
    }
    for table, columns in TABLES.items():
        rows = [
            [event.get(column) for column in columns] for event in events if event["kind"] == table
        ]
        content[table] = {"columns": columns, "rows": rows}
    capture.with_suffix(".json").write_text(text_of(content), encoding="utf-8")


def parted(pinned: str) -> tuple[str, str, str]:
    return pinned.partition("==")


def text_of(content: dict[str, Any]) -> str:
    """JSON with a row a line."""
    parts = []
    for name, value in content.items():
        if isinstance(value, dict) and set(value) == {"columns", "rows"}:
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value["rows"])
            body = f'{{"columns": {json.dumps(value["columns"])}, "rows": [\n{rows}\n ]}}'
        else:
            body = json.dumps(value)
        parts.append(f" {json.dumps(name)}: {body}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
