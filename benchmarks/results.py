"""The numbers that were measured last: benchmarks/results.json."""

import json
from typing import Any

from benchmarks.workloads import ROOT

FILE = ROOT / "benchmarks" / "results.json"


def read() -> dict[str, Any]:
    """Stored results; empty when nothing was measured yet."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def write(kept: dict[str, Any]) -> None:
    """Keep it; `page.write` prints the page and the chart of it."""
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
