"""The command line: `python -m tools.live_law mock | replay CAPTURE ... | broker RELEASE`."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.live_law import mock_brokers, real_brokers, replay
from tools.live_law.both import Both, Packets
from tools.live_law.comparing import Compared, compare, page
from tools.live_law.isolation import is_isolated, isolated, settle_in

TIMEOUT_SECONDS = 900
EPILOG = """\
Wants root, tcpdump and iproute2; a broker also java and javac (17 or newer) and mvn. The session is
played in a network namespace of its own, so no other packets are captured.

example: python -m tools.live_law broker 4.3.1 --client java --client librdkafka
"""


def main() -> int:
    """Play a session, and compare; 1 when a row differs."""
    arguments = read_arguments()
    options = None
    if arguments.session == "broker":
        options = real_brokers.options_of(arguments.what[0], arguments.client)
    if not is_isolated():
        if options is not None:
            real_brokers.fetch(options)
        command = isolated(["-m", "tools.live_law", *sys.argv[1:]])
        return subprocess.run(command, check=False, timeout=TIMEOUT_SECONDS).returncode
    settle_in()
    with tempfile.TemporaryDirectory(prefix="kdissect-law-") as scratch:
        directory = Path(scratch)
        if arguments.session == "replay":
            replay.make_cable()
        interface = replay.LISTENING if arguments.session == "replay" else "lo"
        with Both(directory, interface=interface, through=arguments.through) as both:
            if options is not None:
                real_brokers.play(arguments.scenario, options, directory)
                print(real_brokers.described(arguments.scenario, options))
            elif arguments.session == "mock":
                mock_brokers.play()
            for capture in arguments.what if arguments.session == "replay" else ():
                replay.send(Path(capture))
    compared = compare(both.live, both.filed)
    shown = json.dumps(values(both, compared)) if arguments.json else page(both.packets, compared)
    print(shown)
    return int(differs(both.packets, compared))


def read_arguments() -> argparse.Namespace:
    """Arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.live_law",
        description="Capture one session twice, live and with tcpdump, and compare the tables.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("session", choices=("mock", "replay", "broker"))
    parser.add_argument("what", nargs="*", help="captures to replay, or a release of Kafka")
    parser.add_argument("--through", default="auto", help="ring or scapy; default: what is best")
    parser.add_argument("--scenario", default=real_brokers.SCENARIO, help="default: %(default)s")
    parser.add_argument(
        "--client", action="append", default=[], help="a library, perhaps with its version"
    )
    parser.add_argument("--json", action="store_true", help="print values instead of a page")
    arguments = parser.parse_args()
    if (arguments.session == "mock") == bool(arguments.what):
        parser.error("mock takes nothing, replay captures, and broker a release")
    return arguments


def differs(packets: Packets, compared: list[Compared]) -> bool:
    """Return whether there is any difference but the times of single packets."""
    is_same = packets.live == packets.filed and not packets.differing
    return not is_same or any(one.only_live or one.only_filed for one in compared)


def values(both: Both, compared: list[Compared]) -> dict[str, object]:
    """Results as JSON."""
    return {
        "packets": both.packets._asdict(),
        "tables": {one.table: one._asdict() for one in compared},
        "apis": sorted({row["api"] for row in both.filed["exchanges"] if row["api"]}),
        "addresses": sorted({row["broker_ip"] for row in both.filed["connections"]}),
    }


if __name__ == "__main__":
    sys.exit(main())
