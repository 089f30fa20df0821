"""CPU time and memory of each evidence of findings, on drawn captures.

    python -m benchmarks.evidence [--megabytes 30] [--kinds mixed,small,bulk,wide] [--seed 2]

A capture is read once, as for its page; then each evidence is gathered alone, in a fork of that
process ([evidence_run.py](evidence_run.py)). Results go to benchmarks/results.json and
docs/performance.md, a capture at a time.
"""

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
    options = drawn.parser(__doc__).parse_args()
    where = timing.Circumstances(timing.compiled_version(""))
    with tempfile.TemporaryDirectory(prefix="kdissect-evidence-") as scratch:
        for kind, capture in drawn.captures(options, CONNECTIONS, Path(scratch)):
            found = {
                "bytes": capture.stat().st_size,
                "seed": options.seed,
                "circumstances": where.told(),
                **measured(capture),
            }
            kept = results.read()
            kept["evidence"] = kept.get("evidence", {}) | {kind: found}
            results.write(kept)
            page.write(kept)


if __name__ == "__main__":
    main()
