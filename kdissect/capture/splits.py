"""Cuts captures into byte ranges that can be read apart, by other processes or other machines.

`plan` finds the places: at the start of records, with all that was said before them that the rest
depends on. It reads each file once with the scanner that reads packets too, told to count them
only, so damaged places are the same to both. `read_piece` gives the packets of one piece as they
are in the whole: times, numbers, ordinals, and the problems, each in one piece only.

Compressed files and pipes can be read from their beginning only: each is one piece.
"""

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from kdissect.capture.blocks import Secrets
from kdissect.capture.capture_file import (
    CHUNK_SIZE,
    STDIN,
    CaptureFile,
    capture_error,
    empty_file,
    is_regular,
)
from kdissect.capture.format_context import Layout, PcapLayout, SectionLayout
from kdissect.capture.merge import number_packets
from kdissect.capture.packet import Packet
from kdissect.capture.pcap import PcapScanner
from kdissect.capture.pcapng import PcapngScanner
from kdissect.capture.scanner import LATEST_NS
from kdissect.errors import CaptureError, Problem, TruncatedCapture, UnknownCaptureFormat

# Large enough that starting on a piece costs nothing, small enough that 1 GB keeps 16 cores busy.
PIECE_SIZE: Final = 64 << 20
# What `Piece.end` says of a pipe.
UNKNOWN_END: Final = -1

AnyScanner: TypeAlias = PcapScanner | PcapngScanner


class Piece(NamedTuple):
    """The packets whose records start in the bytes `start` to `end` of a file; can be pickled.

    `capture` is the index of the file among those planned. `number` and `ordinal` are those of the
    next packet (see `Packet`), or would be if no other block that Wireshark numbers came before it;
    the last packet before it had the time `last_time_ns`, -1 when there is none. Ordinals count
    from the first packet of file `counted_from`: that is 0, unless a compressed file or a pipe
    comes before, whose packets nobody has counted. All times of the packets are from `earliest_ns`
    to `latest_ns`, both -1 where there are none or nobody has looked.

    `layout` is what the bytes before `start` say: link type, clock, byte order, snaplen, and for
    pcapng interfaces and secrets; None: the piece is a whole file, which says it all itself. A
    pipe's `end` is -1, that of a file whose header is not there yet 0. What is cut off at the end
    of a file belongs to its last piece.

    A piece that is not `is_counted` was guessed (see `guessed`): number and ordinal are larger than
    those of all pieces before it, but by too much; and where it ends, reading may not come to.
    """

    path: str
    capture: int
    start: int
    end: int
    is_last: bool
    number: int
    ordinal: int
    counted_from: int
    last_time_ns: int = -1
    earliest_ns: int = -1
    latest_ns: int = -1
    layout: Layout | None = None
    is_counted: bool = True


class Reached(NamedTuple):
    """Where reading a piece came to: the next record, -1 where none starts; what is known there.

    `ordinal` and `number` are those of the next packet.
    """

    offset: int
    layout: Layout
    number: int
    ordinal: int


def plan(paths: Iterable[str | os.PathLike[str]], size: int = PIECE_SIZE) -> list[Piece]:
    """Pieces of about `size` bytes of each file, in order; the files follow each other as given.

    Where the files overlap in time, `open_captures` lets their packets take turns; the pieces do
    not (see `are_in_turn`). Raises `CaptureError` as `open_captures` does for what is not there or
    is no capture.
    """
    return list(iter_pieces(paths, size))


def iter_pieces(paths: Iterable[str | os.PathLike[str]], size: int = PIECE_SIZE) -> Iterator[Piece]:
    """The pieces of `plan`, each as soon as its end is known."""
    if size < 1:
        raise ValueError(f"pieces of {size} bytes")
    names = [os.fspath(path) for path in paths]
    ordinal = 1
    counted_from = 0
    for capture, name in enumerate(names):
        whole = Piece(name, capture, 0, UNKNOWN_END, True, 1, ordinal, counted_from)
        cut = _cut(whole, size, len(names) == 1)
        ordinal = yield from cut
        if ordinal < 0:
            ordinal = 1
            counted_from = capture + 1


def plan_file(
    path: str, size: int = PIECE_SIZE, copy: str | None = None
) -> tuple[list[Piece], int]:
    """The pieces of one file as of the first, and its number of packets, -1 when nobody knows.

    Where other files come before it, capture and ordinals have to be moved behind theirs. `copy` is
    where the bytes of `path` are, when that is no file of this machine.
    """
    pieces = []
    cut = _cut(Piece(path, 0, 0, UNKNOWN_END, True, 1, 1, 0), size, True, copy)
    while True:
        try:
            pieces.append(next(cut))
        except StopIteration as end:
            return pieces, max(-1, end.value - 1)


