"""Fanout groups: sockets of one interface that share its packets, each connection's at one of them.

The kernel chooses the member by a hash of addresses and ports that is the same in both directions,
and the same for all groups: a connection seen on two interfaces comes to the same worker. IPv4
fragments are joined before that. A group is left only by closing the socket.
"""

import socket
import struct
from typing import Final

# <linux/if_packet.h>
SOL_PACKET: Final = 263
PACKET_FANOUT: Final = 18
PACKET_FANOUT_HASH: Final = 0
PACKET_FANOUT_FLAG_UNIQUEID: Final = 0x2000  # a new group; since Linux 4.12
PACKET_FANOUT_FLAG_IGNORE_OUTGOING: Final = 0x4000
PACKET_FANOUT_FLAG_DEFRAG: Final = 0x8000
KIND_SHIFT: Final = 16
GROUP_MASK: Final = 0xFFFF


def new_group(bound: socket.socket, ignores_outgoing: bool) -> int:
    """Make a group with this socket as its first member; returns its number."""
    kind = kind_of(ignores_outgoing) | PACKET_FANOUT_FLAG_UNIQUEID
    bound.setsockopt(SOL_PACKET, PACKET_FANOUT, struct.pack("=I", kind << KIND_SHIFT))
    made = group_of(bound)
    assert made is not None  # noqa: S101  # it has just been made
    return made


def join(bound: socket.socket, group: int, ignores_outgoing: bool) -> int:
    """Make the socket the next member; its interface is that of the others. Returns the group."""
    asked = group | kind_of(ignores_outgoing) << KIND_SHIFT
    bound.setsockopt(SOL_PACKET, PACKET_FANOUT, struct.pack("=I", asked))
    return group


def group_of(asked: socket.socket) -> int | None:
    """The group of a socket; None if it is in none."""
    # Its kind is beside the number, and has DEFRAG: it is never 0.
    (told,) = struct.unpack("=I", asked.getsockopt(SOL_PACKET, PACKET_FANOUT, 4))
    return int(told) & GROUP_MASK if told else None


def kind_of(ignores_outgoing: bool) -> int:
    """Kind and flags of a group; all its members name the same."""
    flags = PACKET_FANOUT_FLAG_IGNORE_OUTGOING if ignores_outgoing else 0
    return PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_DEFRAG | flags
