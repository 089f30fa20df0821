"""Open interfaces by name, each by the best available method: a ring, or scapy's socket.

Measured: docs/decisions/live-capture.md.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from kdissect.errors import CaptureError, not_among
from kdissect.sources.bpf_programs import Program, attach, both, of_interface
from kdissect.sources.filter_expressions import compile_expression
from kdissect.sources.interface_socket import InterfaceSocket, find_link_type, open_socket
from kdissect.sources.interface_source import InterfaceSource
from kdissect.sources.interfaces import ANY, IS_LINUX
from kdissect.sources.multiplexer import Multiplexer
from kdissect.sources.packet_source import DEFAULT_SNAPLEN, PacketSource
from kdissect.sources.port_filters import port_filter
from kdissect.sources.ring import NoRing, RingSource
from kdissect.sources.scapy_package import has_package, missing_text
from kdissect.sources.scapy_portable import ScapyPortableSource, filter_text
from kdissect.sources.scapy_source import ScapySource
from kdissect.sources.shared_ring import SharedRing, SharedSocket
from kdissect.sources.spares import Spare

AUTO: Final = "auto"
RING: Final = "ring"
SCAPY: Final = "scapy"
WAYS: Final = (AUTO, RING, SCAPY)
# At 1 GB/s room for 60 ms, during which a reader may be paused.
DEFAULT_BUFFER_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Asked:
    """Options for opening interfaces, see `open_interfaces`."""

    ports: Sequence[int]
    expression: str
    snaplen: int
    buffer_bytes: int
    through: str
    promiscuous: bool
    share: int = 1


def open_interfaces(
    names: Sequence[str],
    *,
    ports: Sequence[int] = (),
    expression: str = "",
    snaplen: int = DEFAULT_SNAPLEN,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    through: str = AUTO,
    promiscuous: bool = False,
    share: int = 1,
) -> PacketSource:
    """Packet source of one interface, or of several in order of time; "any" means all of them.

    It yields TCP from and to `ports`, all TCP if there are none, that also passes `expression`
    (pcap-filter(7)); at most `snaplen` bytes of each packet. `buffer_bytes` are shared by the
    interfaces. Of a `share` above 1 only one in so many connections. `through` is "ring", "scapy",
    or "auto" for the ring where available. Raises CaptureError with advice: CapturePermissionError
    if this user may not capture.
    """
    names = list(dict.fromkeys(names))
    asked = Asked(ports, expression, snaplen, buffer_bytes, through, promiscuous, share)
    _check(names, asked)
    if not IS_LINUX and share > 1:
        raise CaptureError("connections are sampled by Linux' filter: leave --sample out")
    if not IS_LINUX:
        text = filter_text(ports, expression)
        return ScapyPortableSource(names[0], text, snaplen, promiscuous)
    packet_sources: list[InterfaceSource] = []
    try:
        for capture, name in enumerate(names):
            packet_sources.append(_open_one(name, capture, buffer_bytes // len(names), asked))
    except BaseException:
        for packet_source in packet_sources:
            packet_source.close()
        raise
    return packet_sources[0] if len(packet_sources) == 1 else Multiplexer(packet_sources)


def open_shared(names: Sequence[str], workers: int, asked: Asked) -> list[PacketSource]:
    """Packet sources of several workers, each of which gets all packets of some connections.

    Arguments are as for `open_interfaces`; the buffer is shared by all. Raises CaptureError.
    """
    names = list(dict.fromkeys(names))
    _check(names, asked)
    if not IS_LINUX or asked.through == SCAPY:
        raise CaptureError("several workers read rings, on Linux alone: leave --workers out")
    buffer_bytes = asked.buffer_bytes // (len(names) * workers)
    members: list[list[SharedRing]] = [[] for _ in range(workers)]
    try:
        for capture, name in enumerate(names):
            group = None
            for rings in members:
                rings.append(_open_member(name, capture, buffer_bytes, asked))
                group = rings[-1].source.join_group(group)
            sockets = [rings[-1].source for rings in members]
            program = make_filter(sockets[0].link_type, asked)
            if name != ANY:
                _give_spares(name, sockets, program)
            # A connection belongs to another member as long as some have not joined.
            for one in sockets:
                one.admit(program)
    except BaseException:
        for ring in (ring for rings in members for ring in rings):
            ring.close()
        raise
    return [rings[0] if len(rings) == 1 else Multiplexer(rings) for rings in members]


def make_filter(link_type: int, asked: Asked) -> Program:
    """BPF program for ports and expression; raises CaptureError if either is invalid."""
    program = port_filter(asked.ports, link_type, asked.snaplen, asked.share)
    if not asked.expression.strip():
        return program
    return both(program, compile_expression(asked.expression, link_type))


def _check(names: Sequence[str], asked: Asked) -> None:
    if not names:
        raise CaptureError("no interface was named")
    if ANY in names and len(names) > 1:
        raise CaptureError("'any' is all interfaces: name it alone, or name the others")
    if asked.through not in WAYS:
        raise CaptureError(not_among(f"no way {asked.through!r} to capture", WAYS))
    if not 0 < asked.snaplen <= DEFAULT_SNAPLEN:
        raise CaptureError(f"a snaplen is from 1 to {DEFAULT_SNAPLEN} bytes, not {asked.snaplen}")
    if wrong := [port for port in asked.ports if not 0 < port < 1 << 16]:
        raise CaptureError(f"no port {wrong[0]}: ports are from 1 to 65535")
    if not IS_LINUX and asked.through == RING:
        raise CaptureError("there are rings on Linux alone: leave --through out")
    if not IS_LINUX and len(names) > 1:
        raise CaptureError("several interfaces at once are read on Linux alone: name one")


def _open_one(name: str, capture: int, buffer_bytes: int, asked: Asked) -> InterfaceSource:
    if asked.through == SCAPY:
        return _open_scapy(name, capture, buffer_bytes, asked)
    try:
        return _open_ring(name, capture, buffer_bytes, asked)
    except NoRing as error:
        if asked.through == RING or name == ANY:
            raise
        if not has_package():
            raise CaptureError(f"{name}: {error}; {missing_text()}") from error
        packet_source = _open_scapy(name, capture, buffer_bytes, asked)
        packet_source.source.add_problem(
            "no-ring", f"{error}, so packets come through scapy's socket"
        )
        return packet_source


def _open_ring(name: str, capture: int, buffer_bytes: int, asked: Asked) -> RingSource:
    opened = open_socket(name)
    try:
        source = InterfaceSocket(opened, name, capture, asked.promiscuous)
        return RingSource(source, make_filter(source.link_type, asked), buffer_bytes)
    except BaseException:
        opened.close()
        raise


def _open_member(name: str, capture: int, buffer_bytes: int, asked: Asked) -> SharedRing:
    """A ring without packets yet, to join a group."""
    opened = open_socket(name)
    try:
        source = SharedSocket(opened, name, capture, asked.promiscuous)
        return SharedRing(source, buffer_bytes)
    except BaseException:
        opened.close()
        raise


def _give_spares(name: str, sockets: Sequence[SharedSocket], program: Program) -> None:
    """Open a spare socket for each worker, for an interface that is made again."""
    with ExitStack() as closing:
        spares = [closing.enter_context(open_socket(name)) for _ in sockets]
        # It must have room for the test of the interface's number.
        attach(spares[0], of_interface(program, 0))
        for number, one in enumerate(sockets):
            one.spare = Spare(spares, number)


def _open_scapy(name: str, capture: int, buffer_bytes: int, asked: Asked) -> ScapySource:
    if name == ANY:
        raise CaptureError("'any' is read through the ring alone: leave --through out")
    with open_socket(name) as probe:
        program = make_filter(find_link_type(probe, name), asked)
    return ScapySource(name, program, buffer_bytes, asked.snaplen, capture, asked.promiscuous)
