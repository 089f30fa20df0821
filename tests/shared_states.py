"""Values that all connections share until one needs its own: nothing may change them."""

from typing import Any

from kdissect.encoding.classes import attribute_names
from kdissect.exchanges.connection_state import NO_FRAMES, NO_RESPONSES
from kdissect.framing.frame_search import NO_EVENTS, NOT_WAITING, Waiting
from kdissect.framing.frames import NO_PARTS
from kdissect.streams.reassembly_buffer import NO_PIECES
from kdissect.streams.resent import NO_RESENT, Resent
from kdissect.streams.tcp_analysis import NO_ANALYSIS, TcpAnalysis

LISTS: tuple[list[Any], ...] = (NO_FRAMES, NO_RESPONSES, NO_EVENTS, NO_PARTS, NO_PIECES)
OBJECTS = (NOT_WAITING, NO_RESENT, NO_ANALYSIS)


def values(state: Any) -> dict[str, Any]:
    return {name: getattr(state, name) for name in attribute_names(state)}


NEW = [values(made()) for made in (Waiting, Resent, TcpAnalysis)]


def are_unchanged() -> bool:
    """Return whether all of them are as they were made."""
    return not any(LISTS) and [values(one) for one in OBJECTS] == NEW
