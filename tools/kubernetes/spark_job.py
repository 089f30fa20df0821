"""The pipeline on Spark on Kubernetes: the command of docs/spark.md, in cluster mode."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from tools.kubernetes.checks import rows
from tools.kubernetes.node import ROOT, Node
from tools.namespaces import run

PAGE: Final = ROOT / "docs" / "spark.md"
VOLUME: Final = "/var/lib/volume"  # on the node
CAPTURES: Final = ("quickstart.pcapng", "groups-4.3.1.pcapng", "transactions-4.3.1.pcapng")
ACCOUNT: Final = "spark"
# Ids in a dataset begin with the number of the capture.
NUMBERED: Final = {"capture", "connection_id", "exchange_id"}
JOB_S: Final = 400.0


def documented() -> list[str]:
    """The words of the command, without comments and line ends."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"^ +spark-submit (--master k8s:.*)$", text, re.MULTILINE)
    return str(command).split()


def volume() -> list[dict[str, Any]]:
    """A volume of the node, by the name that the command claims."""
    size = {"storage": "1Gi"}
    access = ["ReadWriteMany"]
    spec = {"storageClassName": "", "accessModes": access}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "captures"},
            "spec": spec | {"capacity": size, "hostPath": {"path": VOLUME}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "captures"},
            "spec": spec | {"resources": {"requests": size}, "volumeName": "captures"},
        },
    ]


def pipeline(node: Node) -> str:
    """Driver and executors are pods: they make the library's dataset, and analyse it."""
    place = node.on_disk(VOLUME)
    captures = place / "captures"
    captures.mkdir(parents=True)
    place.chmod(0o777)
    for name in CAPTURES:
        shutil.copy(ROOT / "captures" / name, captures)
    node.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(volume()))
    node.kubectl("create", "serviceaccount", ACCOUNT)
    role = ["--clusterrole=edit", f"--serviceaccount=default:{ACCOUNT}"]
    node.kubectl("create", "rolebinding", ACCOUNT, *role)
    *options, program, _, _, _, dataset = documented()
    submitted(node, documented())
    rows_of = {name: rows("exchanges", captures / name) for name in CAPTURES}
    made = rows("exchanges", place / Path(dataset).name)
    for name, expected in rows_of.items():
        found = [row for row in made if Path(row["capture"]).name == name]
        if not expected or shared(found, expected) != shared(expected, expected):
            raise RuntimeError(f"{len(found)} rows of {name}, others than the {len(expected)}")
    words = ["latency", dataset, "--by", "client_id", "--format", "csv"]
    said = submitted(node, [*options, program, *words])
    told = subprocess.run(
        [sys.executable, "-m", "kdissect", words[0], place / Path(dataset).name, *words[2:]],
        stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    expected_lines = told.stdout.splitlines()  # in the log, between those of Spark
    found_lines = [line for line in said.splitlines() if line in expected_lines]
    if found_lines != expected_lines or len(found_lines) < len(CAPTURES):
        raise RuntimeError(f"{told.stdout}, but on Spark: {said}")
    return f"{len(made)} exchanges of {len(CAPTURES)} captures, and their latency"


def shared(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[str]:
    """Rows with the columns of the others in order, but for path and number of the capture."""
    columns = sorted(set(others[0]) - NUMBERED)
    return sorted(json.dumps([row.get(name) for name in columns]) for row in some)


def submitted(node: Node, words: list[str]) -> str:
    """What a driver in a pod prints, which has two executors in pods."""
    token = node.kubectl("create", "token", ACCOUNT).strip()
    kubernetes = {
        "authenticate.submission.oauthToken": token,
        "authenticate.submission.caCertFile": f"{node.directory}/certificates/apiserver.crt",
        "authenticate.driver.serviceAccountName": ACCOUNT,
        "container.image.pullPolicy": "Never",
        "driver.request.cores": "0.1",
        "executor.request.cores": "0.1",
        "executor.deleteOnTermination": "false",
    }
    confs = [f"--conf=spark.kubernetes.{name}={value}" for name, value in kubernetes.items()]
    confs.append("--conf=spark.executor.instances=2")
    path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"  # it looks for its Python
    master, address, *others = words
    address = address.replace("host:6443", node.address)
    submit = [*node.cable.near.enter, "env", path, "spark-submit", master, address]
    node.kubectl("delete", "pods", "--all", "--timeout=60s")
    run([*submit, *confs, *others], JOB_S)
    pods = node.objects("pods")["items"]
    roles = {pod["metadata"]["name"]: pod["metadata"]["labels"]["spark-role"] for pod in pods}
    if sorted(roles.values()) != ["driver", "executor", "executor"]:
        raise RuntimeError(f"pods: {roles}")
    (driver,) = (name for name, role in roles.items() if role == "driver")
    said = node.kubectl("logs", driver)
    phase = node.objects("pod", driver)["status"]["phase"]
    if phase != "Succeeded":
        raise RuntimeError(f"{driver}: {phase}: {said}")
    return said
