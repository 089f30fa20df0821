"""Invariants of a finished command, for any input."""

import csv
import io
import json
import stat
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM

from kdissect import Limits
from kdissect.cli.ending import INTERRUPTED, KILLED
from kdissect.cli.program import ANSWERED, FAILED, FAILED_ON, MISUSED
from tests.captures import secrets
from tests.cli.test_hostile_text import harmful_in
from tools.siege.commands import BINARY, KEYS, Line
from tools.siege.escapes import Escape
from tools.siege.inputs import Input
from tools.siege.processes import LARGEST_FILE, Ended

MIB = 1 << 20
CODES = frozenset({ANSWERED, FAILED, MISUSED, FAILED_ON})
# After SIGTERM: it ended before, ends in order, or does not catch it yet.
CODES_ASKED = CODES | {INTERRUPTED, KILLED + SIGTERM, -SIGTERM}
# As in tests/hostile: 264 MiB of a small capture, 6 copies of one message's values, 400 bytes for
# each byte read, 2 copies of unpacked records, 22 with payload (of 8 MiB).
MEMORY_BASE = 264 * MIB + 6 * Limits().decoded_bytes + 2 * Limits().unpacked_bytes
MEMORY_EACH = 400
PAYLOAD_COPIES, PAYLOAD_UNPACKED = 22, 8 * MIB
# Imports take 1 to 5 s; a megabyte of tiny frames is searched 60 s at worst on plain Python.
CPU_BASE_S = 30.0
CPU_S_PER_MB = 60.0
# A record of 7 bytes is 1.5 KB as JSON, and batches are packed 10 to 1 in the drawn captures.
OUTPUT_BASE = 4 * MIB
OUTPUT_EACH = 3_000
TRACES = (b"Traceback (most recent call last)", b"Exception ignored", b"Fatal Python error")
OTHERS = stat.S_IRWXG | stat.S_IRWXO

csv.field_size_limit(sys.maxsize)


def violations(
    given: Input, line: Line, ended: Ended, directory: Path, asked: bool
) -> list[Escape]:
    """List all violations; `asked` if it was told to end."""
    found = [*of_ending(ended, asked), *of_size(given, line, ended), *of_text(line, ended, asked)]
    return [*found, *of_secrets(given, line, ended, directory), *of_files(line, directory)]


def cpu_bound(size: int) -> float:
    return CPU_BASE_S + CPU_S_PER_MB * size / 1e6


def memory_bound(given: Input, line: Line) -> int:
    more = PAYLOAD_COPIES * PAYLOAD_UNPACKED if line.has_payload else 0
    files = 2 if line.command == "compare" else 1
    return MEMORY_BASE + files * MEMORY_EACH * given.size + more


def of_ending(ended: Ended, asked: bool) -> Iterator[Escape]:
    if ended.is_late:
        yield Escape("does not end", "after SIGTERM" if asked else "in time")
    elif ended.code not in (CODES_ASKED if asked else CODES):
        yield Escape("exit code", f"{ended.code}: {ended.err[-300:]!r}")
    if ended.is_left:
        yield Escape("left processes", "of its group something still runs")
    for name, said in (("stdout", ended.out), ("stderr", ended.err)):
        if any(trace in said for trace in TRACES):
            yield Escape("exception", f"on {name}: {said[-2_000:].decode(errors='replace')}")


def of_size(given: Input, line: Line, ended: Ended) -> Iterator[Escape]:
    if ended.peak > memory_bound(given, line):
        most = memory_bound(given, line) // MIB
        yield Escape("memory", f"{ended.peak // MIB} MiB, may be {most} MiB at {given.size} bytes")
    if ended.cpu_s > cpu_bound(given.size):
        yield Escape("CPU time", f"{ended.cpu_s:.1f} s for {given.size} bytes")
    size = len(ended.out) + len(ended.err)
    if size > min(LARGEST_FILE, OUTPUT_BASE + OUTPUT_EACH * given.size):
        yield Escape("output", f"{size} bytes for {given.size} bytes")


def of_text(line: Line, ended: Ended, asked: bool) -> Iterator[Escape]:
    """Check that output is text without harmful characters, and of its format."""
    said_as_text = [("stderr", ended.err)]
    if line.format not in BINARY:
        said_as_text.append(("stdout", ended.out))
    for name, said in said_as_text:
        try:
            shown = said.decode()
        except UnicodeDecodeError as error:
            yield Escape("no UTF-8", f"{name}: {error}")
            continue
        # Marks that combine are drawn with the letter before: names of many languages have them.
        if harmful := {one for one in harmful_in(shown, "\n") if not unicodedata.combining(one)}:
            yield Escape("harmful text", f"{name}: {sorted(harmful)!r}")
    if asked or ended.code != ANSWERED:
        return
    try:
        yield from of_format(line.format, ended.out.decode(errors="replace"))
    except ValueError as error:
        yield Escape("format", f"{line.format}: {error}")


def of_format(format_: str, shown: str) -> Iterator[Escape]:
    if format_ == "json" and shown:
        json.loads(shown)
    elif format_ == "jsonl":
        for one in shown.splitlines():
            json.loads(one)
    elif format_ == "csv":
        for row in csv.reader(io.StringIO(shown)):
            yield from (Escape("formula", repr(cell[:100])) for cell in row if is_formula(cell))


def is_formula(cell: str) -> bool:
    """Normalize like a spreadsheet: skip spaces and invisible characters."""
    seen = unicodedata.normalize("NFKC", cell[:200]).strip()
    if seen[:1] == "-":
        number = seen.removeprefix("-").replace("-", "", 1).replace("+", "", 1)
        return not number.replace(".", "", 1).replace("e", "", 1).isdigit()
    return seen[:1] in ("=", "+", "@", "\u2212") and bool(seen)


def of_secrets(given: Input, line: Line, ended: Ended, directory: Path) -> Iterator[Escape]:
    """No credential is in the output or a file; packets of a slice are whole unless redacted.

    With ``--undecoded`` the bytes of undecodable messages are shown unmasked: that is its purpose
    (docs/privacy.md).
    """
    if not given.secrets or "--undecoded" in line.words:
        return
    shown = ended.out + ended.err
    for path in made(directory):
        # Columns of Parquet are compressed: the same rows are looked at as text in other runs.
        if line.command != "slice" and path.suffix != ".parquet":
            shown += path.read_bytes()
    if found := secrets.found_in(set(given.secrets), shown):
        yield Escape("secret", repr(sorted(found)))


def of_files(line: Line, directory: Path) -> Iterator[Escape]:
    """Files with payload or packets are for their owner only, and none exceeds the maximum size."""
    for path in made(directory):
        seen = path.stat()
        if seen.st_size >= LARGEST_FILE:
            yield Escape("output", f"{path.name} has {seen.st_size} bytes")
        if line.has_payload and seen.st_mode & OTHERS:
            yield Escape("readable", f"{path.name} has mode {stat.S_IMODE(seen.st_mode):o}")


def made(directory: Path) -> list[Path]:
    """Files that a command wrote; its inputs are elsewhere."""
    return [path for path in directory.rglob("*") if path.is_file() and path.name != KEYS]