def plan_from(piece: Piece, end: int, size: int = PIECE_SIZE) -> list[Piece]:
    """A file from the start of a piece up to `end` in pieces, found by reading it."""
    scanner = _resume(piece)
    scanner.counts_only = True
    whole = piece._replace(end=end, is_last=True)

    def reads() -> Iterator[int]:
        at = whole.start
        for data in _read_bytes(whole, min(size, CHUNK_SIZE)):
            scanner.feed(data)
            at += len(data)
            yield at

    return list(_cut_reads(whole, scanner, reads(), size))


def are_in_turn(pieces: Sequence[Piece]) -> bool:
    """Whether the pieces, one after the other, are what `open_captures` gives of their files.

    So they are when no file starts before the one before it ends, and those without packets come
    last. Of several files that are compressed, or pipes, nobody knows.
    """
    latest_ns = -1
    times: dict[int, tuple[int, int]] = {}
    for piece in pieces:
        earliest_ns, so_far_ns = times.get(piece.capture, (LATEST_NS, -1))
        if piece.earliest_ns >= 0:
            earliest_ns = min(earliest_ns, piece.earliest_ns)
        times[piece.capture] = earliest_ns, max(so_far_ns, piece.latest_ns)
    if len(times) > 1 and any(_is_unread(piece) for piece in pieces):
        return False
    for earliest_ns, file_latest_ns in times.values():
        if earliest_ns < latest_ns:
            return False
        latest_ns = file_latest_ns if file_latest_ns >= 0 else LATEST_NS
    return True


def read_piece(
    piece: Piece, chunk_size: int = CHUNK_SIZE, copy: str | None = None
) -> "PieceReader":
    """What gives the packets of a piece; `copy` is where its bytes are, if not at its path."""
    return PieceReader(piece, chunk_size, copy)


class PieceReader:
    """Iterates over the packets of a piece as lists, once; `problems` is drained by the user.

    Raises `CaptureError` when the file cannot be read, or is no longer the one that was planned.
    """

    def __init__(self, piece: Piece, chunk_size: int = CHUNK_SIZE, copy: str | None = None) -> None:
        self.piece = piece
        self.source = piece.path if copy is None else copy
        self.problems: list[Problem] = []
        # Contents of the Decryption Secrets blocks of the file up to what was read so far.
        self.secrets: Sequence[Secrets] = ()
        # When all was read; not of a whole file.
        self.reached: Reached | None = None
        self._chunk_size = chunk_size

    def __iter__(self) -> Iterator[list[Packet]]:
        batches = self._read_whole() if self.piece.layout is None else self._read_range()
        for batch in batches:
            if batch:
                yield batch

    def take_problems(self) -> list[Problem]:
        """The problems met since the last call."""
        taken, self.problems = self.problems, []
        return taken

    def _read_whole(self) -> Iterator[list[Packet]]:
        piece = self.piece
        source = sys.stdin.buffer if self.source == STDIN else self.source
        file = CaptureFile(source, piece.path, self._chunk_size)
        ordinal = piece.ordinal
        try:
            file.start(piece.capture)
            while (batch := file.read()) is not None:
                number_packets(batch, ordinal)
                ordinal += len(batch)
                self.problems += file.take_problems()
                self.secrets = file.secrets
                yield batch
        except (TruncatedCapture, UnknownCaptureFormat) as error:
            # `plan` raises it unless it is to be borne: one of several files has no beginning.
            self.problems.append(empty_file(error))
        finally:
            file.close()

    def _read_range(self) -> Iterator[list[Packet]]:
        piece = self.piece
        scanner = _resume(piece)
        self._take(scanner)
        for data in _read_bytes(piece, self._chunk_size, self.source):
            batch = scanner.feed(data)
            self._take(scanner)
            yield batch
        if piece.is_last:
            batch = scanner.finish()
            self._take(scanner)
            yield batch
        self.reached = Reached(
            scanner.record_start,
            scanner.layout,
            scanner.number + 1,
            scanner.first_ordinal + scanner.number + 1,
        )
        is_there = piece.is_last or scanner.record_start == piece.end
        if piece.is_counted and not is_there:
            raise CaptureError(f"{piece.path}: no longer the file that was cut into pieces")

    def _take(self, scanner: AnyScanner) -> None:
        self.problems += scanner.problems
        scanner.problems = []
        if isinstance(scanner, PcapngScanner):
            self.secrets = scanner.secrets


