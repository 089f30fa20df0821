"""The NSS key log: secrets of TLS sessions, as clients and servers write them for debugging.

    line = label SP 64 hex digits client random SP hex digits secret        (or a # comment)
         | "RSA Session-ID:" hex digits SP "Master-Key:" hex digits

https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-05.html; the second form is OpenSSL's and
Wireshark's, for sessions of TLS 1.0 to 1.2 by the id that the server gave them. Messages of this
module contain the number of a line, but none of its content.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kdissect.errors import CaptureError, Problem
from kdissect.tls.suites import MAC_SIZES

MASTER: Final = "CLIENT_RANDOM"
CLIENT_EARLY: Final = "CLIENT_EARLY_TRAFFIC_SECRET"
CLIENT_HANDSHAKE: Final = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
SERVER_HANDSHAKE: Final = "SERVER_HANDSHAKE_TRAFFIC_SECRET"
CLIENT_TRAFFIC: Final = "CLIENT_TRAFFIC_SECRET_0"
SERVER_TRAFFIC: Final = "SERVER_TRAFFIC_SECRET_0"
USED: Final = frozenset(
    (MASTER, CLIENT_EARLY, CLIENT_HANDSHAKE, SERVER_HANDSHAKE, CLIENT_TRAFFIC, SERVER_TRAFFIC)
)
SESSION: Final = "RSA Session-ID"  # a master secret by session id instead of client random
# For exporters and encrypted hellos, and premaster secrets: deriving a master secret from one needs
# all handshake messages if both sides support extended_master_secret, and newer programs write
# none.
PASSED_OVER: Final = frozenset(
    ("EXPORTER_SECRET", "EARLY_EXPORTER_SECRET", "ECH_SECRET", "ECH_CONFIG", "RSA",
     "PMS_CLIENT_RANDOM")
)  # fmt: skip
SESSION_WORDS: Final = (b"RSA", b"Session-ID", b"Master-Key")
RANDOM_SIZE: Final = 32
LONGEST_SESSION_ID: Final = 32
MASTER_SIZE: Final = 48
SECRET_SIZES: Final = frozenset((MAC_SIZES["sha256"], MAC_SIZES["sha384"]))
# Sessions with three lines of 180 bytes: a broker's log of a day, 100 MB here.
MAX_SECRETS: Final = 500_000
MAX_BAD_LINES: Final = 10  # reported individually


class KeyLog:
    """Secrets by label and client random, with the label SESSION by session id.

    `problems` grows until the owner drains it. `read_more` is called once, if a requested secret is
    missing, to read further logs.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.read_more: Callable[[], None] | None = None
        self._secrets: dict[tuple[str, bytes], bytes] = {}

    def __len__(self) -> int:
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"<KeyLog of {len(self._secrets)} secrets>"

    def find(self, label: str, name: bytes) -> bytes | None:
        """Return a secret, or None."""
        found = self._secrets.get((label, name))
        if found is None and self.read_more is not None:
            read_more, self.read_more = self.read_more, None
            read_more()
            found = self._secrets.get((label, name))
        return found

    def has_any(self, client_random: bytes, session_id: bytes = b"") -> bool:
        """Return whether there is any session secret."""
        known = any((label, client_random) in self._secrets for label in USED)
        return known or (SESSION, session_id) in self._secrets

    def forget(self) -> None:
        """Drop all secrets; sessions keep the ones they have."""
        self._secrets.clear()

    def add(self, content: bytes, name: str) -> None:
        """Add the lines of a log; `name` is used in problems."""
        bad: list[int] = []
        for number, line in enumerate(content.splitlines(), 1):
            words = line.split()
            if words and not words[0].startswith(b"#") and not self._add_line(words):
                bad.append(number)
            if len(self._secrets) > MAX_SECRETS:
                text = f"{name}, line {number}: more than {MAX_SECRETS} secrets; the rest is unread"
                self._report("keylog-limit", text)
                break
        for number in bad[:MAX_BAD_LINES]:
            self._report("bad-keylog-line", f"{name}, line {number}: not a line of a TLS key log")
        if len(bad) > MAX_BAD_LINES:
            text = f"{name}: {len(bad) - MAX_BAD_LINES} more lines are not of a TLS key log"
            self._report("bad-keylog-line", text)

    def _add_line(self, words: list[bytes]) -> bool:
        """Add a line; return whether it is a key log line."""
        label = words[0].decode("ascii", "replace")
        if len(words) > 1 and words[1].startswith(SESSION_WORDS[1]):
            return self._add_session(words)
        if label in PASSED_OVER:
            return True
        if label not in USED:
            # Later generations of traffic secrets are derived from the first.
            return label.startswith(("CLIENT_TRAFFIC_SECRET_", "SERVER_TRAFFIC_SECRET_"))
        if len(words) != 3:
            return False
        try:
            random, secret = bytes.fromhex(words[1].decode()), bytes.fromhex(words[2].decode())
        except ValueError:
            return False
        is_sized = len(secret) == MASTER_SIZE if label == MASTER else len(secret) in SECRET_SIZES
        if len(random) != RANDOM_SIZE or not is_sized:
            return False
        self._secrets[label, random] = secret
        return True

    def _add_session(self, words: list[bytes]) -> bool:
        """Add a line in OpenSSL's form; return whether it is one."""
        parts = [word.partition(b":") for word in words]
        if tuple(part[0] for part in parts) != SESSION_WORDS:
            return False
        try:
            name, secret = (bytes.fromhex(part[2].decode()) for part in parts[1:])
        except ValueError:
            return False
        if len(name) > LONGEST_SESSION_ID or len(secret) != MASTER_SIZE:
            return False
        if name:  # a session without an id uses a ticket, and is indistinguishable from others
            self._secrets[SESSION, name] = secret
        return True

    def _report(self, kind: str, text: str) -> None:
        self.problems.append(Problem("tls", kind, text))


def read_keylog(path: str | Path, log: KeyLog) -> None:
    """Add the lines of a key log file; raises CaptureError if it is unreadable or not a key log."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from error
    add_keylog(content, str(path), log)


def add_keylog(content: bytes, name: str, log: KeyLog) -> None:
    """Add the lines of a whole key log; raises CaptureError if it is not one."""
    problem_count = len(log.problems)
    known = len(log)
    log.add(content, name)
    if len(log) == known and len(log.problems) > problem_count:
        raise CaptureError(f"{name}: not a TLS key log: {log.problems[problem_count].message}")
