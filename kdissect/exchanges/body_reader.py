"""Reads the fields of bodies that tables need: requests, responses, responses without request.

A body is read with the projected decode of its API and version; one that does not fit, with the
layouts that releases had before they changed it. Unreadable parts cause a problem and cost the
fields behind that place, but never the row.

Of a body with a hole only the fields before the hole are reported, and no count: whether more would
follow is unknown. With a hole in the header before it, the start of the body is unknown, and
nothing of it is read. Longer than other modules: requests, responses and orphans share the budget
and the handling of errors.
"""

from contextlib import suppress
from typing import Final

from mypy_extensions import i64

from kdissect.errors import DecodeError, Problem, UnknownApi
from kdissect.exchanges.candidates import Candidates, weighed
from kdissect.exchanges.connection_state import ConnectionState, frame_problem, note_spoken
from kdissect.exchanges.created_acls import CREATE_ACLS, name_resources
from kdissect.exchanges.exchange import (
    API_FETCH,
    API_INIT_PRODUCER_ID,
    API_JOIN_GROUP,
    API_PRODUCE,
    API_SASL_AUTHENTICATE,
    API_SASL_HANDSHAKE,
    API_SHARE_FETCH,
    API_SYNC_GROUP,
    API_VERSIONS,
    DAMAGED,
    LEFTOVER,
    MISFIT,
    NO_PROTOCOL,
    REQUEST_FAILED,
    RESPONSE_FAILED,
    UNKNOWN_API,
    UNKNOWN_VERSION,
    VARIANT_SHIFT,
    VARIANTS,
    Exchange,
)
from kdissect.exchanges.fetches import (
    FetchSessions,
    forget_marks,
    forget_positions,
    remember_positions,
    settle_fetch,
)
from kdissect.exchanges.groups import GroupProtocols
from kdissect.exchanges.latency_parts import group_wait_ns, own_wait_ns
from kdissect.exchanges.long_polls import settle_share_fetch
from kdissect.exchanges.partition_merge import merge_partitions
from kdissect.exchanges.sasl import LONGEST_KEPT, OK, Login, is_long, kept
from kdissect.framing.frames import Frame
from kdissect.limits import DECODED_BYTES
from kdissect.messages.extracted import FieldSink
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.headers import (
    RequestHeader,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.interner import Interner
from kdissect.messages.offered_keys import keys_above
from kdissect.messages.partitions import AT_LEADER_EPOCH, WIDTH
from kdissect.messages.request_fields import RequestFields
from kdissect.messages.roles import LEADER_EPOCH
from kdissect.protocol.apis import api_name, is_known, vendor_of
from kdissect.protocol.plans import Plan, Plans
from kdissect.protocol.readers import NULL
from kdissect.streams.events import OWN_PAST, SHARED_PAST

BITS: Final = (1 << VARIANT_SHIFT) - 1
TELLING_SIZE: Final = 24  # of a response that fits one API: fewer bytes may fit by chance
ILLEGAL_SASL_STATE: Final = 34


class BodyReader:
    """Reads bodies of frames into exchanges; `problems` grows until the owner takes it.

    `names` are the topics' names by id: they grow with every body that contains both.
    """

    def __init__(
        self,
        names: dict[bytes, str],
        keeps_batches: bool,
        keeps_records: bool,
        decoded_bytes: i64 = DECODED_BYTES,
    ) -> None:
        self.problems: list[Problem] = []
        self.interner = Interner()
        self.groups = GroupProtocols()
        self.sessions = FetchSessions(max_size=decoded_bytes)
        self.sink = FieldSink(self.interner, names, decoded_bytes)
        # Other sinks see few bodies of many layouts, most of which do not fit.
        self.sink.takes_fast_paths = True
        self.sink.keeps_batches = keeps_batches
        self.sink.keeps_records = keeps_records
        self.plans: Plans = fact_plans()
        self.candidates = Candidates(self.plans)
        # Bound on orphans found at once: hundreds may have waited.
        self.guess_room: i64 = decoded_bytes

    def read_request(
        self, state: ConnectionState, exchange: Exchange, header: RequestHeader, frame: Frame
    ) -> None:
        """Read the request's fields for the tables; leave the exchange as it is on failure."""
        plan = self._plan(exchange.api_key, exchange.api_version, False)
        sink = self.sink
        if plan is None:
            known = is_known(exchange.api_key)
            exchange.status |= UNKNOWN_VERSION if known else UNKNOWN_API
            if not known:
                note_vendor(state, exchange)
            return
        is_whole = self._run(plan, exchange, frame, header.body_offset, REQUEST_FAILED)
        is_cut = frame.missing > 0 and frame.is_cut
        if sink.has_unkept or self.interner.cut_count > 0:
            self._tell_unkept(exchange, frame, REQUEST_FAILED)
        exchange.asked = sink.take_request()
        exchange.topic_count = NULL if is_cut else sink.topic_count
        if sink.has_records and not is_cut:
            exchange.record_count = sink.record_count
            exchange.record_bytes = sink.record_bytes
        exchange.partitions = sink.take_partitions()
        if exchange.api_key == API_FETCH:
            if is_whole:
                remember_positions(state, exchange, sink, self.sessions)
            else:
                forget_positions(state)
        elif exchange.api_key == API_JOIN_GROUP:
            exchange.group_protocol = (sink.protocol_type, "")
        elif exchange.api_key == API_SYNC_GROUP:
            exchange.group_protocol = self.groups.find(exchange.asked.group_id)
            if exchange.group_protocol == NO_PROTOCOL:
                frame.connection.use_history(SHARED_PAST)
        elif exchange.api_key == API_VERSIONS and sink.software_name:
            if exchange.status & MISFIT:
                return  # it may be another request, or part of one
            state.software_name = kept(sink.software_name)
            state.software_version = kept(sink.software_version)
            if is_long(state.software_name) or is_long(state.software_version):
                self.tell_cut(frame, "the client's software", exchange.exchange_id)
        elif exchange.api_key == API_SASL_HANDSHAKE:
            frame.connection.use_history(OWN_PAST)
            is_raw = exchange.api_version == 0
            if is_whole:
                changed = state.login.begin(sink.mechanism, is_raw)
                self._login_changed(frame, exchange, changed)
            else:
                state.login.begin_unread(is_raw)
        elif exchange.api_key == API_SASL_AUTHENTICATE:
            frame.connection.use_history(OWN_PAST)
            changed = state.login.send(sink.auth_bytes)
            sink.auth_bytes = b""
            self._login_changed(frame, exchange, changed)
            if is_long(state.login.user):
                self.tell_cut(frame, "the user", exchange.exchange_id)

    def tell_cut(self, frame: Frame, what: str, exchange_id: i64 = -1) -> None:
        """Report a name that a connection keeps truncated."""
        text = f"the name of {what} is cut to {LONGEST_KEPT} characters"
        self._problem(frame, "decoded-limit", text, exchange_id)

    def _login_changed(self, frame: Frame, exchange: Exchange, changed: str) -> None:
        """Report a client that logs in again as another user."""
        if changed:
            text = f"a connection logs in again with {changed}"
            self._problem(frame, "login-changed", text, exchange.exchange_id)

    def read_answer(self, state: ConnectionState, exchange: Exchange, frame: Frame) -> None:
        """Read the fields that the tables need of the response to a request."""
        key = exchange.api_key
        version = response_layout_version(key, exchange.api_version, frame.data)
        plan = self._plan(key, version, True)
        if plan is None:
            return
        sink = self.sink
        sink.wants_newest = key == API_SHARE_FETCH
        is_whole = self._run(plan, exchange, frame, -1, RESPONSE_FAILED)
        sink.wants_newest = False
        answered = settle_answer(exchange, sink, is_whole)
        if sink.has_unkept or self.interner.cut_count > 0:
            self._tell_unkept(exchange, frame, RESPONSE_FAILED)
        if frame.missing > 0 and frame.is_cut:
            forget_counts(exchange)
            self._forget_answered(exchange, answered)
        if state.login.is_open:
            settle_login(state.login, exchange, sink, is_whole)
        if key == CREATE_ACLS and sink.errors and exchange.request_frame is not None:
            asked = exchange.request_frame.data
            name_resources(exchange.api_version, asked, frame.data, sink.errors, sink.limit)
        if key == API_VERSIONS and exchange.error_code == 0 and not frame.missing:
            learn_vendor(state, frame.data, version)
        if key == API_FETCH:
            if is_whole:
                settle_fetch(state, exchange, answered, sink, self.sessions)
            else:
                forget_marks(state)
            return
        if key == API_SHARE_FETCH:
            if is_whole:
                settle_share_fetch(exchange, sink)
            return
        if key == API_INIT_PRODUCER_ID:
            settle_producer(exchange.asked, sink.asked)
        if key in (API_JOIN_GROUP, API_SYNC_GROUP):
            exchange.wait_ns = group_wait_ns(exchange)
            if key == API_JOIN_GROUP and sink.protocol_name:
                exchange.group_protocol = (exchange.group_protocol[0], sink.protocol_name)
                group_id = exchange.asked.group_id
                self.groups.note(group_id, exchange.group_protocol, frame.connection.id)
            return
        exchange.wait_ns = own_wait_ns(exchange)

    def forget_answer(self, exchange: Exchange) -> None:
        """The response to a request may have been missed: mark its fields as unknown."""
        exchange.topic_count = NULL
        self._forget_answered(exchange, 0)

    def miss_requests(self, state: ConnectionState) -> None:
        """Requests of the connection may have been missed."""
        forget_positions(state)
        state.login.miss()

    def miss_answers(self, state: ConnectionState) -> None:
        """Responses of the connection may have been missed."""
        forget_marks(state)
        state.misses_answers = True

    def _forget_answered(self, exchange: Exchange, answered: i64) -> None:
        """Forget fields that the response would state better than the request, which has the
        client's view: the producer, and leader epochs of partitions after the answered ones.
        """
        asked = exchange.asked
        if exchange.api_key == API_INIT_PRODUCER_ID and asked.producer_id != NULL:
            asked.producer_id = NULL
            asked.producer_epoch = NULL
        partitions = exchange.partitions
        if partitions is None:
            return
        plan = self._plan(exchange.api_key, exchange.api_version, True)
        if plan is None or not any(shape.slots[LEADER_EPOCH] for shape in plan.shapes):
            return
        at = answered * WIDTH
        while at < len(partitions.cells):
            partitions.cells[at + AT_LEADER_EPOCH] = NULL
            at += WIDTH

    def guess(self, state: ConnectionState, exchange: Exchange, frame: Frame) -> None:
        """Set the candidates of an orphan, and its fields when it can be of one API only."""
        if frame.connection.is_suppressed():
            return  # not requested
        data = frame.data
        found, percent = weighed(self.candidates.of(data), state)
        exchange.candidates = ", ".join([one.text for one in found])
        exchange.certainty = percent
        if len(found) != 1 or len(data) < TELLING_SIZE:
            return
        key: i64 = found[0].key
        note_spoken(state, key)
        if not state.protocol:
            state.protocol = "kafka"
        exchange.api_key = key
        if found[0].first == found[0].last:
            exchange.api_version = found[0].last
        plan = self._plan(key, found[0].last, True)
        if plan is None:
            return
        sink = self.sink
        sink.begin()
        with suppress(DecodeError):
            plan.run(data, response_body_offset(key, found[0].last, data), sink)
            if sink.spent() > self.guess_room:
                sink.let_go()
            self.guess_room -= sink.spent()
            settle_answer(exchange, sink, True)
            if sink.has_unkept or self.interner.cut_count > 0:
                self._tell_unkept(exchange, frame, RESPONSE_FAILED)

    def begin_guesses(self) -> None:
        """Begin a series of orphans that are found at once."""
        self.guess_room = self.sink.limit

    def _plan(self, key: i64, version: i64, is_response: bool) -> Plan | None:
        """Return the projected decode of a body; None without a layout."""
        try:
            return self.plans.get(key, version, is_response)
        except UnknownApi:
            return None

    def _run(self, plan: Plan, exchange: Exchange, frame: Frame, offset: i64, failed: i64) -> bool:
        """Run a projection over a body; return False when not all of it could be read.

        The sink then holds the fields before the place where reading ended.
        """
        if frame.missing:
            self._run_cut(plan, exchange, frame, offset, failed)
            return False
        sink = self.sink
        sink.begin()
        data = frame.data
        end: i64 = 0
        try:
            if failed == RESPONSE_FAILED:
                offset = response_body_offset(exchange.api_key, exchange.api_version, data)
            end = plan.run(data, offset, sink)
        except DecodeError as error:
            if self._run_variant(plan, exchange, data, offset, failed):
                return True
            sink.take_partial(plan, data, offset)
            text = f"cannot decode {body_name(exchange, failed)}: {error}"
            self._body_problem(exchange, frame, "undecodable", failed, text)
            return False
        if end != len(data):
            if self._run_variant(plan, exchange, data, offset, failed):
                return True
            left = f"{len(data) - end} bytes left over at byte {end} of {len(data)}"
            text = f"{body_name(exchange, failed)}: {left}"
            self._body_problem(exchange, frame, "leftover", failed, text)
            exchange.status = exchange.status & ~failed | LEFTOVER
        if sink.corrupt_records:
            text = f"{body_name(exchange, failed)}: {sink.corrupt_records}"
            self._problem(frame, "corrupt-records", text, exchange.exchange_id)
        return True

    def _run_cut(
        self, plan: Plan, exchange: Exchange, frame: Frame, offset: i64, failed: i64
    ) -> None:
        """Read a body with a hole: the sink then holds the fields before the hole.

        Nothing is read where several layouts share the version: only the end distinguishes them.
        """
        exchange.status |= DAMAGED
        sink = self.sink
        sink.begin()
        is_response = failed == RESPONSE_FAILED
        if self.plans.variants(exchange.api_key, plan.version, is_response):
            return
        data = frame.data
        if is_response:
            try:
                offset = response_body_offset(exchange.api_key, exchange.api_version, data)
            except DecodeError:
                return
        sink.take_cut(plan, data, offset)

    def _run_variant(
        self, plan: Plan, exchange: Exchange, data: bytes, offset: i64, failed: i64
    ) -> bool:
        """Try a body that does not fit its version's layout with the layouts of earlier releases.

        If none fits, the sink is as `plan` left it.
        """
        variants = self.plans.variants(exchange.api_key, plan.version, failed == RESPONSE_FAILED)
        sink = self.sink
        for variant in variants:
            sink.begin()
            try:
                if variant.run(data, offset, sink) != len(data):
                    continue
            except DecodeError:
                continue
            number = VARIANTS.index(variant.spec.releases[0]) + 1
            exchange.status = exchange.status & BITS | number << VARIANT_SHIFT
            return True
        if variants:
            sink.begin()
            with suppress(DecodeError):
                plan.run(data, offset, sink)
        return False

    def _body_problem(
        self, exchange: Exchange, frame: Frame, kind: str, failed: i64, text: str
    ) -> None:
        """Report a body that does not decode properly: `failed` is the status bit of its side."""
        exchange.status |= failed
        side = "request" if failed == REQUEST_FAILED else "response"
        self._problem(frame, f"{kind}-{side}", text, exchange.exchange_id)

    def _tell_unkept(self, exchange: Exchange, frame: Frame, side: i64) -> None:
        """Report fields of a body that had no room, or were cut."""
        sink = self.sink
        counts = (
            (sink.unkept_rows, "partitions without row"),
            (sink.unkept_errors, "errors without row"),
            (sink.unkept_batches, "batches without row"),
            (self.interner.cut_count, "texts cut"),
        )
        self.interner.cut_count = 0
        parts = [f"{count} {what}" for count, what in counts if count > 0]
        if parts:
            text = f"{body_name(exchange, side)}: {', '.join(parts)}"
            self._problem(frame, "decoded-limit", text, exchange.exchange_id)

    def _problem(self, frame: Frame, kind: str, text: str, exchange_id: i64) -> None:
        self.problems.append(frame_problem(frame, kind, text, exchange_id))


def body_name(exchange: Exchange, failed: i64) -> str:
    """Name of a body in a problem's text, like ``Fetch response v12``."""
    side = "request" if failed == REQUEST_FAILED else "response"
    version = "" if exchange.api_version == NULL else f" v{exchange.api_version}"
    return f"{api_name(exchange.api_key)} {side}{version}"


def note_vendor(state: ConnectionState, exchange: Exchange) -> None:
    """Note the vendor of a request whose key Apache Kafka does not have."""
    exchange.vendor = max(state.vendor, 0)
    if state.vendor < 0 and state.connection.lacks_history():
        # The broker may have identified itself before the split.
        state.connection.use_history(OWN_PAST)


def learn_vendor(state: ConnectionState, data: bytes, version: i64) -> None:
    """Return the broker's vendor, by the keys that its ApiVersions response offers."""
    keys = keys_above(data, response_body_offset(API_VERSIONS, version, data), version)
    if keys is not None:
        state.vendor = vendor_of(keys) if keys else 0


def settle_producer(asked: RequestFields, answered: RequestFields) -> None:
    """Fill in the producer id that InitProducerId gives."""
    if asked.producer_id == NULL and asked.transaction_timeout_ms == NULL:
        return  # of the request nothing is known
    if answered.producer_id >= 0:
        asked.producer_id = answered.producer_id
        asked.producer_epoch = answered.producer_epoch


def settle_answer(exchange: Exchange, sink: FieldSink, is_whole: bool) -> i64:
    """Fill in the fields of any response; return the number of partitions it names.

    These come first among the exchange's partitions.
    """
    exchange.throttle_ms = sink.throttle_ms
    settle_errors(exchange, sink, is_whole)
    if exchange.topic_count != NULL and sink.topic_count > exchange.topic_count:
        exchange.topic_count = sink.topic_count
    if sink.has_records:
        exchange.record_count = sink.record_count
        exchange.record_bytes = sink.record_bytes
    answered = sink.take_partitions()
    if answered is None:
        return 0
    count = answered.count
    asked = exchange.partitions
    merged = merge_partitions(asked, answered, sink.max_rows)
    exchange.partitions = merged
    if merged.unkept > 0 and sink.unkept_rows == 0 and (asked is None or asked.unkept == 0):
        # Each side had room, both together do not.
        sink.has_unkept = True
        sink.unkept_rows = merged.unkept
    return count


def forget_counts(exchange: Exchange) -> None:
    """Clear the counts of a response with a hole, as they are unknown.

    The record counts of a Produce are those of its request.
    """
    exchange.topic_count = NULL
    exchange.error_count = NULL
    if exchange.api_key != API_PRODUCE:
        exchange.record_count = NULL
        exchange.record_bytes = NULL


def settle_errors(exchange: Exchange, sink: FieldSink, is_whole: bool) -> None:
    """Fill in the errors of a response; their absence is known only of a whole one."""
    if sink.errors:
        exchange.errors = sink.errors
    if sink.errors or is_whole:
        exchange.error_count = sink.error_count
    if sink.top_error != NULL and sink.top_error != 0:
        exchange.error_code = sink.top_error
    elif sink.first_error != NULL:
        exchange.error_code = sink.first_error
    elif is_whole:
        exchange.error_code = 0


def settle_login(login: Login, exchange: Exchange, sink: FieldSink, is_whole: bool) -> None:
    """Process an answer's part in the ongoing authentication."""
    key = exchange.api_key
    token = sink.auth_bytes
    sink.auth_bytes = b""
    if key in (API_SASL_HANDSHAKE, API_SASL_AUTHENTICATE):
        if exchange.error_code > 0:
            login.refuse()
        elif key == API_SASL_AUTHENTICATE and is_whole:
            login.receive(token)
    elif key != API_VERSIONS and exchange.error_code not in (ILLEGAL_SASL_STATE, NULL):
        # Before the end brokers answer ApiVersions as usual, and refuse all other requests.
        login.settle(OK)
