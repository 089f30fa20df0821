"""What each manifest of deploy/kubernetes does in a cluster, beside a real broker with a client.

The client is on another machine, and says how many records it has sent, each in a Produce request
of its own: so many the tables must have.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tools.containers import REPORTED, wait_until
from tools.kubernetes.node import NAME, Node
from tools.manifests import debug_command, text_of
from tools.namespaces import run
from tools.record.installs import broker_jars, tools_jars
from tools.record.releases import NEWEST

ROOT: Final = Path(__file__).parents[2]
TABLES: Final = "/var/lib/kdissect/tables"  # of containers, and of the node
POD: Final = "kafka-with-kdissect"
BROKERS: Final = "kafka-broker"  # the label of nodes with brokers
NAMESPACE: Final = "--namespace=kdissect"
BROKERS_IN_TURN: Final = 2
PORT: Final = 9092
METRICS: Final = 9123
RECORDS, PER_SECOND = 600, 200
EPHEMERAL_S: Final = 8
FLUSH_S: Final = 5  # of `kdissect live`: what comes later a SIGKILL loses
ROTATION_S: Final = 300  # daemonset.yaml has --rotate=5m, by the clock
CHECK_S: Final = 75  # that it takes until the capture is killed, at most
CLIENT_PATIENCE_S: Final = 120
SENT: Final = re.compile(r"^(\d+) records sent, .* 99\.9th\.$", re.MULTILINE)
ENDED: Final = re.compile(r"rotations?: (/\S+)$", re.MULTILINE)
STAMP: Final = re.compile(r"^(\S+Z) (.*)$", re.MULTILINE)
PRODUCE: Final = "Produce"


class Ended(NamedTuple):
    """What a capture said at its end: exchanges, and the directory of its rows."""

    exchanges: int
    directory: str


def apply(node: Node, text: str) -> None:
    node.kubectl("apply", "-f", "-", given=text)


def await_pod(node: Node, *which: str) -> None:
    """Wait until pods are ready."""
    node.kubectl("wait", "--for=condition=Ready", "pod", *which, "--timeout=90s")


@contextmanager
def broker(node: Node, *, on_node: bool = False) -> Iterator[str]:
    """A broker alone in its pod, or in the node's network; gives its address."""
    (pod,) = yaml.safe_load_all(text_of("sidecar.yaml"))
    spec = pod["spec"]
    del spec["initContainers"], spec["volumes"]
    pod["metadata"] = {"name": "kafka"}
    if on_node:
        spec["hostNetwork"] = True
        spec["containers"][0]["env"] = [{"name": "ADVERTISED", "value": node.address}]
    apply(node, yaml.safe_dump(pod))
    try:
        await_pod(node, "kafka")
        yield node.objects("pod", "kafka")["status"]["podIP"]
    finally:
        node.kubectl("delete", "pod", "kafka", "--timeout=60s")


