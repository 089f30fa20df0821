"""An Ethernet frame with IP in it, put into every tunnel and link layer that is understood.

The outer headers are scapy's, or dpkt's, where they have them.
"""

import struct
from collections.abc import Callable

import dpkt
from scapy.contrib.erspan import ERSPAN_I, ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.layers.dot11 import Dot11, Dot11QoS, RadioTap
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.l2 import GRE, LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from kdissect.packets import link

Encapsulation = Callable[[bytes], tuple[int, bytes]]
"""From an Ethernet frame to a link type and the bytes of a packet of it."""

OUTER4 = {"src": "192.0.2.1", "dst": "192.0.2.2"}
OUTER6 = {"src": "2001:db8:ffff::1", "dst": "2001:db8:ffff::2"}
FRAMES = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def ip_of(frame: bytes) -> bytes:
    """The IP packet of the frame, padding taken off."""
    assert frame[12:14] in (b"\x08\x00", b"\x86\xdd")
    packet = frame[14:]
    if packet[0] >> 4 == 4:
        return packet[: int.from_bytes(packet[2:4], "big")]
    return packet[: 40 + int.from_bytes(packet[4:6], "big")]


def ethertype_of(frame: bytes) -> int:
    return int.from_bytes(frame[12:14], "big")


def version_of(frame: bytes) -> int:
    return frame[14] >> 4


def ethernet(*layers: Packet) -> bytes:
    made = FRAMES
    for layer in layers:
        made = made / layer
    return bytes(made)


def udp(port: int) -> tuple[Packet, Packet]:
    return IP(**OUTER4), UDP(sport=54_321, dport=port, chksum=0)


def gre(protocol: int, **fields: int) -> tuple[Packet, Packet]:
    return IP(**OUTER4), GRE(proto=protocol, **fields)


def raw_gre(header: bytes) -> tuple[Packet, Packet]:
    return IP(**OUTER4, proto=47), Raw(header)


def label(last: bool, number: int = 77) -> Packet:
    return MPLS(label=number, s=int(last), ttl=64)


GENEVE_OPTIONS = [
    GeneveOptions(classid=0x0102, type=0x80, length=2, data=bytes(8)),
    GeneveOptions(classid=0x0103, type=1, length=0),
]

