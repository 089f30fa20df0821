"""A standalone cluster on loopback: a master and two workers, each a process of its own."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from kdissect.spark.java import java_home
from tests.spark import quick_java

LOOPBACK = "127.0.0.1"
PATIENCE = 120.0
DEPLOY = "org.apache.spark.deploy"


def spark_home() -> Path:
    """Where pip has put Spark."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def surroundings() -> dict[str, str]:
    """What a daemon is started with: nothing of this process's own kdissect."""
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
    port, page = free_port(), free_port()
    master = f"spark://{LOOPBACK}:{port}"
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        words = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(page)]
        stack.enter_context(daemon(directory, "master", f"{DEPLOY}.master.Master", *words))
        for number in (1, 2):
            place = directory / f"worker-{number}"
            words = ["--host", LOOPBACK, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            worker = daemon(
                directory, place.name, f"{DEPLOY}.worker.Worker", *words, "-d", str(place), master
            )
            stack.enter_context(worker)
        wait_for_workers(f"http://{LOOPBACK}:{page}/json/", 2)
        yield master


@contextmanager
def daemon(directory: Path, name: str, *words: str) -> Iterator[None]:
    """A process of Spark; its log is a file."""
    program = spark_home() / "bin" / "spark-class"
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *words], env=surroundings(), cwd=directory, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_workers(address: str, count: int) -> None:
    """Until so many have told the master that they are there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(address, timeout=5) as page:  # noqa: S310  # our own
                if json.load(page)["aliveworkers"] == count:
                    return
        except (OSError, ValueError):
            pass  # the master, or that page of it, is not there yet
        time.sleep(0.2)
    raise AssertionError(f"no {count} workers at {address}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        port: int = one.getsockname()[1]
        return port
