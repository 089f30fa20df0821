"""Networks a recording is made on: the loopback, or namespaces of the recorder's own.

A tap is a tcpdump; all taps of a network see the same session.
"""

import subprocess
from typing import NamedTuple

COMMAND_TIMEOUT_SECONDS = 20
BROKER, CLIENT, MIDDLE = "kdissect-broker", "kdissect-client", "kdissect-middle"


class Tap(NamedTuple):
    """Interface and filter of a tcpdump; `name` is added to the capture's."""

    name: str = ""
    interface: str = "lo"
    namespace: str | None = None
    options: tuple[str, ...] = ()
    filter: str = ""  # {port} is the broker's; "": all from and to the captured ports
    is_late: bool = False  # begun when the scenario says so


class Network(NamedTuple):
    """Namespaces, the `ip` commands that connect them, and the taps, the whole one first."""

    address: str  # the broker's, as in a URL
    namespaces: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    taps: tuple[Tap, ...] = (Tap(),)

    def enter(self, namespace: str) -> list[str]:
        """Command prefix to run in a namespace."""
        return inside(namespace) if namespace in self.namespaces else []

    def up(self) -> None:
        """Make it; loopbacks are up in all namespaces."""
        for namespace in self.namespaces:
            _ip(f"netns add {namespace}")
            _ip(f"-n {namespace} link set lo up")
        for command in self.commands:
            _ip(command)

    def down(self) -> None:
        """Remove the namespaces, and with them all that is in them."""
        for namespace in self.namespaces:
            _ip(f"netns delete {namespace}")


def inside(namespace: str | None) -> list[str]:
    """Command prefix to run in a namespace; empty for None."""
    return [] if namespace is None else ["ip", "netns", "exec", namespace]


def bridge() -> tuple[str, ...]:
    """The commands that put broker and client at a bridge, as containers are."""
    commands = [f"-n {MIDDLE} link add shop type bridge", f"-n {MIDDLE} link set shop up"]
    for number, namespace in enumerate((BROKER, CLIENT), 2):
        port = namespace.removeprefix("kdissect-")
        commands += [
            f"-n {MIDDLE} link add {port} type veth peer name eth0 netns {namespace}",
            f"-n {MIDDLE} link set {port} master shop up",
            f"-n {namespace} address add 10.42.0.{number}/24 dev eth0",
            f"-n {namespace} link set eth0 up",
        ]
    return tuple(commands)


def switched() -> Network:
    """Broker and client at a bridge, tapped where the client's cable ends: before `lose`."""
    return Network("10.42.0.2", (MIDDLE, BROKER, CLIENT), bridge(), (Tap("", "client", MIDDLE),))


def lose(percent: int) -> None:
    """Drop so many of the packets that come from the client to the bridge, from now on."""
    rules = [
        "add table netdev switch",
        "add chain netdev switch port { type filter hook ingress device client priority 0; }",
        "flush chain netdev switch port",
        f"add rule netdev switch port numgen random mod 100 < {percent} drop",
    ]
    _run([*inside(MIDDLE), "nft", "; ".join(rules)])


def bridged() -> Network:
    """Broker and client at a bridge, which is tapped in many ways."""
    cut = tuple(Tap(f"snap{size}", "broker", MIDDLE, ("-s", str(size))) for size in (96, 128, 256))
    taps = (
        Tap("", "broker", MIDDLE),
        Tap("any-sll2", "any", MIDDLE, ("-y", "LINUX_SLL2")),
        Tap("any-sll", "any", MIDDLE, ("-y", "LINUX_SLL")),
        *cut,
        Tap("late", "broker", MIDDLE, is_late=True),
        Tap("requests", "broker", MIDDLE, filter="tcp dst port {port}"),
        Tap("responses", "broker", MIDDLE, filter="tcp src port {port}"),
    )
    return Network("10.42.0.2", (MIDDLE, BROKER, CLIENT), bridge(), taps)


def vxlan() -> Network:
    """IPv6 between two hosts of a VXLAN, over IPv4; tapped inside and outside."""
    commands = [f"-n {BROKER} link add eth0 type veth peer name eth0 netns {CLIENT}"]
    for own, namespace, other in ((2, BROKER, 3), (3, CLIENT, 2)):
        commands += [
            f"-n {namespace} address add 10.43.0.{own}/24 dev eth0",
            f"-n {namespace} link set eth0 up",
            f"-n {namespace} link add pod0 type vxlan id 42 dev eth0 dstport 4789"
            f" local 10.43.0.{own} remote 10.43.0.{other}",
            f"-n {namespace} address add fd00:42::{own}/64 dev pod0 nodad",
            f"-n {namespace} link set pod0 up",
        ]
    taps = (
        Tap("", "eth0", BROKER, filter="udp port 4789"),
        Tap("inside", "pod0", BROKER),
    )
    return Network("[fd00:42::2]", (BROKER, CLIENT), tuple(commands), taps)


def loopback_6() -> Network:
    """The loopback's other address."""
    return Network("[::1]")


def _ip(command: str) -> None:
    _run(["ip", *command.split()])


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
