"""No sending while capturing: kdissect's sockets and their use."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import kdissect

PACKAGE = Path(kdissect.__path__[0])
# Calls that can open a connection or send a packet.
NETWORK = {"asyncio", "http", "httpx", "requests", "scapy", "socket", "socketserver", "urllib"}
SENDING = {
    "connect", "connect_ex", "create_connection", "create_datagram_endpoint", "open_connection",
    "send", "sendall", "sendfile", "sendmsg", "sendp", "sendto", "sr", "sr1", "srp", "urlopen",
}  # fmt: skip
# Spans go to the given endpoint, Spark talks with its own processes, a service with its manager,
# metrics are answered to scrapers, or go to the receiver that was asked for, events of findings to
# such a webhook, and workers talk with the process that forked them.
TALKING = (
    "spans/", "dataset/", "spark/", "live/systemd_notify.py", "live/http_server.py",
    "live/metrics_server.py", "live/metrics_socket.py", "live/webhook.py",
    "live/otlp.py", "live/otlp_endpoint.py", "live/workers/forking.py", "live/workers/messages.py",
)  # fmt: skip


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Names of all modules related to networks."""
    found = [
        (path.relative_to(PACKAGE).as_posix(), ast.parse(text))
        for path in sorted(PACKAGE.rglob("*.py"))
        if any(word in (text := path.read_text()) for word in NETWORK)
    ]
    return [(name, tree) for name, tree in found if imported(tree) & NETWORK]


def imported(tree: ast.Module) -> set[str]:
    """The packages that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def name_of(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_only_capture_and_requested_exporters_open_sockets() -> None:
    assert [
        name for name, _ in modules() if not name.startswith(("sources/", "screen/", *TALKING))
    ] == []


def test_capture_sockets_send_nothing() -> None:
    found = [
        f"{name}:{call.lineno}: {ast.unparse(call)}"
        for name, tree in modules()
        if not name.startswith(TALKING)
        for call in calls(tree)
        if name_of(call) in SENDING
    ]
    assert found == []


def test_workers_talk_over_pairs_of_sockets_alone() -> None:
    opening = {"socket", "socketpair", "connect", "bind", "listen", "fromfd", *SENDING}
    found = {
        ast.unparse(call)
        for name, tree in modules()
        if name.startswith("live/workers/")
        for call in calls(tree)
        if name_of(call) in opening
    }
    assert found == {
        "socket.socketpair()",
        "to.sendall(len(content).to_bytes(SIZE_BYTES, 'big') + content)",
    }


def test_a_service_talks_with_its_manager_alone() -> None:
    tree = dict(modules())["live/systemd_notify.py"]
    sockets = [ast.unparse(call) for call in calls(tree) if name_of(call) == "socket"]
    assert sockets == ["socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)"]


def test_packet_sockets_take_nothing_before_they_have_a_filter() -> None:
    """Sockets are opened for no protocol; `bind` then selects all packets."""
    opened = [
        (name, call)
        for name, tree in modules()
        for call in calls(tree)
        if name_of(call) == "socket" and "AF_PACKET" in ast.unparse(call)
    ]
    assert [
        f"{name}:{call.lineno}: {ast.unparse(call)}"
        for name, call in opened
        if len(call.args) < 3 or ast.unparse(call.args[2]) != "0"
    ] == []
