"""Several processes dissect the pieces of captures, and this one too; it puts them together.

Pieces are given out in order. This process takes the next one when the rows it has to go on with
are not there yet; while it works on it, it gives out more, each time it has read some packets.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from kdissect.capture.splits import Piece, plan_from
from kdissect.checkpoint.boundary_state import Seam
from kdissect.checkpoint.spill_transfer import BatchFile, read_file
from kdissect.checkpoint.split import PieceRows, PieceRun
from kdissect.checkpoint.worker import Task, piece_path
from kdissect.checkpoint.worker_pool import Crew
from kdissect.errors import CaptureError
from kdissect.pipeline import Options

# Pieces that are given out or done and not put together yet, for each process.
AHEAD: Final = 2
# Those that a worker has at a time: when it has done one it need not wait for the next.
AT_ONCE: Final = 2
# Bytes of rows of a piece that stay in this process; those of a piece that is not the next do not.
KEPT_BYTES: Final = 64 << 20


class Shared:
    """Iterate over it once: the pieces' rows and seams, in order.

    `names` gives those of topics known by then. Raises what dissecting a piece raises, and
    KdissectError when a process is killed.
    """

    def __init__(
        self,
        pieces: list[Piece],
        options: Options,
        captures: Sequence[str],
        crew: Crew,
        names: Callable[[], dict[bytes, str]],
    ) -> None:
        self.pieces = pieces
        self.options = replace(options, progress=None)
        self.captures = list(captures)
        self.crew = crew
        self.names = names
        self.directory = ""
        # Those that every process has to do.
        self.given = [0] * len(crew.workers)
        # The next one to be given out, and to be put together.
        self.next_given = 0
        self.next_taken = 0
        self.answers: dict[int, Any] = {}
        # Nothing is guessed any more.
        self.is_planned = False

    def __iter__(self) -> Iterator[PieceRows]:
        with tempfile.TemporaryDirectory(prefix="kdissect-") as self.directory, self.crew:
            task = Task(self.options, self.captures, self.directory)
            for number in range(len(self.given)):
                self.crew.send(number, task)
            while self.next_taken < len(self.pieces):
                self._serve(0)
                if self.next_taken in self.answers:
                    rows = self._taken(self.answers.pop(self.next_taken))
                    if self._fits(rows.seam):
                        yield rows
                        self.next_taken += 1
                    else:
                        self._plan_again()
                elif self._has_more():
                    self._dissect(self._next())
                else:
                    self._serve(None)

    def _fits(self, seam: Seam) -> bool:
        """Whether the piece ends where the next one, which may be guessed, begins."""
        reached = seam.reached
        if seam.piece.is_last or seam.piece.is_counted or reached is None:
            return True
        following = self.pieces[self.next_taken + 1]
        return (reached.offset, reached.layout) == (following.start, following.layout)

    def _plan_again(self) -> None:
        """From the piece to be taken on the places are not where they were guessed: find them."""
        wrong = self.pieces[self.next_taken]
        if self.is_planned:
            raise CaptureError(f"{wrong.path}: no longer the file that was cut into pieces")
        self.is_planned = True
        end = self.pieces[-1].end
        # What is begun or done of those behind does not count: nobody takes it.
        self.next_given = self.next_taken = len(self.pieces)
        self.answers.clear()
        self.pieces += plan_from(wrong, end)

    def _has_more(self) -> bool:
        """Whether there is a piece to begin with, and not too many are begun."""
        ahead = (len(self.given) + 1) * AHEAD
        return self.next_given < min(len(self.pieces), self.next_taken + ahead)

    def _next(self) -> int:
        self.next_given += 1
        return self.next_given - 1

    def _serve(self, timeout: float | None) -> None:
        """Take what workers have done, and give them more; wait for it `timeout` seconds."""
        for worker, (number, answer) in self.crew.receive(timeout):
            self.given[worker] -= 1
            if number >= self.next_taken:
                self.answers[number] = answer
        # This process has the first to do: nobody has to wait for another then.
        if self.next_given == 0:
            return
        for wanted in range(AT_ONCE):
            if wanted and len(self.pieces) - self.next_given <= len(self.given) + 1:
                break
            for worker, count in enumerate(self.given):
                if count <= wanted and self._has_more():
                    number = self._next()
                    self.crew.send(worker, (number, self.pieces[number], self.names()))
                    self.given[worker] += 1

    def _dissect(self, number: int) -> None:
        """Do one here."""
        try:
            self.answers[number] = self._rows(number)
        except Exception as error:  # raised when it is its turn, as those of others
            self.answers[number] = error

    def _rows(self, number: int) -> PieceRows:
        piece = self.pieces[number]
        run = PieceRun(
            piece, self.options, self.captures, self.names(), between=lambda: self._serve(0)
        )
        batches = []
        size = 0
        rows = iter(run)
        for table, batch in rows:
            batches.append((table, batch))
            size += batch.nbytes
            if size > KEPT_BYTES or number > self.next_taken:
                break
        else:
            return PieceRows(batches, run.seam)
        path = piece_path(self.directory, number)
        file = BatchFile(path)
        try:
            while batches:
                file.write(*batches.pop(0))
            for table, batch in rows:
                file.write(table, batch)
        finally:
            places = file.close()
        return PieceRows(read_file(path, places).batches, run.seam)

    def _taken(self, answer: Any) -> PieceRows:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, PieceRows):
            return answer
        batches, seam = read_file(piece_path(self.directory, self.next_taken), answer)
        return PieceRows(batches, Seam.from_bytes(seam))
