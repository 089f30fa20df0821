"""Group protocols over the time of a split: what its connections learn, and a replay finds.

A SyncGroup is read with the protocol of its group's last JoinGroup, which may be another
connection's. A connection that is read again by the merger has to find what was agreed on before it
by connections that are not. So the split records each change with the number of its segment, and
the merger learns it again at that number.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Final

from kdissect.exchanges.groups import GroupProtocols, Learned, size_of

# Number of the split's segments up to it, group id, protocol type and name, connection id.
LearnedAt = tuple[int, str, tuple[str, str], int]
# Entries of a split, and characters in them: one with more is dissected as a whole.
MAX_LEARNED: Final = 100_000
MAX_TEXT: Final = 16 << 20


class GroupHistory:
    """Protocols learned in one split, in its order."""

    __slots__ = ("groups", "learned", "news", "text_size")

    def __init__(self, groups: GroupProtocols) -> None:
        self.groups = groups
        self.learned: list[LearnedAt] = []
        self.news: list[Learned] = []
        groups.news = self.news
        self.text_size = 0

    @property
    def is_too_long(self) -> bool:
        return len(self.learned) >= MAX_LEARNED or self.text_size >= MAX_TEXT

    def take(self, number: int) -> None:
        """Record changes from the `number`th segment."""
        for group_id, protocol, connection_id in self.news:
            if not self.is_too_long:
                self.text_size += size_of(group_id, protocol)
                self.learned.append((number, group_id, protocol, connection_id))
        self.news.clear()


class GroupReplay:
    """Protocols of groups while a boundary state is merged.

    `is_replayed` says whether the merger itself dissects that segment of the split's connection.
    """

    def __init__(
        self,
        groups: GroupProtocols,
        learned: tuple[LearnedAt, ...],
        is_replayed: Callable[[int, int], bool],
    ) -> None:
        self.groups = groups
        self.before = dict(groups.protocols)
        self.learned: list[LearnedAt] = list(learned)
        self.is_replayed = is_replayed
        self.replay = GroupHistory(groups)
        # Index of the first that is still to be learned.
        self.next = 0

    def go_to(self, number: int) -> None:
        """Apply the split's changes before its `number`th segment."""
        while self.next < len(self.learned) and self.learned[self.next][0] < number:
            at, group_id, protocol, connection_id = self.learned[self.next]
            if connection_id < 0 or not self.is_replayed(connection_id, at):
                self.groups.learn(group_id, protocol)
            self.next += 1

    def note(self, number: int) -> None:
        """Record changes from the replay of this segment."""
        self.replay.take(number)

    def go_back(self) -> None:
        """Return to the start of the split; replayed changes are repeated at their place."""
        replayed = [(at, name, protocol, -1) for at, name, protocol, _ in self.replay.learned]
        self.learned = sorted([*self.learned, *replayed], key=itemgetter(0))
        self.groups.restore(self.before)
        self.next = 0

    def end(self, segments: int) -> None:
        """Learn the rest; nothing is noted any more."""
        self.go_to(segments + 1)
        self.groups.news = None
