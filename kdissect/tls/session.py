"""`Session`: TLS of one connection, both directions, from records to plaintext.

    hellos in clear ──▶ protected, keys known    content of application data becomes Chunks
                    └─▶ protected, without keys  bytes are only counted

Each direction's keys need both hellos, so protected records wait for the other direction's hello if
that is late. Negotiation and keys are in `Agreement`; a direction is decrypted in
`DirectionDecryptor`.
"""

from kdissect.errors import Problem
from kdissect.streams.events import Chunk, Connection, Event, Gap
from kdissect.tls import hellos
from kdissect.tls.agreement import (
    ACCEPTED,
    LIMIT,
    LOSS,
    NO_EARLY_DATA,
    OFFERED,
    REJECTED,
    UNKNOWN,
    VERSIONS,
    WRONG_SECRETS,
    Agreement,
)
from kdissect.tls.derivation import TLS_1_3
from kdissect.tls.direction import MAX_FAILURES, DirectionDecryptor, captured_size
from kdissect.tls.epochs import APPLICATION_EPOCH, EARLY_EPOCH, TrafficKeys
from kdissect.tls.keylog import KeyLog
from kdissect.tls.masters import Masters
from kdissect.tls.records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Hole,
    Mark,
    Record,
)
from kdissect.tls.reports import Reports
from kdissect.tls.session_properties import SessionProperties
from kdissect.tls.suites import suite_name


