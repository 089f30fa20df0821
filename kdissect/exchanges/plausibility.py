"""Plausibility of a connection's first frames as Kafka, with no evidence but their position.

A stream that was captured from its first byte on is cut into frames from there in any case. A
frame that decodes to its last byte, or has a client id, is proof. A frame that only could be a
request (zeros and small numbers make many) is held until another proves it, or until answers repeat
the correlation ids of the held frames; other protocols seldom do, and never large ones.
"""

from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.layout_fit import NOT, LayoutFit
from kdissect.framing.frames import Frame

REFUSED_LIMIT: Final = 3  # frames that cannot be requests, before Kafka is ruled out for good
SMALL_ID: Final = 0xFFFF  # counters, lengths and flags of other protocols are below
MANY: Final = 3  # answers that repeat small ids


def is_proof(layout_fit: LayoutFit, frame: Frame) -> bool:
    """Return whether a possible request is proof of Kafka."""
    data = frame.data
    if len(data) >= 10 and i64(read_i16_be(data, 8)) > 0:
        return True
    return frame.missing == 0 and layout_fit.request(data, frame.size) != NOT


def is_answered(state: ConnectionState) -> bool:
    """Return whether the held answers have the correlation ids of the requests, in order."""
    asked: list[int] = []
    answered: list[int] = []
    for frame in state.held:
        if frame.direction == state.request_direction:
            asked.append(i64(read_i32_be(frame.data, 4)))
        elif len(frame.data) >= 4:
            answered.append(i64(read_i32_be(frame.data, 0)))
    count: i64 = 0
    is_large = False
    for one, other in zip(asked, answered, strict=False):
        if one == other:
            count += 1
            if one < 0 or one > SMALL_ID:
                is_large = True
    return count >= MANY or is_large
