"""Members that their coordinator no longer knew after a silence, without the group's history.

A part of a capture may have no join of a group: the silence and the refusal are enough. A refusal
as FENCED_MEMBER_EPOCH is not one: the coordinator has the member, at another epoch.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.summary.arrow_columns import (
    has_text,
    has_word,
    integers,
    is_set,
    texts,
)
from kdissect.rules.coordinators import OF_COORDINATORS

MOST: Final = 10_000  # clients of groups
# The shortest session.timeout.ms that brokers allow by default; clients send a heartbeat every 3 s.
SILENT_NS: Final = 6 * SECOND_NS
# Members of the new protocols (KIP-848, 932, 1071) send one every 5 s by default, and are expelled
# after 45 s; brokers may allow less. Without one heartbeat they are silent for 10 s.
NEWLY_SILENT_NS: Final = 10 * SECOND_NS
NEW: Final = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
CLASSIC: Final = ("JoinGroup", "SyncGroup", "Heartbeat")
UNKNOWN: Final = "UNKNOWN_MEMBER_ID"
LEAVE: Final = "LeaveGroup"
LEFT: Final = "leave"  # event
Client = tuple[str, str]  # group, client id


class Silence(NamedTuple):
    """A client that sent nothing to its coordinator for long, and was refused as unknown then."""

    group: str
    client: str
    silent_ns: int
    last_ns: int  # the last request before
    refused_ns: int
    packet: int
    is_new: bool


class Last(NamedTuple):
    """The last request of a client to the coordinator of its group."""

    sent_ns: int
    has_left: bool
    is_new: bool  # of the new protocols

    @property
    def limit_ns(self) -> int:
        """The shortest silence after which the client may have been expelled."""
        return NEWLY_SILENT_NS if self.is_new else SILENT_NS


class Expelled:
    """Collects the last requests of a group's clients; constant memory."""

    def __init__(self) -> None:
        self._last: dict[Client, Last] = {}
        self._found: dict[Client, Silence] = {}
        self._left: set[tuple[str, str, int]] = set()  # with the time of the request
        self._has_all_left = True

    def add_members(self, batch: pa.RecordBatch) -> None:
        """Keep when members left: a leave of the new protocols is a heartbeat like others.

        The rows may come before those of the exchanges, or after them.
        """
        rows = has_text(batch, "event", LEFT).nonzero()[0]
        if not len(rows):
            return
        times = integers(batch, "time", 0)[rows].tolist()
        groups, clients = (texts(batch, name)[rows] for name in ("group_id", "client_id"))
        for group, client, time_ns in zip(groups, clients, times, strict=True):
            if len(self._left) >= MOST:
                self._has_all_left = False
                return
            self._left.add((str(group), str(client or ""), time_ns))

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at the requests of groups in the order in which they were sent.

        Members that share a client id make silences shorter, never longer.
        """
        is_of = is_set(batch, "group_id") & has_word(batch, "api", (*OF_COORDINATORS, LEAVE))
        rows = is_of.nonzero()[0]
        if not len(rows):
            return
        sent = integers(batch, "request_start", 0)
        rows = rows[sent[rows].argsort(kind="stable")]
        packets = integers(batch, "request_packet", 0)
        names = (texts(batch, name) for name in ("group_id", "client_id", "api", "error"))
        columns = [one[rows].tolist() for one in (*names, sent, packets)]
        for group, client, api, error, sent_ns, packet in zip(*columns, strict=True):
            key = (group, client or "")
            last = self._last.get(key)
            if last is not None and error == UNKNOWN:
                self._look(key, last, sent_ns, packet)
            if last is not None or len(self._last) < MOST:
                is_new = api in NEW or (last is not None and last.is_new and api not in CLASSIC)
                self._last[key] = Last(sent_ns, api == LEAVE, is_new)

    def _look(self, key: Client, last: Last, sent_ns: int, packet: int) -> None:
        silent_ns = sent_ns - last.sent_ns
        if not last.has_left and silent_ns >= last.limit_ns and key not in self._found:
            self._found[key] = Silence(*key, silent_ns, last.sent_ns, sent_ns, packet, last.is_new)

    def silences(self) -> list[Silence]:
        """The first silence of each client that had not left, the longest first."""
        found = [one for one in self._found.values() if not self._may_have_left(one)]
        return sorted(found, key=lambda one: (-one.silent_ns, one.group, one.client))

    def _may_have_left(self, one: Silence) -> bool:
        is_known = self._has_all_left or not one.is_new
        return not is_known or (one.group, one.client, one.last_ns) in self._left
