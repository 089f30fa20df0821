"""Packets that are written again: the same bytes, lengths, times, interfaces and options."""

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given as given_cases
from hypothesis import settings
from hypothesis import strategies as st

from kdissect.capture.blocks import Block, Option, read_options
from kdissect.capture.files import open_captures
from kdissect.capture.formats import make_scanner
from kdissect.capture.packet_writer import PcapCopier, PcapngCopier
from kdissect.capture.pcapng import PcapngScanner
from kdissect.errors import OutputError
from tests.capture.writers import (
    MICROSECONDS,
    NANOSECONDS,
    START_NS,
    Captured,
    Given,
    given,
    make_enhanced_packet,
    make_interface_block,
    make_obsolete_packet,
    make_options,
    make_pcap,
    make_pcapng,
    make_secrets,
    make_section_header,
    make_simple_packet,
)

MICROS = START_NS // 1000
FLAGS = 2
COMMENT = 1


def copied(*contents: bytes, directory: Path, with_secrets: bool = False) -> bytes:
    """All packets of files written again as pcapng, commented with their numbers."""
    paths = []
    for index, content in enumerate(contents):
        paths.append(directory / f"{index}.cap")
        paths[-1].write_bytes(content)
    file = io.BytesIO()
    with open_captures(paths, keeps_blocks=True) as capture:
        copier = PcapngCopier(file, capture, "all", "tests", with_secrets)
        for batch in capture:
            for packet in batch:
                copier.write(packet, f"number {packet.number}")
            copier.pass_over({packet.capture: packet.number for packet in batch})
        copier.finish()
    return file.getvalue()


def scanned(content: bytes) -> list[Given]:
    scanner = make_scanner(content)
    packets = given(scanner.feed(content) + scanner.finish())
    assert scanner.problems == []
    return packets


def blocks_of(content: bytes) -> list[Block]:
    scanner = PcapngScanner()
    scanner.keeps_blocks = True
    scanner.feed(content)
    return scanner.blocks


