"""CPU time and memory of each evidence of findings, on drawn captures.

    python -m benchmarks.evidence [--megabytes 30] [--kinds mixed,small,bulk,wide] [--seed 2]

A capture is read once, as for its page; then each evidence is gathered alone, in a fork of that
process ([evidence_run.py](evidence_run.py)). Results go to benchmarks/results.json and
docs/performance.md, a capture at a time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import drawn, page, results, timing
from benchmarks.commands import CONNECTIONS


def measured(capture: Path) -> dict[str, Any]:
    """Figures of the installed package on a capture."""
    script = Path(__file__).with_name("evidence_run.py")
    command = [sys.executable, "-P", str(script), str(capture)]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, cwd=capture.parent))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=30)
    parser.add_argument("--kinds", default=",".join(drawn.KINDS))
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    where = timing.circumstances() | {"kdissect": timing.compiled_version("")}
    with tempfile.TemporaryDirectory(prefix="kdissect-evidence-") as scratch:
        capture = Path(scratch, "drawn.pcap")
        for kind in options.kinds.split(","):
            parameters = drawn.draw(options.seed, kind, ())._replace(connections=CONNECTIONS)
            drawn.make(parameters, capture, options.megabytes * 1_000_000)
            found = {
                "bytes": capture.stat().st_size,
                "seed": options.seed,
                "circumstances": where,
                **measured(capture),
            }
            kept = results.read()
            kept["evidence"] = kept.get("evidence", {}) | {kind: found}
            results.write(kept)
            page.write(kept)


if __name__ == "__main__":
    main()
