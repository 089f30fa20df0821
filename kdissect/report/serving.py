"""A page served on loopback, which renews itself while its sources grow.

Read-only: GET and HEAD of two paths below a secret one. Whoever knows the address may read; it
cannot be guessed, and no page of another origin gets an answer: the name in `Host` must be this
machine's (DNS rebinding), `Origin` and `Sec-Fetch-Site` must be this origin's, if sent.

    /TOKEN/          the page
    /TOKEN/state     changes when the page would
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any, Final, NamedTuple

from kdissect.errors import KdissectError
from kdissect.live.http_server import Listening, Server
from kdissect.live.metrics_socket import LOOPBACK, bind
from kdissect.text.escape import escaped

TOKEN_BYTES: Final = 24
METHODS: Final = ("GET", "HEAD")
SAME_ORIGIN: Final = ("same-origin", "none")  # none: typed, or a link outside of the browser
STATE: Final = "state"
LEAST_S: Final = 0.5  # between two looks at the sources
HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
HEADERS: Final = (
    ("Cache-Control", "no-store"),
    # Beside that of the page, which cannot say who may frame it.
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)

StartResponse = Callable[[str, list[tuple[str, str]]], object]


class Answer(NamedTuple):
    """A response: status, content type, body."""

    status: str
    kind: str
    body: bytes


NOT_FOUND: Final = Answer("404 Not Found", TEXT, b"not found\n")
REFUSED: Final = Answer("403 Forbidden", TEXT, b"not from here\n")
NO_METHOD: Final = Answer("405 Method Not Allowed", TEXT, b"read-only\n")


class Renewing:
    """The page of growing sources, made when it is asked for and they have changed.

    `look` returns what changes when rows come; `make` makes the page for a state.
    """

    def __init__(self, look: Callable[[], object], make: Callable[[str], bytes]) -> None:
        self._look, self._make = look, make
        self._making, self._looking = threading.Lock(), threading.Lock()
        self._state, self._looked = "", float("-inf")
        self._made: tuple[str, bytes] = ("", b"")

    def state(self) -> str:
        """A digest of the sources, of now or of a moment ago."""
        with self._looking:
            if time.monotonic() - self._looked >= LEAST_S:
                seen = repr(self._look()).encode()
                self._state = hashlib.blake2b(seen, digest_size=16).hexdigest()
                self._looked = time.monotonic()
            return self._state

    def page(self) -> bytes:
        """The page of the sources as they are; one thread makes it, others wait."""
        with self._making:
            state = self.state()
            if self._made[0] != state:
                self._made = state, self._make(state)
            return self._made[1]


class Application:
    """The WSGI application: who may ask, and for what."""

    def __init__(self, renewing: Renewing, token: str, hosts: Iterable[str]) -> None:
        self.renewing, self.token = renewing, token
        self.hosts = frozenset(hosts)

    def __call__(self, environ: Mapping[str, Any], start: StartResponse) -> list[bytes]:
        answer = self.answer(environ)
        headers = [
            *HEADERS, ("Content-Type", answer.kind), ("Content-Length", str(len(answer.body))),
        ]  # fmt: skip
        start(answer.status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [answer.body]

    def answer(self, environ: Mapping[str, Any]) -> Answer:
        """The response to a request."""
        if not self._is_from_here(environ):
            return REFUSED
        if environ["REQUEST_METHOD"] not in METHODS:
            return NO_METHOD
        token, slash, name = str(environ.get("PATH_INFO", ""))[1:].partition("/")
        is_known = hmac.compare_digest(token.encode(), self.token.encode())
        if not (is_known and slash and name in ("", STATE)):
            return NOT_FOUND
        try:
            if name == STATE:
                return Answer("200 OK", TEXT, self.renewing.state().encode())
            return Answer("200 OK", HTML, self.renewing.page())
        except KdissectError as error:
            return Answer("503 Service Unavailable", HTML, waiting(str(error)))

    def _is_from_here(self, environ: Mapping[str, Any]) -> bool:
        if environ.get("HTTP_HOST", "") not in self.hosts:
            return False
        origin, site = environ.get("HTTP_ORIGIN"), environ.get("HTTP_SEC_FETCH_SITE")
        is_origin = origin is None or origin in {f"http://{host}" for host in self.hosts}
        return is_origin and (site is None or site in SAME_ORIGIN)


class Serving(NamedTuple):
    """A server, and the address of its page, which is secret."""

    server: Server
    address: str


def serve(renewing: Renewing, port: int = 0) -> Serving:
    """Serve on loopback; port 0 is a free one. Raises OutputError if it cannot listen."""
    bound = bind(LOOPBACK, port, "--serve-port")
    listening = Listening(bound)
    port, token = listening.server_port, secrets.token_urlsafe(TOKEN_BYTES)
    hosts = [f"{LOOPBACK}:{port}", f"localhost:{port}"]
    listening.set_app(Application(renewing, token, hosts))
    return Serving(Server(listening), f"http://{hosts[0]}/{token}/")


def waiting(reason: str) -> bytes:
    """A page that is loaded again soon, in place of one that cannot be made now."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" '
        'content="2"><title>kdissect</title></head><body><p>'
        f"{escape(escaped(reason))}</p></body></html>"
    ).encode()
