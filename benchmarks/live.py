"""Live capture at rising rates, for a long time, and beside a broker.

    python -m benchmarks.live [--sections rates,workers,...] [--compiled DIR] [--directory DIR]
                              [--scratch DIR] [--seconds 5] [--rounds 12] [--minutes 30]
                              [--workloads small,bulk] [--megabytes 50] [--workers 1,2,4]
                              [--cores 1-4] [--capturers tcpdump,ring,scapy,tshark,snaplen]
                              [--networks loopback,veth,mirror] [--keep no]

Needs root: sender and capturer are in network namespaces of their own, joined by a veth pair. The
sender is bound to core 0, where the kernel's part of receiving is done too; capturers to core 1.

- rates: twice as many packets a second until some are lost, then in between; for each capturer.
  About 8 minutes.
- broker: a real broker and its clients on core 0, with and without capturing, over each of the
  networks. About 6 minutes for each, with 12 rounds. The capturer snaplen is only for this.
- workers: the same as rates, for kdissect live with each number of `--workers`, bound to `--cores`,
  by default as many as it has workers, from core 1 on. About 3 minutes for each number.
- drain: how fast full buffers are read by each number of `--workers`, on as many cores, from core 0
  on: there is no sender then. They take turns. About half a minute for each round.
- overhead: CPU time for a packet with each number of `--workers`, all bound to core 1, at a rate of
  `--rate`; they take turns. About a minute for each round.
- memory: kdissect live for `--minutes` at a moderate rate; connections come and go.

Captures to send are made of sessions in `--directory`, recorded where they are not. Prints
docs/live-performance.md; with `--keep no` it is a trial: results are printed, not stored.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import live_broker, live_drain, live_memory, live_page, timing
from benchmarks.live_capturers import LAST_CORE, Capturer, capturers, shared
from benchmarks.live_measuring import Step, measured
from benchmarks.live_search import Held, search
from benchmarks.workloads import BATCHES, ROOT, made, recorded
from tools.namespaces import Cable, cabled

SECTIONS = ("rates", "broker", "memory", "workers", "drain", "overhead")
WORKLOADS = {"small": (), "bulk": BATCHES}
MEGABYTES = 50
BESIDE_BROKER = ("ring", "snaplen", "scapy", "tcpdump")
FIRST_RATES = {"tcpdump": 160_000, "ring": 80_000, "scapy": 10_000, "tshark": 10_000}


def capture_of(options: argparse.Namespace, name: str) -> Path:
    """Traffic that is sent in a loop."""
    seed = recorded(name, options.directory)
    size = ("--megabytes", str(options.megabytes), "--connections", str(options.connections))
    return made(options.scratch / f"{name}.pcap", seed, (*WORKLOADS[name], *size))


def rates(options: argparse.Namespace) -> dict[str, Any]:
    """The highest rate of each capturer on each workload, and all steps to it."""
    found: dict[str, Any] = {}
    known = capturers(options.compiled)
    for workload in options.workloads.split(","):
        capture = capture_of(options, workload)
        found[workload] = {}
        for name in (one for one in options.capturers.split(",") if one in FIRST_RATES):
            with cabled() as cable:
                held = climbed(options, known[name], cable, capture)
            found[workload][name] = kept(held)
        capture.unlink()
    return found


def climbed(options: argparse.Namespace, capturer: Capturer, cable: Cable, capture: Path) -> Held:
    """One capturer on one workload."""

    def attempt(rate: float, seconds: float) -> Step:
        step = measured(capturer, cable, capture, rate, seconds, options.scratch)
        told(capturer.name, step)
        return step

    return search(attempt, FIRST_RATES.get(capturer.name, FIRST_RATES["ring"]), options.seconds)


def scaled(options: argparse.Namespace) -> dict[str, Any]:
    """The highest rate with each number of workers, on each workload."""
    found: dict[str, Any] = {}
    for workload in options.workloads.split(","):
        capture = capture_of(options, workload)
        found[workload] = {}
        for count in map(int, options.workers.split(",")):
            cores = options.cores or f"1-{count}"
            one = shared(count, options.compiled, cores)
            with cabled() as cable:
                held = climbed(options, one, cable, capture)
            found[workload][str(count)] = kept(held) | {"cores": cores}
        capture.unlink()
    return found


def drain(options: argparse.Namespace) -> dict[str, Any]:
    """Packets and seconds of each number of workers that read full buffers, on each workload."""
    found: dict[str, Any] = {}
    for workload in options.workloads.split(","):
        capture = capture_of(options, workload)
        found[workload] = {count: [] for count in options.workers.split(",")}
        for number in range(options.rounds):
            for count in in_turn(found[workload], number):
                with cabled() as cable:
                    one = live_drain.drained(
                        int(count), options.compiled, cable, capture, options.scratch
                    )
                print(f"{time.strftime('%H:%M:%S')} {count} workers: {one}", flush=True)
                found[workload][count].append(one._asdict())
        capture.unlink()
    return found


def in_turn(names: Iterable[str], number: int) -> list[str]:
    """The order of a round: each is the first one in turn."""
    each = list(names)
    first = number % len(each)
    return each[first:] + each[:first]


def overhead(options: argparse.Namespace) -> dict[str, Any]:
    """CPU time for a packet of each number of workers: on one core, which is not the sender's.

    So it is their own work that is compared, at one rate: the highest one depends on how they share
    cores with the sender, and a packet costs more at a low rate.
    """
    capture = capture_of(options, "small")
    counts = options.workers.split(",")
    found: dict[str, Any] = {"rate": options.rate, "seconds": {count: [] for count in counts}}
    for number in range(options.rounds):
        for count in in_turn(counts, number):
            one = shared(int(count), options.compiled, LAST_CORE)
            with cabled() as cable:
                step = measured(one, cable, capture, options.rate, options.seconds, options.scratch)
            told(one.name, step)
            if step.is_held:
                a_packet = step.cpu_seconds / step.sent.packets
                found["seconds"][count].append(round(a_packet * 1e6, 3))
    capture.unlink()
    return found


def told(name: str, step: Step) -> None:
    lost = 1 - step.packets / step.arrived if step.arrived else 0.0
    sent = step.sent
    print(
        f"{time.strftime('%H:%M:%S')} {name:8} {sent.packets / sent.seconds:9.0f} packets/s "
        f"{sent.bytes / sent.seconds / 1e6:7.1f} MB/s {'held' if step.is_held else 'LOST':5}"
        f"{lost:7.2%} not seen, {step.dropped} told, {step.behind:.1f} s behind, "
        f"CPU {step.cpu_seconds:.2f} s, {step.peak_bytes / 1e6:.0f} MB",
        flush=True,
    )


def kept(held: Held) -> dict[str, Any]:
    """Result of a search."""
    return {
        "held": None if held.best is None else flat(held.best),
        "is_senders_limit": held.is_senders_limit,
        "steps": [flat(step) for step in held.steps],
    }


def flat(step: Step) -> dict[str, Any]:
    """A step as it is kept."""
    sent = {"packets": step.sent.packets, "bytes": step.sent.bytes, "seconds": step.sent.seconds}
    figures = step._asdict() | {"sent": sent, "is_held": step.is_held}
    return figures | {"rate": round(step.rate)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sections", default="rates,broker")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--capturers", default=",".join((*FIRST_RATES, "snaplen")))
    parser.add_argument("--seconds", type=float, default=5, help="of a step")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--connections", type=int, default=8, help="at a time")
    parser.add_argument("--rounds", type=int, default=12, help="of broker, overhead and drain")
    parser.add_argument("--networks", default=",".join(live_broker.NETWORKS), help="of broker")
    parser.add_argument("--workers", default="1,2", help="numbers of them")
    parser.add_argument("--cores", default="", help="of the section workers, as of taskset")
    parser.add_argument("--minutes", type=float, default=30, help="of the section memory")
    parser.add_argument("--rate", type=float, default=20_000, help="of memory and overhead")
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--scratch", type=Path, help="default: a new one that is removed")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    parser.add_argument("--keep", choices=("yes", "no"), default="yes")
    return parser.parse_args()


def needed(options: argparse.Namespace, asked: list[str]) -> list[str]:
    """The programs that are started."""
    others = [name for name in ("tcpdump", "tshark") if name in options.capturers.split(",")]
    return ["ip", "taskset", *others, *(["java", "mvn", "tc"] if "broker" in asked else [])]


def section(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Results of a section."""
    if name == "rates":
        return rates(options)
    if name == "workers":
        return scaled(options)
    if name == "drain":
        return drain(options)
    if name == "overhead":
        return overhead(options)
    if name == "broker":
        known = capturers(options.compiled)
        chosen = [known[one] for one in BESIDE_BROKER if one in options.capturers.split(",")]
        return {
            network: live_broker.measured(network, chosen, options.rounds, options.scratch)
            for network in live_broker.NETWORKS
            if network in options.networks.split(",")
        }
    capture = capture_of(options, "small")
    return live_memory.measured(
        options.compiled, capture, options.rate, options.minutes, options.scratch
    )


def main() -> None:
    options = arguments()
    asked = [name for name in SECTIONS if name in options.sections.split(",")]
    if os.geteuid():
        sys.exit("network namespaces and packet sockets need root: run it as root")
    for program in needed(options, asked):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed; it is needed for {', '.join(asked)}")
    version = timing.compiled_version(options.compiled) if options.keep == "yes" else "a trial"
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kdissect-bench-", dir=options.scratch) as scratch:
        options.scratch = Path(scratch)
        for name in asked:
            where = timing.Circumstances(version)
            values = section(options, name)
            found = {name: {"found": values, "circumstances": where.told()}}
            if options.keep == "yes":
                live_page.keep(found)
            print(*live_page.PARTS[name](found), sep="\n")


if __name__ == "__main__":
    main()
