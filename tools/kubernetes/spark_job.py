"""The pipeline on Spark on Kubernetes: the command of docs/spark.md, in cluster mode."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from tools.kubernetes.node import ROOT, Node, run_long

PAGE: Final = ROOT / "docs" / "spark.md"
VOLUME: Final = "/var/lib/volume"  # on the node
CAPTURES: Final = ("quickstart.pcapng",)
ACCOUNT: Final = "spark"
JOB_S: Final = 400.0
ENDED: Final = re.compile(r"termination reason: (\w+)|exit code: (\d+)")


def documented() -> list[str]:
    """The words of the command, without comments and line ends."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"^ +spark-submit (--master k8s:.*)$", text, re.MULTILINE)
    return str(command).split()


def volume(node: Node) -> list[dict[str, Any]]:
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
    """Driver and executors are pods; the dataset has the library's exchanges."""
    place = node.on_disk(VOLUME)
    captures = place / "captures"
    captures.mkdir(parents=True)
    place.chmod(0o777)
    for name in CAPTURES:
        shutil.copy(ROOT / "captures" / name, captures)
    node.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(volume(node)))
    node.kubectl("create", "serviceaccount", ACCOUNT)
    role = ["--clusterrole=edit", f"--serviceaccount=default:{ACCOUNT}"]
    node.kubectl("create", "rolebinding", ACCOUNT, *role)
    token = node.kubectl("create", "token", ACCOUNT).strip()
    words = [
        f"k8s://https://{node.address}" if word.startswith("k8s:") else word
        for word in documented()
    ]
    kubernetes = {
        "authenticate.submission.oauthToken": token,
        "authenticate.submission.caCertFile": f"{node.directory}/certificates/apiserver.crt",
        "authenticate.driver.serviceAccountName": ACCOUNT,
        "container.image": "registry/kdissect-spark:latest",
        "container.image.pullPolicy": "Never",
        "driver.request.cores": "0.1",
        "executor.request.cores": "0.1",
    }
    confs = [f"--conf=spark.kubernetes.{name}={value}" for name, value in kubernetes.items()]
    confs += ["--conf=spark.executor.instances=2"]
    submit = [str(Path(sys.executable).parent / "spark-submit")]
    said = run_long([*node.cable.near.enter, *submit, *words[:2], *confs, *words[2:]], JOB_S)
    return said
