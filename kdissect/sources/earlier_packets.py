"""`EarlierPackets`: a capture from before, as of TLS handshakes, and then the live packets."""

from collections.abc import Sequence
from pathlib import Path

from kdissect.capture.blocks import Secrets
from kdissect.capture.merge import number_packets
from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.packet_source import Behind, Counts, PacketSource
from kdissect.sources.recorded_source import RecordedSource


class EarlierPackets(PacketSource):
    """Packets of the captures `paths`, as fast as they can be read, then those of `packet_source`.

    What a connection did between the two is a hole in it, as after loss. Ordinals count all
    packets, numbers those of their file or interface.
    """

    def __init__(self, paths: Sequence[Path], packet_source: PacketSource) -> None:
        self.packet_source = packet_source
        self.earlier = RecordedSource(list(paths))
        self._has_more = True
        self._first = len(packet_source.names)
        self.names = [*packet_source.names, *self.earlier.names]
        self._ordinal = 1

    def read(self, wait_s: float) -> list[Packet] | None:
        packets = self._read_earlier()
        if packets is None:
            packets = self.packet_source.read(wait_s)
        if packets:
            number_packets(packets, self._ordinal)
            self._ordinal += len(packets)
        return packets

    def _read_earlier(self) -> list[Packet] | None:
        packets = self.earlier.read(0.0) if self._has_more else None
        self._has_more = packets is not None
        for packet in packets or ():
            packet.capture += self._first
        return packets

    def end(self) -> None:
        self.packet_source.end()

    def close(self) -> None:
        self.earlier.close()
        self.packet_source.close()

    def counts(self) -> Counts:
        return self.packet_source.counts()

    def backlog(self) -> float:
        return self.packet_source.backlog()

    def behind(self) -> Behind:
        return self.packet_source.behind()

    def take_problems(self) -> list[Problem]:
        found = self.packet_source.take_problems()
        earlier = self.earlier.take_problems()
        return found + [one._replace(capture=one.capture + self._first) for one in earlier]

    def take_secrets(self) -> list[Secrets]:
        return [*self.earlier.take_secrets(), *self.packet_source.take_secrets()]

    def find_secrets(self) -> list[Secrets]:
        return [*self.earlier.find_secrets(), *self.packet_source.find_secrets()]

    def reopen(self) -> None:
        self.packet_source.reopen()
