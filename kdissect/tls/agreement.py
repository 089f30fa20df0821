"""`Agreement`: the negotiated parameters of a TLS session, and the keys derived from them.

Takes the handshake messages of both directions and returns `Epochs` for each. The keys of a
direction need both hellos: the server's has version and cipher suite, the client's identifies the
secrets.
"""

from typing import Final

from kdissect.tls import hellos
from kdissect.tls.ciphers import make_opener
from kdissect.tls.derivation import TLS_1_3, keys_of_master
from kdissect.tls.epochs import Epochs, SessionKeys, TrafficKeys
from kdissect.tls.hellos import Hello
from kdissect.tls.keylog import (
    CLIENT_EARLY,
    CLIENT_HANDSHAKE,
    CLIENT_TRAFFIC,
    MASTER,
    SERVER_HANDSHAKE,
    SERVER_TRAFFIC,
    SESSION,
    KeyLog,
)
from kdissect.tls.masters import Masters
from kdissect.tls.reports import Reports
from kdissect.tls.suites import Suite, suite_name, suite_of

VERSIONS: Final = {
    0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3",
}  # fmt: skip
DECRYPTED_VERSIONS: Final = range(0x0301, 0x0305)
# Fate of early data: the server reports it in EncryptedExtensions, which may be lost.
NO_EARLY_DATA: Final = ""
OFFERED: Final = "offered"
ACCEPTED: Final = "accepted"
REJECTED: Final = "rejected"
UNKNOWN: Final = "unknown"
# Why a session stays encrypted.
NO_HELLOS: Final = "no hellos"
NO_CLIENT_HELLO: Final = "no ClientHello"
NO_SERVER_HELLO: Final = "no ServerHello"
NO_SECRETS: Final = "no secrets"
WRONG_SECRETS: Final = "wrong secrets"
UNSUPPORTED: Final = "unsupported"
LIMIT: Final = "limit"
LOSS: Final = "loss"
REASONS: Final = (
    NO_HELLOS, NO_CLIENT_HELLO, NO_SERVER_HELLO, NO_SECRETS, WRONG_SECRETS, UNSUPPORTED, LIMIT,
    LOSS,
)  # fmt: skip


