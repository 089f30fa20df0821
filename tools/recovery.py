"""Many random cases, with a summary by fault class; exit code 1 when there is a finding.

python -m tools.recovery [--cases N] [--captures quick|all] [CLASS...]     N cases of each class
python -m tools.recovery CLASS --case N [--write FILE]                     one case, in detail
python -m tools.recovery --snaplens 54-300 [--captures quick|all]          committed captures, cut
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.capture.writers import Captured, make_pcap
from tests.recovery.captures import EVERY, whole, wrong_at
from tests.recovery.cases import ALL, QUICK, judged, make_case
from tests.recovery.faults import CLASSES
from tests.recovery.seen import Case
from tests.recovery.talks import packets_of

COLUMNS = (
    "right", "in part", "orphan", "lost", "unexplained", "phantom", "wrong", "balance", "made up",
)  # fmt: skip
SHOWN = 5  # findings of a class


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.recovery", description=__doc__)
    parser.add_argument("classes", nargs="*", metavar="CLASS")
    parser.add_argument("--cases", type=int, default=1000, help="of all classes together")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--captures", choices=("quick", "all"), default="quick")
    parser.add_argument("--case", type=int)
    parser.add_argument("--write", type=Path, help="the faulty capture, as pcap")
    parser.add_argument("--snaplens", metavar="FIRST-LAST", help="sizes to which packets are cut")
    options = parser.parse_args()
    names = options.classes or list(CLASSES)
    captures = ALL if options.captures == "all" else QUICK
    if options.case is not None:
        show(make_case(names[0], options.case, captures), options.write)
        return
    if options.snaplens is not None:
        first, _, last = options.snaplens.partition("-")
        sizes = range(int(first), int(last or first) + 1)
        sys.exit(1 if cut(EVERY if options.captures == "all" else captures, sizes) else 0)
    each = -(-options.cases // len(names))
    numbers = range(options.first, options.first + each)
    start = time.monotonic()
    print(f"{'exchanges in':<26}{'cases':>8}{'true':>9}" + "".join(f"{c:>12}" for c in COLUMNS))
    findings = [run(name, numbers, captures) for name in names]
    print(f"{each * len(names)} cases, {sum(findings)} findings, {time.monotonic() - start:.0f} s")
    sys.exit(1 if any(findings) else 0)


def run(name: str, numbers: range, captures: tuple[str, ...]) -> int:
    """The cases of one class; gives how many findings there were."""
    counts: Counter[str] = Counter()
    shown = []
    for number in numbers:
        verdict = judged(make_case(name, number, captures))
        counts += verdict.counts
        found = Counter(finding.kind for finding in verdict.findings)
        for kind in ("phantom", "wrong", "balance", "made up"):
            counts[kind] += found[kind]
        counts["findings"] += len(verdict.findings)
        shown += [(number, finding) for finding in verdict.findings]
    row = "".join(f"{counts[column]:>12}" for column in COLUMNS)
    print(f"{name:<26}{len(numbers):>8}{counts['true']:>9}{row}", flush=True)
    for number, finding in shown[:SHOWN]:
        print(f"    case {number}: {finding.kind}: {finding.text}")
    return counts["findings"]


def cut(captures: Sequence[str], sizes: range) -> int:
    """Committed captures at every snaplen; gives how many values are wrong."""
    start = time.monotonic()
    count = 0
    for name in captures:
        wrongs = [(size, wrong) for size in sizes for wrong in wrong_at(name, size)]
        print(f"{name}: {len(sizes)} snaplens, {len(wrongs)} wrong values", flush=True)
        for size, wrong in wrongs[:SHOWN]:
            print(f"    {size} bytes: {wrong}")
        count += len(wrongs)
        # One at a time: all of them are much.
        whole.cache_clear()
    print(f"{len(captures)} captures, {count} wrong values, {time.monotonic() - start:.0f} s")
    return count


def show(case: Case, path: Path | None) -> None:
    """One case in detail: its talks, its packets, its findings."""
    for number, talk in enumerate(case.talks):
        print(f"talk {number}: {talk.name}, {len(talk.wires)} packets, {talk.size} bytes")
    for number, wire in enumerate(case.wires, 1):
        way = "<-" if wire.side else "->"
        kept = f"{wire.captured_end - wire.position} of {len(wire.payload)}"
        print(f"{number:5} talk {wire.talk} {way} {wire.position:7} {kept} bytes, "
              f"flags {wire.flags:02x}, ack {wire.acknowledged}")  # fmt: skip
    verdict = judged(case)
    print(dict(verdict.counts))
    for finding in verdict.findings:
        print(f"{finding.kind}, talk {finding.talk}: {finding.text}")
    if path is not None:
        packets = packets_of(case.wires, case.broker_port)
        written = [
            Captured(packet.data[packet.start : packet.end], packet.time_ns, packet.original_length)
            for packet in packets
        ]
        path.write_bytes(make_pcap(written, magic=0xA1B23C4D))


if __name__ == "__main__":
    main()
