"""Context needed to read a capture file from the middle on: values that can be pickled.

In a pcap file it is the header. In a pcapng file it accumulates over the section's blocks before
that place.
"""

from typing import NamedTuple, TypeAlias

from kdissect.capture.blocks import Secrets


class PcapLayout(NamedTuple):
    """The header of a pcap file.

    A record's fraction of a second counts `fraction_ns` (1 or 1000) ns; its header has
    `record_header_size` bytes, 16 or, in the modified format, 24.
    """

    is_big_endian: bool
    fraction_ns: int
    record_header_size: int
    snap_length: int
    link_type: int


class InterfaceLayout(NamedTuple):
    """One interface of a section, and its counts so far.

    Timestamps count 1 / `units_per_second` s and are shifted by `offset_ns`. `bad_times` packets
    had a time outside 1970 to 2262; `dropped` is the host's loss by the last statistics.
    """

    link_type: int
    snap_length: int
    name: str
    units_per_second: int
    offset_ns: int
    bad_times: int
    dropped: int


class SectionLayout(NamedTuple):
    """The current section of a pcapng file: byte order, interfaces in order, secrets.

    `secrets` are those of all sections so far; their blocks held `secrets_size` bytes.
    """

    is_big_endian: bool
    interfaces: tuple[InterfaceLayout, ...]
    secrets: tuple[Secrets, ...]
    secrets_size: int


Layout: TypeAlias = PcapLayout | SectionLayout
