"""`--netns PID`: interfaces of the network namespace of another process."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.program import run
from kdissect.errors import CaptureError, CapturePermissionError, InvalidArgument
from kdissect.live.source_choice import Asked
from kdissect.sources import network_namespaces
from kdissect.sources.network_namespaces import inside
from tests.live.replays import CAPTURES
from tests.live.test_otlp import decoded, points_of
from tests.live.worker_sets import INSTALLED, frames_of, send
from tests.sources.namespaces import CABLE, Host
from tests.spans.test_spans import address_of, receiver

__all__ = ["receiver"]  # a fixture
NOBODY = 65534


@contextmanager
def pod(host: Host) -> Iterator[int]:
    """A process in the namespace of a host, which does nothing."""
    waiting = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    command = ["ip", "netns", "exec", host.namespace, *waiting]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def own() -> str:
    return str(Path("/proc/thread-self/ns/net").readlink())


def test_sockets_opened_inside_are_of_that_process_and_later_ones_are_not(
    cable: tuple[Host, Host],
) -> None:
    before = own()
    with pod(cable[1]) as process:
        with inside(process):
            assert own() == str(Path(f"/proc/{process}/ns/net").readlink()) != before
            names = [name for _, name in socket.if_nameindex()]
        assert own() == before
        with pytest.raises(ZeroDivisionError), inside(process):
            raise ZeroDivisionError
    assert own() == before
    assert sorted(names) == sorted(["lo", CABLE])
    with inside(None):
        assert own() == before


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--workers", "2")])
def test_live_captures_in_the_namespace_of_a_process(
    cable: tuple[Host, Host], tmp_path: Path, receiver: Any, more: tuple[str, ...]
) -> None:
    """And its metrics are pushed from its own namespace, of all workers together."""
    client, broker = cable
    frames = frames_of(CAPTURES / "quickstart.pcapng")
    with pod(broker) as process, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        words = ["live", "-i", CABLE, "--netns", str(process), "-o", str(tmp_path / "tables")]
        words += ["--otlp", address_of(receiver)]
        with subprocess.Popen(
            [sys.executable, "-m", "kdissect", *words, *more],
            env={**os.environ, "NOTIFY_SOCKET": manager.getsockname(), "PYTHONPATH": INSTALLED},
            stderr=subprocess.PIPE, text=True,
        ) as running:  # fmt: skip
            hear(manager, "READY=1")
            assert str(Path(f"/proc/{running.pid}/ns/net").readlink()) == own()
            send(client, [[frame] for frame in frames])
            for _ in range(2):
                hear(manager, "WATCHDOG=1")
            running.send_signal(signal.SIGTERM)
            _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert f"{len(frames)} packets of {CABLE}, 0 dropped" in said
    (point,) = points_of(decoded(receiver.received[-1][2])["kdissect.packets"])
    assert point.as_int == len(frames)


def hear(manager: socket.socket, word: str) -> None:
    while word not in manager.recv(4096).decode().split("\n"):
        pass


def test_no_process_no_rights_and_no_interface_are_errors_with_advice(
    cable: tuple[Host, Host], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CaptureError, match="4194305: there is no such process"), inside(4_194_305):
        pass
    with pod(cable[1]) as process:
        assert run(["live", "-i", "eth99", "--netns", str(process)]) == 1
        assert CABLE in capfd.readouterr().err
        assert run(["live", "--netns", str(process)]) == 0
        assert CABLE in capfd.readouterr().out
        started = os.fork()
        if started == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                with inside(process):
                    os._exit(1)
            except CapturePermissionError as error:
                os._exit(0 if "CAP_SYS_ADMIN" in str(error) else 2)
        assert os.waitpid(started, 0)[1] == 0
    with pytest.raises(InvalidArgument, match="--netns is for interfaces"):
        Asked(["a.pcap"], netns=1).check()


def test_other_systems_have_no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_namespaces, "IS_LINUX", False)
    with pytest.raises(CaptureError, match="leave --netns out"), inside(os.getpid()):
        pass