def options_of(content: bytes, size: int) -> list[list[Option]]:
    """Options of each Enhanced Packet Block, of packets of `size` bytes."""
    found = []
    at = 0
    while at < len(content):
        kind, length = struct.unpack_from("<II", content, at)
        if kind == 6:
            behind = content[at + 28 + size + -size % 4 : at + length - 4]
            found.append(read_options(behind, 0, "<"))
        at += length
    return found


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [MICROSECONDS, NANOSECONDS])
def test_pcap_files_become_pcapng_of_the_same_clock(order: str, magic: int, tmp_path: Path) -> None:
    content = make_pcap([b"abc", Captured(b"cut", START_NS + 7_000, 99)], magic, order, 113, 96)
    written = copied(content, directory=tmp_path)
    assert scanned(written) == scanned(content)
    (interface,) = [block.content for block in blocks_of(written) if block.kind == 1]
    exponent = 9 if magic == NANOSECONDS else 6
    assert interface[:8] == struct.pack("<HHI", 113, 0, 96)
    assert read_options(interface, 8, "<") == [Option(9, bytes((exponent,)))]


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind_of_packet_block_is_copied(order: str, tmp_path: Path) -> None:
    flags = make_options(order, (FLAGS, struct.pack(order + "I", 1)), (COMMENT, b"seen"))
    content = b"".join((
        make_section_header(order),
        make_interface_block(order, 1, 262144, name="eth0"),
        make_interface_block(order, 113, 96, resolution=0x94, offset_seconds=-5, name="any"),
        make_enhanced_packet(order, b"abcdefg", MICROS, 2000, options=flags),
        make_enhanced_packet(order, b"ABCDEFG", (START_NS // 10**9 + 5) << 20 | 3, interface=1),
        make_obsolete_packet(order, b"hijklmn", MICROS + 1),
        make_simple_packet(order, b"opqrstu"),
    ))  # fmt: skip
    written = copied(content, directory=tmp_path)
    assert scanned(written) == scanned(content)
    told = [Option(COMMENT, f"number {number}".encode()) for number in (1, 2, 3, 4)]
    first = [Option(FLAGS, struct.pack("<I", 1)), Option(COMMENT, b"seen"), told[0]]
    assert options_of(written, 7) == [first, [told[1]], [told[2]], [told[3]]]
    described = [block.content for block in blocks_of(written) if block.kind == 1]
    assert [read_options(content, 8, "<") for content in described] == [
        [Option(2, b"eth0")],
        [Option(2, b"any"), Option(9, b"\x94"), Option(14, struct.pack("<q", -5))],
        # Of the Simple Packet Block, whose time is that of the previous packet.
        [Option(2, b"eth0"), Option(9, b"\x09")],
    ]


def test_interfaces_of_several_files_and_sections_are_described_once(tmp_path: Path) -> None:
    section = make_section_header(">") + make_interface_block(">", 1, name="eth0")
    first = section + make_enhanced_packet(">", b"a", MICROS)
    second = section + make_enhanced_packet(">", b"b", MICROS + 2) + make_section_header("<")
    second += make_interface_block("<", 1, name="eth1")
    second += make_interface_block("<", 1, name="eth0")
    second += make_enhanced_packet("<", b"c", MICROS + 3, interface=1)
    written = copied(first, second, directory=tmp_path)
    assert [packet.data for packet in scanned(written)] == [b"a", b"b", b"c"]
    names = [read_options(one.content, 8, "<")[0].value for one in blocks_of(written)[1:]]
    # The same name in another place of the section is another interface.
    assert names == [b"eth0", b"eth1", b"eth0"]


def test_blocks_without_packets_do_not_accumulate_after_the_last_packet(tmp_path: Path) -> None:
    section = make_section_header() + make_interface_block(name="eth0")
    path = tmp_path / "a.pcapng"
    path.write_bytes((section + make_simple_packet("<", b"a")) * 10_000)
    file = io.BytesIO()
    kept = []
    with open_captures(path, chunk_size=1 << 12, keeps_blocks=True) as capture:
        copier = PcapngCopier(file, capture, "none", "tests", False)
        for batch in capture:
            copier.pass_over({packet.capture: packet.number for packet in batch})
            kept.append(len(copier._origins[0].blocks))
    assert len(kept) > 100
    # Those of the last packets of a chunk, which may be before the next one.
    assert max(kept) <= 3


def test_there_is_a_limit_on_interfaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.capture.packet_writer.MAXIMUM_INTERFACES", 3)
    content = b"".join(
        make_section_header() + make_interface_block(name=f"eth{number}") for number in range(4)
    )
    with pytest.raises(OutputError, match="at most 3 different interfaces"):
        copied(content + make_enhanced_packet("<", b"a", MICROS), directory=tmp_path)


def test_secrets_are_copied_once_when_they_are_asked_for(tmp_path: Path) -> None:
    secrets = make_secrets("<", 0x544C534B, b"CLIENT_RANDOM a b\n")
    content = make_pcapng([b"abc"]) + secrets
    other = make_pcapng([b"def"], ">") + make_secrets(">", 0x544C534B, b"CLIENT_RANDOM a b\n")
    with_keys = copied(content, other, directory=tmp_path, with_secrets=True)
    assert with_keys.count(secrets) == 1
    assert b"CLIENT_RANDOM" not in copied(content, other, directory=tmp_path)


def test_a_pcap_file_has_no_room_for_two_link_types(tmp_path: Path) -> None:
    (tmp_path / "a.pcapng").write_bytes(
        make_section_header() + make_interface_block() + make_interface_block(link_type=113)
        + make_enhanced_packet("<", b"a", MICROS)
        + make_enhanced_packet("<", b"b", MICROS, interface=1)
    )  # fmt: skip
    file = io.BytesIO()
    copier = PcapCopier(file)
    with open_captures(tmp_path / "a.pcapng") as capture:
        first, second = [packet for batch in capture for packet in batch]
        copier.write(first, "")
        with pytest.raises(OutputError, match="these are of 1 and 113: write pcapng"):
            copier.write(second, "")
    assert [packet.data for packet in scanned(file.getvalue())] == [b"a"]


@settings(max_examples=60, derandomize=True)
@given_cases(
    packets=st.lists(
        st.tuples(st.binary(max_size=9), st.integers(0, 3), st.integers(0, 1 << 40)), max_size=8
    ),
    damage=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=2),
    order=st.sampled_from("<>"),
)
def test_any_readable_file_is_written_as_it_was_read(
    packets: list[tuple[bytes, int, int]],
    damage: list[tuple[int, int]],
    order: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    content = bytearray(make_section_header(order) + make_interface_block(order, resolution=9))
    start = len(content)
    makers = (make_enhanced_packet, make_obsolete_packet)
    for index, (data, kind, units) in enumerate(packets):
        if kind < len(makers):
            content += makers[kind](order, data, units)
        elif kind == 2:
            content += make_simple_packet(order, data)
        else:
            content += make_section_header(order) + make_interface_block(order, index)
    for at, value in damage:
        if start <= at < len(content):
            content[at] = value
    scanner = make_scanner(bytes(content))
    expected = given(scanner.feed(bytes(content)) + scanner.finish())
    directory = tmp_path_factory.mktemp("damaged")
    written = scanned(copied(bytes(content), directory=directory))
    shown = [(one.time_ns, one.link_type, one.data, one.original_length) for one in written]
    assert shown == [
        (one.time_ns, one.link_type, one.data, one.original_length) for one in expected
    ]
