"""TLS that is not decrypted, while its connections are open: read from the sessions' state.

The balance has a connection when it ended. Of those that are open a bounded number is polled at
each tick, in turn.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from kdissect.live.turns import Turns
from kdissect.streams.events import Connection
from kdissect.tls.session_properties import SessionProperties

POLLED: Final = 2_000  # sessions per tick: some milliseconds


class Undecrypted(NamedTuple):
    """Open connections whose TLS is not decrypted, by reason; bytes of all, also of ended ones."""

    reasons: Mapping[str, int]
    bytes: int

    @property
    def connections(self) -> int:
        return sum(self.reasons.values())

    @property
    def reason(self) -> str:
        """The most frequent reason; "" without any connection."""
        return max(self.reasons, key=lambda reason: self.reasons[reason], default="")


NOTHING: Final = Undecrypted({}, 0)


class Session(Protocol):
    """TLS session as seen by the poll."""

    @property
    def facts(self) -> SessionProperties:
        """Properties known so far."""
        ...


class EncryptionPoll:
    """Polls `sessions`, which belong to the thread that calls `look`."""

    def __init__(self, sessions: Mapping[Connection, Session], polled: int = POLLED) -> None:
        self._sessions = sessions
        self._turns = Turns(sessions, polled)
        # Reason and encrypted bytes of each open connection that is not decrypted.
        self._known: dict[Connection, tuple[str, int]] = {}

    def look(self, ended_bytes: int) -> Undecrypted:
        """Poll the next sessions; `ended_bytes` are those of connections that have ended."""
        for connection in [one for one in self._known if one not in self._sessions]:
            del self._known[connection]
        for connection in self._turns.next():
            session = self._sessions.get(connection)
            if session is not None:
                self._note(connection, session.facts)
        reasons = Counter(reason for reason, _ in self._known.values())
        return Undecrypted(reasons, ended_bytes + sum(size for _, size in self._known.values()))

    def _note(self, connection: Connection, facts: SessionProperties) -> None:
        if facts.undecrypted:
            self._known[connection] = facts.undecrypted, sum(facts.encrypted_bytes)
        else:
            self._known.pop(connection, None)
