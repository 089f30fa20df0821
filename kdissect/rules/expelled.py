"""Members that their coordinator no longer knew after a silence, without the group's history.

A part of a capture may have no join of a group: the silence and the refusal are enough.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.summary.arrow_columns import has_word, integers, is_set, texts
from kdissect.rules.coordinators import OF_COORDINATORS

MOST: Final = 10_000  # clients of groups
# The shortest session.timeout.ms that brokers allow by default; clients send a heartbeat every 3 s.
SILENT_NS: Final = 6 * SECOND_NS
UNKNOWN: Final = "UNKNOWN_MEMBER_ID"
LEAVE: Final = "LeaveGroup"


class Silence(NamedTuple):
    """A client that sent nothing to its coordinator for long, and was refused as unknown then."""

    group: str
    client: str
    silent_ns: int
    last_ns: int  # the last request before
    refused_ns: int
    packet: int


class Expelled:
    """Collects the last requests of a group's clients; constant memory."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[int, bool]] = {}
        self._found: dict[tuple[str, str], Silence] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at the requests of groups in the order in which they were sent.

        Members that share a client id make silences shorter, never longer.
        """
        is_of = is_set(batch, "group_id") & has_word(batch, "api", (*OF_COORDINATORS, LEAVE))
        rows = is_of.nonzero()[0]
        if not len(rows):
            return
        sent, packets = integers(batch, "request_start", 0), integers(batch, "request_packet", 0)
        names = (texts(batch, name) for name in ("group_id", "client_id", "api", "error"))
        groups, clients, apis, errors = names
        for row in rows[sent[rows].argsort(kind="stable")].tolist():
            key = (str(groups[row]), str(clients[row] or ""))
            self._look(key, int(sent[row]), errors[row] == UNKNOWN, int(packets[row]))
            if key in self._last or len(self._last) < MOST:
                self._last[key] = (int(sent[row]), apis[row] == LEAVE)

    def _look(self, key: tuple[str, str], sent_ns: int, is_refused: bool, packet: int) -> None:
        last_ns, has_left = self._last.get(key, (sent_ns, True))
        silent_ns = sent_ns - last_ns
        if is_refused and not has_left and silent_ns >= SILENT_NS and key not in self._found:
            self._found[key] = Silence(*key, silent_ns, last_ns, sent_ns, packet)

    def silences(self) -> list[Silence]:
        """The first silence of each client, the longest first."""
        return sorted(self._found.values(), key=lambda one: (-one.silent_ns, one.group, one.client))
