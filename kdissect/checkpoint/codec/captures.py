"""Values of the capture and packets stages: splits of captures, fragments of packets."""

from typing import Final

from kdissect.capture.blocks import Secrets
from kdissect.capture.format_context import InterfaceLayout, PcapLayout, SectionLayout
from kdissect.capture.packet import Packet
from kdissect.capture.splits import Reached, Split
from kdissect.checkpoint.codec.streams import PROBLEMS
from kdissect.encoding.choices import OneOf
from kdissect.encoding.classes import Fields, Inline, fields_by_value
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    INTS,
    TEXT,
    Dict,
    Many,
    Maybe,
    named,
)
from kdissect.packets import fragments
from kdissect.packets.fragments import Fragments, Whole

PCAP_LAYOUT: Final = named(
    PcapLayout,
    is_big_endian=BOOL,
    fraction_ns=INT,
    record_header_size=INT,
    snap_length=INT,
    link_type=INT,
)
INTERFACE_LAYOUT: Final = named(
    InterfaceLayout,
    link_type=INT,
    snap_length=INT,
    name=TEXT,
    units_per_second=INT,
    offset_ns=INT,
    bad_times=INT,
    dropped=INT,
)
SECTION_LAYOUT: Final = named(
    SectionLayout,
    is_big_endian=BOOL,
    interfaces=Many(INTERFACE_LAYOUT, tuple),
    secrets=Many(named(Secrets, kind=INT, content=BYTES), tuple),
    secrets_size=INT,
)
LAYOUT: Final = OneOf(pcap=(PcapLayout, PCAP_LAYOUT), section=(SectionLayout, SECTION_LAYOUT))
SPLIT: Final = named(
    Split,
    path=TEXT,
    capture=INT,
    start=INT,
    end=INT,
    is_last=BOOL,
    number=INT,
    ordinal=INT,
    counted_from=INT,
    last_time_ns=INT,
    earliest_ns=INT,
    latest_ns=INT,
    layout=Maybe(LAYOUT),
    is_counted=BOOL,
)
SPLITS: Final = Many(SPLIT, tuple)
REACHED: Final = named(Reached, offset=INT, layout=LAYOUT, number=INT, ordinal=INT)

NO_PACKET: Final = Packet(0, 0, 0, b"", 0, 0, 0, 0, 0)
PACKET: Final = fields_by_value(
    Packet,
    lambda: Packet(0, 0, 0, b"", 0, 0, 0, 0, 0),
)
FRAGMENT: Final = Fields(
    fragments.Piece, lambda: fragments.Piece(0, 0, b""), ints="start length", data=BYTES
)
WHOLE: Final = fields_by_value(
    Whole,
    lambda: Whole(b"", b"", 0, 0, 0, NO_PACKET),
    packet=Inline(PACKET),
    pieces=Many(Inline(FRAGMENT)),
    ordinals=INTS,
)
OF_FRAGMENTS: Final = fields_by_value(
    Fragments,
    Fragments,
    problems=PROBLEMS,
    _wholes=Dict(BYTES, Inline(WHOLE)),
)
FRAGMENTS: Final = Inline(OF_FRAGMENTS)
CAPTURE_VALUES: Final = (PACKET, FRAGMENT, WHOLE, OF_FRAGMENTS)
