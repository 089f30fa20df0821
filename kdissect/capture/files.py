"""Open captures by name and read their packets in batches, several files as one capture.

Files are ordered by their first packets. Files of a ring buffer are concatenated, also where the
next one begins a little (EDGE_NS) before the end of the last one, as packets may be out of order
within a file too; files that overlap in time are merged packet by packet, each keeping the order it
was written in. If the names show the order in which one tap wrote the files, they are concatenated
in that order, regardless of clock changes. Longer than other modules: opening, ordering and
batching share the handling of damaged files.
"""

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from kdissect.capture.blocks import Block, Secrets
from kdissect.capture.capture_file import (
    CHUNK_SIZE,
    NO_PACKET_NS,
    STDIN,
    CaptureFile,
    Source,
    capture_error,
    empty_file,
)
from kdissect.capture.format_context import PcapLayout
from kdissect.capture.merge import count_until, number_packets
from kdissect.capture.packet import Packet
from kdissect.capture.rotation import EDGE_NS, are_of_one_tap, certain_turns
from kdissect.errors import CaptureError, Problem, TruncatedCapture, UnknownCaptureFormat

__all__ = ["Capture", "Source", "open_captures"]

# Packets gathered from alternating files before they are yielded as one batch.
MERGED_BATCH: Final = 4096


def open_captures(
    sources: Source | Iterable[Source],
    chunk_size: int = CHUNK_SIZE,
    keeps_blocks: bool = False,
    names: Mapping[str, str] | None = None,
) -> "Capture":
    """Open one capture or many: paths, globs, directories, ``-`` for stdin, binary files.

    Of a directory, the captures are read; other files are listed in `passed_over`. With
    `keeps_blocks`, blocks that packets depend on can be taken too, see `Capture.take_blocks`.
    `names` replace the file names in rows and messages, as for copies. Raises `CaptureError`
    for missing files and files that are not captures.
    """
    files: list[CaptureFile] = []
    named = listed(sources)
    for source in named:
        files += _find_files(source, chunk_size)
    if not files:
        empty = ", ".join(str(source) for source in named if isinstance(source, str | Path))
        raise CaptureError(f"{empty}: no capture in it" if empty else "no capture was named")
    files = _without_repeats(files)
    for file in files:
        file.keeps_blocks = keeps_blocks
        file.name = (names or {}).get(file.name, file.name)
    return Capture(files)


