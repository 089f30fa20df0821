"""kdissect beside tshark on drawn captures, worst and median.

    python -m benchmarks.drawn_peers [--seeds 1,2,3] [--kinds mixed,small,bulk,wide]
                                     [--megabytes 100] [--rounds 3]

A capture for each seed and kind, of which everything is drawn: recordings, connections, names,
segments, loss. Whole processes in turn, their output thrown away: on one core tshark, `dissect`,
`dissect --records`, the summary with and without findings; on all cores `dissect` and the summary
with one and with two processes. Results go to benchmarks/results.json and docs/performance.md, a
capture at a time.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks import drawn, page, peers, results, timing
from benchmarks.timing import KDISSECT, Program

DISSECT: Final = (*KDISSECT, "dissect", "{}", "-o", "{out}")
SUMMARY: Final = (*KDISSECT, "summary", "{}")
ON_ONE_CORE: Final[dict[str, tuple[str, ...]]] = {
    "dissect": (*DISSECT, "--jobs", "1"),
    "records": (*DISSECT, "--records", "--jobs", "1"),
    "summary": (*SUMMARY, "--jobs", "1"),
    "counting": (*SUMMARY, "--findings", "none", "--jobs", "1"),
}
ON_ALL_CORES: Final[dict[str, tuple[str, ...]]] = {
    f"{name}, {jobs}": (*words, "--jobs", str(jobs))
    for name, words in (("dissect", DISSECT), ("summary", SUMMARY))
    for jobs in (1, 2)
}


def measured(capture: Path, rounds: int, path: str) -> dict[str, Any]:
    """Figures of every program on a capture."""
    alone = [Program(name, words, path) for name, words in ON_ONE_CORE.items()]
    with timing.on_one_core():
        found = timing.in_turn([peers.tshark(), *alone], capture, rounds, once=("tshark",))
    together = [Program(name, words, path) for name, words in ON_ALL_CORES.items()]
    found |= timing.in_turn(together, capture, rounds)
    return {name: timing.figures(runs) for name, runs in found.items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--kinds", default=",".join(drawn.KINDS))
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", default="", help="default: what is installed")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    version = timing.compiled_version(options.compiled)
    with tempfile.TemporaryDirectory(prefix="kdissect-drawn-") as scratch:
        capture = Path(scratch, "drawn.pcap")
        for seed in map(int, options.seeds.split(",")):
            for kind in options.kinds.split(","):
                where = timing.Circumstances(version)
                parameters = drawn.draw(seed, kind, ())
                drawn.make(parameters, capture, options.megabytes * 1_000_000)
                found = {
                    "bytes": capture.stat().st_size,
                    "connections": parameters.connections,
                    "mss": parameters.mss,
                    "loss": parameters.loss,
                    "programs": measured(capture, options.rounds, options.compiled),
                    "circumstances": where.told(),
                }
                kept = results.read()
                kept["drawn"] = kept.get("drawn", {}) | {f"{kind}, seed {seed}": found}
                results.write(kept)
                page.write(kept)
                times = " ".join(
                    f"{name} {one['cpu_seconds']:.2f}/{one['seconds']:.2f}"
                    for name, one in found["programs"].items()
                )
                print(f"{kind} {seed}: {times}", flush=True)


if __name__ == "__main__":
    main()