class Session:
    """TLS of a connection."""

    def __init__(
        self, connection: Connection, keys: KeyLog, masters: Masters, is_start: tuple[bool, bool]
    ) -> None:
        self.connection = connection
        self._reports = Reports(connection)
        self._agreement = Agreement(keys, masters, self._reports)
        self._reason = ""  # why decryption was given up
        self._halves = (
            DirectionDecryptor(connection, 0, is_start[0]),
            DirectionDecryptor(connection, 1, is_start[1]),
        )

    @property
    def held(self) -> int:
        """Memory of held data."""
        return self._halves[0].held + self._halves[1].held

    @property
    def facts(self) -> SessionProperties:
        """Properties known so far."""
        agreed = self._agreement
        version = agreed.version
        one, other = self._halves
        return SessionProperties(
            agreed.client,
            VERSIONS.get(version, f"0x{version:04x}") if version else "",
            agreed.server_name,
            agreed.alpn,
            suite_name(agreed.suite_number) if agreed.suite_number >= 0 else "",
            agreed.is_resumed,
            (one.own, other.own),
            (one.encrypted, other.encrypted),
            one.given + other.given,
            self._undecrypted(),
        )

    @property
    def has_keys(self) -> bool:
        """Return whether records of any direction are decrypted."""
        return any(half.epochs is not None for half in self._halves)

    def move_to(self, keys: KeyLog, masters: Masters) -> None:
        """Continue with the secrets of another stage."""
        self._agreement.move_to(keys, masters)

    def be_of(self, connection: Connection) -> None:
        """Continue with another value of the same connection."""
        self.connection = connection
        self._reports.be_of(connection)
        for half in self._halves:
            half.be_of(connection)

    def feed(self, event: Chunk | Gap) -> list[Event]:
        """Plaintext of either direction that becomes available."""
        half = self._halves[event.direction]
        found = half.take(event)
        if isinstance(event, Gap) and self._agreement.hellos[half.direction] is None:
            half.is_hello_lost = True
            self._stop_waiting()
        out: list[Event] = []
        for one in found:
            self._take(half, one, out)
        return out

    def finish(self) -> None:
        """End of the connection."""
        self._give_up()
        if self._undecrypted():
            self._agreement.note_missing_hello()
        self._reports.report_refusal(self._agreement.client)

    def limit(self, event: Event) -> None:
        """Too much is held: from here on bytes are only counted."""
        self._reason = LIMIT
        before = sum(half.encrypted for half in self._halves)
        self._give_up()
        size = sum(half.encrypted for half in self._halves) - before
        text = f"{size} bytes of TLS wait for what comes before them: they are given up"
        mark = Mark(-1, event.time_ns, event.packet, event.ordinal, event.capture)
        self._reports.tell("tls-held-limit", text, mark, size)

    def take_problems(self) -> list[Problem]:
        """The problems since the last call."""
        problems, self._reports.problems = self._reports.problems, []
        return problems

    def _undecrypted(self) -> str:
        one, other = self._halves
        if one.given + other.given or not one.encrypted + other.encrypted:
            return ""
        agreed = self._agreement
        return agreed.missing_hello or self._reason or agreed.lack or LOSS

    def _give_up(self) -> None:
        for half in self._halves:
            half.give_up()

    # Records

    def _take(self, half: DirectionDecryptor, one: Record | Hole, out: list[Event]) -> None:
        if half.is_given_up:
            half.encrypted += captured_size(one)
        elif half.waiting:
            half.wait(one)
        elif isinstance(one, Hole):
            half.lose(one)
            self._stop_early_data(half, out)
        elif self._is_protected(half, one):
            self._protected(half, one, out)
        else:
            self._clear(half, one, one.kind, one.body, out)

    def _is_protected(self, half: DirectionDecryptor, record: Record) -> bool:
        if record.kind == APPLICATION_DATA:
            return True
        return half.is_changed and self._agreement.version != TLS_1_3

    def _protected(self, half: DirectionDecryptor, record: Record, out: list[Event]) -> None:
        if half.epochs is None:
            if not self._agreement.is_reached or self._is_maybe_early(half):
                half.wait(record)
                self._stop_waiting()
                return
            epochs = self._agreement.make_epochs(half.direction)
            if epochs is None:
                half.give_up()
                half.encrypted += captured_size(record)
                self._stop_early_data(half, out)
                return
            half.has_early_data = is_client_early(half, self._agreement)
            half.begin(epochs)
        opened = half.open(record)
        if opened is None:
            self._fail(half, record)
            self._stop_early_data(half, out)
        elif opened.kind == APPLICATION_DATA:
            half.give(record, opened, out)
        else:
            self._clear(half, record, opened.kind, opened.content, out)

    def _fail(self, half: DirectionDecryptor, record: Record) -> None:
        agreed = self._agreement
        is_early = agreed.early_data != NO_EARLY_DATA and half.direction == agreed.client
        if half.fail(record, is_early and not half.given, agreed.early_data == REJECTED):
            text = f"{MAX_FAILURES} TLS records in a row that the keys do not open"
            size = captured_size(record)
            self._reports.tell("tls-undecryptable", text, record.marks[-1], size)
            self._reason = WRONG_SECRETS
            half.give_up()

    def _clear(
        self, half: DirectionDecryptor, record: Record, kind: int, content: bytes, out: list[Event]
    ) -> None:
        """Process a record other than application data, in clear or decrypted."""
        if kind == HANDSHAKE:
            for message, body in half.messages.feed(content):
                self._message(half, message, body, out)
        elif kind == CHANGE_CIPHER_SPEC:
            self._change(half)
        elif kind == ALERT:
            agreed = self._agreement
            is_client = half.direction == agreed.client if agreed.client >= 0 else None
            is_new = agreed.version == TLS_1_3
            self._reports.report_alert(content, is_client, is_new, record.marks[-1])

    def _message(
        self, half: DirectionDecryptor, message: int, body: bytes, out: list[Event]
    ) -> None:
        if self._agreement.take(half.direction, message, body):
            self._resume(out)
        elif isinstance(half.epochs, TrafficKeys):
            is_end = message == hellos.END_OF_EARLY_DATA and half.epochs.epoch == EARLY_EPOCH
            if message == hellos.KEY_UPDATE or is_end:
                half.epochs.advance()
            elif message == hellos.FINISHED and half.epochs.epoch < APPLICATION_EPOCH:
                half.epochs.advance()
                half.end_handshake()

    def _change(self, half: DirectionDecryptor) -> None:
        """Change the keys of the direction's next records, unless it is TLS 1.3."""
        half.is_changed = True
        half.messages.reset()
        if self._agreement.version != TLS_1_3:
            half.epochs = None
            half.forget_loss()

    # Waiting for the other direction's hello

    def _resume(self, out: list[Event]) -> None:
        """Process the waiting records, as both hellos are known."""
        for half in self._halves:
            for one in half.take_waiting():
                self._take(half, one, out)

    def _is_maybe_early(self, half: DirectionDecryptor) -> bool:
        """Return whether it is early data that the server has not yet accepted or rejected."""
        return half.direction == self._agreement.client and self._agreement.early_data == OFFERED

    def _stop_early_data(self, half: DirectionDecryptor, out: list[Event]) -> None:
        """Continue without the server's answer on early data, which may be lost."""
        agreed = self._agreement
        if agreed.early_data == OFFERED and agreed.is_reached and half.direction != agreed.client:
            agreed.early_data = UNKNOWN
            self._resume(out)

    def _stop_waiting(self) -> None:
        """Give up waiting for a hello that will not come."""
        known = self._agreement.hellos
        if any(half.is_hello_lost and known[half.direction] is None for half in self._halves):
            for half in self._halves:
                if half.waiting:
                    half.give_up()


def is_client_early(half: DirectionDecryptor, agreed: Agreement) -> bool:
    """Return whether early data of the direction is, as far as known, part of the plaintext."""
    return half.direction == agreed.client and agreed.early_data in (ACCEPTED, UNKNOWN)