class Capture:
    """Iterates over the packets of one or more files in order of time, as lists of `Packet`.

    `names` are the files; `Packet.capture` is an index of it. `bytes_read` of `bytes_total` (None
    if unknown, as for a pipe) were read so far, as stored (compressed, if the file is). `problems`
    is drained by the caller. Can be iterated over once; files are closed as they end, or by `with`
    or `close`.
    """

    def __init__(self, files: list[CaptureFile]) -> None:
        self.problems: list[Problem] = []
        # Ordinal of the first packet: set before iterating where other captures come before these.
        self.first_ordinal = 1
        # Files in a directory that are not captures.
        self.passed_over: list[str] = []
        self._files = files
        # Written by one tap, in an order shown by their names.
        self._is_in_turn = False
        try:
            self._open_files()
        except CaptureError:
            self.close()
            raise

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[list[Packet]]:
        try:
            if self.first_ordinal == 1:
                yield from self._iter_all()
            else:
                yield from self._iter_renumbered(self.first_ordinal)
        finally:
            self.close()

    @property
    def names(self) -> list[str]:
        """File names in the order of their first packets."""
        return [file.name for file in self._files]

    @property
    def bytes_read(self) -> int:
        return sum(file.bytes_done for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        sizes = [file.size for file in self._files]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def secrets(self) -> list[Secrets]:
        """Contents of the Decryption Secrets blocks read so far."""
        return [secrets for file in self._files for secrets in file.secrets]

    def take_secrets(self) -> list[Secrets]:
        """The `secrets` since the last call."""
        return [secrets for file in self._files for secrets in file.take_secrets()]

    def find_secrets(self) -> list[Secrets]:
        """Contents of all Decryption Secrets blocks of files that can be read twice."""
        return [secrets for file in self._files for secrets in file.find_secrets()]

    def take_problems(self) -> list[Problem]:
        """The problems since the last call."""
        taken, self.problems = self.problems, []
        return taken

    def take_blocks(self, capture: int) -> list[Block]:
        """Blocks of file number `capture` that packets depend on, as far as read; each once."""
        file = self._files[capture]
        taken, file.blocks = file.blocks, []
        return taken

    def give_back(self, packets: list[Packet]) -> None:
        """Let the next batch overwrite the last one, to which the caller refers no more."""
        if len(self._files) == 1:
            self._files[0].give_back(packets)

    def layout(self, capture: int) -> PcapLayout | None:
        """Header of file number `capture`, None unless it is a pcap file."""
        return self._files[capture].layout

    def close(self) -> None:
        """Close the files, but not those that the caller opened."""
        for file in self._files:
            file.close()

    def _open_files(self) -> None:
        """Detect the files' formats, and their order if there are several."""
        if len(self._files) == 1 and not self._files[0].is_found:
            self._files[0].start(0)
            return
        self._files = [file for file in self._files if self._is_readable(file)]
        if not self._files:
            raise CaptureError("there is no capture with packets among the files")
        self._files.sort(key=lambda file: file.first_time_ns)
        turns = certain_turns(file.name for file in self._files)
        if turns is not None:
            self._is_in_turn = True
            order = {id(file): turn for file, turn in zip(self._files, turns, strict=True)}
            self._files.sort(key=lambda file: order[id(file)])
        for capture, file in enumerate(self._files):
            file.capture = capture
        if len(self._files) == 1:
            self._files[0].start(0)

    def _is_readable(self, file: CaptureFile) -> bool:
        """Return whether to read the file. An empty one has no packets, the rest is read."""
        try:
            file.look_ahead()
        except (TruncatedCapture, UnknownCaptureFormat) as error:
            if file.is_found:
                self.passed_over.append(file.name)
                return False
            if isinstance(error, UnknownCaptureFormat) and file.size != 0:
                raise
            self.problems.append(empty_file(error))
            return False
        return True

    def _iter_all(self) -> Iterator[list[Packet]]:
        if len(self._files) == 1:
            yield from self._iter_alone(self._files[0])
        elif self._is_in_turn:
            yield from self._iter_in_turn()
        else:
            yield from self._iter_merged()

    def _iter_renumbered(self, ordinal: int) -> Iterator[list[Packet]]:
        for batch in self._iter_all():
            number_packets(batch, ordinal)
            ordinal += len(batch)
            yield batch

    def _iter_alone(self, file: CaptureFile) -> Iterator[list[Packet]]:
        while (batch := file.read()) is not None:
            self.problems += file.take_problems()
            if batch:
                yield batch

    def _iter_in_turn(self) -> Iterator[list[Packet]]:
        ordinal = 1
        for file in self._files:
            file.start(file.capture)
            for batch in self._iter_alone(file):
                number_packets(batch, ordinal)
                ordinal += len(batch)
                yield batch

    def _iter_merged(self) -> Iterator[list[Packet]]:
        """Read the file with the earliest packet until another one is earlier."""
        turns = _Turns(self._files)
        ordinal = 1
        merged: list[Packet] = []
        while run := turns.take():
            number_packets(run, ordinal)
            ordinal += len(run)
            if merged or len(run) < MERGED_BATCH:
                merged += run
            else:
                merged = run
            if len(merged) >= MERGED_BATCH:
                self._take_problems()
                yield merged
                merged = []
        self._take_problems()
        if merged:
            yield merged

    def _take_problems(self) -> None:
        for file in self._files:
            self.problems += file.take_problems()


class _Head:
    """A file that is being read, and the position in its current batch."""

    def __init__(self, file: CaptureFile) -> None:
        self.file = file
        self.batch = file.read_packets()
        self.index = 0

    @property
    def order(self) -> tuple[int, int]:
        return self.batch[self.index].time_ns, self.file.capture


class _Turns:
    """Selects the next file among files sorted by their first times."""

    def __init__(self, files: list[CaptureFile]) -> None:
        self._waiting = list(files)
        self._heads: list[_Head] = []
        # The first file that waits follows all others, though it begins before their end.
        self._is_held = False

    def take(self) -> list[Packet]:
        """The next packets, all of one file; none at the end of all files."""
        self._start_files()
        if not self._heads:
            return []
        head = min(self._heads, key=lambda head: head.order)
        # Of packets with equal times, those of the file that started first come first.
        until = min(
            (
                other.order[0] - (other.file.capture < head.file.capture)
                for other in self._heads
                if other is not head
            ),
            default=NO_PACKET_NS,
        )
        if self._waiting and not self._is_held:
            until = min(until, self._waiting[0].first_time_ns)
        end = count_until(head.batch, head.index, until)
        is_whole = head.index == 0 and end == len(head.batch)
        run = head.batch if is_whole else head.batch[head.index : end]
        self._advance(head, end)
        return run

    def _start_files(self) -> None:
        """Start the files whose first packet is due."""
        while self._waiting:
            first_time_ns = self._waiting[0].first_time_ns
            if self._heads:
                if first_time_ns > min(head.order[0] for head in self._heads) or self._is_held:
                    return
                self._is_held = self._follows(self._waiting[0])
                if self._is_held:
                    return
            self._is_held = False
            file = self._waiting.pop(0)
            file.start(file.capture)
            head = _Head(file)
            if head.batch:
                self._heads.append(head)

    def _follows(self, file: CaptureFile) -> bool:
        """Return whether one tap wrote this file after those that are being read."""
        others = [head.file for head in self._heads]
        return are_of_one_tap(one.name for one in [file, *others]) and all(
            one.ends_by(file.first_time_ns + EDGE_NS) for one in others
        )

    def _advance(self, head: _Head, index: int) -> None:
        head.index = index
        if index == len(head.batch):
            head.batch = head.file.read_packets()
            head.index = 0
            if not head.batch:
                self._heads.remove(head)


def listed(sources: Source | Iterable[Source]) -> list[Source]:
    """One source or many as a list."""
    if isinstance(sources, str | os.PathLike) or hasattr(sources, "read"):
        return [cast("Source", sources)]
    return list(sources)


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Return whether the path is neither file nor directory, so it can be read only once."""
    there = Path(path)
    return there.exists() and not there.is_file() and not there.is_dir()


def _find_files(source: Source, chunk_size: int) -> list[CaptureFile]:
    """The files that one source refers to."""
    if not isinstance(source, str | os.PathLike):
        name = str(getattr(source, "name", "<stream>"))
        return [CaptureFile(source, name, chunk_size)]
    if source == STDIN:
        return [CaptureFile(sys.stdin.buffer, STDIN, chunk_size)]
    path = Path(source)
    if path.is_dir():
        return [CaptureFile(found, str(found), chunk_size, True) for found in _list_directory(path)]
    if not path.exists() and glob.has_magic(str(path)):
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207
        if not matches:
            raise CaptureError(f"{path}: no file matches")
        files = [_find_files(match, chunk_size) for match in matches if not Path(match).is_dir()]
        return [file for found in files for file in found]
    return [CaptureFile(path, str(path), chunk_size)]


def _list_directory(path: Path) -> list[Path]:
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise capture_error(str(path), error) from error
    return [entry for entry in entries if entry.is_file() and not entry.name.startswith(".")]


def _without_repeats(files: list[CaptureFile]) -> list[CaptureFile]:
    """Drop files that were named twice, perhaps by overlapping globs."""
    seen: set[str] = set()
    kept: list[CaptureFile] = []
    for file in files:
        identity = os.path.realpath(file.name) if file.is_path else str(id(file))
        if identity not in seen:
            kept.append(file)
        seen.add(identity)
    return kept
