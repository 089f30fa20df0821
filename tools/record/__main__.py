"""The recorder's command line: `python -m tools.record SCENARIO`."""

import argparse
import hashlib
from pathlib import Path

from tools.record.recording import Options, record
from tools.record.scenarios import SCENARIOS

KAFKA_VERSION = "4.3.1"
EPILOG = """\
Needs java and javac (17 or newer), mvn, tcpdump and the right to use it, editcap; for some clients
go, node and npm. Jars and clients are fetched once into $XDG_CACHE_HOME/kdissect-record. Nothing
but the loopback is used. `python -m tools.record.plan` records all scenarios with all versions.

example: python -m tools.record quickstart -o captures/quickstart.pcapng
"""


def main() -> None:
    """Record one scenario."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.record",
        description="Record real Kafka clients against a real broker: a capture and its side-car.\n"
        "Prints the sha256 lines for captures/README.md.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        help="the capture (.pcapng); the side-car gets the same name with .json",
    )
    parser.add_argument("--kafka-version", default=KAFKA_VERSION, help="default: %(default)s")
    parser.add_argument(
        "--port", type=int, default=9092, help="of the broker, if free (default: %(default)s)"
    )
    parser.add_argument("--heap-megabytes", type=int, default=512, help="default: %(default)s")
    parser.add_argument(
        "--mode", choices=("kraft", "zookeeper"), help="default: KRaft when the version has it"
    )
    parser.add_argument(
        "--client",
        action="append",
        default=[],
        help="a library, perhaps with its version: java@2.4.1; for scenarios of any clients",
    )
    parser.add_argument("--java", default="java", help="of the servers (default: %(default)s)")
    arguments = parser.parse_args()
    scenario = SCENARIOS[arguments.scenario]
    options = Options(
        *(arguments.kafka_version, arguments.port, arguments.heap_megabytes, arguments.mode),
        clients=tuple(arguments.client),
        java=arguments.java,
    )
    record(scenario, arguments.scenario, options, arguments.output)
    for file in (arguments.output, arguments.output.with_suffix(".json")):
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}")


if __name__ == "__main__":
    main()