def sending(node: Node, address: str, records: int = RECORDS) -> subprocess.Popen[str]:
    """A producer of Kafka's own, on the other machine."""
    jars = f"{tools_jars(NEWEST)}/*:{broker_jars(NEWEST)}/*"
    words = ["java", "-Xmx256m", "-cp", jars, "org.apache.kafka.tools.ProducerPerformance"]
    words += ["--topic", "orders", "--num-records", str(records), "--record-size", "100"]
    words += ["--throughput", str(PER_SECOND), "--command-property"]
    words += [f"bootstrap.servers={address}:{PORT}", "batch.size=0", "linger.ms=0", "acks=all"]
    return subprocess.Popen(
        [*node.cable.near.enter, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def sent(client: subprocess.Popen[str]) -> int:
    """The records that it has sent, when it has ended; RuntimeError if not all."""
    said, _ = client.communicate(timeout=CLIENT_PATIENCE_S)
    found = SENT.findall(said)
    if client.returncode or not found:
        raise RuntimeError(f"client: {said}")
    return int(found[-1])


def produced(metrics: str) -> int:
    """Produce exchanges of all clients, as Prometheus would read them."""
    lines = [line for line in metrics.splitlines() if line.startswith("kdissect_exchanges_total{")]
    return sum(int(float(line.split()[-1])) for line in lines if 'api="Produce"' in line)


def scraped(node: Node, address: str) -> str:
    """Metrics, as another machine gets them."""
    url = f"http://{address}:{METRICS}/metrics"
    done = subprocess.run(
        [*node.cable.near.enter, "curl", "--silent", "--fail", "--max-time", "5", url],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout


def ended(said: str) -> Ended:
    """What the last capture in a log said; RuntimeError if none, or packets were dropped."""
    exchanges, directories = REPORTED.findall(said), ENDED.findall(said)
    if not exchanges or not directories:
        raise RuntimeError(f"no capture ended whole: {said}")
    return Ended(int(exchanges[-1][1]), directories[-1])


def rows(table: str, tables: Path) -> list[dict[str, Any]]:
    """Rows of a table in a directory."""
    words = [sys.executable, "-m", "kdissect", "table", table, str(tables), "--format", "jsonl"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return [json.loads(line) for line in done.stdout.splitlines()]


def apis(tables: Path) -> Counter[str]:
    """Exchanges of each API in the tables of a directory."""
    return Counter(row["api"] for row in rows("exchanges", tables))


def agreed(tables: Path, reported: int, records: int) -> str:
    """What was reported and sent, which the tables have to have."""
    found = apis(tables)
    if found.total() != reported or found[PRODUCE] != records:
        raise RuntimeError(f"{reported} reported, {records} records were sent: {found}")
    return f"{reported} exchanges, all in the tables, with each of {records} Produce requests"


def volume(node: Node, pod: str, name: str) -> Path:
    """Where a pod's volume is on this machine."""
    identity = node.objects("pod", pod)["metadata"]["uid"]
    pods = node.directory / "kubelet" / "pods"
    return pods / identity / "volumes" / "kubernetes.io~empty-dir" / name


def container_of(node: Node, pod: str, *more: str) -> dict[str, Any]:
    """The state of kdissect's container in a pod."""
    status = node.objects("pod", pod, *more)["status"]
    everyone = [*status.get("initContainerStatuses", []), *status["containerStatuses"]]
    (one,) = (each for each in everyone if each["name"] == "kdissect")
    return dict(one)


def log_of(node: Node, pod: str, *more: str) -> str:
    return node.kubectl("logs", pod, "--container=kdissect", *more)


def sidecar(node: Node) -> str:
    """sidecar.yaml as it is: before the broker, beside it, and after it; its volume by fsGroup."""
    apply(node, text_of("sidecar.yaml"))
    await_pod(node, POD)
    pod = node.objects("pod", POD)["status"]
    (first,), (broker,) = pod["initContainerStatuses"], pod["containerStatuses"]
    began = [one["state"]["running"]["startedAt"] for one in (first, broker)]
    if began != sorted(began):
        raise RuntimeError(f"the broker started first: {began}")
    records = sent(sending(node, pod["podIP"]))
    wait_until(lambda: produced(scraped(node, pod["podIP"])) == records, "metrics of all requests")
    # It is restarted where it ends, beside a broker that goes on.
    exec_ = ("exec", POD, "--container=kdissect", "--", "/bin/sh", "-c")
    node.kubectl(*exec_, "kill -TERM 1")
    wait_until(lambda: container_of(node, POD)["restartCount"] == 1, "a restart")
    wait_until(lambda: container_of(node, POD)["ready"], "the restarted one")
    capture = ended(log_of(node, POD, "--previous"))
    tables = volume(node, POD, "kdissect") / Path(capture.directory).relative_to(
        Path(TABLES).parent
    )
    told = agreed(tables, capture.exchanges, records)
    if missed := [one for one in rows("connections", tables) if not one["syn_seen"]]:
        raise RuntimeError(f"the broker's start was missed: {missed}")
    again = sent(sending(node, pod["podIP"]))
    follow = ["logs", POD, "--all-containers", "--timestamps", "--follow"]
    with node.following(*follow) as log:
        node.kubectl("delete", "pod", POD, "--timeout=60s")
    lines = [(STAMP.match(line), line) for line in log.read_text().splitlines()]
    last = {"kdissect:" in line: stamp[1] for stamp, line in lines if stamp is not None}
    capture = ended(log.read_text())
    if not last[True] > last[False] or capture.exchanges < again:
        raise RuntimeError(f"it did not end after the broker: {log.read_text()}")
    rest = capture.exchanges
    return f"{told}; restarted once; at the pod's end {rest} more, until after the broker's"


def ephemeral(node: Node) -> str:
    """debug.yaml by the command of its own comment, in the pod of a broker that runs."""
    words = ["kafka" if word == "kafka-0" else word for word in debug_command()[:-1]]
    with broker(node) as address:
        client = sending(node, address, records=10 * RECORDS)
        try:
            said = node.kubectl(*words, f"{EPHEMERAL_S}s", in_terminal=True)
        finally:
            client.kill()
            client.wait()
    found = REPORTED.findall(re.sub(r"(?<=\d)\s(?=\d)", "", said))  # numbers as for people
    if not found or int(found[-1][1]) < PER_SECOND:
        raise RuntimeError(f"no exchanges: {said}")
    return f"{found[-1][1]} exchanges in {EPHEMERAL_S} s"


def refused(node: Node) -> str:
    """Where the baseline is enforced there is no NET_RAW, as the comment of debug.yaml says."""
    enforce = {"pod-security.kubernetes.io/enforce": "baseline"}
    name = {"name": "strict", "labels": enforce}
    apply(node, yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": name}))
    said = node.kubectl(
        "apply", "--namespace=strict", "-f", "-", given=text_of("sidecar.yaml"), fails=True
    )
    if "NET_RAW" not in said:
        raise RuntimeError(said)
    return said.strip().splitlines()[-1]


def daemon_set(node: Node) -> str:
    """daemonset.yaml: where nodes have the label only; killed once; its tables stay on the node."""
    apply(node, text_of("daemonset.yaml"))
    try:
        with labelled(node, "kdissect"), broker(node, on_node=True) as address:
            pod = pod_of(node, "kdissect")
            # A rotation would leave nothing to recover.
            wait_until(is_early_in_rotation, "a new rotation", 2 * CHECK_S)
            records = sent(sending(node, address))
            wait_until(lambda: produced(scraped(node, node.address)) == records, "metrics")
            wait_until(lambda: has_flushed(node), "a flush of all rows")
            run([*node.enter, "pkill", "-KILL", "--full", "kdissect live"])
            wait_until(lambda: container_of(node, pod, NAMESPACE)["restartCount"] == 1, "a restart")
            wait_until(lambda: "is taken up" in log_of(node, pod, NAMESPACE), "recovery")
            await_pod(node, pod, NAMESPACE)
            recovered = apis(node.on_disk(TABLES))
            records += sent(sending(node, address))
            follow = ["logs", pod, NAMESPACE, "--follow"]
            with node.following(*follow) as log:
                node.kubectl("delete", "daemonset", "kdissect", NAMESPACE, "--timeout=60s")
                gone(node, pod)
            capture = ended(log.read_text())
        return agreed(node.on_disk(TABLES), recovered.total() + capture.exchanges, records)
    finally:
        cleared(node)


def broker_of_node(node: Node) -> str:
    """broker-of-node.yaml: in the network of a broker's pod, and of the next one's when it ends."""
    apply(node, text_of("broker-of-node.yaml"))
    records = 0
    try:
        with labelled(node, "kdissect-broker"):
            pod = pod_of(node, "kdissect-broker")
            await_pod(node, pod, NAMESPACE)
            place = node.objects("pod", pod, NAMESPACE)["status"]["podIP"]
            while len(captures_in(node, pod)) < BROKERS_IN_TURN:
                number = len(captures_in(node, pod))
                with broker(node) as address:
                    wait_until(lambda: "kdissect_" in scraped(node, place), "metrics")
                    records += sent(sending(node, address))
                wait_until(lambda before=number: len(captures_in(node, pod)) > before, "its end")
            if restarts := container_of(node, pod, NAMESPACE)["restartCount"]:
                raise RuntimeError(f"{restarts} restarts")
            found = captures_in(node, pod)
        return agreed(node.on_disk(TABLES), sum(found), records)
    finally:
        node.kubectl("delete", "daemonset", "kdissect-broker", NAMESPACE, "--timeout=60s")
        cleared(node)


def captures_in(node: Node, pod: str) -> list[int]:
    """Exchanges of each capture that a pod has ended."""
    return [int(exchanges) for _, exchanges in REPORTED.findall(log_of(node, pod, NAMESPACE))]


def is_early_in_rotation() -> bool:
    """Return whether the check ends before the rotation does."""
    return time.time() % ROTATION_S < ROTATION_S - CHECK_S


def has_flushed(node: Node) -> bool:
    """Return whether rows of the node's tables are on disk, and no more have come for a while."""
    spools = [one.stat() for one in node.on_disk(TABLES).rglob("exchanges.spool")]
    return any(one.st_size and time.time() - one.st_mtime > 2 * FLUSH_S for one in spools)


@contextmanager
def labelled(node: Node, name: str) -> Iterator[None]:
    """The node has brokers: only now a DaemonSet has a pod there."""
    wait_until(lambda: "observedGeneration" in status_of(node, name), f"{name} is seen")
    if status_of(node, name)["desiredNumberScheduled"]:
        raise RuntimeError(f"{name} is on a node without the label")
    node.kubectl("label", "node", NAME, f"{BROKERS}=true")
    try:
        wait_until(lambda: status_of(node, name)["desiredNumberScheduled"] == 1, f"{name} is due")
        yield
    finally:
        node.kubectl("label", "node", NAME, f"{BROKERS}-")


def status_of(node: Node, name: str) -> dict[str, Any]:
    return dict(node.objects("daemonset", name, NAMESPACE)["status"])


def pod_of(node: Node, name: str) -> str:
    """Name of a DaemonSet's one pod, which runs."""
    label = f"--selector=app.kubernetes.io/name={name}"

    def named() -> list[str]:
        return [pod["metadata"]["name"] for pod in node.objects("pod", NAMESPACE, label)["items"]]

    wait_until(named, f"a pod of {name}")
    (found,) = named()
    return str(found)


def gone(node: Node, pod: str) -> None:
    node.kubectl("wait", "--for=delete", "pod", pod, NAMESPACE, "--timeout=60s")


def cleared(node: Node) -> None:
    """The tables of a DaemonSet are the node's, and stay; the next check has none."""
    shutil.rmtree(node.on_disk(TABLES).parent)


CHECKS: Final = (sidecar, ephemeral, refused, daemon_set, broker_of_node)