class Agreement:
    """TLS parameters of one connection; `client` is its direction, -1 while unknown."""

    def __init__(self, keys: KeyLog, masters: Masters, reports: Reports) -> None:
        self.client = -1
        self.version = 0
        self.suite_number = -1
        self.alpn = ""
        self.is_resumed: bool | None = None
        self.early_data = NO_EARLY_DATA
        self.hellos: list[Hello | None] = [None, None]
        # Reason why there are no keys although both hellos are known.
        self.lack = ""
        self._keys = keys
        self._masters = masters
        self._reports = reports

    def move_to(self, keys: KeyLog, masters: Masters) -> None:
        """Continue with these secrets."""
        self._keys = keys
        self._masters = masters

    @property
    def is_reached(self) -> bool:
        """Return whether both hellos are known."""
        return self.client >= 0 and all(hello is not None for hello in self.hellos)

    @property
    def server_name(self) -> str:
        """Server name requested by the client, "" if unknown."""
        hello = self.hellos[self.client] if self.client >= 0 else None
        return hello.server_name if hello is not None else ""

    def take(self, direction: int, message: int, body: bytes) -> bool:
        """Process a handshake message; return whether waiting records can proceed."""
        if message == hellos.CLIENT_HELLO:
            hello = hellos.read_client_hello(body)
            if hello is None:
                return False
            self.client = direction
            if hellos.EARLY_DATA in hello.extensions and self.early_data == NO_EARLY_DATA:
                self.early_data = OFFERED
            self._hello(direction, hello)
            return self.is_reached
        if message == hellos.SERVER_HELLO:
            hello = hellos.read_server_hello(body)
            return hello is not None and self._server_hello(direction, hello)
        if message == hellos.ENCRYPTED_EXTENSIONS and self.version == TLS_1_3:
            extensions = hellos.read_extensions(body)
            self.alpn = hellos.alpn_of(extensions) or self.alpn
            if self.early_data == OFFERED:
                self.early_data = ACCEPTED if hellos.EARLY_DATA in extensions else REJECTED
                return True
        elif message == hellos.NEW_SESSION_TICKET and self.version < TLS_1_3:
            self._note_ticket(hellos.ticket_of(body))
        return False

    def make_epochs(self, direction: int) -> Epochs | None:
        """Create the next keys of a direction; None if they are unknown."""
        client, server = self._pair()
        suite = suite_of(server.suite)
        if self.version not in DECRYPTED_VERSIONS or suite is None or server.compression:
            self._note_unsupported(client, server)
            return None
        if self.version == TLS_1_3:
            return self._traffic_keys(direction, suite, client.random)
        master = self._master(client, server)
        if master is None:
            self.lack = NO_SECRETS
            return None
        keys = keys_of_master(self.version, suite, master, client.random, server.random)
        mine = keys[0] if direction == self.client else keys[1]
        is_mac_outside = hellos.ENCRYPT_THEN_MAC in server.extensions
        return SessionKeys(make_opener(self.version, suite, mine, is_mac_outside))

    @property
    def missing_hello(self) -> str:
        """Name of the hello that is unknown, "" if none."""
        if self.client < 0:
            return NO_HELLOS
        if self.hellos[self.client] is None:
            return NO_CLIENT_HELLO
        return NO_SERVER_HELLO if self.hellos[1 - self.client] is None else ""

    def note_missing_hello(self) -> None:
        """Report secrets that are useless without the server's hello."""
        client = self.hellos[self.client] if self.client >= 0 else None
        if self.missing_hello != NO_SERVER_HELLO or client is None:
            return
        if self._keys.has_any(client.random):
            text = "secrets are known, but not the cipher suite: the ServerHello is missing"
            self._reports.tell("tls-undecryptable", text)

    # Hellos

    def _server_hello(self, direction: int, hello: Hello) -> bool:
        self.version = hello.negotiated_version
        self.suite_number = hello.suite
        has_ticket = hellos.PRE_SHARED_KEY in hello.extensions
        if self.early_data == OFFERED and (hello.is_retry or not has_ticket):
            self.early_data = REJECTED
        if hello.is_retry:
            # The keys wait for the second one, and version 1.3 is certain.
            return False
        if self.client < 0:
            self.client = 1 - direction
        self.alpn = hellos.alpn_of(hello.extensions) or self.alpn
        self._hello(direction, hello)
        return self.is_reached

    def _hello(self, direction: int, hello: Hello) -> None:
        self.hellos[direction] = hello
        if not self.is_reached:
            return
        client, server = self._pair()
        if self.version == TLS_1_3:
            self.is_resumed = hellos.PRE_SHARED_KEY in server.extensions
        elif direction != self.client:
            self.is_resumed = bool(server.session_id) and server.session_id == client.session_id

    def _pair(self) -> tuple[Hello, Hello]:
        """Hellos of client and server, both known."""
        client, server = self.hellos[self.client], self.hellos[1 - self.client]
        assert client is not None and server is not None  # noqa: PT018, S101
        return client, server

    # Secrets

    def _traffic_keys(self, direction: int, suite: Suite, client_random: bytes) -> Epochs | None:
        is_client = direction == self.client
        labels = (
            (CLIENT_HANDSHAKE, CLIENT_TRAFFIC) if is_client else (SERVER_HANDSHAKE, SERVER_TRAFFIC)
        )
        handshake, traffic = (self._keys.find(label, client_random) for label in labels)
        if handshake is None and traffic is None:
            self.lack = NO_SECRETS
            return None
        if not is_client or self.early_data == NO_EARLY_DATA:
            return TrafficKeys(suite, (handshake, traffic))
        early = self._keys.find(CLIENT_EARLY, client_random)
        if self.early_data == ACCEPTED and early is not None:
            return TrafficKeys(suite, (handshake, traffic), early)
        if self.early_data != REJECTED:
            text = "early data (0-RTT) is not decrypted: " + (
                "CLIENT_EARLY_TRAFFIC_SECRET is not in the key log"
                if early is None
                else "the capture does not tell whether it was accepted"
            )
            self._reports.tell("tls-early-data", text)
        return TrafficKeys(suite, (handshake, traffic), is_behind_early=True)

    def _master(self, client: Hello, server: Hello) -> bytes | None:
        """Master secret of the log, or of the resumed session."""
        master = self._keys.find(MASTER, client.random)
        if master is None and server.session_id:
            master = self._keys.find(SESSION, server.session_id)
        if master is None and self.is_resumed:
            master = self._masters.find(client.session_id) or self._masters.find(client.ticket)
        if master is not None:
            self._masters.add(server.session_id, master)
        return master

    def _note_ticket(self, ticket: bytes) -> None:
        if self.is_reached:
            client, server = self._pair()
            master = self._master(client, server)
            if master is not None:
                self._masters.add(ticket, master)

    # Reports

    def _note_unsupported(self, client: Hello, server: Hello) -> None:
        """Report keys that are known, but cannot be used."""
        self.lack = UNSUPPORTED
        if self._keys.has_any(client.random, server.session_id):
            what = f"compression method {server.compression}" if server.compression else "this"
            version = VERSIONS.get(self.version, f"version 0x{self.version:04x}")
            text = f"{version} with {suite_name(server.suite)}: {what} is not decrypted"
            self._reports.tell("tls-unsupported", text)
