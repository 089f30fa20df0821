"""`RecordedSource`: existing capture files as a packet source."""

from collections.abc import Sequence

from kdissect.capture.blocks import Secrets
from kdissect.capture.files import Source, open_captures
from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.packet_source import PacketSource


class RecordedSource(PacketSource):
    """Captures from beginning to end, as fast as they can be read."""

    def __init__(self, source: Source | Sequence[Source]) -> None:
        self.capture = open_captures(source)
        self.names = self.capture.names
        self._batches = iter(self.capture)

    def read(self, wait_s: float) -> list[Packet] | None:
        return next(self._batches, None)

    def end(self) -> None:
        self._batches = iter(())

    def close(self) -> None:
        self.capture.close()

    def take_problems(self) -> list[Problem]:
        return self.capture.take_problems()

    def take_secrets(self) -> list[Secrets]:
        return self.capture.take_secrets()

    def find_secrets(self) -> list[Secrets]:
        return self.capture.find_secrets()
