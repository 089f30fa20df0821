"""`Webhook`: events as JSON to a URL, by POST, where the user asked for it.

To this machine only, unless its host is allowed by name. Redirects are not followed and proxies are
not used, so nothing is sent to another host than the one that was checked.
"""

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from kdissect.errors import InvalidArgument, Problem
from kdissect.live.listener import Listener, LiveCapture, Status

TIMEOUT_S: Final = 5.0
END_S: Final = 2.0  # for events at the end
ROOM: Final = 100  # events that wait
ANSWER: Final = 1 << 16  # bytes read of an answer
LOCALHOST: Final = "localhost"
LOOPBACK: Final = "127.0.0.1"
CONNECTIONS: Final = {"http": HTTPConnection, "https": HTTPSConnection}


class Target(NamedTuple):
    """A checked URL."""

    scheme: str
    host: str
    port: int | None
    path: str


def target_of(url: str, allowed: Sequence[str] = ()) -> Target:
    """Check a URL; raises InvalidArgument.

    >>> target_of("http://localhost:8080/hook")
    Target(scheme='http', host='127.0.0.1', port=8080, path='/hook')
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidArgument(f"--webhook {url!r}: {error}") from error
    host = parts.hostname or ""
    if parts.scheme not in CONNECTIONS or not host or not url.isascii() or " " in url:
        raise InvalidArgument(f"--webhook {url!r} is no URL; write it like http://127.0.0.1:8080/")
    if "@" in parts.netloc:
        raise InvalidArgument("--webhook: a URL with a password is seen by everyone on this host")
    if not is_loopback(host) and host not in {one.lower() for one in allowed}:
        raise InvalidArgument(
            f"--webhook sends to this machine only; --webhook-allow {host} allows that host"
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, LOOPBACK if host == LOCALHOST else host, port, path)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its very name or address."""
    if host == LOCALHOST:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Webhook(Listener):
    """Posts events in a thread; what cannot be sent is dropped, and a problem says so.

    `fail` is called with that problem where there is no watcher.
    """

    def __init__(self, target: Target, fail: Callable[[Problem], None] = lambda _: None) -> None:
        self._target = target
        self._fail = fail
        self._events: queue.Queue[Mapping[str, Any] | None] = queue.Queue(ROOM)
        self._failures: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, event: Mapping[str, Any]) -> None:
        """Send an event soon; never waits."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._failures.put(f"{ROOM} events wait already")

    def begin(self, watcher: LiveCapture | None = None) -> None:
        if watcher is not None:
            self._fail = lambda problem: watcher.dissector.add_problems([problem])
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def tick(self, status: Status) -> None:
        """Report the events that were not sent, as one problem."""
        reasons = []
        while not self._failures.empty():
            reasons.append(self._failures.get())
        if reasons:
            text = f"events of findings not sent to the webhook: {len(reasons)}; {reasons[0]}"
            self._fail(Problem("live", "webhook-failed", text, status.now_ns))

    def finish(self, status: Status) -> None:
        """Wait a moment for events that are not sent yet."""
        try:
            self._events.put_nowait(None)
        except queue.Full:
            return
        if self._thread is not None:
            self._thread.join(END_S)

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            try:
                self._post(json.dumps(event).encode())
            except (OSError, HTTPException, ValueError) as error:
                self._failures.put(str(error) or type(error).__name__)

    def _post(self, body: bytes) -> None:
        target = self._target
        connection = CONNECTIONS[target.scheme](target.host, target.port, timeout=TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/json", "User-Agent": "kdissect"}
            connection.request("POST", target.path, body, headers)
            answer = connection.getresponse()
            answer.read(ANSWER)
            if not 200 <= answer.status < 300:
                self._failures.put(f"it answered {answer.status}")
        finally:
            connection.close()
