"""CPU time and peak memory of every command that reads captures, on drawn captures.

    python -m benchmarks.commands [--megabytes 30] [--kinds mixed,small,bulk,wide] [--seed 2]

Each command is a process of its own whose output is thrown away. Results go to
benchmarks/results.json and docs/performance.md, a capture at a time.
"""

import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks import drawn, page, results, timing
from benchmarks.timing import KDISSECT, Program
from kdissect.analysis.catalogue import QUESTIONS

QUERY: Final = "SELECT api, count(*), max(latency_ns) FROM exchanges GROUP BY api"
CONNECTIONS: Final = 1_000
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "summary": ("summary", "{}"),
    "summary --findings none": ("summary", "{}", "--findings", "none"),
    "summary --findings all": ("summary", "{}", "--findings", "all"),
    "dissect": ("dissect", "{}", "-o", "{out}"),
    "dissect --records": ("dissect", "{}", "-o", "{out}", "--records"),
    "dissect --bodies": ("dissect", "{}", "-o", "{out}", "--bodies"),
    "show": ("show", "{}"),
    "table exchanges": ("table", "exchanges", "{}"),
    "sql": ("sql", "{}", QUERY),
    "slice": ("slice", "{}", "--where", "error_code <> 0", "-o", "{out}.pcap"),
    "spans": ("spans", "{}", "-o", "{out}.json"),
    "compare": ("compare", "{}", "{}"),
    **{name: (name, "{}") for name in QUESTIONS},
}


def measured(capture: Path, program_path: str) -> dict[str, Any]:
    """Figures of each command on a capture."""
    timing.warm(capture)
    found = {}
    for name, arguments in COMMANDS.items():
        one = timing.run(Program(name, (*KDISSECT, *arguments), program_path), capture)
        found[name] = {"cpu_seconds": round(one.cpu_seconds, 2), "peak_bytes": one.peak_bytes}
    return found


def main() -> None:
    parser = drawn.parser(__doc__)
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    where = timing.Circumstances(timing.compiled_version(options.compiled))
    with tempfile.TemporaryDirectory(prefix="kdissect-commands-") as scratch:
        for kind, capture in drawn.captures(options, CONNECTIONS, Path(scratch)):
            found = {
                "bytes": capture.stat().st_size,
                "seed": options.seed,
                "commands": measured(capture, options.compiled),
                "circumstances": where.told(),
            }
            kept = results.read()
            kept["commands"] = kept.get("commands", {}) | {kind: found}
            results.write(kept)
            page.write(kept)


if __name__ == "__main__":
    main()
