"""`ScapySource`: packets of an interface through scapy's listening socket.

On Linux that is an AF_PACKET socket: packets are read from it directly, with the kernel's times and
counters, and are not parsed by scapy. Elsewhere scapy returns their bytes.
"""

import errno
import logging
import socket
import struct
from typing import Any, Final, Protocol

from kdissect.capture.packet import SECOND_NS, Packet
from kdissect.errors import CaptureError, InvalidArgument
from kdissect.sources.bpf_programs import Program
from kdissect.sources.interface_socket import (
    SO_TIMESTAMPNS,
    SOL_PACKET,
    InterfaceSocket,
    not_permitted,
)
from kdissect.sources.interface_source import InterfaceSource, pause_for
from kdissect.sources.interfaces import (
    ARPHRD_ETHER,
    ARPHRD_LOOPBACK,
    ARPHRD_NONE,
    ARPHRD_PPP,
    ARPHRD_RAWIP,
    hardware_type,
)
from kdissect.sources.scapy_package import missing_text

SO_RCVBUFFORCE: Final = 33
PACKET_AUXDATA: Final = 8
# struct tpacket_auxdata: status, length on the wire, captured length, others.
AUXDATA_SIZE: Final = 20
ANCILLARY_SIZE: Final = 256
# Packets read at a time, before others get a turn.
READ_PACKETS: Final = 4096
# Interface types whose packets begin with Ethernet, or with IP.
READABLE: Final = (ARPHRD_ETHER, ARPHRD_LOOPBACK, ARPHRD_NONE, ARPHRD_PPP, ARPHRD_RAWIP)


class Listening(Protocol):
    """The part of scapy's socket that is used; `ins` is the socket it reads from."""

    ins: Any

    def recv_raw(self) -> tuple[Any, bytes | None, Any]: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


def listen_with_scapy(name: str, promiscuous: bool, expression: str = "") -> Listening:
    """Scapy's own socket for the interface; raises KdissectError without the package."""
    # It warns of link types without a scapy class, which are not needed here.
    logging.getLogger("scapy").setLevel(logging.ERROR)
    try:
        from scapy.config import conf
        from scapy.error import Scapy_Exception

        # These select the socket of this system, and define Ethernet.
        import scapy.arch  # isort: skip
        import scapy.layers.l2  # isort: skip  # noqa: F401
    except ImportError as error:
        raise InvalidArgument(missing_text()) from error
    try:
        opened: Listening = conf.L2listen(
            iface=name, promisc=promiscuous, nofilter=not expression, filter=expression or None
        )
    except PermissionError as error:
        raise not_permitted(name) from error
    except (OSError, ValueError, Scapy_Exception) as error:
        if isinstance(error, OSError) and error.errno == errno.ENETDOWN:
            raise CaptureError(
                f"{name} is down, and scapy opens it only when it is up (ip link set {name} up);"
                " the ring waits for it: leave --through out"
            ) from error
        raise CaptureError(f"{name} cannot be opened by scapy: {error}") from error
    return opened


class ScapySource(InterfaceSource):
    """Reads through scapy's AF_PACKET socket, with a buffer of about `buffer_bytes`."""

    def __init__(
        self,
        name: str,
        program: Program,
        buffer_bytes: int,
        snaplen: int,
        capture: int = 0,
        promiscuous: bool = False,
    ) -> None:
        self.names = [name]
        self._scapy = listen_with_scapy(name, promiscuous)
        self._number = 1
        self._room = bytearray(snaplen)
        try:
            self._socket: socket.socket = self._scapy.ins
            self.source = InterfaceSocket(self._socket, name, capture, promiscuous)
            self._check_type(name)
            self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            self._set_buffer(buffer_bytes)
            self.source.begin(program)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def take(self) -> list[Packet]:
        packets: list[Packet] = []
        while len(packets) < READ_PACKETS:
            packet = self._receive()
            if packet is None:
                break
            packets.append(packet)
        return packets

    def close(self) -> None:
        self._scapy.close()

    def _receive(self) -> Packet | None:
        try:
            size, auxdata, _, _ = self._socket.recvmsg_into(
                [self._room], ANCILLARY_SIZE, socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return None
        except OSError as error:
            # The interface disappeared; the next wait handles that.
            self.source.note_error(error.errno or 0)
            return None
        time_ns, original = 0, size
        for level, kind, content in auxdata:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, fraction = struct.unpack("=qq", content)
                time_ns = seconds * SECOND_NS + fraction
            elif level == SOL_PACKET and kind == PACKET_AUXDATA and len(content) >= AUXDATA_SIZE:
                original = max(size, struct.unpack_from("=4xI", content)[0])
        number = self._number
        self._number += 1
        data = bytes(self._room[:size])
        source = self.source
        return Packet(
            number, time_ns, source.link_type, data, 0, size, original, number, source.capture
        )

    def _check_type(self, name: str) -> None:
        kind = hardware_type(self._socket, name)
        if kind not in READABLE:
            raise CaptureError(
                f"{name}: interfaces of this type ({kind}) are read through the ring alone:"
                " leave --through out"
            )

    def _set_buffer(self, buffer_bytes: int) -> None:
        """Set the buffer size, beyond the system's limit if permitted; the kernel doubles it."""
        asked = buffer_bytes // 2
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, asked)
        except PermissionError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, asked)
        given = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        self.pause_s = pause_for(given)
        if given < buffer_bytes * 9 // 10:
            self.source.add_problem(
                "small-buffer",
                f"a buffer of {given >> 10} KiB only, not {buffer_bytes >> 10}:"
                f" sysctl net.core.rmem_max={asked}, or the capability CAP_NET_ADMIN",
            )
