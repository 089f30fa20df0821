"""Protocols that groups agreed on, learnt from JoinGroup for the APIs that do not contain them."""

from typing import Final

from kdissect.exchanges.exchange import NO_PROTOCOL

# Maximum number of groups: a broker has thousands, each costs about 200 bytes.
GROUP_LIMIT: Final = 100_000
SIZE_LIMIT: Final = 16 << 20  # characters of all texts: hostile ones may be long


# Group id, protocol type and name, and the connection of the JoinGroup.
Learned = tuple[str, tuple[str, str], int]


class GroupProtocols:
    """Protocol type and name by group id; cleared when `limit` groups are known, or long ones.

    Groups of the same name in two clusters share an entry: a SyncGroup soon follows its JoinGroup.
    While a split is dissected or merged, `news` is a list of what was learned, to be taken.
    """

    __slots__ = ("limit", "news", "protocols", "size")

    def __init__(self, limit: int = GROUP_LIMIT) -> None:
        self.limit = limit
        self.news: list[Learned] | None = None
        self.protocols: dict[str, tuple[str, str]] = {}
        self.size = 0

    def note(self, group_id: str, protocol: tuple[str, str], connection_id: int) -> None:
        """Store the protocol from a JoinGroup of this connection."""
        self.learn(group_id, protocol)
        if self.news is not None:
            self.news.append((group_id, protocol, connection_id))

    def learn(self, group_id: str, protocol: tuple[str, str]) -> None:
        """Store the protocol that a group's members agreed on."""
        known = self.protocols.pop(group_id, None)
        if known is not None:
            self.size -= size_of(group_id, known)
        self.size += size_of(group_id, protocol)
        if len(self.protocols) >= self.limit or self.size > SIZE_LIMIT:
            self.protocols = {}
            self.size = size_of(group_id, protocol)
        self.protocols[group_id] = protocol

    def restore(self, protocols: dict[str, tuple[str, str]]) -> None:
        """Restore the previous state."""
        self.protocols = {}
        self.size = 0
        for group_id, protocol in protocols.items():
            self.learn(group_id, protocol)

    def find(self, group_id: str) -> tuple[str, str]:
        """Protocol that the group agreed on last; two empty texts if not seen."""
        return self.protocols.get(group_id, NO_PROTOCOL)


def size_of(group_id: str, protocol: tuple[str, str]) -> int:
    """Characters stored for a group."""
    return len(group_id) + len(protocol[0]) + len(protocol[1])
