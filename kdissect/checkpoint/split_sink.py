"""Rows of a split, and those of its problems that count there; compiled, as its base class is."""

from typing import Final

from mypy_extensions import i64

from kdissect.dissection.row_sink import RowSink
from kdissect.errors import Problem

OF_PACKETS: Final = ("capture", "packets")


class SplitSink(RowSink):
    """Like its base, without problems of connections whose rows do not count.

    `suppressed` are the ids of such connections; `of_packets` are problems of the stages without
    connections, for the merger; `counts` are by connection and kind.
    """

    def __init__(self, requested: frozenset[str]) -> None:
        super().__init__(requested)
        self.suppressed: set[int] = set()
        self.of_packets: list[Problem] = []
        self.counts: dict[tuple[int, str], int] = {}

    def suppress(self, connection_id: i64) -> None:
        """Report no problems of a connection, up to `release`."""
        self.suppressed.add(connection_id)

    def release(self, connection_id: i64) -> None:
        """Report problems of a connection from here on."""
        self.suppressed.discard(connection_id)

    def is_reported(self, problem: Problem) -> bool:
        """Return whether a problem counts here; counts it if so."""
        if problem.connection_id in self.suppressed:
            return False
        if problem.stage in OF_PACKETS:
            self.of_packets.append(problem)
            return False
        key = (problem.connection_id, problem.kind)
        self.counts[key] = self.counts.get(key, 0) + 1
        return True
