"""The interfaces of this host and their properties, queried from the kernel only."""

import array
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

ANY: Final = "any"
IS_LINUX: Final = sys.platform == "linux"

# ioctl requests of <linux/sockios.h>.
SIOCGIFCONF: Final = 0x8912
SIOCGIFFLAGS: Final = 0x8913
SIOCGIFMTU: Final = 0x8921
SIOCGIFHWADDR: Final = 0x8927
SIOCGIFINDEX: Final = 0x8933
SIOCETHTOOL: Final = 0x8946
ETHTOOL_GDRVINFO: Final = 3
# cmd, then 32 bytes driver, and more.
DRIVER_FACTS_SIZE: Final = 196

# struct ifreq: 16 bytes name, then a union, 24 bytes with 8-byte pointers.
NAME_SIZE: Final = 16
REQUEST_SIZE: Final = 40
IFF_UP: Final = 0x1

# Hardware types of <linux/if_arp.h>.
ARPHRD_ETHER: Final = 1
ARPHRD_PPP: Final = 512
ARPHRD_RAWIP: Final = 519
ARPHRD_LOOPBACK: Final = 772
ARPHRD_NONE: Final = 0xFFFE

# LINKTYPE_ values.
ETHERNET: Final = 1
RAW: Final = 101

KINDS: Final = {"veth": "veth", "802.1Q VLAN Support": "vlan"}


class InterfaceProperties(NamedTuple):
    """Properties of an interface; unknown ones are "other", -1, ().

    `kind` is loopback, ethernet, veth, vlan or other. `link_type` is the LINKTYPE_ value of the
    packets that it is captured with.
    """

    name: str
    is_up: bool
    kind: str
    addresses: tuple[str, ...]
    link_type: int
    mtu: int


def list_interfaces() -> list[InterfaceProperties]:
    """All interfaces of this process' network namespace, in the order of their numbers."""
    names = [name for _, name in sorted(socket.if_nameindex())]
    if not IS_LINUX:
        return [InterfaceProperties(name, True, "other", (), -1, -1) for name in names]
    found = []
    # Any socket will do; sockets of this family are always permitted.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asked:
        addresses = list(_ipv4_addresses(asked)) + list(_ipv6_addresses())
        for name in names:
            # An interface that disappeared meanwhile is left out.
            with suppress(OSError):
                mine = tuple(address for holder, address in addresses if holder == name)
                found.append(_facts(asked, name, mine))
    return found


def interface_number(asked: socket.socket, name: str) -> int:
    """Current number of the interface, in the socket's namespace; OSError if it does not exist."""
    return _number(_ask(asked, SIOCGIFINDEX, name))


def is_interface_up(asked: socket.socket, name: str) -> bool:
    """Return whether the interface is up; OSError if it does not exist."""
    return bool(_flags(asked, name) & IFF_UP)


def hardware_type(asked: socket.socket, name: str) -> int:
    """ARPHRD_ value of the interface; OSError if it does not exist."""
    kind: int = struct.unpack_from("=H", _ask(asked, SIOCGIFHWADDR, name))[0]
    return kind


def link_type_of(hardware: int) -> int:
    """LINKTYPE_ value for captures of an interface: Ethernet, or raw IP."""
    return ETHERNET if hardware in (ARPHRD_ETHER, ARPHRD_LOOPBACK) else RAW


def _facts(asked: socket.socket, name: str, addresses: tuple[str, ...]) -> InterfaceProperties:
    hardware = hardware_type(asked, name)
    is_up = is_interface_up(asked, name)
    mtu = _number(_ask(asked, SIOCGIFMTU, name))
    kind = _kind(asked, name, hardware)
    return InterfaceProperties(name, is_up, kind, addresses, link_type_of(hardware), mtu)


def _kind(asked: socket.socket, name: str, hardware: int) -> str:
    if hardware == ARPHRD_LOOPBACK:
        return "loopback"
    if hardware != ARPHRD_ETHER:
        return "other"
    return KINDS.get(_driver(asked, name), "ethernet")


def _driver(asked: socket.socket, name: str) -> str:
    """Name of the driver; "" if unknown."""
    answer = array.array("B", struct.pack("=I", ETHTOOL_GDRVINFO).ljust(DRIVER_FACTS_SIZE, b"\0"))
    try:
        _ask(asked, SIOCETHTOOL, name, struct.pack("@P", answer.buffer_info()[0]))
    except OSError:
        return ""
    return _text(answer.tobytes()[4:36])


def _ask(asked: socket.socket, request: int, name: str, argument: bytes = b"") -> bytes:
    """Query the kernel for the union of an ifreq."""
    import fcntl

    named = name.encode("utf-8", "surrogateescape")
    if len(named) >= NAME_SIZE or not named:
        raise OSError(19, "no such interface")  # ENODEV: no name is that long
    text = named.ljust(NAME_SIZE, b"\0") + argument
    return fcntl.ioctl(asked.fileno(), request, text.ljust(REQUEST_SIZE, b"\0"))[NAME_SIZE:]


def _number(union: bytes) -> int:
    number: int = struct.unpack_from("=i", union)[0]
    return number


def _flags(asked: socket.socket, name: str) -> int:
    flags: int = struct.unpack_from("=H", _ask(asked, SIOCGIFFLAGS, name))[0]
    return flags


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _ipv4_addresses(asked: socket.socket) -> Iterator[tuple[str, str]]:
    """Names and addresses; SIOCGIFCONF returns as many as fit."""
    import fcntl

    room = REQUEST_SIZE * 64
    while True:
        answer = array.array("B", bytes(room))
        request = struct.pack("@iP", room, answer.buffer_info()[0])
        used = struct.unpack("@iP", fcntl.ioctl(asked.fileno(), SIOCGIFCONF, request))[0]
        if used < room:
            break
        room *= 4
    for at in range(0, used, REQUEST_SIZE):
        one = answer.tobytes()[at : at + REQUEST_SIZE]
        # An alias like eth0:1 is an address of eth0.
        name = _text(one[:NAME_SIZE]).split(":")[0]
        yield name, str(ipaddress.IPv4Address(one[NAME_SIZE + 4 : NAME_SIZE + 8]))


def _ipv6_addresses() -> Iterator[tuple[str, str]]:
    """The same for IPv6; none where the kernel has no IPv6."""
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            address, *_, name = line.split()
            yield name, str(ipaddress.IPv6Address(bytes.fromhex(address)))
