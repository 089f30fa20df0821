"""Handshake messages of TLS 1.0 to 1.3, and the clear-text content of hellos.

message     = type, uint24 size, body                             (RFC 8446, 4)
ClientHello = version, 32 bytes random, session id, suites, compressions, extensions
ServerHello = version, 32 bytes random, session id, suite, compression, extensions
extensions  = uint16 size, then for each uint16 type, uint16 size, content
"""

from typing import Final, NamedTuple

CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
NEW_SESSION_TICKET: Final = 4
END_OF_EARLY_DATA: Final = 5
ENCRYPTED_EXTENSIONS: Final = 8
FINISHED: Final = 20
KEY_UPDATE: Final = 24
# And HelloRequest, HelloVerifyRequest, certificates, key exchanges, CertificateStatus, -Url.
TYPES: Final = frozenset((0, 1, 2, 3, 4, 5, 8, 11, 12, 13, 14, 15, 16, 20, 21, 22, 24, 25))
MESSAGE_HEADER: Final = 4
# Limit for a certificate chain; larger messages are not read.
MAX_MESSAGE_SIZE: Final = 256 << 10
HELLO_RETRY_RANDOM: Final = bytes.fromhex(
    "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
)
RANDOM_SIZE: Final = 32
LONGEST_NAME: Final = 255  # of a host name; an ALPN name has the same limit

SERVER_NAME: Final = 0
ALPN: Final = 16
ENCRYPT_THEN_MAC: Final = 22
SESSION_TICKET: Final = 35
PRE_SHARED_KEY: Final = 41
EARLY_DATA: Final = 42
SUPPORTED_VERSIONS: Final = 43

Extensions = dict[int, bytes]


class Hello(NamedTuple):
    """A ClientHello or a ServerHello; `suite` and `compression` are -1 in a client's."""

    version: int
    random: bytes
    session_id: bytes
    suite: int
    compression: int
    extensions: Extensions

    @property
    def is_retry(self) -> bool:
        """Return whether a ServerHello requests another ClientHello."""
        return self.random == HELLO_RETRY_RANDOM

    @property
    def negotiated_version(self) -> int:
        """Version negotiated by a ServerHello."""
        chosen = self.extensions.get(SUPPORTED_VERSIONS, b"")
        return int.from_bytes(chosen, "big") if len(chosen) == 2 else self.version

    @property
    def server_name(self) -> str:
        """Host name in a ClientHello, "" without one."""
        # uint16 size of the list, then for each a type (0 is a host name), uint16 size, name
        names = self.extensions.get(SERVER_NAME, b"")
        size = int.from_bytes(names[3:5], "big")
        if len(names) < 5 or names[2] != 0 or 5 + size > len(names):
            return ""
        return text_of(names[5 : 5 + size])

    @property
    def ticket(self) -> bytes:
        return self.extensions.get(SESSION_TICKET, b"")


class Messages:
    """Reassembles handshake messages from the contents of records."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def held(self) -> int:
        return len(self._buffer)

    def feed(self, content: bytes) -> list[tuple[int, bytes]]:
        """Types and bodies of the messages that a record completes.

        Invalid data, as after a loss or with wrong keys, is dropped.
        """
        self._buffer += content
        found: list[tuple[int, bytes]] = []
        at = 0
        while len(self._buffer) - at >= MESSAGE_HEADER:
            size = int.from_bytes(self._buffer[at + 1 : at + MESSAGE_HEADER], "big")
            if self._buffer[at] not in TYPES or size > MAX_MESSAGE_SIZE:
                at = len(self._buffer)
                break
            end = at + MESSAGE_HEADER + size
            if end > len(self._buffer):
                break
            found.append((self._buffer[at], bytes(self._buffer[at + MESSAGE_HEADER : end])))
            at = end
        del self._buffer[:at]
        return found

    def reset(self) -> None:
        """Drop an incomplete message that will not be continued."""
        self._buffer.clear()


class _Cursor:
    """Reads lengths and bytes; past the end `is_over` is set and results are empty."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.is_over = False

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            self.is_over = True
            return b""
        start, self.at = self.at, end
        return self.data[start:end]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """Bytes after their length, which has `size` bytes."""
        return self.take(self.number(size))


def read_client_hello(body: bytes) -> Hello | None:
    """Parse a ClientHello; None if it is not one."""
    cursor = _Cursor(body)
    version, random = cursor.number(2), cursor.take(RANDOM_SIZE)
    session_id = cursor.vector(1)
    cursor.vector(2)
    cursor.vector(1)
    if cursor.is_over or version >> 8 != 3:
        return None
    return Hello(version, random, session_id, -1, -1, read_extensions(body[cursor.at :]))


def read_server_hello(body: bytes) -> Hello | None:
    """Parse a ServerHello; None if it is not one."""
    cursor = _Cursor(body)
    version, random = cursor.number(2), cursor.take(RANDOM_SIZE)
    session_id = cursor.vector(1)
    suite, compression = cursor.number(2), cursor.number(1)
    if cursor.is_over or version >> 8 != 3:
        return None
    extensions = read_extensions(body[cursor.at :])
    return Hello(version, random, session_id, suite, compression, extensions)


def read_extensions(data: bytes) -> Extensions:
    """Extensions by type, as far as readable; `data` begins with their size."""
    cursor = _Cursor(_Cursor(data).vector(2) if data else b"")
    found: Extensions = {}
    while len(cursor.data) - cursor.at >= 4:
        kind = cursor.number(2)
        content = cursor.vector(2)
        if cursor.is_over:
            break
        found.setdefault(kind, content)
    return found


def alpn_of(extensions: Extensions) -> str:
    """Protocol chosen by a server, "" for none."""
    # uint16 size of the list, then one name with a uint8 size
    names = extensions.get(ALPN, b"")
    if len(names) < 3 or 3 + names[2] > len(names):
        return ""
    return text_of(names[3 : 3 + names[2]])


def ticket_of(body: bytes) -> bytes:
    """Ticket of a TLS 1.2 NewSessionTicket; b"" if invalid (RFC 5077, 3.3)."""
    cursor = _Cursor(body)
    cursor.take(4)
    ticket = cursor.vector(2)
    return b"" if cursor.is_over else ticket


def text_of(name: bytes) -> str:
    """Decode text from the wire, which should be ASCII."""
    return name[:LONGEST_NAME].decode("ascii", "backslashreplace")
