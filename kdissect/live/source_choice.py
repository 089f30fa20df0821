"""`open_source`: the requested packet source: interfaces, a pipe, growing files, or a replay."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kdissect.dissection.options import Options
from kdissect.errors import InvalidArgument
from kdissect.exchanges.broker_side import DEFAULT_PORTS
from kdissect.exchanges.decode_as import EXCLUDED, parse_decode_as
from kdissect.sources.delay_buffer import DelayBuffer
from kdissect.sources.packet_source import DEFAULT_SNAPLEN, PacketSource
from kdissect.sources.pipe_source import PipeSource, is_piped
from kdissect.sources.recorded_source import RecordedSource
from kdissect.sources.tail import TailSource

# Time between a packet and the key log line that it needs: a client writes the line when it has
# the server's hello.
KEY_DELAY_S: Final = 0.25
DEFAULT_BUFFER: Final = 64 << 20
WAYS: Final = ("auto", "ring", "scapy")


@dataclass(frozen=True)
class Asked:
    """Sources to read: interfaces or files, and their options.

    `sources` are captures to replay, one pipe ("-"), or with `follow` one file, directory or glob
    that is still being written. For interfaces: `expression` is a pcap-filter(7) in addition to
    that of the ports, which `all_ports` omits; of a `share` above 1 one in so many
    connections is captured; with `netns` they are those of that process's network namespace;
    captures `earlier` are read before them; the rest is as in `sources.opening`.
    """

    sources: Sequence[str] = ()
    interfaces: Sequence[str] = ()
    follow: bool = False
    expression: str = ""
    all_ports: bool = False
    snaplen: int = DEFAULT_SNAPLEN
    buffer_bytes: int = DEFAULT_BUFFER
    through: str = "auto"
    promiscuous: bool = False
    share: int = 1
    netns: int | None = None
    earlier: Sequence[Path] = ()

    def check(self) -> None:
        """Raise KdissectError for invalid combinations, before anything is opened."""
        if self.sources and self.interfaces:
            raise InvalidArgument(
                f"either an interface or a capture: there are -i {self.interfaces[0]} "
                f"and {self.sources[0]}"
            )
        if self.follow and self.interfaces:
            raise InvalidArgument("--follow is for captures; interfaces have no end anyway")
        if self.follow and len(self.sources) != 1:
            raise InvalidArgument(
                "--follow wants one file, directory or glob; quote a glob: 'ring-*.pcap' --follow"
            )
        if len(self.sources) > 1 and any(is_piped(source) for source in self.sources):
            raise InvalidArgument("a pipe is read by itself, not with other captures")
        if self.earlier and not self.interfaces:
            raise InvalidArgument(
                "--with is for interfaces; captures are read together: earlier.pcap later.pcap"
            )
        if self.netns is not None and self.sources:
            raise InvalidArgument("--netns is for interfaces: those of a process")
        if self.sources and self.share > 1:
            raise InvalidArgument("--sample is for interfaces; of captures all packets are read")
        if self.sources and (self.expression or self.all_ports or self.promiscuous):
            raise InvalidArgument(
                "--filter, --all-ports and --promiscuous are for interfaces; of captures all "
                "packets are read"
            )

    def check_workers(self, workers: int) -> None:
        """Raise KdissectError where these sources cannot be shared by so many."""
        if workers > 1 and not self.interfaces:
            raise InvalidArgument("--workers share the packets of interfaces: name one with -i")
        if workers > 1 and self.earlier:
            raise InvalidArgument("--with has packets of all connections: leave --workers out")
        if workers > 1 and self.through == "scapy":
            raise InvalidArgument("--workers read rings; leave --through out")

    @property
    def ring_bytes(self) -> int:
        """Memory of buffers shared with the kernel."""
        return self.buffer_bytes if self.interfaces else 0

    @property
    def is_live(self) -> bool:
        """Return whether packets arrive while they are read."""
        return self.follow or bool(self.interfaces) or any(map(is_piped, self.sources))


def open_source(asked: Asked, options: Options | None = None) -> PacketSource:
    """Open it; raises KdissectError with advice. `options` name ports and key logs."""
    options = options or Options()
    asked.check()
    packet_source = _opened(asked, options)
    if options.keylog and asked.is_live:
        packet_source = DelayBuffer(packet_source, KEY_DELAY_S)
    if asked.earlier:
        from kdissect.sources.earlier_packets import EarlierPackets

        packet_source = EarlierPackets(asked.earlier, packet_source)
    return packet_source


def open_sources(asked: Asked, options: Options, workers: int) -> list[PacketSource]:
    """One for each worker, that share all packets of the interfaces; raises KdissectError."""
    if workers == 1:
        return [open_source(asked, options)]
    from kdissect.sources import opening
    from kdissect.sources.network_namespaces import inside

    asked.check()
    asked.check_workers(workers)
    wanted = opening.Asked(
        () if asked.all_ports else wanted_ports(options),
        asked.expression,
        asked.snaplen,
        asked.buffer_bytes,
        asked.through,
        asked.promiscuous,
        asked.share,
    )
    with inside(asked.netns):
        packet_sources: list[PacketSource] = opening.open_shared(asked.interfaces, workers, wanted)
    return [DelayBuffer(one, KEY_DELAY_S) if options.keylog else one for one in packet_sources]


def wanted_ports(options: Options) -> list[int]:
    """Ports of the capture filter: known ones, and those named in the options.

    >>> wanted_ports(Options(ports=[9192], brokers=["10.0.0.1:9292"], decode_as=["9092=none"]))
    [9093, 9094, 9192, 9292, 19092, 29092]
    """
    rules = parse_decode_as(options.decode_as)
    ports = {*DEFAULT_PORTS, *options.ports}
    ports |= {int(broker.rpartition(":")[2]) for broker in options.brokers}
    ports |= {int.from_bytes(endpoint[-2:], "big") for endpoint in rules.endpoints}
    ports |= set(rules.ports)
    return sorted(ports - {port for port, word in rules.ports.items() if word == EXCLUDED})


def filter_text(asked: Asked, options: Options) -> str:
    """Description of an interface's capture filter."""
    ports = ", ".join(map(str, wanted_ports(options)))
    text = "all of TCP" if asked.all_ports else f"TCP ports {ports}"
    if asked.share > 1:
        text += f", 1/{asked.share} of the connections (counts x {asked.share})"
    return f"{text}, and {asked.expression}" if asked.expression else text


def _opened(asked: Asked, options: Options) -> PacketSource:
    if asked.interfaces:
        return _interfaces(asked, options)
    if not asked.sources:
        raise InvalidArgument("neither an interface nor a capture was named")
    source = asked.sources[0]
    if is_piped(source):
        return PipeSource(source)
    if asked.follow:
        return TailSource(source)
    return RecordedSource([Path(one) for one in asked.sources])


def _interfaces(asked: Asked, options: Options) -> PacketSource:
    from kdissect.sources.network_namespaces import inside
    from kdissect.sources.opening import open_interfaces

    with inside(asked.netns):
        packet_source: PacketSource = open_interfaces(
            asked.interfaces,
            ports=() if asked.all_ports else wanted_ports(options),
            expression=asked.expression,
            snaplen=asked.snaplen,
            buffer_bytes=asked.buffer_bytes,
            through=asked.through,
            promiscuous=asked.promiscuous,
            share=asked.share,
        )
    return packet_source
