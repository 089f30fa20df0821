"""IEEE 802.11: locate the payload of a captured frame."""

from typing import Final

from librt.strings import read_i32_be, read_i32_le
from mypy_extensions import i64

CUT: Final = -1
# In place of ethertypes, like those of link.py: lengths of IEEE 802.3 are small, and LLC follows.
LLC_FRAME: Final = 0
AGGREGATE: Final = 0x10001
ENCRYPTED: Final = -10
NO_DATA: Final = -11
FRAGMENT: Final = -12

DATA: Final = 2
# Second byte of the frame control.
TO_AND_FROM_ACCESS_POINT: Final = 0x03
MORE_FRAGMENTS: Final = 0x04
PROTECTED: Final = 0x40
HAS_HT_CONTROL: Final = 0x80
# Subtypes of data frames.
WITHOUT_DATA: Final = 0x04
QOS: Final = 0x08

RADIOTAP_TSFT: Final = 0x01
RADIOTAP_FLAGS: Final = 0x02
RADIOTAP_MORE: Final = 1 << 31
RADIOTAP_PADDED: Final = 0x20  # in the flags: the header is padded to a multiple of 4
MAXIMUM_PRESENCE_WORDS: Final = 16

AVS_MAGIC: Final = 0x80211000
PRISM_SIZE: Final = 144


def read_radiotap(data: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """Payload of the frame after a radiotap header, and its index."""
    if start + 8 > end:
        return CUT, end
    size: i64 = data[start + 2] | data[start + 3] << 8
    return read_wireless(data, start + size, end, is_padded(data, start, min(start + size, end)))


def is_padded(data: bytes, start: i64, end: i64) -> bool:
    """Return whether the radiotap header declares padding after the 802.11 header."""
    present: i64 = i64(read_i32_le(data, start + 4)) & 0xFFFFFFFF
    if present & RADIOTAP_FLAGS == 0:
        return False
    offset = start + 8
    more = present
    for _ in range(MAXIMUM_PRESENCE_WORDS):
        if more & RADIOTAP_MORE == 0 or offset + 4 > end:
            break
        more = i64(read_i32_le(data, offset)) & 0xFFFFFFFF
        offset += 4
    if present & RADIOTAP_TSFT:
        # 8 bytes, aligned to 8 from the start of the header.
        offset = start + ((offset - start + 7) & ~7) + 8
    return offset < end and data[offset] & RADIOTAP_PADDED != 0


def read_prism(data: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """Payload of the frame after a Prism or AVS header, and its index."""
    if start + 8 > end:
        return CUT, end
    size: i64 = PRISM_SIZE
    if i64(read_i32_be(data, start)) & 0xFFFFF000 == AVS_MAGIC:
        size = i64(read_i32_be(data, start + 4)) & 0xFFFF
    return read_wireless(data, start + size, end, False)


def read_wireless(data: bytes, offset: i64, end: i64, has_padding: bool) -> tuple[i64, i64]:
    """Payload of the 802.11 frame at `offset`, and its index.

    LLC_FRAME, AGGREGATE (an A-MSDU), or the reason why it cannot be analyzed: ENCRYPTED, FRAGMENT,
    CUT, NO_DATA for frames without payload.
    """
    if offset + 24 > end:
        # Acknowledgments and similar frames are shorter.
        is_short = offset + 2 <= end and data[offset] >> 2 & 0x03 != DATA
        return (NO_DATA if is_short else CUT), end
    flags: i64 = data[offset + 1]
    subtype: i64 = data[offset] >> 4
    if data[offset] >> 2 & 0x03 != DATA or subtype & WITHOUT_DATA:
        return NO_DATA, end
    if flags & PROTECTED:
        return ENCRYPTED, end
    if flags & MORE_FRAGMENTS or data[offset + 22] & 0x0F:
        return FRAGMENT, end
    size: i64 = 24
    if flags & TO_AND_FROM_ACCESS_POINT == TO_AND_FROM_ACCESS_POINT:
        size += 6
    is_aggregate = False
    if subtype & QOS:
        if offset + size + 2 > end:
            return CUT, end
        is_aggregate = data[offset + size] & 0x80 != 0
        size += 2
        if flags & HAS_HT_CONTROL:
            size += 4
    if has_padding:
        size = (size + 3) & ~3
    return (AGGREGATE if is_aggregate else LLC_FRAME), offset + size
