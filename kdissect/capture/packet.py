"""`Packet`: output of the capture stage, one captured link-layer frame."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

SECOND_NS: Final = 1_000_000_000


@mypyc_attr(acyclic=True)
class Packet:
    """One captured packet: ``data[start:end]`` are its bytes, from the link-layer header on.

    `data` is a large buffer that many packets share. `original_length` is the length on the wire;
    larger than ``end - start`` if the snaplen truncated it. `time_ns` is in ns since 1970. `number`
    is Wireshark's frame.number (1-based, all packets of the file counted); `ordinal` counts the
    packets of all files read as one capture, consecutively from 1; `capture` is the index of the
    file. `link_type` is the LINKTYPE_ value of the packet's interface.
    """

    __slots__ = (
        "number", "ordinal", "capture", "time_ns", "link_type", "data", "start", "end",
        "original_length",
    )  # fmt: skip

    def __init__(
        self,
        number: i64,
        time_ns: i64,
        link_type: i64,
        data: bytes,
        start: i64,
        end: i64,
        original_length: i64,
        ordinal: i64,
        capture: i64,
    ) -> None:
        self.number = number
        self.time_ns = time_ns
        self.link_type = link_type
        self.data = data
        self.start = start
        self.end = end
        self.original_length = original_length
        self.ordinal = ordinal
        self.capture = capture
