"""The pipeline on Spark beside `--jobs 2`, in batches, over files and connections; questions.

    python -m benchmarks.spark [--sections rates,batches,scaling,questions]
                               [--megabytes 2000] [--rounds 3]
                               [--scratch DIR] [--directory DIR] [--compiled DIR]

Captures are made in `--scratch`, one ring after the other, and removed again. The session's start
and that of its first Python worker are told apart. By the clock, on all cores; beside it is the CPU
time of all processes, which says more on a busy machine. Questions are those of a drawn capture.
Prints docs/spark-performance.md.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import spark_page, timing
from benchmarks.rings import make_ring
from benchmarks.timing import KDISSECT, Program
from benchmarks.workloads import BATCHES, ROOT, made, recorded

MB = 1_000_000
FILE_SIZE = 256 << 20
WIDE = ("--mss", "65160")
RINGS = {
    "small": ("small", ()),
    "bulk": ("bulk", BATCHES),
    "bulk, 64 KB segments": ("bulk", (*BATCHES, *WIDE)),
}
BATCH_BYTES, BATCH_COUNT = 100 * MB, 20
FILES = (2, 8, 32)
FILES_BYTES = 256 * MB
CONNECTIONS = (100, 1000, 10_000)
EXCHANGES = 400_000
CORES = (1, 2)
QUESTIONS_DRAWN = "5"  # seed
QUESTIONS_MEGABYTES = 1100
SMALL_APIS = ("--apis", "Produce,Fetch,Heartbeat,OffsetCommit,Metadata")


def ring_of(options: argparse.Namespace, name: str, size: int, file_size: int) -> list[Path]:
    """The files of a ring, recreated."""
    seed, how = RINGS[name]
    capture = options.scratch / "seed.pcap"
    made(
        capture,
        recorded(seed, options.directory),
        (*how, "--megabytes", str(size // MB), "--connections", "8"),
    )
    try:
        return make_ring(capture, options.scratch / "ring", file_size)
    finally:
        capture.unlink()


def on_spark(
    options: argparse.Namespace, cores: int, batches: list[tuple[str, list[Path]]]
) -> dict[str, Any]:
    """Runs of the pipeline in a process of their own, each into a dataset of that name."""
    lists = [f"{name}:{','.join(str(path) for path in batch)}" for name, batch in batches]
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        return run_apart(options, cores, scratch, lists)


def run_apart(
    options: argparse.Namespace, cores: int, scratch: str, words: list[str]
) -> dict[str, Any]:
    """What `spark_run` prints, in a process of its own."""
    command = [
        sys.executable, "-P", str(ROOT / "benchmarks" / "spark_run.py"),
        f"local[{cores}]", scratch, *words,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, env=timing.environment(options.compiled),
        cwd=scratch, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])}\nended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def questions(options: argparse.Namespace) -> dict[str, Any]:
    """Each question of a drawn capture's dataset, by both engines."""
    capture = options.scratch / "drawn.pcap"
    size = str(min(QUESTIONS_MEGABYTES, options.megabytes))
    how = (QUESTIONS_DRAWN, str(capture), "--megabytes", size)
    draw = [sys.executable, "-m", "benchmarks.drawn", *how]
    subprocess.run(draw, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        found = run_apart(options, 2, scratch, ["questions", str(capture)])
    capture.unlink()
    return {**found, "capture_bytes": int(size) * MB}


def with_jobs(options: argparse.Namespace, ring: list[Path]) -> dict[str, float]:
    """The same captures with `kdissect dissect --jobs 2`."""
    command = (
        *KDISSECT, "dissect", *(str(path) for path in ring), "-o", "{out}", "--jobs", "2",
    )  # fmt: skip
    one = timing.run(Program("jobs", command, options.compiled), ring[0])
    return {"seconds": one.seconds, "cpu_seconds": one.cpu_seconds}


def rates(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Both ways in turn, and the state passed between splits."""
    ring = ring_of(options, name, options.megabytes * MB, FILE_SIZE)
    ours, theirs = [], []
    for _ in range(options.rounds):
        for path in ring:
            timing.warm(path)
        theirs.append(with_jobs(options, ring))
        ours.append(on_spark(options, 2, [("first", ring), ("later", ring)]))
        told(f"{name}: --jobs 2 {theirs[-1]['seconds']:.1f} s", *ours[-1]["batches"])
    batches, later = ([one["batches"][number] for one in ours] for number in range(2))
    return {
        "bytes": batches[0]["bytes"],
        "files": len(ring),
        "splits": batches[0]["splits"],
        "boundary_bytes": batches[0]["boundary_bytes"],
        "row_bytes": batches[0]["row_bytes"],
        "rounds": options.rounds,
        "session": median(ours, "session"),
        "begun": median(ours, "begun"),
        "spark": {name: median(batches, name) for name in ("seconds", "cpu_seconds")},
        "later": {name: median(later, name) for name in ("seconds", "cpu_seconds")},
        "jobs": {name: median(theirs, name) for name in ("seconds", "cpu_seconds")},
    }


def in_batches(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """One file of 100 MB after the other, as a stream brings them in."""
    ring = ring_of(options, name, BATCH_BYTES * BATCH_COUNT, BATCH_BYTES)[:BATCH_COUNT]
    found = on_spark(options, 2, [("all", [path]) for path in ring])["batches"]
    told(f"{name}: first and last of {len(found)} batches", found[0], found[-1])
    return {
        "bytes": [one["bytes"] for one in found],
        "seconds": [round(one["seconds"], 2) for one in found],
        "cpu_seconds": [round(one["cpu_seconds"], 2) for one in found],
    }


def over_files(options: argparse.Namespace) -> dict[int, list[Path]]:
    """The same packets in more and more files."""
    rings = {}
    for count in FILES:
        ring = ring_of(options, "small", FILES_BYTES, -(-FILES_BYTES // count) + MB)
        rings[len(ring)] = moved(ring, options.scratch / f"files-{count}")
    return rings


def over_connections(options: argparse.Namespace) -> dict[int, list[Path]]:
    """The same number of exchanges over more and more connections, in two files."""
    rings = {}
    for count in CONNECTIONS:
        each = EXCHANGES // count
        how = (*SMALL_APIS, "--connections", str(count), "--exchanges-each", str(each))
        capture = made(options.scratch / "seed.pcap", recorded("small", options.directory), how)
        half = capture.stat().st_size // 2 + MB
        ring = make_ring(capture, options.scratch / "ring", 1, half)
        capture.unlink()
        rings[count] = moved(ring, options.scratch / f"connections-{count}")
    return rings


def moved(ring: list[Path], directory: Path) -> list[Path]:
    """The same files in a directory of their own."""
    ring[0].parent.rename(directory)
    return [directory / path.name for path in ring]


def scaling(options: argparse.Namespace) -> dict[str, Any]:
    """Each of them on one core and on two, in a session each; the first run is not counted."""
    rings = {"files": over_files(options), "connections": over_connections(options)}
    runs = [(side, number) for side, found in rings.items() for number in found]
    batches = [(f"{side}-{number}", rings[side][number]) for side, number in runs]
    points: dict[str, list[dict[str, Any]]] = {"files": [], "connections": []}
    for cores in CORES:
        _, *found = on_spark(options, cores, [("first", batches[0][1]), *batches])["batches"]
        for (side, number), batch in zip(runs, found, strict=True):
            told(f"local[{cores}], {number} {side}", batch)
            kept = {
                name: batch[name] for name in ("bytes", "seconds", "cpu_seconds", "boundary_bytes")
            }
            points[side].append(kept | {"cores": cores, side: number})
    return points


WHOLE: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "scaling": scaling, "questions": questions,
}  # fmt: skip


def median(values: list[dict[str, Any]], name: str) -> float:
    return round(statistics.median(one[name] for one in values), 2)


def told(what: str, *batches: dict[str, Any]) -> None:
    seconds = ", ".join(
        f"{one['seconds']:.1f} s ({one['cpu_seconds']:.1f} of CPU)" for one in batches
    )
    print(f"{time.strftime('%H:%M')} {what}: {seconds}", flush=True)


def measured(options: argparse.Namespace, section: str) -> Iterator[dict[str, Any]]:
    """Store a section each time it grows."""
    if section in WHOLE:
        yield WHOLE[section](options)
        return
    found = {}
    for name in list(RINGS) if section == "rates" else ["small", "bulk"]:
        found[name] = (rates if section == "rates" else in_batches)(options, name)
        shutil.rmtree(options.scratch / "ring")
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sections", default="rates,batches,scaling,questions")
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--scratch", type=Path, help="default: a new one that is removed")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    version = timing.compiled_version(options.compiled)
    with tempfile.TemporaryDirectory(prefix="kdissect-spark-", dir=options.scratch) as scratch:
        options.scratch = Path(scratch)
        for section in options.sections.split(","):
            where = timing.Circumstances(version)
            for kept in measured(options, section):
                spark_page.keep({section: {"found": kept, "circumstances": where.told()}})


if __name__ == "__main__":
    main()