IN_ETHERNET: dict[str, Callable[[bytes], tuple[Packet, ...]]] = {
    "802.1Q": lambda f: (Dot1Q(vlan=5, type=ethertype_of(f)), Raw(f[14:])),
    "QinQ": lambda f: (
        Dot1AD(vlan=5, type=0x8100), Dot1Q(vlan=6, type=ethertype_of(f)), Raw(f[14:])
    ),
    "VXLAN": lambda f: (*udp(4789), VXLAN(vni=42, flags=8), Raw(f)),
    "VXLAN of Linux before there was a port": lambda f: (
        *udp(8472), VXLAN(vni=1, flags=8), Raw(f)
    ),
    "VXLAN with group policy": lambda f: (
        *udp(4789), VXLAN(vni=42, flags=0x88, gpid=7), Raw(f)
    ),
    "VXLAN on any port": lambda f: (*udp(31_337), VXLAN(vni=42, flags=8), Raw(f)),
    "VXLAN GPE, Ethernet": lambda f: (
        *udp(4790), VXLAN(vni=42, flags=0x0C, NextProtocol=3), Raw(f)
    ),
    "VXLAN GPE, IP": lambda f: (
        *udp(4790),
        VXLAN(vni=42, flags=0x0C, NextProtocol=1 if version_of(f) == 4 else 2),
        Raw(ip_of(f)),
    ),
    "VXLAN in IPv6": lambda f: (
        IPv6(**OUTER6), UDP(sport=1, dport=4789, chksum=0), VXLAN(vni=1, flags=8), Raw(f)
    ),
    "GENEVE": lambda f: (*udp(6081), GENEVE(proto=0x6558, vni=3), Raw(f)),
    "GENEVE with options": lambda f: (
        *udp(6081), GENEVE(proto=0x6558, vni=3, options=GENEVE_OPTIONS), Raw(f)
    ),
    "GENEVE, IP": lambda f: (*udp(6081), GENEVE(proto=ethertype_of(f)), Raw(ip_of(f))),
    "GRE": lambda f: (*gre(ethertype_of(f)), Raw(ip_of(f))),
    "GRE with checksum": lambda f: (*gre(ethertype_of(f), chksum_present=1), Raw(ip_of(f))),
    "GRE with key": lambda f: (*gre(ethertype_of(f), key_present=1, key=9), Raw(ip_of(f))),
    "GRE with all": lambda f: (
        *gre(ethertype_of(f), chksum_present=1, key_present=1, seqnum_present=1),
        Raw(ip_of(f)),
    ),
    "GRE with Ethernet": lambda f: (*gre(0x6558), Raw(f)),
    "NVGRE": lambda f: (*gre(0x6558, key_present=1, key=0x00123400), Raw(f)),
    "GRE in IPv6": lambda f: (IPv6(**OUTER6), GRE(proto=0x6558), Raw(f)),
    "GRE in UDP": lambda f: (*udp(4754), GRE(proto=0x6558), Raw(f)),
    "GRE of PPTP": lambda f: (
        raw_gre(struct.pack(">HHHHI", 0x3001, 0x880B, len(f), 1, 2) + ppp(f))
    ),
    "GRE of PPTP with acknowledgment": lambda f: (
        raw_gre(struct.pack(">HHHHII", 0x3081, 0x880B, len(f), 1, 2, 3) + ppp(f))
    ),
    "ERSPAN I": lambda f: (*gre(0x88BE), ERSPAN_I(), Raw(f)),
    "ERSPAN II": lambda f: (*gre(0x88BE, seqnum_present=1), ERSPAN_II(), Raw(f)),
    "ERSPAN III": lambda f: (*gre(0x22EB, seqnum_present=1), ERSPAN_III(), Raw(f)),
    "ERSPAN III with more": lambda f: (
        *gre(0x22EB, seqnum_present=1), Raw(bytes(ERSPAN_III())[:11] + b"\x01" + bytes(8) + f)
    ),
    "ERSPAN III with IP": lambda f: (
        *gre(0x22EB, seqnum_present=1), Raw(bytes(10) + b"\x08\x00" + ip_of(f))
    ),
    "IP in IP": lambda f: (
        IP(**OUTER4, proto=4 if version_of(f) == 4 else 41), Raw(ip_of(f))
    ),
    "IP in IPv6": lambda f: (
        IPv6(**OUTER6, nh=4 if version_of(f) == 4 else 41), Raw(ip_of(f))
    ),
    "segment routing": lambda f: (
        IPv6(**OUTER6),
        IPv6ExtHdrHopByHop(),
        IPv6ExtHdrRouting(addresses=["2001:db8::5"], nh=4 if version_of(f) == 4 else 41),
        Raw(ip_of(f)),
    ),
    "Ethernet in IP": lambda f: (IP(**OUTER4, proto=97), Raw(b"\x30\x00" + f)),
    "MPLS": lambda f: (label(True), Raw(ip_of(f))),
    "MPLS, three labels": lambda f: (
        label(False), label(False), label(True), Raw(ip_of(f))
    ),
    "MPLS, Ethernet with control word": lambda f: (label(True), EoMCW(seq=3), Raw(f)),
    "MPLS, Ethernet without control word": lambda f: (label(True), Raw(f)),
    "MPLS in IP": lambda f: (IP(**OUTER4, proto=137), label(True), Raw(ip_of(f))),
    "MPLS in UDP": lambda f: (*udp(6635), label(True), Raw(ip_of(f))),
    "PPPoE": lambda f: (
        PPPoE(sessionid=1), PPP(proto=0x21 if version_of(f) == 4 else 0x57), Raw(ip_of(f))
    ),
    "PPPoE with a short protocol": lambda f: (
        PPPoE(sessionid=1), Raw(ppp(f)[1:])
    ),
    "MAC in MAC": lambda f: (Raw(b"\x00\x00\x00\x05" + f),),
    "tag of a switch port": lambda f: (Raw(bytes(4) + f[12:]),),
    "Authentication header": lambda f: (
        IP(**OUTER4, proto=51),
        Raw(bytes([4 if version_of(f) == 4 else 41, 4]) + bytes(22) + ip_of(f)),
    ),
    "SNAP": lambda f: (LLC() / SNAP(code=ethertype_of(f)) / Raw(f[14:]),),
    "VXLAN in GENEVE in GRE": lambda f: (
        *gre(0x6558), Raw(ethernet(
            *udp(6081), GENEVE(proto=0x6558),
            Raw(ethernet(*udp(4789), VXLAN(vni=1, flags=8), Raw(f))),
        )),
    ),
}  # fmt: skip
ETHERTYPES = {"MAC in MAC": 0x88E7, "tag of a switch port": 0x8926}


def ppp(frame: bytes) -> bytes:
    return struct.pack(">H", 0x21 if version_of(frame) == 4 else 0x57) + ip_of(frame)


def wireless(frame: bytes, flags: int = 1, subtype: int = 0, more: bytes = b"") -> bytes:
    """An 802.11 data frame; `more` is QoS control and the rest."""
    address = {} if flags & 3 != 3 else {"addr4": "02:00:00:00:00:04"}
    header = bytes(Dot11(type=2, subtype=subtype, FCfield=flags, **address))
    return header + more + snap(frame)


def snap(frame: bytes) -> bytes:
    return bytes(LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(code=ethertype_of(frame))) + frame[14:]


def aggregate(*frames: bytes) -> bytes:
    """The subframes of an A-MSDU."""
    made = b""
    for frame in frames:
        content = snap(frame)
        made += bytes(-len(made) % 4) + frame[:12] + struct.pack(">H", len(content)) + content
    return made


def radiotap(frame: bytes, **fields: object) -> bytes:
    return bytes(RadioTap(**fields)) + frame


