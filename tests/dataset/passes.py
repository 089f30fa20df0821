"""Rows of one pass over the captures of a tap, in the order in which a dataset has them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kdissect.capture.capture_file import CaptureFile
from kdissect.capture.files import Capture
from kdissect.capture.packet import Packet
from kdissect.dataset.entries import TapEntry
from kdissect.errors import Problem
from kdissect.pipeline import Options, Run
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.plain_rows import plain_rows
from tests.spark.rotated import ALL, Rows, as_spark, contents_of, dataset_rows


class InTurn(Capture):
    """Captures one after the other, whatever their times; each has its number of the first one."""

    def __init__(self, paths: Sequence[str], firsts: Sequence[int]) -> None:
        super().__init__([CaptureFile(path, path) for path in paths])
        self.order = list(paths)
        self.firsts = dict(zip(paths, firsts, strict=True))
        self._files.sort(key=lambda file: self.order.index(file.name))
        for number, file in enumerate(self._files):
            file.capture = number

    def __iter__(self) -> Iterator[list[Packet]]:
        for file in self._files:
            ordinal = self.firsts[file.name]
            file.start(file.capture)
            while (batch := file.read()) is not None:
                self.problems += file.take_problems()
                for packet in batch:
                    packet.ordinal = ordinal
                    ordinal += 1
                yield batch

    def give_back(self, packets: list[Packet]) -> None:
        """Nothing is used again."""


def rows_in_turn(
    paths: Sequence[str], firsts: Sequence[int], tap: int = 0, late: Sequence[Problem] = ()
) -> Rows:
    """Rows of one pass, whose packets are numbered from `firsts` on, with the ids of a dataset."""
    rows: Rows = {}
    with Run(list(paths), Options(tables=ALL)) as run:
        run.capture.close()
        run.capture = InTurn(paths, firsts)
        run.dissector.add_problems(list(late))
        names = run.dissector.exchanges.names
        run.builders = {
            name: BatchBuilder(table, run.capture.names, names, None)
            for name, table in TABLES.items()
        }
        for table, batch in run:
            made = (repr(as_spark(table, row, tap)) for row in plain_rows(batch))
            rows.setdefault(table, []).extend(made)
    return rows


def rows_of_passes(tap: TapEntry) -> Rows:
    """Rows of a tap: of one pass over the captures that continue, and of one for late ones each."""
    passes: dict[int, list[int]] = {}
    for number, capture in enumerate(tap.captures):
        passes.setdefault(capture.segment, []).append(number)
    rows: Rows = {}
    for segment, numbers in passes.items():
        paths = [tap.captures[number].path for number in numbers]
        firsts = [1 + sum(one.packets for one in tap.captures[:number]) for number in numbers]
        late = [
            Problem("capture", "late-capture", late_text(tap, path), capture=number)
            for number, path in enumerate(paths if segment >= 0 else ())
        ]
        for table, found in rows_in_turn(paths, firsts, tap.number, late).items():
            rows.setdefault(table, []).extend(found)
    return {table: sorted(found) for table, found in sorted(rows.items())}


def late_text(tap: TapEntry, path: str) -> str:
    return (
        f"{path}: later captures of tap {tap.name} were dissected before it; it is dissected alone"
    )


def check_rows(dataset: Path) -> TapEntry:
    """The only tap of a dataset, which has the rows of those passes, and counts all of it."""
    (tap,) = contents_of(dataset).taps
    assert dataset_rows(dataset) == rows_of_passes(tap)
    assert tap.balance["packets"] == sum(one.packets for one in tap.captures)
    assert tap.balance["exchanges"] == tap.rows.get("exchanges", 0)
    assert tap.balance["payload_bytes"] == sum(
        tap.balance[name]
        for name in ("framed_bytes", "skipped_bytes", "duplicate_bytes", "tls_bytes",
                     "encrypted_bytes")
    )  # fmt: skip
    return tap
