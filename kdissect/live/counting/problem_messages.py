"""The last problem of each kind, with its message."""

from collections.abc import Iterable

import pyarrow as pa

from kdissect.live.counting.snapshot import ProblemMessage
from kdissect.live.listener import MID_STREAM
from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ints_of

# Kinds are names in the code; this only bounds what a mistake there would cost.
KINDS = 100
MESSAGE_SIZE = 1_000


class ProblemMessages:
    """Takes rows of `problems`; kinds that only say that a capture was begun are left out."""

    def __init__(self) -> None:
        self._last: dict[str, ProblemMessage] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Take rows; of each kind the last one is kept."""
        kinds, messages = (batch[name].to_pylist() for name in ("kind", "message"))
        stages, times = batch["stage"].to_pylist(), ints_of(batch["time"]).tolist()
        connections = ints_of(batch["connection_id"]).tolist()
        last = {kind: at for at, kind in enumerate(kinds) if kind != MID_STREAM}
        for kind, at in last.items():
            if kind in self._last or len(self._last) < KINDS:
                self._last[kind] = ProblemMessage(
                    kind,
                    stages[at],
                    (messages[at] or "")[:MESSAGE_SIZE],
                    0 if times[at] == NULL else times[at],
                    -1 if connections[at] == NULL else connections[at],
                )

    def now(self) -> tuple[ProblemMessage, ...]:
        """One of each kind."""
        return tuple(self._last.values())


def join_messages(parts: Iterable[ProblemMessage]) -> tuple[ProblemMessage, ...]:
    """The last of each kind of several workers."""
    found: dict[str, ProblemMessage] = {}
    for one in parts:
        known = found.get(one.kind)
        if known is None or one.time_ns >= known.time_ns:
            found[one.kind] = one
    return tuple(found.values())
