"""A standalone cluster on loopback: a master and two workers, each a process of its own."""

import http.client
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kdissect.spark.java import java_home
from tests.spark import quick_java

LOOPBACK = "127.0.0.1"
PATIENCE = 120.0
DEPLOY = "org.apache.spark.deploy"
LISTENS = "0A"  # in /proc/net/tcp


def spark_home() -> Path:
    """Installation directory of Spark."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def surroundings() -> dict[str, str]:
    """Environment of a daemon, without this process's kdissect."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_JAVA_OPTS": quick_java.options(),
        "SPARK_DAEMON_MEMORY": "256m",
    }


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """The URL of a cluster with two workers of a core each, which is ended at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # The system chooses ports: one that was free before may be another's by now.
        words = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        running = daemon(directory, "master", f"{DEPLOY}.master.Master", *words)
        page = page_of(stack.enter_context(running))
        master = str(shown(page)["url"])
        for number in (1, 2):
            place = directory / f"worker-{number}"
            words = ["--host", LOOPBACK, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            worker = daemon(
                directory, place.name, f"{DEPLOY}.worker.Worker", *words, "-d", str(place), master
            )
            stack.enter_context(worker)
        wait_for_workers(page, 2)
        yield master


@contextmanager
def daemon(directory: Path, name: str, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of Spark; its log is a file."""
    program = spark_home() / "bin" / "spark-class"
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *words], env=surroundings(), cwd=directory, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def page_of(master: "subprocess.Popen[bytes]") -> str:
    """The address of the page of a master that is starting."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert master.poll() is None, "the master has ended"
        for port in listening(master.pid):
            page = f"http://{LOOPBACK}:{port}/json/"
            if "url" in shown(page):
                return page
        time.sleep(0.2)
    raise AssertionError("the master has no page")


def listening(process: int) -> list[int]:
    """The ports of TCP on which a process listens."""
    place = Path("/proc", str(process))
    try:
        sockets = {str(file.readlink()) for file in (place / "fd").iterdir()}
        tables = [(place / "net" / name).read_text() for name in ("tcp", "tcp6")]
    except OSError:
        return []  # it has not begun, or a file was closed meanwhile: to be looked for again
    entries = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [
        int(entry[1].rpartition(":")[2], 16)
        for entry in entries
        if entry[3] == LISTENS and f"socket:[{entry[9]}]" in sockets
    ]


def shown(address: str) -> dict[str, Any]:
    """A JSON page; empty if not available yet."""
    try:
        with urllib.request.urlopen(address, timeout=5) as page:  # noqa: S310  # our own
            found: dict[str, Any] = json.load(page)
            return found
    except (OSError, ValueError, http.client.HTTPException):
        return {}


def wait_for_workers(address: str, count: int) -> None:
    """Wait until so many have registered with the master."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if shown(address).get("aliveworkers") == count:
            return
        time.sleep(0.2)
    raise AssertionError(f"no {count} workers at {address}")
