"""Journal of the clients by their clock, which is also the capture's; ns since 1970."""

import json
from pathlib import Path
from typing import NamedTuple


class Asked(NamedTuple):
    """A request; `answered_ns` is when all of its response was there, 0 where it never was."""

    correlation_id: int
    api: int
    sent_ns: int
    answered_ns: int


class Session(NamedTuple):
    """One connection; `client_id` is its alone."""

    client_id: str
    opened_ns: int
    closed_ns: int
    asked: tuple[Asked, ...]
    end: str = ""  # reason for its early end

    @property
    def answered(self) -> list[Asked]:
        return [one for one in self.asked if one.answered_ns]


def to_line(session: Session) -> str:
    return json.dumps(session) + "\n"


def read_journal(path: Path) -> list[Session]:
    """All sessions of a file of lines; one that is not whole is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        client_id, opened, closed, asked, end = json.loads(line)
        found.append(Session(client_id, opened, closed, tuple(Asked(*one) for one in asked), end))
    return found
