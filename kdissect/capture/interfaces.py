"""Interfaces of a pcapng section, and the clock arithmetic that follows from them."""

import struct
from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.capture.blocks import read_options
from kdissect.capture.format_context import InterfaceLayout
from kdissect.capture.packet import SECOND_NS
from kdissect.capture.scanner import LATEST_NS

# Options of an Interface Description Block.
IF_NAME: Final = 2
IF_TSRESOL: Final = 9
IF_TSOFFSET: Final = 14


@mypyc_attr(acyclic=True)
class Interface:
    """One interface: link type and clock of its packets.

    A timestamp below ``high_limit << 32`` is converted to ns by multiplying by `unit_ns` and adding
    `offset_ns`; any other by `to_ns`.
    """

    __slots__ = (
        "link_type", "snap_length", "name", "unit_ns", "high_limit", "offset_ns",
        "units_per_second", "bad_times", "dropped",
    )  # fmt: skip

    def __init__(self, link_type: i64, snap_length: i64, name: str) -> None:
        self.link_type: i64 = link_type
        self.snap_length: i64 = snap_length
        self.name = name
        self.offset_ns: i64 = 0
        self.units_per_second: int = 0
        self.unit_ns: i64 = 0
        self.high_limit: i64 = 0
        # Packets whose time does not fit 64 bits in ns.
        self.bad_times: i64 = 0
        # Packets that the capturing host reports as lost.
        self.dropped: i64 = 0
        self.set_resolution(1_000_000)

    def set_resolution(self, units_per_second: int) -> None:
        """Set the unit of timestamps to 1 / `units_per_second` seconds."""
        self.units_per_second = units_per_second
        self.unit_ns = 0
        self.high_limit = 0
        if units_per_second <= SECOND_NS and SECOND_NS % units_per_second == 0:
            self.unit_ns = SECOND_NS // units_per_second
            # The offset may use the other half of the 63 bits.
            self.high_limit = (1 << 62) // (SECOND_NS // units_per_second) >> 32

    def time_of(self, high: i64, low: i64) -> i64:
        """Time in ns from the two halves of a timestamp."""
        if high < self.high_limit:
            time_ns = (high << 32 | low) * self.unit_ns + self.offset_ns
            if time_ns >= 0:
                return time_ns
        return self.to_ns((int(high) << 32) + int(low))

    def to_ns(self, timestamp: int) -> int:
        """Time in ns since 1970 of any 64-bit timestamp, clamped to 0 and `LATEST_NS`."""
        time_ns = timestamp * SECOND_NS // self.units_per_second + int(self.offset_ns)
        if 0 <= time_ns <= LATEST_NS:
            return time_ns
        self.bad_times += 1
        return 0 if time_ns < 0 else LATEST_NS

    def complaints(self, index: i64) -> list[tuple[str, str]]:
        """Kind and text of the problems of the interface, which is number `index`."""
        name = self.name or f"interface {index}"
        found: list[tuple[str, str]] = []
        if self.bad_times:
            found.append(
                ("bad-time", f"{name}: {self.bad_times} packet times outside 1970 to 2262")
            )
        if self.dropped:
            found.append(
                ("dropped-packets", f"{name}: the capturing host lost {self.dropped} packets")
            )
        return found

    @property
    def layout(self) -> InterfaceLayout:
        """The interface as a value, from which `resume_interface` restores it."""
        return InterfaceLayout(
            self.link_type, self.snap_length, self.name, self.units_per_second, self.offset_ns,
            self.bad_times, self.dropped,
        )  # fmt: skip


def make_interface(content: bytes, order: str) -> Interface:
    """Parse an Interface Description Block's content (without lengths).

    `order` is ``<`` or ``>``. Raises `struct.error` when the fixed fields are incomplete.
    """
    link_type, snap_length = struct.unpack_from(order + "HxxI", content, 0)
    interface = Interface(link_type, snap_length, "")
    for option in read_options(content, 8, order):
        if option.code == IF_NAME:
            interface.name = option.value.decode("utf-8", "replace")
        elif option.code == IF_TSRESOL and len(option.value) == 1:
            interface.set_resolution(_units_per_second(option.value[0]))
        elif option.code == IF_TSOFFSET and len(option.value) == 8:
            seconds: int = struct.unpack(order + "q", option.value)[0]
            _set_offset(interface, seconds)
    return interface


def resume_interface(layout: InterfaceLayout) -> Interface:
    """Restore the interface as it was when its `layout` was taken."""
    interface = Interface(layout.link_type, layout.snap_length, layout.name)
    interface.set_resolution(layout.units_per_second)
    interface.offset_ns = layout.offset_ns
    interface.bad_times = layout.bad_times
    interface.dropped = layout.dropped
    return interface


def _units_per_second(resolution: int) -> int:
    """Decode an if_tsresol value: a negative power of 2 if the highest bit is set, else of 10."""
    exponent = resolution & 0x7F
    return 1 << exponent if resolution & 0x80 else int(10**exponent)


def _set_offset(interface: Interface, seconds: int) -> None:
    """Set the offset, clamped to half of 64 bits of ns if it leaves no room for times."""
    half = LATEST_NS // 2
    interface.offset_ns = max(-half, min(seconds * SECOND_NS, half))