LINK_LAYERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "Ethernet": (link.ETHERNET, lambda f: f),
    "IEEE 802.3": (
        link.ETHERNET,
        # Values too long for the field have an ethertype of their own.
        lambda f: f[:12] + struct.pack(">H", len(snap(f)) if len(f) < 1500 else 0x8870) + snap(f),
    ),
    "Linux cooked v1": (
        link.LINUX_SLL, lambda f: bytes(CookedLinux(proto=ethertype_of(f))) + f[14:]
    ),
    "Linux cooked v2": (
        link.LINUX_SLL2, lambda f: bytes(CookedLinuxV2(proto=ethertype_of(f))) + f[14:]
    ),
    "Linux cooked v1, LLC": (
        link.LINUX_SLL, lambda f: bytes(CookedLinux(proto=4)) + snap(f)
    ),
    "NULL": (
        link.NULL, lambda f: struct.pack("<I", 2 if version_of(f) == 4 else 30) + f[14:]
    ),
    "raw IP": (link.RAW, lambda f: f[14:]),
    "PPP": (link.PPP, lambda f: bytes(HDLC()) + ppp(f)),
    "PPP with everything left out": (link.PPP, lambda f: ppp(f)[1:]),
    "PPP HDLC": (link.PPP_HDLC, lambda f: bytes(HDLC()) + ppp(f)),
    "PPP with direction": (link.PPP_WITH_DIRECTION, lambda f: b"\x01" + bytes(HDLC()) + ppp(f)),
    "PPPoE": (link.PPP_ETHER, lambda f: bytes(PPPoE(sessionid=3, len=len(ppp(f)))) + ppp(f)),
    "Cisco HDLC": (link.C_HDLC, lambda f: b"\x0f\x00" + f[12:]),
    "FireWire": (link.IP_OVER_FIREWIRE, lambda f: bytes(16) + f[12:]),
    "ENC": (
        link.ENC, lambda f: struct.pack("<I", 2 if version_of(f) == 4 else 24) + bytes(8) + f[14:]
    ),
    "PFLOG": (
        link.PFLOG, lambda f: bytes([61, 2 if version_of(f) == 4 else 24]) + bytes(62) + f[14:]
    ),
    "NFLOG": (
        link.NFLOG,
        lambda f: b"\x02\x00\x00\x01" + struct.pack("<HHI", 7, 10, 5)
        + struct.pack("<HH", 4 + len(ip_of(f)), 9) + ip_of(f),
    ),
    "802.11": (link.IEEE802_11, wireless),
    "802.11, to the access point and from it": (
        link.IEEE802_11, lambda f: wireless(f, 3)
    ),
    "802.11 QoS": (
        link.IEEE802_11, lambda f: wireless(f, 2, 8, bytes(Dot11QoS()))
    ),
    "802.11 QoS with HT control": (
        link.IEEE802_11, lambda f: wireless(f, 0x82, 8, bytes(6))
    ),
    "802.11, aggregate of one": (
        link.IEEE802_11,
        lambda f: bytes(Dot11(type=2, subtype=8, FCfield=2)) + b"\x80\x00" + aggregate(f),
    ),
    "radiotap": (link.RADIOTAP, lambda f: radiotap(wireless(f))),
    "radiotap with flags": (
        link.RADIOTAP,
        lambda f: radiotap(wireless(f, 2, 8, b"\x00\x00" + bytes(2)),
                           present="TSFT+Flags", Flags="pad"),
    ),
    "Prism": (link.PRISM, lambda f: struct.pack("<II", 0x44, 144) + bytes(136) + wireless(f)),
    "AVS": (link.AVS, lambda f: struct.pack(">II", 0x80211001, 64) + bytes(56) + wireless(f)),
    "PPI": (
        link.PPI, lambda f: struct.pack("<BBHI", 0, 0, 8, link.IEEE802_11) + wireless(f)
    ),
    "dpkt's Linux cooked": (
        link.LINUX_SLL, lambda f: bytes(dpkt.sll.SLL(ethtype=ethertype_of(f), data=f[14:]))
    ),
}  # fmt: skip


def encapsulations() -> dict[str, Encapsulation]:
    """All of them by name."""
    made: dict[str, Encapsulation] = {}
    for name, layers in IN_ETHERNET.items():
        made[name] = tunnelled(layers, ETHERTYPES.get(name))
    for name, (link_type, wrap) in LINK_LAYERS.items():
        made[f"link {name}"] = linked(link_type, wrap)
    return made


def tunnelled(
    layers: Callable[[bytes], tuple[Packet, ...]], ethertype: int | None
) -> Encapsulation:
    def wrap(frame: bytes) -> tuple[int, bytes]:
        if ethertype is None:
            return link.ETHERNET, ethernet(*layers(frame))
        header = bytes(FRAMES)[:12] + struct.pack(">H", ethertype)
        return link.ETHERNET, header + b"".join(bytes(layer) for layer in layers(frame))

    return wrap


def linked(link_type: int, wrap: Callable[[bytes], bytes]) -> Encapsulation:
    return lambda frame: (link_type, wrap(frame))
