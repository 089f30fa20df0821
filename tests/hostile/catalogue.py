"""All hostile captures by name: any size, parameters drawn from a seed."""

import random
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.hostile.enveloped import ENVELOPED
from tests.hostile.exchanges import EXCHANGES, drafts_of_2012
from tests.hostile.files import PCAPNGS, PCAPS, Pcapng
from tests.hostile.messages import MESSAGES
from tests.hostile.searches import SEARCHES
from tests.hostile.segments import SEGMENTS
from tests.hostile.wire import Wire

Generator = Callable[[random.Random, Any], None]


class Hostile(NamedTuple):
    """A generator of captures; `protocol` is the option to dissect them with."""

    generate: Generator
    is_pcapng: bool = False
    protocol: str = "auto"

    def capture(self, seed: int, size: int) -> bytes:
        """A capture of about `size` bytes; its parameters do not depend on the size."""
        name = zlib.crc32(self.generate.__name__.encode())
        wire = Pcapng(size) if self.is_pcapng else Wire(size)
        self.generate(random.Random(seed << 32 | name), wire)
        return wire.file()


HOSTILE: dict[str, Hostile] = {
    one.__name__: Hostile(one, protocol="trunk-2012" if one is drafts_of_2012 else "auto")
    for one in (*SEARCHES, *SEGMENTS, *EXCHANGES, *MESSAGES, *ENVELOPED, *PCAPS)
} | {one.__name__: Hostile(one, is_pcapng=True) for one in PCAPNGS}
