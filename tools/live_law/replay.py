"""The packets of a capture, sent again over a cable of two ends (veth), as if from outside."""

import socket
import subprocess
import time
from pathlib import Path

from kdissect.capture.files import open_captures

SENDING, LISTENING = "sends", "listens"
LARGEST = 65535  # MTU of the loopback
COMMAND_TIMEOUT_SECONDS = 20
AT_ONCE = 64
PAUSE_SECONDS = 0.002


def make_cable() -> None:
    """Both ends of a link in this namespace, without other traffic."""
    add = ["link", "add", SENDING, "mtu", str(LARGEST), "type", "veth"]
    run(*add, "peer", "name", LISTENING, "mtu", str(LARGEST))
    for end in (SENDING, LISTENING):
        Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1", encoding="ascii")
        run("link", "set", end, "up", "arp", "off")


def send(capture: Path) -> None:
    """Send the Ethernet frames of a capture, a few at a time."""
    with open_captures(str(capture)) as packets, raw_socket(SENDING) as sender:
        for batch in packets:
            for number, packet in enumerate(batch):
                sender.send(packet.data[packet.start : packet.end])
                if number % AT_ONCE == 0:
                    time.sleep(PAUSE_SECONDS)


def raw_socket(interface: str) -> socket.socket:
    """Sender of whole frames."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    made.bind((interface, 0))
    return made


def run(*words: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *words], check=True, timeout=COMMAND_TIMEOUT_SECONDS)
