"""Detect the type of a file from its first bytes: a capture, a compressed file, or another kind."""

from typing import Final

from kdissect.capture.blocks import PCAPNG_MAGIC
from kdissect.capture.pcap import PCAP_MAGICS, PcapScanner
from kdissect.capture.pcapng import PcapngScanner
from kdissect.capture.scanner import Scanner
from kdissect.errors import TruncatedCapture, UnknownCaptureFormat

# Bytes that `make_scanner` needs; the mark of a tar archive is at byte 257.
RECOGNITION_SIZE: Final = 512
SHOWN_SIZE: Final = 16
MAGIC_SIZE: Final = 4

CONVERT_ADVICE: Final = "convert it with: editcap -F pcapng IN OUT"
UNPACK_ADVICE: Final = "unpack it first"

# Offset, bytes there, kind of file, advice.
GUESSES: Final = (
    (0, b"snoop\x00\x00\x00", "a Solaris snoop capture", CONVERT_ADVICE),
    (0, b"GMBU", "a Microsoft Network Monitor 2 capture", CONVERT_ADVICE),
    (0, b"RTSS", "a Microsoft Network Monitor 1 capture", CONVERT_ADVICE),
    (0, b"TRSNIFF data    \x1a", "a Network General Sniffer capture", CONVERT_ADVICE),
    (0, b"XCP\x00", "a NetXRay capture", CONVERT_ADVICE),
    (0, b"\x54\x52\x00\x64", "a Network Instruments Observer capture", CONVERT_ADVICE),
    (0, b"ObserverPktBuffe", "a Network Instruments Observer capture", CONVERT_ADVICE),
    (0, b"\x7fver", "an EtherPeek capture", CONVERT_ADVICE),
    (0, b"btsnoop\x00", "a Bluetooth snoop capture", "it holds no TCP"),
    (0, b"\xa1\xb2\x34\xcd", "a pcap file of a variant that is not known", CONVERT_ADVICE),
    (0, b"\xcd\x34\xb2\xa1", "a pcap file of a variant that is not known", CONVERT_ADVICE),
    (0, b"\xa1\xe2\xcb\x12", "a pcap file of a variant that is not known", CONVERT_ADVICE),
    (0, b"\x12\xcb\xe2\xa1", "a pcap file of a variant that is not known", CONVERT_ADVICE),
    (0, b"PK\x03\x04", "a zip archive", UNPACK_ADVICE),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK_ADVICE),
    (0, b"\x04\x22\x4d\x18", "an LZ4 file inside another compressed file", UNPACK_ADVICE),
    (0, b"\x02\x21\x4c\x18", "a legacy LZ4 file", UNPACK_ADVICE),
    (0, b"\xff\x06\x00\x00sNaPpY", "a snappy file", UNPACK_ADVICE),
    (0, b"\x1f\x9d", "a file of compress(1)", UNPACK_ADVICE),
    (0, b"\x1f\x8b", "a gzip file inside another compressed file", UNPACK_ADVICE),
    (0, b"PAR1", "a Parquet file", "kdissect reads captures; query it with DuckDB or pandas"),
    (0, b"ARROW1", "an Arrow file", "kdissect reads captures"),
    (0, b"SQLite format 3\x00", "an SQLite database", ""),
    (0, b"\x7fELF", "an ELF program", ""),
    (0, b"MZ", "a Windows program", ""),
    (0, b"%PDF", "a PDF document", ""),
    (0, b"\x89PNG", "a PNG image", ""),
    (257, b"ustar", "a tar archive", UNPACK_ADVICE),
)
IPFIX_VERSION: Final = b"\x00\x0a"
NETFLOW_9_VERSION: Final = b"\x00\x09"
# Extensible Record Format: 8 bytes time, type (1-48, high bit: extension headers), flags, length.
ERF_HEADER_SIZE: Final = 16
ERF_TYPES: Final = range(1, 49)


def make_scanner(first: bytes, capture: int = 0, first_ordinal: int = 0) -> Scanner:
    """Scanner for a file that starts with `first` (`RECOGNITION_SIZE` bytes if it has them).

    Raises `UnknownCaptureFormat` describing what the file looks like, `TruncatedCapture` when it is
    shorter than a magic number.
    """
    magic = first[:MAGIC_SIZE]
    if magic in PCAP_MAGICS:
        return PcapScanner(capture, first_ordinal)
    if magic == PCAPNG_MAGIC:
        return PcapngScanner(capture, first_ordinal)
    if not first:
        raise UnknownCaptureFormat("the file is empty")
    if any(known.startswith(magic) for known in (PCAPNG_MAGIC, *PCAP_MAGICS)):
        raise TruncatedCapture(f"the file ends after {len(first)} bytes of a capture file header")
    raise UnknownCaptureFormat(
        f"not a pcap or pcapng file: it looks like {describe_content(first)}\n"
        f"  it starts with {first[:SHOWN_SIZE].hex(' ')}  {_printable(first[:SHOWN_SIZE])}"
    )


def is_capture(first: bytes) -> bool:
    """Return whether a file that starts with `first` has a supported format."""
    return first[:MAGIC_SIZE] in PCAP_MAGICS or first[:MAGIC_SIZE] == PCAPNG_MAGIC


def describe_content(first: bytes) -> str:
    """Describe what a file that starts with `first` looks like, with advice."""
    for offset, mark, name, advice in GUESSES:
        if first[offset : offset + len(mark)] == mark:
            return f"{name}; {advice}" if advice else name
    if _looks_like_erf(first):
        return f"an Endace ERF capture; {CONVERT_ADVICE}"
    if first[:2] in (IPFIX_VERSION, NETFLOW_9_VERSION) and len(first) >= ERF_HEADER_SIZE:
        return "flow records (IPFIX or NetFlow), which hold no packets"
    if not any(first):
        return "zeros: the file was never written, or lost its content"
    return _describe_text(first) or "nothing that is known"


def _looks_like_erf(first: bytes) -> bool:
    """Return whether the length covers the header and the little-endian time is after 2001."""
    if len(first) < ERF_HEADER_SIZE:
        return False
    seconds = int.from_bytes(first[4:8], "little")
    length = int.from_bytes(first[10:12], "big")
    return first[8] & 0x7F in ERF_TYPES and seconds > 1_000_000_000 and length >= ERF_HEADER_SIZE


def _describe_text(first: bytes) -> str:
    """The kind of text, or "" if it is not text."""
    # The last character may be truncated.
    text = first[:RECOGNITION_SIZE].decode("utf-8", "replace").removesuffix("\ufffd")
    if "\ufffd" in text:
        return ""
    if any(character < " " and character not in "\t\r\n\f\x1b" for character in text):
        return ""
    start = text.lstrip("\ufeff \t\r\n").lower()
    if start.startswith(("<!doctype html", "<html")):
        return "an HTML page; was the download answered by a login page?"
    if start.startswith("<?xml"):
        return "XML"
    if start.startswith(("{", "[")):
        return "JSON"
    return "text; if it is tcpdump's output, record with tcpdump -w FILE"


def _printable(shown: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in shown)
