"""Requests from the logs of Java clients: time sent, and time answered.

The times are those of the client's own clock, cut to milliseconds by its logger.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

# For the logger of the agents (slf4j-simple).
LOGGING = (
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=debug",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)
LINE = re.compile(
    r"(?P<time>\S+) .*? (?P<what>Sending|Received) \S+ (?:request with|response from node "
    r"(?P<from>-?\d+) for request with) header RequestHeader\(apiKey=(?P<api>\w+), "
    r"apiVersion=(?P<version>\d+), clientId=(?P<client>[^,]*), correlationId=(?P<id>\d+)"
)


class ClientRequest(NamedTuple):
    """One request as its client saw it; the fields are columns of `client_requests`."""

    session: str
    api: str  # as the client writes it: API_VERSIONS
    api_version: int
    correlation_id: int  # unique in the client, whichever broker it speaks to
    sent_ms: int
    received_ms: int | None  # None: no answer


def read_client_logs(directory: Path) -> list[ClientRequest]:
    """The requests in the logs of all agents, in the order of sending."""
    found = [row for file in sorted(directory.glob("*.log")) for row in iter_requests(file)]
    return sorted(found, key=lambda row: (row.sent_ms, row.session, row.correlation_id))


def iter_requests(file: Path) -> Iterator[ClientRequest]:
    """The requests of one log."""
    sent: dict[tuple[str, int], ClientRequest] = {}
    for line in file.read_text(errors="replace").splitlines():
        if (match := LINE.match(line)) is None:
            continue
        key = match["client"], int(match["id"])
        logged_ms = milliseconds(match["time"])
        if match["what"] == "Sending":
            sent[key] = ClientRequest(
                key[0], match["api"], int(match["version"]), key[1], logged_ms, None
            )
        elif key in sent:
            sent[key] = sent[key]._replace(received_ms=logged_ms)
    yield from sent.values()


def milliseconds(text: str) -> int:
    """A logged time since the epoch."""
    whole = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    return int(whole.replace(microsecond=0).timestamp()) * 1000 + whole.microsecond // 1000