def _cut(
    whole: Piece, size: int, is_alone: bool, copy: str | None = None
) -> Generator[Piece, None, int]:
    """The pieces of one file; gives the ordinal of the packet after it, -1 when not known."""
    source = whole.path if copy is None else copy
    if not is_regular(source):
        yield whole
        return -1
    file = CaptureFile(source, whole.path, min(size, CHUNK_SIZE))
    try:
        file.open()
        if file.size is not None:
            whole = whole._replace(end=file.size)
        scanner = file.scanner
        if not file.is_plain or not isinstance(scanner, AnyScanner):
            yield whole
            return -1
        return (yield from _cut_plain(whole, file, scanner, size))
    except (TruncatedCapture, UnknownCaptureFormat) as error:
        if is_alone or (isinstance(error, UnknownCaptureFormat) and file.size != 0):
            raise
        yield whole._replace(end=0)
        return whole.ordinal
    finally:
        file.close()


def _cut_plain(
    whole: Piece, file: CaptureFile, scanner: AnyScanner, size: int
) -> Generator[Piece, None, int]:
    """The same for an open file that is neither compressed nor a pipe."""
    scanner.counts_only = True
    scanner.first_ordinal = whole.ordinal - 1
    yield from _cut_reads(whole, scanner, _reads(file), size)
    return scanner.first_ordinal + scanner.number + 1


def _reads(file: CaptureFile) -> Iterator[int]:
    """Read on; how many bytes were read."""
    while file.read() is not None:
        yield file.bytes_done


def _cut_reads(
    whole: Piece, scanner: AnyScanner, reads: Iterator[int], size: int
) -> Iterator[Piece]:
    """The pieces of what a scanner is fed with each of the reads, which give how far they came."""
    piece = whole
    done = whole.start
    for done in reads:  # noqa: B007  # the last is used
        at = scanner.record_start
        if at < 0:
            continue
        if piece.layout is None:
            piece = piece._replace(layout=first_layout(scanner.layout))
        if at - piece.start >= size and at < whole.end:
            yield _with_times(piece, scanner)._replace(end=at, is_last=False)
            piece = piece._replace(
                start=at,
                number=scanner.number + 1,
                ordinal=scanner.first_ordinal + scanner.number + 1,
                last_time_ns=scanner.last_time_ns,
                layout=scanner.layout,
            )
    yield _with_times(piece, scanner)._replace(end=done)


def _with_times(piece: Piece, scanner: AnyScanner) -> Piece:
    """The piece with the times of the packets since the last one."""
    if scanner.latest_ns < 0:
        return piece
    timed = piece._replace(earliest_ns=scanner.earliest_ns, latest_ns=scanner.latest_ns)
    scanner.forget_times()
    return timed


def _is_unread(piece: Piece) -> bool:
    """Whether nobody has looked for packets in the piece."""
    return piece.layout is None and piece.end != 0


def first_layout(layout: Layout) -> Layout:
    """What is known at the start of a file: in pcapng, nothing but the byte order."""
    if isinstance(layout, PcapLayout):
        return layout
    return SectionLayout(layout.is_big_endian, (), (), 0)


def resumed(layout: Layout | None, capture: int = 0, is_start: bool = False) -> AnyScanner:
    """A scanner of file number `capture` behind what said the layout, or at the very start."""
    scanner: AnyScanner
    if isinstance(layout, PcapLayout):
        scanner = PcapScanner(capture)
        if not is_start:
            scanner.resume(layout)
    else:
        scanner = PcapngScanner(capture)
        if not is_start and layout is not None:
            scanner.resume(layout)
    return scanner


def _resume(piece: Piece) -> AnyScanner:
    """The scanner as it was when it came to the start of the piece."""
    scanner = resumed(piece.layout, piece.capture, piece.start == 0)
    scanner.start_at(piece.start, piece.number, piece.ordinal, piece.last_time_ns)
    return scanner


def _read_bytes(piece: Piece, chunk_size: int, source: str | None = None) -> Iterator[bytes]:
    """The bytes of a piece; raises `CaptureError` when they are not there."""
    try:
        with Path(source or piece.path).open("rb", buffering=0) as file:
            file.seek(piece.start)
            at = piece.start
            while at < piece.end:
                data = file.read(min(chunk_size, piece.end - at))
                if not data:
                    raise TruncatedCapture(f"{piece.path}: now ends at byte {at}, inside a piece")
                at += len(data)
                yield data
    except OSError as error:
        raise capture_error(piece.path, error) from error
