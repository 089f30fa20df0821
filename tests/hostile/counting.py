"""Counts work and memory, independently of machine load.

`lines` counts the lines of Python that run, so loops inside C (a list that is searched, bytes that
are copied) do not show: `tests.hostile.instructions` counts those, by valgrind.
"""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import kdissect
from kdissect.exchanges import pairing
from kdissect.framing import frame_search, frames
from kdissect.pipeline import Options, Run
from kdissect.streams import duplicates
from kdissect.tables.schemas import TABLES
from tests.hostile.catalogue import Hostile

PACKAGE = Path(kdissect.__path__[0])
IS_COMPILED = bool(list(PACKAGE.parent.glob("*__mypyc*.so")))
# A doubled input may cost this much more: twice, plus costs that come in steps.
GROWTH = 2.5


# Loops and credits bounded by a constant, and the smaller constant of a quick test: costs that grow
# only up to such a bound no longer grow in a capture of a few kilobytes.
SMALL_BOUNDS = (
    (duplicates, "RECENT_SEGMENTS", 64),
    (frame_search, "FIRST_CREDIT", 1 << 13),
    (frame_search, "FIRST_STEPS", 1 << 13),
    (pairing, "MAX_SHARED", 4),
    (pairing, "MAX_TRIES", 4),
)
# Bytes that wait while a frame is searched for, and their dependents: a capture of a few kilobytes
# fills such a window repeatedly, as one of many megabytes fills the real one.
SMALL_WINDOW = 1 << 11
SMALL_WINDOWS = (
    (frame_search, "WINDOW", SMALL_WINDOW),
    (frames, "WINDOW", SMALL_WINDOW),
    (frame_search, "MAX_COST", 4 * SMALL_WINDOW),
    (frame_search, "MAX_CREDIT", frame_search.CREDIT_EACH * SMALL_WINDOW),
    (frame_search, "FEW_BYTES", SMALL_WINDOW // 4),
    (frames, "FEW_BYTES", SMALL_WINDOW // 4),
)


@contextmanager
def small_bounds(*, windows: bool = False) -> Iterator[None]:
    """Let bounds that hold for any capture be reached early; only for modules that are plain.

    Without `windows` a capture of a few kilobytes waits in one window, as in the real one.
    """
    with ExitStack() as stack:
        for module, name, value in (*SMALL_BOUNDS, *(SMALL_WINDOWS if windows else ())):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def dissect(hostile: Hostile, capture: bytes) -> Run:
    """All tables of a capture; every byte is accounted for."""
    run = Run(io.BytesIO(capture), Options(tables=list(TABLES), jobs=1, protocol=hostile.protocol))
    for _ in run:
        pass
    balance = run.balance
    told = balance.framed_bytes + balance.skipped_bytes + balance.duplicate_bytes
    assert told + balance.tls_bytes + balance.encrypted_bytes == balance.payload_bytes
    return run


def lines(work: Callable[[], Any]) -> int:
    """Count the executed lines of Python."""
    count = 0

    def in_function(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
        return in_function

    before = sys.gettrace()
    sys.settrace(lambda *_: in_function)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
