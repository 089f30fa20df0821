import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.formats import describe_content, make_scanner
from kdissect.capture.pcap import PCAP_MAGICS, PcapScanner
from kdissect.capture.pcapng import PcapngScanner
from kdissect.errors import CaptureError, TruncatedCapture, UnknownCaptureFormat

ERF = struct.pack("<II", 0, 1_700_000_000) + struct.pack(">BBHHH", 2, 4, 80, 0, 60) + bytes(64)


@pytest.mark.parametrize("magic", sorted(PCAP_MAGICS))
def test_pcap_is_recognised_by_every_magic_number(magic: bytes) -> None:
    assert type(make_scanner(magic + bytes(20))) is PcapScanner


def test_pcapng_is_recognised() -> None:
    assert type(make_scanner(b"\x0a\x0d\x0d\x0a")) is PcapngScanner


@pytest.mark.parametrize(
    ("content", "looks_like"),
    [
        (b"snoop\x00\x00\x00\x00\x00\x00\x02", "a Solaris snoop capture"),
        (ERF, "an Endace ERF capture"),
        (b"GMBU\x00\x02", "a Microsoft Network Monitor 2 capture"),
        (b"\xa1\xb2\x34\xcd", "a pcap file of a variant that is not known"),
        (b"\x00\x0a\x00\x40" + bytes(16), "flow records (IPFIX or NetFlow)"),
        (b"PK\x03\x04\x14\x00", "a zip archive"),
        (b"\x00" * 257 + b"ustar\x0000", "a tar archive"),
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"\x7fELF\x02\x01\x01", "an ELF program"),
        (b"<!DOCTYPE html>\n<html>", "an HTML page"),
        (b"\n <HTML><body>", "an HTML page"),
        (b'<?xml version="1.0"?>', "XML"),
        (b'{"frames": []}', "JSON"),
        (b"[1, 2]", "JSON"),
        (
            b"12:00:01.5 IP 10.0.0.1.5 > 10.0.0.2.9092: Flags [S]\n",
            "text; if it is tcpdump's output",
        ),
        ("Grüße\n".encode() * 100, "text"),
        (bytes(100), "zeros"),
        (b"\x01\x02\x03\xff\xfe", "nothing that is known"),
    ],
)
def test_other_files_are_named(content: bytes, looks_like: str) -> None:
    with pytest.raises(UnknownCaptureFormat, match="not a pcap or pcapng file") as caught:
        make_scanner(content)
    assert f"it looks like {looks_like}" in str(caught.value)
    assert content[:16].hex(" ") in str(caught.value)


def test_the_message_shows_the_first_bytes() -> None:
    with pytest.raises(UnknownCaptureFormat) as caught:
        make_scanner(b"PK\x03\x04\x14\x00")
    assert str(caught.value) == (
        "not a pcap or pcapng file: it looks like a zip archive; unpack it first\n"
        "  it starts with 50 4b 03 04 14 00  PK...."
    )


def test_an_empty_file_is_called_empty() -> None:
    with pytest.raises(UnknownCaptureFormat, match=r"^the file is empty$"):
        make_scanner(b"")


@pytest.mark.parametrize("content", [b"\x0a", b"\xd4\xc3", b"\xa1\xb2\xc3"])
def test_a_file_that_ends_in_its_magic_number_is_truncated(content: bytes) -> None:
    with pytest.raises(TruncatedCapture, match=f"ends after {len(content)} bytes"):
        make_scanner(content)


@given(st.binary(max_size=600))
def test_any_content_is_recognised_or_described(content: bytes) -> None:
    assert describe_content(content)
    with contextlib.suppress(CaptureError):
        make_scanner(content)
