"""Extracts the fields that tables need from body bytes, without building the rest of the body.

A projected decode (`protocol.plans`) reads only fields that have a role (see `roles`) and calls
`FieldSink.row` at the end of each struct that matters: the whole body, a topic, a partition, or any
struct that holds an error code. Longer than other modules: compiled code is faster as methods of
one sink.
"""

from typing import Final

from librt.vecs import append, extend, vec
from mypy_extensions import i64, mypyc_attr

from kdissect.errors import DecodeError
from kdissect.limits import DECODED_BYTES
from kdissect.messages.aborted_batches import mark_aborted
from kdissect.messages.batch_counts import BatchCounts
from kdissect.messages.declared_roles import REQUEST_SLOTS, RequestSlot, role_places
from kdissect.messages.interner import LONGEST_TEXT, Interner
from kdissect.messages.metadata_topics import (
    CLUSTER_METADATA,
    CLUSTER_METADATA_ID,
    LONGEST_NAME,
    learn_topics,
    remember_name,
)
from kdissect.messages.partitions import (
    AT_BATCH_COUNT,
    AT_CODEC,
    AT_CONTROL_COUNT,
    AT_PARTITION,
    AT_RECORD_BYTES,
    AT_RECORD_COUNT,
    AT_REDELIVERED_COUNT,
    NO_ID,
    WIDTH,
    HeldBatches,
    Partitions,
)
from kdissect.messages.records import BatchScan, scan_batches
from kdissect.messages.request_fields import NOTHING_ASKED, RequestFields
from kdissect.messages.roles import (
    ABORTED_COUNT,
    ABORTED_FIRST_OFFSET,
    ABORTED_PRODUCER,
    ACL_RESOURCE_TYPE,
    ACQUIRED_FIRST_OFFSET,
    ACQUIRED_LAST_OFFSET,
    AUTH_BYTES,
    BATCH_INDEX,
    BATCH_INDEX_MESSAGE,
    BODY,
    DELIVERY_COUNT,
    ENTITY_TYPE,
    ERROR,
    ERROR_MESSAGE,
    GROUP,
    HAS_ABORTED,
    HAS_ACQUIRED,
    HAS_ENTITY,
    HAS_ERROR,
    HAS_GROUP,
    HAS_PARTITION,
    HAS_RECORD_ERROR,
    HAS_REPLICA,
    HAS_TOPIC,
    MECHANISM,
    PARTITION,
    POSITION,
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    RECORDS,
    REPLICA_ID,
    RESOURCE,
    RESOURCE_TYPE,
    SECOND_ERROR,
    SECOND_ERROR_MESSAGE,
    SESSION_EPOCH,
    SESSION_ID,
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    THROTTLE,
    TOPIC,
    TOPIC_ID,
    TRANSACTIONAL_ID,
)
from kdissect.protocol.enums import enum_words
from kdissect.protocol.plans import Plan
from kdissect.protocol.readers import NULL, Shape, Sink, text_bytes

FIRST_ROWS: Final = 64  # initial capacity in partitions
KEPT_ROWS: Final = 65_536  # larger capacity is released after the body: 7.5 MiB
ROW_BYTES: Final = WIDTH * 8

# Approximate bytes of memory of a body's objects; for text see `interner.text_bytes`.
TOPIC_BYTES: Final = 64  # places in two lists, and an id
ERROR_BYTES: Final = 192  # an ErrorFact with its integers, and its row of 11
HELD_BYTES: Final = 256  # a HeldBatches with its list, and its dict entry
BATCH_BYTES: Final = 256  # a Batch of 20 integers
ABORTED_BYTES: Final = 160  # two integers in two lists, and as a sorted pair
# Records of one range of acquired ones; a longer range is not believed.
MOST_ACQUIRED: Final = 1 << 32
BATCHES_AT_ONCE: Final = 10_000  # batches without objects, only counted
# Parts of a quota's entity name: user, client id, address.
ENTITY_LIMIT: Final = 16

# Nothing is added to these.
NO_TOPICS: Final[list[str]] = []
NO_TOPIC_IDS: Final[list[bytes]] = []
SINGLE_TOPICS_LIMIT: Final = 10_000  # more than a cluster's clients use at a time

