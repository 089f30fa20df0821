"""`PacketSource`: what all sources of live packets have in common; who reads one knows no more of
it.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from kdissect.capture.blocks import Secrets
from kdissect.capture.packet import Packet
from kdissect.errors import Problem


class Counts(NamedTuple):
    """Totals since the wire was opened.

    `received` packets passed the filter; of those, `dropped` are not given, for want of room.
    """

    received: int = 0
    dropped: int = 0


class PacketSource(ABC):
    """Gives packets as they come; a context manager, which closes it.

    `names` are the interfaces or files; `Packet.capture` is an index of it. Ordinals and numbers of
    packets count from 1. Opening and reading raise CaptureError, with what to do about it.
    """

    names: list[str]

    @abstractmethod
    def read(self, wait_s: float) -> list[Packet] | None:
        """The packets that are there; where there are none, those that come within `wait_s`.

        Perhaps none; None when there will be no more.
        """

    def end(self) -> None:  # noqa: B027  # one that has its own end needs no other
        """Let nothing more come: `read` gives what has come until now, and then None."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open; may be called again."""

    def counts(self) -> Counts:
        """What the system counted; zeros where it counts nothing."""
        return Counts()

    def backlog(self) -> float:
        """How full the buffer was when it was read last, from 0 to 1."""
        return 0.0

    def take_problems(self) -> list[Problem]:
        """The problems since the last call."""
        return []

    def take_secrets(self) -> list[Secrets]:
        """Key logs that came with the packets since the last call."""
        return []

    def find_secrets(self) -> list[Secrets]:
        """Key logs that come later, where one can look ahead."""
        return []

    def reopen(self) -> None:  # noqa: B027  # most have nothing to do
        """Begin anew with a source that may be another one by now (SIGHUP)."""

    def __enter__(self) -> "PacketSource":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
