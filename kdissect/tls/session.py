"""`Session`: the TLS of one connection, both directions, from records to their plaintext.

    hellos in clear ──▶ protected, keys known    content of application data becomes Chunks
                    └─▶ protected, without keys  bytes are only counted

Each direction's keys need both hellos, so protected records wait for the other direction's hello
when that comes late. A hole becomes one Gap: its plaintext's length is known when all records have
the same overhead and their number is found by trying; else `Gap.is_exact` is false.
"""

from itertools import pairwise
from typing import Final, NamedTuple

from kdissect.errors import Problem
from kdissect.streams.events import Chunk, Connection, Event, Gap
from kdissect.tls import hellos
from kdissect.tls.ciphers import make_opener
from kdissect.tls.derivation import TLS_1_3, keys_of_master
from kdissect.tls.epochs import APPLICATION_EPOCH, Epochs, Opened, SessionKeys, TrafficKeys
from kdissect.tls.hellos import Hello
from kdissect.tls.keylog import (
    CLIENT_HANDSHAKE,
    CLIENT_TRAFFIC,
    MASTER,
    SERVER_HANDSHAKE,
    SERVER_TRAFFIC,
    KeyLog,
)
from kdissect.tls.records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    HEADER_SIZE,
    Hole,
    Mark,
    Record,
    RecordCutter,
)
from kdissect.tls.suites import Suite, suite_name, suite_of

VERSIONS: Final = {
    0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3",
}  # fmt: skip
DECRYPTED_VERSIONS: Final = range(0x0301, 0x0305)
# Records in a row that no key opens before a direction is given up. A server's handshake without
# the handshake's secrets is some records more than its four messages.
MAX_FAILURES: Final = 16
WARNING: Final = 1
CLOSE_NOTIFY: Final = 0
USER_CANCELED: Final = 90
ALERTS: Final = {
    10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 40: "handshake_failure",
    42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked",
    45: "certificate_expired", 46: "certificate_unknown", 47: "illegal_parameter",
    48: "unknown_ca", 49: "access_denied", 50: "decode_error", 51: "decrypt_error",
    70: "protocol_version", 71: "insufficient_security", 80: "internal_error",
    86: "inappropriate_fallback", 100: "no_renegotiation", 109: "missing_extension",
    110: "unsupported_extension", 112: "unrecognized_name", 116: "certificate_required",
    120: "no_application_protocol",
}  # fmt: skip


class TlsFacts(NamedTuple):
    """What is known of a connection's TLS; "" and None are for what is not.

    `tls_bytes` and `encrypted_bytes` are by direction: with the plaintext that was given out they
    are all bytes that came in.
    """

    client_direction: int
    version: str
    server_name: str
    alpn: str
    cipher: str
    is_resumed: bool | None
    tls_bytes: tuple[int, int]
    encrypted_bytes: tuple[int, int]
    plaintext_bytes: int


class Masters:
    """Master secrets of sessions that may be resumed, by session id or ticket; TLS 1.2."""

    LIMIT: Final = 10_000  # the oldest go first; a ticket is some 200 bytes

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def find(self, name: bytes) -> bytes | None:
        return self._known.get(name) if name else None

    def add(self, name: bytes, master: bytes) -> None:
        if name:
            self._known[name] = master
            if len(self._known) > self.LIMIT:
                del self._known[next(iter(self._known))]


class _Half:
    """One direction."""

    def __init__(self, direction: int, is_start: bool) -> None:
        self.direction = direction
        self.cutter = RecordCutter(is_start)
        self.messages = hellos.Messages()
        self.hello: Hello | None = None
        self.is_changed = False  # a ChangeCipherSpec was seen
        self.epochs: Epochs | None = None
        self.waiting: list[Record | Hole] = []
        self.waiting_size = 0
        self.is_given_up = False
        self.failures = 0
        # Plaintext position of the next byte.
        self.position = 0
        # A hole where the hello should be: it will not come.
        self.is_hello_lost = not is_start
        # What is missing since the last plaintext: stream bytes, how many records, whether that is
        # known, and the last hole.
        self.lost = 0
        self.lost_records = 0
        self.is_count_sure = True
        self.hole: Hole | None = None
        self.is_padded = False  # a record had a padding, so others may
        self.taken = 0
        self.encrypted = 0
        self.given = 0