CONFIG_TOPIC: Final = 2
CONFIG_GROUP: Final = 32
ACL_RESOURCES: Final[dict[int, str]] = enum_words("resource")
CONFIG_RESOURCES: Final[dict[int, str]] = enum_words("config resource")


@mypyc_attr(acyclic=True)
class ErrorFact:
    """One error code other than 0, its position and its subject ("" and NULL: none)."""

    __slots__ = ("path", "code", "message", "topic", "topic_id", "partition", "group", "resource")

    def __init__(self, path: str, code: i64) -> None:
        self.path = path
        self.code = code
        self.message = ""
        self.topic = ""
        self.topic_id: bytes = NO_ID
        self.partition: i64 = NULL
        self.group = ""
        self.resource = ""


@mypyc_attr(acyclic=True)
class SingleTopic:
    """Lists of a single topic, shared by all bodies; `cost` is the memory counted for each."""

    __slots__ = ("topic", "topic_id", "topics", "topic_ids", "cost")

    def __init__(self, topic: str, topic_id: bytes) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.topics = [topic]
        self.topic_ids = [topic_id]
        self.cost: i64 = TOPIC_BYTES + text_bytes(topic)


class FieldSink(Sink):
    """Collects the extracted fields of one body at a time; call `begin` before each.

    `names` maps topic ids to names and grows with every body that contains both. Partitions take
    `limit` bytes of memory at most, and the rest as many; the excess is only counted.
    """

    def __init__(
        self, interner: Interner, names: dict[bytes, str], limit: i64 = DECODED_BYTES
    ) -> None:
        super().__init__()
        self.interner = interner
        self.names = names
        self.limit = limit
        self.max_rows: i64 = limit // ROW_BYTES
        # Remaining bytes for fields beside the partitions, and the number that had no room.
        self.room: i64 = limit
        self.has_unkept: bool = False
        self.unkept_rows: i64 = 0
        self.unkept_errors: i64 = 0
        self.unkept_batches: i64 = 0
        self.keeps_batches: bool = True
        self.keeps_records: bool = False
        self.wants_newest: bool = False
        self.counts = BatchCounts()
        self.partition_roles = role_places()
        # Partitions of the body so far, see `partitions`; the cells are reused.
        self.cells: vec[i64] = vec[i64]([NULL] * (FIRST_ROWS * WIDTH))
        self.row_count: i64 = 0
        self.topics: list[str] = NO_TOPICS
        self.topic_ids: list[bytes] = NO_TOPIC_IDS
        self.owns_topics: bool = False
        self.single_topics: dict[object, SingleTopic] = {}
        self.latest_single = SingleTopic("", NO_ID)
        self.held: dict[int, HeldBatches] | None = None
        self.errors: list[ErrorFact] = []
        # Texts of the last error, whose memory is counted.
        self.charged_topic: str = ""
        self.charged_group: str = ""
        self.record_errors: list[ErrorFact] = []
        self.entities: list[str] = []
        self.aborted_producers: list[int] = []
        self.aborted_offsets: list[int] = []
        # Acquired records of the partition that comes next which were delivered before.
        self.redelivered: i64 = NULL
        # Names of a module that is not compiled are looked up each time.
        self.log_topic: str = CLUSTER_METADATA
        self.log_topic_id: bytes = CLUSTER_METADATA_ID
        self.asked = RequestFields()
        self.has_asked: bool = False
        # Topic of the partition rows that follow; spans differ per body, so compare spans first.
        self.topic_span: i64 = NULL
        self.topic_id_span: i64 = NULL
        self.topic: str = ""
        self.topic_id: bytes = NO_ID
        self.is_log: bool = False  # the topic is the cluster's metadata log
        self.topic_index: i64 = -1  # in `topics`; -1 while it has no partition
        self.has_records: bool = False
        self.record_count: i64 = 0
        self.record_bytes: i64 = 0
        self.newest_ms: i64 = NULL  # largest timestamp of all batches, if requested
        # Why entries of a records field were skipped; "" if all are valid.
        self.corrupt_records: str = ""
        self._forget_rare()
        self.begin()

    def _forget_rare(self) -> None:
        """Clear the fields of a few APIs only; one flag says whether there are any."""
        self.has_rare: bool = False
        self.software_name: str = ""
        self.software_version: str = ""
        self.mechanism: str = ""
        self.auth_bytes: bytes = b""
        self.protocol_type: str = ""
        self.protocol_name: str = ""

    def begin(self) -> None:
        """Clear the fields of the previous body."""
        self.row_count = 0
        if self.has_unkept:
            self.has_unkept = False
            self.unkept_rows = 0
            self.unkept_errors = 0
            self.unkept_batches = 0
        self.room = self.limit
        if len(self.cells) > KEPT_ROWS * WIDTH:
            self.cells = vec[i64]([NULL] * (FIRST_ROWS * WIDTH))
        if self.topics is not NO_TOPICS:
            self.topics = NO_TOPICS
            self.topic_ids = NO_TOPIC_IDS
            self.owns_topics = False
            self.held = None
        if self.errors:
            self.errors = []
        if self.record_errors:
            self.record_errors = []
        if self.entities:
            self.entities = []
        if self.aborted_producers:
            self.aborted_producers = []
            self.aborted_offsets = []
        self.redelivered = NULL
        self.error_count: i64 = 0
        self.topic_count: i64 = 0
        self.top_error: i64 = NULL
        self.first_error: i64 = NULL
        self.throttle_ms: i64 = NULL
        if self.has_asked:
            self.has_asked = False
            self.asked.clear()
        self.session_id: i64 = NULL
        self.session_epoch: i64 = NULL
        if self.has_records:
            self.has_records = False
            self.record_count = 0
            self.record_bytes = 0
            self.newest_ms = NULL
            self.corrupt_records = ""
        if self.has_rare:
            self._forget_rare()
        if self.topic_span != NULL or self.topic_id_span != NULL:
            self.topic_span = NULL
            self.topic_id_span = NULL
            self.topic = ""
            self.topic_id = NO_ID
            self.is_log = False
        self.topic_index = -1

    def take_request(self) -> RequestFields:
        """Return the request's fields of the body, now owned by the caller if it has any."""
        if not self.has_asked:
            return NOTHING_ASKED
        taken = self.asked
        self.asked = RequestFields()
        self.has_asked = False
        return taken

    def take_partitions(self) -> Partitions | None:
        """Return the partitions of the body, now owned by the caller; None if it names none."""
        count = self.row_count
        if count == 0 and self.unkept_rows == 0:
            return None
        taken = Partitions(
            self.topics,
            self.topic_ids,
            self.cells[: count * WIDTH],
            count,
            self.held,
            self.owns_topics,
        )
        taken.unkept = self.unkept_rows
        taken.spent = self.limit - self.room
        self.row_count = 0
        self.topics = NO_TOPICS
        self.topic_ids = NO_TOPIC_IDS
        self.owns_topics = False
        self.held = None
        self.topic_index = -1
        return taken

    def spent(self) -> i64:
        """Approximate bytes of memory of the body's fields."""
        return self.row_count * ROW_BYTES + self.limit - self.room

    def let_go(self) -> None:
        """Drop the rows and errors of the body: they are only counted."""
        self.has_unkept = True
        self.unkept_rows += self.row_count
        self.unkept_errors += len(self.errors)
        self.row_count = 0
        self.held = None
        self.errors = []

    def take_partial(self, plan: Plan, data: bytes, offset: i64) -> None:
        """Extract from a truncated or partly invalid body: the fields before that place."""
        if offset < 0:
            self.begin()
        else:
            self._run_partial(plan, data, offset)

    def take_cut(self, plan: Plan, data: bytes, offset: i64) -> None:
        """Extract from a body that continues behind the end of `data`: fields before that place.

        None for a layout that ends before it, which cannot be the body's.
        """
        if offset < 0 or self._run_partial(plan, data, offset):
            self.begin()

    def _run_partial(self, plan: Plan, data: bytes, offset: i64) -> bool:
        """Extract the readable fields; return whether those are all."""
        # Fields missing in a struct must not keep the values of another body.
        self.slots = vec[i64]([NULL] * len(self.slots))
        self.begin()
        try:
            plan.run(data, offset, self)
        except DecodeError:
            for shape in plan.shapes:
                if shape.kind & BODY:
                    self._partial_body_row(shape, data)
            return False
        return True

    def row(self, shape: Shape, data: bytes) -> None:
        """Process a struct: convert its slots to fields, by the bits of its kind."""
        kind = shape.kind
        if kind & HAS_PARTITION:
            self._partition_row(shape, data)
        elif kind & HAS_TOPIC:
            slots = self.slots
            self.set_topic(data, slots[shape.slots[TOPIC]], slots[shape.slots[TOPIC_ID]])
            self.topic_count += 1
        if kind & HAS_ERROR:
            self._error_row(shape, data, ERROR, ERROR_MESSAGE, kind)
            self._error_row(shape, data, SECOND_ERROR, SECOND_ERROR_MESSAGE, kind)
            if self.entities:
                self.entities = []
        elif kind & HAS_RECORD_ERROR:
            self._record_error_row(shape, data)
        elif kind & HAS_ENTITY:
            if len(self.entities) < ENTITY_LIMIT:
                name = self._text(shape, data, RESOURCE) or "<default>"
                self.entities.append(f"{self._text(shape, data, ENTITY_TYPE)} {name}")
        elif kind & HAS_ABORTED:
            if self._has_room(ABORTED_BYTES):
                self.aborted_producers.append(self._value(shape, ABORTED_PRODUCER))
                self.aborted_offsets.append(self._value(shape, ABORTED_FIRST_OFFSET))
        elif kind & HAS_ACQUIRED:
            self._acquired_row(shape)
        elif kind & HAS_GROUP and not self.asked.group_id:
            self.has_asked = True
            self.asked.group_id = self._text(shape, data, GROUP)
        elif kind & HAS_REPLICA:
            self.has_asked = True
            self.asked.replica_id = self._value(shape, REPLICA_ID)
        if kind & BODY:
            self._body_row(shape, data)

    def _value(self, shape: Shape, role: i64) -> i64:
        return self.slots[shape.slots[role]]

    def _text(self, shape: Shape, data: bytes, role: i64) -> str:
        return self.span_text(data, self.slots[shape.slots[role]])

    def span_text(self, data: bytes, span: i64) -> str:
        """Text at a span, which must be within `data`; "" for NULL."""
        if span == NULL:
            return ""
        start = span >> 32
        size = span & 0xFFFFFFFF
        if size > LONGEST_TEXT:
            # One byte more shows that the text is longer.
            size = LONGEST_TEXT + 1
        return self.interner.text(data[start : start + size])

    def _has_room(self, size: i64) -> bool:
        """Reserve `size` bytes of memory; return False, and reserve nothing, if too many."""
        if size > self.room:
            self.has_unkept = True
            return False
        self.room -= size
        return True

    def set_topic(self, data: bytes, span: i64, id_span: i64) -> None:
        """Set the current topic, and learn its name if id and name are present."""
        if span == self.topic_span and id_span == self.topic_id_span:
            return
        self.topic_span = span
        self.topic_id_span = id_span
        self.topic_index = -1
        self.topic = self.span_text(data, span)
        self.topic_id = NO_ID
        if id_span != NULL:
            self._set_topic_id(self.interner.topic_id(data, id_span))
        self.is_log = self.topic == self.log_topic or self.topic_id == self.log_topic_id

    def _set_topic_id(self, topic_id: bytes) -> None:
        if topic_id == NO_ID:
            return
        self.topic_id = topic_id
        if not self.topic:
            self.topic = self.names.get(topic_id, "")
        elif self.names.get(topic_id) is not self.topic:
            remember_name(self.names, topic_id, self.topic)

    def _partition_row(self, shape: Shape, data: bytes) -> None:
        slots = self.slots
        at = shape.slots
        self.set_topic(data, slots[at[TOPIC]], slots[at[TOPIC_ID]])
        row = self.add_partition()
        if row >= 0:
            cells = self.cells
            roles = self.partition_roles
            place: i64 = 1
            while place < WIDTH:
                role = roles[place]
                cells[row + place] = NULL if role < 0 else slots[at[role]]
                place += 1
        if at[RECORDS] != 0:
            position = slots[at[POSITION]]
            self.add_records(data, slots[at[RECORDS]], position, slots[at[ABORTED_COUNT]])

        self.add_acquired()

    def _acquired_row(self, shape: Shape) -> None:
        """Count acquired records, if they were delivered before."""
        if self.redelivered == NULL:
            self.redelivered = 0
        first = self._value(shape, ACQUIRED_FIRST_OFFSET)
        last = self._value(shape, ACQUIRED_LAST_OFFSET)
        if self._value(shape, DELIVERY_COUNT) < 2 or first < 0 or last < first:
            return
        if last - first < MOST_ACQUIRED and self.redelivered < MOST_ACQUIRED:
            self.redelivered += last - first + 1

    def add_acquired(self) -> None:
        """Move the counts of acquired records to the partition added last."""
        if self.redelivered != NULL:
            if self.unkept_rows == 0:
                self.cells[(self.row_count - 1) * WIDTH + AT_REDELIVERED_COUNT] = self.redelivered
            self.redelivered = NULL

    def add_partition(self) -> i64:
        """Add a partition of the current topic: where its row starts in `cells`, or -1.

        The caller sets all cells of the row but that of the topic.
        """
        at = self.row_count * WIDTH
        needs_room = self.topic_index < 0 or at + WIDTH > len(self.cells)
        if needs_room and not self._make_row():
            self.has_unkept = True
            self.unkept_rows += 1
            return -1
        self.cells[at] = self.topic_index
        self.row_count += 1
        return at

    def _make_row(self) -> bool:
        """Make room for one more row, and for its topic; return False without room for another."""
        if self.unkept_rows > 0 or self.row_count >= self.max_rows:
            self.topic_index = -1
            return False
        if (self.row_count + 1) * WIDTH > len(self.cells):
            self.cells = more_cells(self.cells, self.max_rows * WIDTH)
        return self.topic_index >= 0 or self._add_topic()

    def _add_topic(self) -> bool:
        """Add the current topic to the rows, if there is room.

        Most bodies have one topic, of few in total.
        """
        if self.topics is NO_TOPICS and len(self.topic) <= LONGEST_NAME:
            return self._add_single_topic()
        if not self._has_room(TOPIC_BYTES + text_bytes(self.topic)):
            return False
        if not self.owns_topics:
            self.topics = self.topics[:]
            self.topic_ids = self.topic_ids[:]
            self.owns_topics = True
        self.topic_index = len(self.topics)
        self.topics.append(self.topic)
        self.topic_ids.append(self.topic_id)
        return True

    def _add_single_topic(self) -> bool:
        single = self.latest_single
        if single.topic is not self.topic or single.topic_id is not self.topic_id:
            single = self._single_topic()
            self.latest_single = single
        if not self._has_room(single.cost):
            return False
        self.topics = single.topics
        self.topic_ids = single.topic_ids
        self.owns_topics = False
        self.topic_index = 0
        return True

    def _single_topic(self) -> SingleTopic:
        # Old versions have the topic's name, new ones also its id.
        key: object = self.topic if self.topic_id is NO_ID else self.topic_id
        known = self.single_topics.get(key)
        if known is None or known.topic != self.topic:
            if len(self.single_topics) >= SINGLE_TOPICS_LIMIT:
                self.single_topics = {}
            known = SingleTopic(self.topic, self.topic_id)
            self.single_topics[key] = known
        return known

    def add_records(self, data: bytes, span: i64, position: i64, aborted_count: i64) -> None:
        """Process the records at a span, or none for NULL, of the partition added last.

        `position` is the position in a snapshot of a piece of it, `aborted_count` the number of
        aborted transactions that the response lists for them, NULL if it does not.
        """
        self.has_records = True
        if span != NULL:
            size = span & 0xFFFFFFFF
            self.record_bytes += size
            if self.unkept_rows == 0:
                self.cells[(self.row_count - 1) * WIDTH + AT_RECORD_BYTES] = size
            if position <= 0:
                self._records(data, span >> 32, size, aborted_count)
        if self.aborted_producers:
            self.room += ABORTED_BYTES * len(self.aborted_producers)
            self.aborted_producers = []
            self.aborted_offsets = []

    def _records(self, data: bytes, start: i64, size: i64, aborted_count: i64) -> None:
        """Count the batch headers of the last partition's records field."""
        counts = self.counts
        if self.wants_newest or self.keeps_batches or self.is_log:
            self._walk(data, start, start + size, aborted_count)
        elif not counts.count(data, start, start + size):
            self._walk(data, start, start + size, NULL)
        self.record_count += counts.records
        if self.unkept_rows > 0:
            return
        at = (self.row_count - 1) * WIDTH
        cells = self.cells
        cells[at + AT_RECORD_COUNT] = counts.records
        cells[at + AT_CONTROL_COUNT] = counts.controls
        cells[at + AT_BATCH_COUNT] = counts.batches
        cells[at + AT_CODEC] = counts.codec

    def _walk(self, data: bytes, start: i64, end: i64, aborted_count: i64) -> None:
        """Scan each batch, if batches are requested or something is odd; some at a time."""
        counts = self.counts
        counts.clear()
        if self.keeps_batches:
            start = self._keep_batches(data, start, end, aborted_count)
        while start != NULL:
            scan = scan_batches(data, start, end, BATCHES_AT_ONCE)
            self._note_batches(data, scan)
            start = scan.next_start
            if self.keeps_batches:
                self.has_unkept = True
                self.unkept_batches += len(scan.batches)

    def _keep_batches(self, data: bytes, start: i64, end: i64, aborted_count: i64) -> i64:
        """Hold as many batches as have room; return the start of the next, NULL for none."""
        if self.unkept_rows > 0 or not self._has_room(HELD_BYTES):
            return start
        scan = scan_batches(data, start, end, self.room // BATCH_BYTES)
        self._note_batches(data, scan)
        self.room -= BATCH_BYTES * len(scan.batches)
        if self.held is None:
            self.held = {}
        records = data if self.keeps_records and end > start else b""
        self.held[self.row_count - 1] = HeldBatches(scan.batches, records)
        # Transactions that were not kept cannot be classified.
        if aborted_count == len(self.aborted_producers):
            mark_aborted(data, scan.batches, self.aborted_producers, self.aborted_offsets)
        return scan.next_start

    def _note_batches(self, data: bytes, scan: BatchScan) -> None:
        """Count batches, and take their other properties."""
        self.counts.add(scan.batches)
        if scan.error is not None and not self.corrupt_records:
            where = "a partition"
            if self.unkept_rows == 0:
                number = self.cells[(self.row_count - 1) * WIDTH + AT_PARTITION]
                where = f"partition {number}"
            self.corrupt_records = f"{where}: {scan.error}"
        if self.wants_newest:
            for batch in scan.batches:
                self.newest_ms = max(self.newest_ms, batch.max_time_ms)
        if self.is_log:
            learn_topics(data, scan.batches, self.names)

    def _error_row(
        self, shape: Shape, data: bytes, role: i64, message_role: i64, kind: i64
    ) -> None:
        code = self._value(shape, role)
        if code == NULL or code == 0:
            if kind & BODY and code == 0 and role == ERROR:
                self.top_error = 0
            if self.record_errors and role == ERROR:
                self.record_errors = []
            return
        self.error_count += 1
        if kind & BODY:
            self.top_error = code
        elif self.first_error == NULL:
            self.first_error = code
        if not self._has_room(ERROR_BYTES):
            self.unkept_errors += 1 + len(self.record_errors)
            self.record_errors = []
            return
        field = shape.names[role]
        fact = ErrorFact(f"{shape.path}.{field}" if shape.path else field, code)
        fact.message = self._text(shape, data, message_role)
        if kind & (HAS_TOPIC | HAS_PARTITION):
            fact.topic = self.topic
            fact.topic_id = self.topic_id
        if kind & HAS_PARTITION:
            fact.partition = self._value(shape, PARTITION)
        fact.group = self._text(shape, data, GROUP)
        fact.resource = self._text(shape, data, RESOURCE)
        if shape.slots[RESOURCE_TYPE] != 0:
            self._set_config_resource(fact, self._value(shape, RESOURCE_TYPE))
        elif shape.slots[ACL_RESOURCE_TYPE] != 0:
            self._set_acl_resource(fact, self._value(shape, ACL_RESOURCE_TYPE))
        elif not fact.resource:
            fact.resource = self._text(shape, data, TRANSACTIONAL_ID) or ", ".join(self.entities)
        self.errors.append(fact)
        self._charge_texts(fact)
        if self.record_errors and role == ERROR:
            self._take_record_errors(fact)

    def _charge_texts(self, fact: ErrorFact) -> None:
        """Reserve memory for an error's texts, beyond the limit if need be: the next has none.

        Consecutive errors nearly always share topic and group.
        """
        if fact.message:
            self.room -= text_bytes(fact.message)
        if fact.resource:
            self.room -= text_bytes(fact.resource)
        if fact.topic is not self.charged_topic:
            self.charged_topic = fact.topic
            self.room -= text_bytes(fact.topic)
        if fact.group is not self.charged_group:
            self.charged_group = fact.group
            self.room -= text_bytes(fact.group)

    def _set_config_resource(self, fact: ErrorFact, kind: i64) -> None:
        """Set the type of the resource that a config belongs to."""
        name = fact.resource
        if kind == CONFIG_TOPIC:
            fact.topic = name
        elif kind == CONFIG_GROUP:
            fact.group = name
        fact.resource = f"{CONFIG_RESOURCES.get(kind, f'resource type {kind}')} {name}"

    def _set_acl_resource(self, fact: ErrorFact, kind: i64) -> None:
        """Set the type of the resource that an ACL protects."""
        fact.resource = f"{ACL_RESOURCES.get(kind, f'resource type {kind}')} {fact.resource}"

    def _record_error_row(self, shape: Shape, data: bytes) -> None:
        """Keep the error of one record until the partition's code is known (KIP-467)."""
        if not self._has_room(ERROR_BYTES):
            self.unkept_errors += 1
            return
        fact = ErrorFact(f"{shape.path}.{shape.names[BATCH_INDEX_MESSAGE]}", 0)
        fact.message = self._text(shape, data, BATCH_INDEX_MESSAGE)
        fact.resource = f"record {self._value(shape, BATCH_INDEX)}"
        self.record_errors.append(fact)
        self._charge_texts(fact)

    def _take_record_errors(self, partition: ErrorFact) -> None:
        """Records of a partition's error: separate rows with its code."""
        for fact in self.record_errors:
            fact.code = partition.code
            fact.topic = partition.topic
            fact.topic_id = partition.topic_id
            fact.partition = partition.partition
            self.errors.append(fact)
        self.record_errors = []

    def _body_row(self, shape: Shape, data: bytes) -> None:
        slots = self.slots
        at = shape.slots
        self.throttle_ms = slots[at[THROTTLE]]
        self.session_id = slots[at[SESSION_ID]]
        self.session_epoch = slots[at[SESSION_EPOCH]]
        for field in REQUEST_SLOTS:
            slot = at[field.role]
            if slot != 0:
                self.has_asked = True
                self._take_request_field(field, data, slots[slot])
        rare = at[SOFTWARE_NAME] | at[PROTOCOL_TYPE] | at[PROTOCOL_NAME] | at[MECHANISM]
        if rare | at[AUTH_BYTES] != 0:
            self._rare(shape, data)

    def _take_request_field(self, field: RequestSlot, data: bytes, value: i64) -> None:
        """Set a field by its name; a text that is absent here may be known from a struct."""
        if not field.is_text:
            setattr(self.asked, field.name, value)
        elif text := self.span_text(data, value):
            setattr(self.asked, field.name, text)

    def _partial_body_row(self, shape: Shape, data: bytes) -> None:
        """Process the body struct itself, not fully readable: no topic and no partition.

        A nested error is the first one only if the body's own code is known.
        """
        if shape.kind & HAS_ERROR:
            kind = shape.kind & ~(HAS_TOPIC | HAS_PARTITION)
            self._error_row(shape, data, ERROR, ERROR_MESSAGE, kind)
            self._error_row(shape, data, SECOND_ERROR, SECOND_ERROR_MESSAGE, kind)
            if shape.slots[ERROR] != 0 and self._value(shape, ERROR) == NULL:
                self.first_error = NULL
        self._body_row(shape, data)

    def _rare(self, shape: Shape, data: bytes) -> None:
        self.has_rare = True
        self.software_name = self._text(shape, data, SOFTWARE_NAME)
        self.software_version = self._text(shape, data, SOFTWARE_VERSION)
        self.protocol_type = self._text(shape, data, PROTOCOL_TYPE)
        self.protocol_name = self._text(shape, data, PROTOCOL_NAME)
        self.mechanism = self._text(shape, data, MECHANISM)
        span = self._value(shape, AUTH_BYTES)
        if span != NULL:
            start = span >> 32
            self.auth_bytes = data[start : start + (span & 0xFFFFFFFF)]


def more_cells(cells: vec[i64], most: i64) -> vec[i64]:
    """Double the cells with NULL, up to `most` in all."""
    size: i64 = min(len(cells) * 2, most)
    made = extend(vec[i64](capacity=size), cells)
    while len(made) < size:
        made = append(made, NULL)
    return made
