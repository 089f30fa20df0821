"""What deploy/kubernetes has."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

MANIFESTS: Final = Path(__file__).parents[1] / "deploy" / "kubernetes"


def text_of(manifest: str) -> str:
    return (MANIFESTS / manifest).read_text(encoding="utf-8")


def spec_of(manifest: str) -> dict[str, Any]:
    """Of a manifest what it says of a pod; that of an ephemeral container is one itself."""
    for document in yaml.safe_load_all(text_of(manifest)):
        if document.get("kind") == "DaemonSet":
            return dict(document["spec"]["template"]["spec"])
        if document.get("kind") == "Pod":
            return dict(document["spec"])
    return dict(document)


def debug_command() -> list[str]:
    """The words of `kubectl debug` in the comment of debug.yaml: what it runs is after `--`."""
    lines = (one for one in text_of("debug.yaml").splitlines() if one.startswith("#"))
    comment = " ".join(line.removeprefix("#").strip().removesuffix("\\") for line in lines)
    (words,) = re.findall(r"kubectl (debug .* --duration \S+)", comment)
    return str(words).split()
