"""Several processes dissect the pieces of captures; this one puts them together."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Final

import pyarrow as pa

from kdissect.capture.pieces import Piece
from kdissect.errors import KdissectError
from kdissect.pipeline import Options
from kdissect.seams.piece import PieceRows, dissect_piece
from kdissect.seams.seam import Seam

# Pieces that are dissected or done and not put together yet, for each process.
AHEAD: Final = 2


def pieces_in_processes(
    pieces: Iterable[Piece],
    options: Options,
    captures: Sequence[str],
    jobs: int,
    names: Callable[[], dict[bytes, str]],
) -> Iterator[PieceRows]:
    """The pieces' rows and seams in order; `names` gives those of topics known by then.

    Raises what dissecting a piece raises, and KdissectError when a process is killed.
    """
    context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
    if hasattr(context, "set_forkserver_preload"):
        context.set_forkserver_preload(["kdissect.seams.jobs"])
    plain = replace(options, progress=None)
    waiting: deque[Future[tuple[bytes, bytes]]] = deque()
    with ProcessPoolExecutor(jobs, context, ignore_interrupts) as pool:
        try:
            for piece in pieces:
                known = dict(names())
                waiting.append(pool.submit(_dissect, piece, plain, list(captures), known))
                while len(waiting) >= jobs * AHEAD or (waiting and waiting[0].done()):
                    yield _taken(waiting.popleft())
            while waiting:
                yield _taken(waiting.popleft())
        except BrokenProcessPool as error:
            raise KdissectError("a process that dissects a piece was killed") from error
        finally:
            for future in waiting:
                future.cancel()


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that asked; it lets no more pieces be begun."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _dissect(
    piece: Piece, options: Options, captures: Sequence[str], names: dict[bytes, str]
) -> tuple[bytes, bytes]:
    """A piece's rows and seam as bytes."""
    rows = dissect_piece(piece, options, captures, names)
    return packed(rows.batches), rows.seam.to_bytes()


def _taken(future: Future[tuple[bytes, bytes]]) -> PieceRows:
    batches, seam = future.result()
    return PieceRows(unpacked(batches), Seam.from_bytes(seam))


def packed(batches: list[tuple[str, pa.RecordBatch]]) -> bytes:
    """Record batches of several tables in one buffer."""
    sink = pa.BufferOutputStream()
    for name, batch in batches:
        content = pa.BufferOutputStream()
        with pa.ipc.new_stream(content, batch.schema) as writer:
            writer.write_batch(batch)
        data = content.getvalue()
        sink.write(len(name).to_bytes(1, "big") + name.encode() + data.size.to_bytes(8, "big"))
        sink.write(data)
    return bytes(sink.getvalue())


def unpacked(content: bytes) -> list[tuple[str, pa.RecordBatch]]:
    """The batches that `packed` put together."""
    batches = []
    at = 0
    view = memoryview(content)
    while at < len(content):
        size = content[at]
        name = content[at + 1 : at + 1 + size].decode()
        at += 1 + size
        length = int.from_bytes(content[at : at + 8], "big")
        at += 8
        with pa.ipc.open_stream(pa.py_buffer(view[at : at + length])) as reader:
            batches.append((name, reader.read_next_batch()))
        at += length
    return batches
