"""Stored violations, and a Markdown table of the runs."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

MIB = 1 << 20
MOST_KEPT = 200  # inputs of escapes that are saved; all are counted


class Escape(NamedTuple):
    """A violated check; the summary groups by `kind`."""

    kind: str
    reason: str


class Book:
    """Counts of one part of the siege; escapes are saved in a directory of their own."""

    def __init__(self, part: str, seed: int, place: Path) -> None:
        self.part = part
        self.seed = seed
        self.place = place
        self.began = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.escapes: Counter[str] = Counter()
        self.peak = 0
        self.cpu_s_per_mb = 0.0

    def took(self, name: str, peak: int, cpu_s: float = 0.0, size: int = 0) -> None:
        """One command or storm has ended; `size` is that of its input."""
        self.done[name] += 1
        self.peak = max(self.peak, peak)
        if size:
            # For less than a megabyte: as for one, so that the start of a process is no rate.
            self.cpu_s_per_mb = max(self.cpu_s_per_mb, cpu_s / max(1.0, size / 1e6))

    def escaped(
        self, number: int, escape: Escape, about: Mapping[str, object], files: Mapping[str, bytes]
    ) -> None:
        """Save the input that led to it, and report it."""
        self.escapes[escape.kind] += 1
        print(f"ESCAPE {self.part} {number}: {escape.kind}: {escape.reason[:500]!r}", flush=True)
        if sum(self.escapes.values()) > MOST_KEPT:
            return
        place = self.place / f"{self.part}-{self.seed}-{number}-{sum(self.escapes.values())}"
        place.mkdir(parents=True, exist_ok=True)
        told = {"seed": self.seed, "number": number, **escape._asdict(), **about}
        (place / "escape.json").write_text(json.dumps(told, indent=2, default=repr) + "\n")
        for name, content in files.items():
            (place / name).write_bytes(content)

    def summary(self) -> Iterator[str]:
        """Lines of Markdown."""
        minutes = (time.monotonic() - self.began) / 60
        yield "| | |"
        yield "|---|---|"
        yield f"| part | {self.part}, seed {self.seed} |"
        yield f"| minutes | {minutes:.1f} |"
        for name, count in sorted(self.counts.items(), key=lambda one: (":" in one[0], one[0])):
            yield f"| {name} | {count:,} |".replace(",", " ")
        yield f"| largest peak of memory | {self.peak // MIB} MiB |"
        if self.cpu_s_per_mb:
            yield f"| most CPU for a megabyte | {self.cpu_s_per_mb:.1f} s |"
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.escapes.items()))
        yield f"| escapes | {sum(self.escapes.values())}{': ' + kinds if kinds else ''} |"
        yield ""
        yield ", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))