class Session:
    """The TLS of a connection; `problems` grows until the owner takes it away."""

    def __init__(
        self, connection: Connection, keys: KeyLog, masters: Masters, is_start: tuple[bool, bool]
    ) -> None:
        self.problems: list[Problem] = []
        self._connection = connection
        self._keys = keys
        self._masters = masters
        self._halves = (_Half(0, is_start[0]), _Half(1, is_start[1]))
        self._client = -1
        self._version = 0
        self._suite_number = -1
        self._alpn = ""
        self._is_resumed: bool | None = None
        self._told: set[str] = set()
        self._has_early_data = False

    @property
    def held(self) -> int:
        """Bytes that are held."""
        return sum(
            half.cutter.held + half.waiting_size + half.messages.held for half in self._halves
        )

    @property
    def facts(self) -> TlsFacts:
        """What is known until now."""
        hello = self._halves[self._client].hello if self._client >= 0 else None
        one, other = self._halves
        return TlsFacts(
            self._client,
            VERSIONS.get(self._version, f"0x{self._version:04x}") if self._version else "",
            hello.server_name if hello is not None else "",
            self._alpn,
            suite_name(self._suite_number) if self._suite_number >= 0 else "",
            self._is_resumed,
            (one.taken - one.given - one.encrypted, other.taken - other.given - other.encrypted),
            (one.encrypted, other.encrypted),
            one.given + other.given,
        )

    def feed(self, event: Chunk | Gap) -> list[Event]:
        """The plaintext that becomes known, of either direction."""
        half = self._halves[event.direction]
        if isinstance(event, Chunk):
            size = event.end - event.start
            if half.taken == 0:
                half.position = event.position
            half.taken += size
            if half.is_given_up:
                half.encrypted += size
                return []
            found = half.cutter.feed(event)
        elif half.is_given_up:
            return []
        else:
            found = half.cutter.skip(event)
            if half.hello is None:
                half.is_hello_lost = True
                self._stop_waiting()
        out: list[Event] = []
        for one in found:
            self._take(half, one, out)
        return out

    def finish(self) -> None:
        """Nothing more comes."""
        self._give_up_all()
        self._note_refusal()

    def limit(self, event: Event) -> None:
        """Too much is held: from here on bytes are only counted."""
        text = f"{self.held} bytes of TLS wait for what comes before them: they are given up"
        mark = Mark(-1, event.time_ns, event.packet, event.ordinal, event.capture)
        self._tell("tls-held-limit", text, mark, self.held)
        self._give_up_all()

    def _give_up_all(self) -> None:
        for half in self._halves:
            self._give_up(half)

    # Records

    def _take(self, half: _Half, one: Record | Hole, out: list[Event]) -> None:
        if half.is_given_up:
            half.encrypted += captured_size(one)
        elif half.waiting:
            self._wait(half, one)
        elif isinstance(one, Hole):
            self._lose(half, one)
        elif self._is_protected(half, one):
            self._protected(half, one, out)
        else:
            self._clear(half, one, one.kind, one.body, out)

    def _is_protected(self, half: _Half, record: Record) -> bool:
        if record.kind == APPLICATION_DATA:
            return True
        return half.is_changed and self._version != TLS_1_3

    def _protected(self, half: _Half, record: Record, out: list[Event]) -> None:
        if half.epochs is None:
            if not self._is_agreed():
                self._wait(half, record)
                self._stop_waiting()
                return
            half.epochs = self._make_epochs(half)
            if half.epochs is None:
                self._give_up(half)
                half.encrypted += captured_size(record)
                return
            if half.hole is not None:
                # The records before this one under the same keys may have been in the hole.
                half.epochs.lose(half.lost, -1)
        opened = half.epochs.open(record)
        if opened is None:
            self._fail(half, record)
            return
        half.failures = 0
        if not half.is_count_sure and opened.passed > 0:
            half.lost_records += opened.passed
            half.is_count_sure = True
        if opened.kind == APPLICATION_DATA:
            self._give(half, record, opened, out)
        else:
            self._clear(half, record, opened.kind, opened.content, out)

    def _clear(
        self, half: _Half, record: Record, kind: int, content: bytes, out: list[Event]
    ) -> None:
        """What is not application data, in clear or opened."""
        if kind == HANDSHAKE:
            for message, body in half.messages.feed(content):
                self._message(half, message, body, out)
        elif kind == CHANGE_CIPHER_SPEC:
            self._change(half)
        elif kind == ALERT:
            self._alert(half, record, content)

    def _change(self, half: _Half) -> None:
        """The next records of the direction are under new keys, if it is not TLS 1.3."""
        half.is_changed = True
        half.messages.reset()
        if self._version != TLS_1_3:
            half.epochs = None
            self._forget_loss(half)

    def _wait(self, half: _Half, one: Record | Hole) -> None:
        half.waiting.append(one)
        half.waiting_size += captured_size(one)

    def _resume(self, out: list[Event]) -> None:
        """Both hellos are there: take what waits for them."""
        for half in self._halves:
            waiting, half.waiting = half.waiting, []
            half.waiting_size = 0
            for one in waiting:
                self._take(half, one, out)

    def _stop_waiting(self) -> None:
        """Give up what waits for a hello that will not come."""
        if any(half.is_hello_lost and half.hello is None for half in self._halves):
            for half in self._halves:
                if half.waiting:
                    self._give_up(half)

    def _is_agreed(self) -> bool:
        return self._client >= 0 and all(half.hello is not None for half in self._halves)

    # Handshakes

    def _message(self, half: _Half, message: int, body: bytes, out: list[Event]) -> None:
        if message == hellos.CLIENT_HELLO:
            hello = hellos.read_client_hello(body)
            if hello is not None:
                self._client = half.direction
                self._note_early_data(hello)
                self._hello(half, hello, out)
        elif message == hellos.SERVER_HELLO:
            hello = hellos.read_server_hello(body)
            if hello is not None:
                self._server_hello(half, hello, out)
        elif message == hellos.ENCRYPTED_EXTENSIONS and self._version == TLS_1_3:
            self._alpn = hellos.alpn_of(hellos.read_extensions(body)) or self._alpn
        elif message == hellos.NEW_SESSION_TICKET and self._version < TLS_1_3:
            self._note_ticket(hellos.ticket_of(body))
        elif isinstance(half.epochs, TrafficKeys):
            if message == hellos.KEY_UPDATE:
                half.epochs.advance()
            elif message == hellos.FINISHED and half.epochs.epoch < APPLICATION_EPOCH:
                half.epochs.advance()
                self._forget_loss(half)

    def _server_hello(self, half: _Half, hello: Hello, out: list[Event]) -> None:
        self._version = hello.negotiated_version
        self._suite_number = hello.suite
        if hello.is_retry:
            # The keys wait for the second one, and version 1.3 is certain.
            return
        if self._client < 0:
            self._client = 1 - half.direction
        self._alpn = hellos.alpn_of(hello.extensions) or self._alpn
        self._hello(half, hello, out)

    def _hello(self, half: _Half, hello: Hello, out: list[Event]) -> None:
        half.hello = hello
        if not self._is_agreed():
            return
        client, server = self._pair()
        if self._version == TLS_1_3:
            self._is_resumed = hellos.PRE_SHARED_KEY in server.extensions
        elif half.direction != self._client:
            self._is_resumed = bool(server.session_id) and server.session_id == client.session_id
        self._resume(out)

    def _pair(self) -> tuple[Hello, Hello]:
        """The hellos of client and server, both known."""
        client, server = self._halves[self._client].hello, self._halves[1 - self._client].hello
        assert client is not None and server is not None  # noqa: PT018, S101
        return client, server

    def _make_epochs(self, half: _Half) -> Epochs | None:
        """The keys that come next in a direction; None when they are not known."""
        client, server = self._pair()
        suite = suite_of(server.suite)
        if self._version not in DECRYPTED_VERSIONS or suite is None or server.compression:
            self._note_unsupported(client, server)
            return None
        if self._version == TLS_1_3:
            return self._traffic_keys(half, suite, client.random)
        master = self._master(client, server)
        if master is None:
            return None
        keys = keys_of_master(self._version, suite, master, client.random, server.random)
        mine = keys[0] if half.direction == self._client else keys[1]
        is_mac_outside = hellos.ENCRYPT_THEN_MAC in server.extensions
        return SessionKeys(make_opener(self._version, suite, mine, is_mac_outside))

    def _traffic_keys(self, half: _Half, suite: Suite, client_random: bytes) -> Epochs | None:
        is_client = half.direction == self._client
        labels = (
            (CLIENT_HANDSHAKE, CLIENT_TRAFFIC) if is_client else (SERVER_HANDSHAKE, SERVER_TRAFFIC)
        )
        handshake, traffic = (self._keys.find(label, client_random) for label in labels)
        if handshake is None and traffic is None:
            return None
        return TrafficKeys(suite, (handshake, traffic))

    def _master(self, client: Hello, server: Hello) -> bytes | None:
        """The log's, or that of the session which is resumed."""
        master = self._keys.find(MASTER, client.random)
        if master is None and self._is_resumed:
            master = self._masters.find(client.session_id) or self._masters.find(client.ticket)
        if master is not None:
            self._masters.add(server.session_id, master)
        return master

    def _note_ticket(self, ticket: bytes) -> None:
        if self._is_agreed():
            client, server = self._pair()
            master = self._master(client, server)
            if master is not None:
                self._masters.add(ticket, master)

    # Plaintext

    def _give(self, half: _Half, record: Record, opened: Opened, out: list[Event]) -> None:
        content = opened.content
        overhead = len(record.body) - len(content)
        if isinstance(half.epochs, TrafficKeys) and overhead != half.epochs.overhead:
            half.is_padded = True
        if half.hole is not None:
            self._give_gap(half, half.hole, out)
        base = record.position + HEADER_SIZE + opened.prefix
        for start, end, mark in spread(len(content), base, record.marks):
            out.append(
                Chunk(
                    self._connection, half.direction, half.position + start, mark.time_ns,
                    mark.packet, mark.ordinal, mark.capture, content, start, end,
                )
            )  # fmt: skip
        half.position += len(content)
        half.given += len(content)

    def _lose(self, half: _Half, hole: Hole) -> None:
        half.encrypted += hole.captured
        half.messages.reset()
        half.hole = hole
        half.lost += hole.length
        if half.epochs is not None:
            half.epochs.lose(hole.length, hole.records)
        if hole.records >= 0:
            half.lost_records += hole.records
        else:
            half.is_count_sure = False

    def _fail(self, half: _Half, record: Record) -> None:
        """A record that no key opens is lost like one in a hole."""
        size = captured_size(record)
        half.encrypted += size
        half.messages.reset()
        is_early = self._has_early_data and half.direction == self._client and not half.given
        if not is_early:
            half.failures += 1
        if half.failures >= MAX_FAILURES:
            text = f"{MAX_FAILURES} TLS records in a row that the keys do not open"
            self._tell("tls-undecryptable", text, record.marks[-1], size)
            self._give_up(half)
            return
        is_handshake = isinstance(half.epochs, TrafficKeys) and not half.given and not is_early
        if record.kind == APPLICATION_DATA and not is_handshake:
            half.hole = Hole(record.position, size, size, 1, None, record.marks[-1])
            half.lost += size
            half.lost_records += 1
            if half.epochs is not None and half.epochs.unsure:
                half.is_count_sure = False

    def _give_gap(self, half: _Half, hole: Hole, out: list[Event]) -> None:
        """One gap for all that was lost since the last plaintext."""
        overhead = -1 if half.epochs is None else half.epochs.overhead
        is_exact = half.is_count_sure and overhead >= 0 and half.given > 0 and not half.is_padded
        length = half.lost - max(half.lost_records, 1) * (HEADER_SIZE + max(overhead, 0))
        if length < 1:
            is_exact = False
            length = 1
        gap, mark = hole.gap, hole.mark
        out.append(
            Gap(
                self._connection, half.direction, half.position, mark.time_ns, mark.packet,
                mark.ordinal, mark.capture, length, gap is not None and gap.is_acknowledged,
                gap is not None and gap.is_cut, is_exact,
            )
        )  # fmt: skip
        half.position += length
        self._forget_loss(half)

    def _forget_loss(self, half: _Half) -> None:
        """There was no application data in what was lost, or a gap told it."""
        half.hole = None
        half.lost = half.lost_records = 0
        half.is_count_sure = True

    def _give_up(self, half: _Half) -> None:
        if not half.is_given_up:
            half.is_given_up = True
            half.encrypted += half.cutter.captured + sum(map(captured_size, half.waiting))
            half.cutter = RecordCutter(False)
            half.messages.reset()
            half.waiting = []
            half.waiting_size = 0

    # What is told

    def _note_refusal(self) -> None:
        """A hello without an answer, when the capture has all there was."""
        connection = self._connection
        if self._client < 0 or connection.closed_by not in ("fin", "rst"):
            return
        answered = connection.counts[1 - self._client]
        if connection.syn_seen and answered.wire_bytes + answered.missing_bytes == 0:
            text = "a TLS ClientHello was not answered: does the broker speak TLS on this port?"
            self._tell("tls-refused", text, None, 0)

    def _note_early_data(self, hello: Hello) -> None:
        if hellos.EARLY_DATA in hello.extensions and not self._has_early_data:
            self._has_early_data = True
            text = "the client offers early data (0-RTT), which is not decrypted"
            self._tell("tls-early-data", text, None, 0)

    def _note_unsupported(self, client: Hello, server: Hello) -> None:
        """Keys that are known, but of no use."""
        if self._keys.has_any(client.random):
            what = f"compression method {server.compression}" if server.compression else "this"
            version = VERSIONS.get(self._version, f"version 0x{self._version:04x}")
            text = f"{version} with {suite_name(server.suite)}: {what} is not decrypted"
            self._tell("tls-unsupported", text, None, 0)

    def _alert(self, half: _Half, record: Record, content: bytes) -> None:
        if len(content) != 2 or content[1] in (CLOSE_NOTIFY, USER_CANCELED):
            return
        if content[0] == WARNING and self._version != TLS_1_3:
            return
        alert = f"{ALERTS.get(content[1], 'unknown alert')} ({content[1]})"
        if self._client < 0 and not self._connection.clear_directions:
            # Without a hello or words in clear nobody knows what it is about.
            return
        if self._client < 0:
            text = f"a client that does not speak TLS was answered by the TLS alert {alert}"
            self._tell("plain-client", text, record.marks[-1], 0)
            return
        side = "client" if half.direction == self._client else "broker"
        text = f"the {side} ended TLS by the alert {alert}"
        self._tell("tls-alert", text, record.marks[-1], 0)

    def _tell(self, kind: str, text: str, mark: Mark | None, size: int) -> None:
        """A problem, once of its kind."""
        if kind in self._told:
            return
        self._told.add(kind)
        connection = self._connection
        time_ns, packet, capture = (
            (connection.last_time_ns, -1, connection.capture)
            if mark is None
            else (mark.time_ns, mark.packet, mark.capture)
        )
        self.problems.append(
            Problem("tls", kind, text, time_ns, packet, size, connection.id, -1, capture)
        )


def captured_size(one: Record | Hole) -> int:
    """Captured stream bytes of a record, header included, or in a hole."""
    return one.captured if isinstance(one, Hole) else HEADER_SIZE + len(one.body)


def spread(size: int, base: int, marks: list[Mark]) -> list[tuple[int, int, Mark]]:
    """Which of `size` content bytes, the first at stream position `base`, came in which packet.

    The last one came, as far as its reader can tell, with the packet that completed the record.
    """
    parts: list[tuple[int, int, Mark]] = []
    at = 0
    for mark, following in pairwise(marks):
        stop = min(max(following.position - base, 0), size - 1)
        if stop > at:
            parts.append((at, stop, mark))
            at = stop
    if size > at:
        parts.append((at, size, marks[-1]))
    return parts
