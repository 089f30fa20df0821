"""`PacketSource`: common interface of all sources of live packets."""

from abc import ABC, abstractmethod
from typing import Final, NamedTuple

from kdissect.capture.blocks import Secrets
from kdissect.capture.packet import Packet
from kdissect.errors import Problem

# As tcpdump: more than the largest packets that the kernel merges.
DEFAULT_SNAPLEN: Final = 262_144


class Counts(NamedTuple):
    """Totals since the wire was opened.

    `received` packets passed the filter; `dropped` of them were lost for lack of buffer space.
    """

    received: int = 0
    dropped: int = 0


class Behind(NamedTuple):
    """Data that a packet source has, and that was not read yet.

    `seconds` is the age of the last packet read by this host's clock; 0 if nothing is unread.
    """

    bytes: int = 0
    seconds: float = 0.0


class PacketSource(ABC):
    """Returns packets as they arrive; a context manager, which closes it.

    `names` are the interfaces or files; `Packet.capture` is an index of it. Ordinals and numbers of
    packets count from 1. Opening and reading raise CaptureError, with advice.
    """

    names: list[str]

    @abstractmethod
    def read(self, wait_s: float) -> list[Packet] | None:
        """Return available packets; if there are none, those that arrive within `wait_s`.

        Possibly none; None if no more will follow.
        """

    def end(self) -> None:  # noqa: B027  # one that has its own end needs no other
        """Stop the input: `read` returns the packets that have arrived until now, and then None."""

    @abstractmethod
    def close(self) -> None:
        """Release open resources; may be called again."""

    def counts(self) -> Counts:
        """Counters of the system; zeros where it has none."""
        return Counts()

    def backlog(self) -> float:
        """Fill level of the buffer at the last read, from 0 to 1."""
        return 0.0

    def behind(self) -> Behind:
        """Unread data of a source that keeps it, as a file; nothing for all others."""
        return Behind()

    def take_problems(self) -> list[Problem]:
        """The problems since the last call."""
        return []

    def take_secrets(self) -> list[Secrets]:
        """Key logs that arrived with the packets since the last call."""
        return []

    def find_secrets(self) -> list[Secrets]:
        """Key logs from later in the input, if it can be read ahead."""
        return []

    def reopen(self) -> None:  # noqa: B027  # most have nothing to do
        """Reopen the source, which may have been replaced (SIGHUP)."""

    def __enter__(self) -> "PacketSource":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
