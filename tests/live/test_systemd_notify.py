import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.errors import KdissectError
from kdissect.live.systemd_notify import Notifier, ServiceListener
from kdissect.live.watcher import Watcher
from tests.live.listening import Given, packet_at

SECOND_NS = 1_000_000_000
NOON_NS = 1_700_000_000 * SECOND_NS


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.setblocking(False)
        yield heard


def said_to(manager: socket.socket) -> list[list[str]]:
    """The datagrams, as lines."""
    found = []
    try:
        while True:
            found.append(manager.recv(4096).decode().split("\n"))
    except BlockingIOError:
        return found


def test_a_run_is_notified_from_start_to_end(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    notifier = Notifier()
    assert "NOTIFY_SOCKET" not in os.environ
    packet_source = Given(*([packet_at(NOON_NS + at * SECOND_NS)] for at in range(12)))
    watcher = Watcher(packet_source, [ServiceListener(notifier)], clock=lambda: 0)
    watcher.begin()
    said = []
    while watcher.step():
        # A queue holds ten.
        said += said_to(manager)
        if len(packet_source.batches) == 5:
            watcher.reopen()
    watcher.finish()
    notifier.close()
    said += said_to(manager)
    assert said[0] == ["READY=1", "STATUS=captures given"]
    status = "STATUS=0 exchanges; 1 packet, 0 dropped; 0 open connections; "
    assert said[1][0] == "WATCHDOG=1"
    assert said[1][1].startswith(status)
    assert said[2:8] == [["WATCHDOG=1"]] * 6
    (reloading, moment), ready = said[8:10]
    assert (reloading, moment[:15], ready) == ("RELOADING=1", "MONOTONIC_USEC=", ["READY=1"])
    (status,) = [line for lines in said[10:-1] for line in lines if line != "WATCHDOG=1"]
    assert status.startswith("STATUS=0 exchanges; 11 packets")
    assert said[-1][0] == "STOPPING=1"
    assert said[-1][1].startswith("STATUS=stops; 0 exchanges; 12 packets")


def test_an_abstract_socket_is_heard_too() -> None:
    name = f"kdissect-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("\0" + name)
        heard.setblocking(False)
        notifier = Notifier({"NOTIFY_SOCKET": f"@{name}"})
        notifier.tell("READY=1")
        notifier.close()
        assert said_to(heard) == [["READY=1"]]


def test_nothing_is_sent_without_a_service_manager() -> None:
    notifier = Notifier({})
    assert not notifier.is_heard
    notifier.tell("READY=1")
    notifier.close()


def test_a_manager_that_does_not_read_holds_nothing_up(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    for _ in range(5000):
        notifier.tell("WATCHDOG=1")
    assert 0 < len(said_to(manager)) < 5000
    notifier.close()
    notifier.close()


@pytest.mark.parametrize(
    ("address", "told"), [("udp:1", "neither a path nor"), ("/no/such", "No such file")]
)
def test_a_wrong_address_is_an_error(address: str, told: str) -> None:
    with pytest.raises(KdissectError, match=told):
        Notifier({"NOTIFY_SOCKET": address})
