"""deploy/kubernetes/broker-of-node.yaml: its command, with its capabilities, at a pod's network."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kdissect.tables.rotations import runs_in
from tests.live.worker_sets import INSTALLED, PATIENCE_S, frames_of, rows, send
from tests.sources.namespaces import CABLE, Host

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "deploy" / "kubernetes" / "broker-of-node.yaml"
BROKER = "import time; time.sleep(600)"


def container() -> dict[str, Any]:
    """The container of the manifest."""
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    (made,) = documents[1]["spec"]["template"]["spec"]["containers"]
    return dict(made)


def command(directory: Path, names: str) -> list[str]:
    """Its words on this machine: another broker's name, directory and port, and only its rights."""
    made = container()
    replaced = {
        "--output=/var/lib/kdissect/tables": f"--output={directory}",
        "--interface=any": f"--interface={CABLE}",
        "--metrics=0.0.0.0:9123": "--metrics=127.0.0.1:0",
        "--user=kdissect": "--user=nobody",  # the image creates that user
    }
    script, *words = made["args"]
    assert replaced.keys() <= {*words}
    words = [replaced.get(word, word) for word in words]
    script = script.replace(r"kafka\.Kafka", re.escape(names))
    rights = ",".join(f"+{one.lower()}" for one in made["securityContext"]["capabilities"]["add"])
    return [
        "setpriv", "--no-new-privs", f"--bounding-set=-all,{rights}", f"--inh-caps=-all,{rights}",
        *made["command"], script, *words,
    ]  # fmt: skip


def capabilities(process: int) -> set[str]:
    """Permitted capabilities of all threads, as hexadecimal masks."""
    return {
        line.split()[1]
        for task in Path(f"/proc/{process}/task").iterdir()
        for line in (task / "status").read_text().splitlines()
        if line.startswith("CapPrm:")
    }


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in tasks.read_text().split()]


def captures(shell: int) -> list[int]:
    """Processes of kdissect that have given their rights up."""
    found = [one for one in children(shell) if "--netns" in cmdline(one)]
    return [one for one in found if Path(f"/proc/{one}").stat().st_uid != 0]


def wait_until(is_so: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_daemon_set_captures_in_the_network_of_one_broker_after_the_other(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    client, pod = cable
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    # A directory that another user reaches, as that of the node.
    node = Path(tempfile.mkdtemp(prefix="kdissect-node-"))
    node.chmod(0o755)
    tables = node / "tables"
    (bin_ / "kdissect").write_text(f'#!/bin/sh\nexec {sys.executable} -m kdissect "$@"\n')
    (bin_ / "kdissect").chmod(0o755)
    names = f"kafka.Kafka-{os.getpid()}"
    environment = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": INSTALLED}
    shell = subprocess.Popen(
        command(tables, names), env=environment, stderr=subprocess.PIPE, text=True, cwd="/"
    )
    brokers = []
    try:
        for number in range(1, 3):  # the second one when the first has ended
            wait_until(lambda: not captures(shell.pid))
            with pod.inside():
                brokers.append(subprocess.Popen([sys.executable, "-c", BROKER, names]))
            # It opens its socket, and then it is another user.
            wait_until(lambda: shell.poll() is not None or captures(shell.pid))
            assert shell.poll() is None, shell.communicate()
            (live,) = captures(shell.pid)
            assert capabilities(live) == {"0" * 16}
            send(client, [[frame] for frame in frames_of(ROOT / "captures" / "quickstart.pcapng")])
            time.sleep(1.5)  # a tick
            if number == 1:
                brokers[0].kill()  # the pod ends
                brokers[0].wait(PATIENCE_S)
        shell.send_signal(signal.SIGTERM)  # kdissect's own pod ends
        _, said = shell.communicate(timeout=PATIENCE_S)
    finally:
        for one in (*brokers, shell):
            one.send_signal(signal.SIGTERM)
            one.wait(PATIENCE_S)
    assert shell.returncode == 0
    assert said.count(f"packets of {CABLE}, 0 dropped") == 2
    runs = runs_in(tables)
    assert len(runs) == 2
    assert all(len(rows(run, "exchanges")) > 100 for run in runs)
    shutil.rmtree(node)


def cmdline(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_text().split("\0")
