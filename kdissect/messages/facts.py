"""Body bytes → the facts that tables are made of, without building the rest of the body.

A projected decode (`protocol.plans`) reads only fields that have a role here and calls
`FactSink.row` at the end of each struct that matters: the whole body, a topic, a partition, or any
struct that holds an error code.

Longer than other modules: the numbers of all roles stand beside the one class that takes them.
"""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from kdissect.errors import DecodeError
from kdissect.messages.aborted import mark_aborted
from kdissect.messages.metadata_topics import (
    CLUSTER_METADATA,
    CLUSTER_METADATA_ID,
    learn_topics,
    remember_name,
)
from kdissect.messages.records import Batch, scan_batches
from kdissect.protocol.enums import enum_words
from kdissect.protocol.plans import Plan
from kdissect.protocol.readers import NULL, Shape, Sink

# Roles: what a field means to the tables. The number is the index into Shape.slots.
ERROR: Final = 0
ERROR_MESSAGE: Final = 1
SECOND_ERROR: Final = 2
SECOND_ERROR_MESSAGE: Final = 3
THROTTLE: Final = 4
TOPIC: Final = 5
TOPIC_ID: Final = 6
PARTITION: Final = 7
GROUP: Final = 8
TRANSACTIONAL_ID: Final = 9
RESOURCE: Final = 10
ACKS: Final = 11
MAX_WAIT: Final = 12
MIN_BYTES: Final = 13
REPLICA_ID: Final = 14
SESSION_ID: Final = 15
SESSION_EPOCH: Final = 16
FETCH_OFFSET: Final = 17
BASE_OFFSET: Final = 18
HIGH_WATERMARK: Final = 19
LAST_STABLE_OFFSET: Final = 20
LOG_START_OFFSET: Final = 21
LEADER_EPOCH: Final = 22
PREFERRED_READ_REPLICA: Final = 23
RECORDS: Final = 24
COMMITTED_OFFSET: Final = 25
SOFTWARE_NAME: Final = 26
SOFTWARE_VERSION: Final = 27
MECHANISM: Final = 28
AUTH_BYTES: Final = 29
RESOURCE_TYPE: Final = 30  # of a config: see CONFIG_RESOURCES
BATCH_INDEX: Final = 31
BATCH_INDEX_MESSAGE: Final = 32
ENTITY_TYPE: Final = 33
PROTOCOL_TYPE: Final = 34
PROTOCOL_NAME: Final = 35
POSITION: Final = 36  # of a piece of a snapshot: only the first begins with a batch
ACL_RESOURCE_TYPE: Final = 37  # of an ACL: see ACL_RESOURCES
ABORTED_COUNT: Final = 38  # aborted transactions of a partition; NULL: the response says nothing
ABORTED_PRODUCER: Final = 39
ABORTED_FIRST_OFFSET: Final = 40
ROLE_COUNT: Final = 41

# Kinds of structs, as bits.
BODY: Final = 1
HAS_TOPIC: Final = 2
HAS_PARTITION: Final = 4
HAS_ERROR: Final = 8
HAS_RECORD_ERROR: Final = 16  # one record of a batch, the code is that of the partition
HAS_ENTITY: Final = 32  # one part of the name of whom a quota is for
HAS_ABORTED: Final = 64  # an aborted transaction of the partition whose row comes next

NO_ID: Final = bytes(16)
CONFIG_TOPIC: Final = 2
CONFIG_GROUP: Final = 32
ACL_RESOURCES: Final[dict[int, str]] = enum_words("resource")
CONFIG_RESOURCES: Final[dict[int, str]] = enum_words("config resource")


class Interner:
    """Gives equal texts from the wire as one `str`; forgets all when `limit` texts are known.

    Or when they are of `size_limit` bytes. Forgetting costs sharing, never correctness, so hostile
    captures cannot make it grow.
    """

    __slots__ = ("texts", "limit", "size", "size_limit")

    def __init__(self, limit: i64 = 100_000, size_limit: i64 = 16 << 20) -> None:
        self.texts: dict[bytes, str] = {}
        self.limit = limit
        self.size: i64 = 0
        self.size_limit = size_limit

    def text(self, raw: bytes) -> str:
        """`raw` as text; invalid UTF-8 is written with backslash escapes."""
        known = self.texts.get(raw)
        if known is not None:
            return known
        self.size += len(raw)
        if len(self.texts) >= self.limit or self.size > self.size_limit:
            self.texts = {}
            self.size = len(raw)
        text = raw.decode("utf-8", "backslashreplace")
        self.texts[raw] = text
        return text


@mypyc_attr(acyclic=True, free_list_len=1)
class Partition:
    """What one exchange says of one topic-partition; NULL, "" and NO_ID where it says nothing.

    `topic` may be "" when only `topic_id` is on the wire. Sizes are in bytes.
    """

    __slots__ = (
        "topic", "topic_id", "partition", "error_code", "base_offset", "fetch_offset",
        "committed_offset", "high_watermark", "last_stable_offset", "log_start_offset",
        "record_count", "record_bytes", "leader_epoch", "preferred_read_replica", "batches",
        "records",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: bytes, partition: i64) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code: i64 = NULL
        self.base_offset: i64 = NULL
        self.fetch_offset: i64 = NULL
        self.committed_offset: i64 = NULL
        self.high_watermark: i64 = NULL
        self.last_stable_offset: i64 = NULL
        self.log_start_offset: i64 = NULL
        self.record_count: i64 = NULL
        self.record_bytes: i64 = NULL
        self.leader_epoch: i64 = NULL
        self.preferred_read_replica: i64 = NULL
        self.batches: list[Batch] | None = None
        # The bytes that the batches' spans point into, kept only when records are asked for.
        self.records: bytes = b""


@mypyc_attr(acyclic=True)
class ErrorFact:
    """One error code other than 0, where it stands and what it concerns ("" and NULL: nothing)."""

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


class FactSink(Sink):
    """Collects the facts of one body at a time; call `begin` before each.

    `names` maps topic ids to names and grows with every body that holds both.
    """

    def __init__(self, interner: Interner, names: dict[bytes, str]) -> None:
        super().__init__()
        self.interner = interner
        self.names = names
        self.keeps_batches: bool = True
        self.keeps_records: bool = False
        self.partitions: list[Partition] = []
        self.errors: list[ErrorFact] = []
        self.record_errors: list[ErrorFact] = []
        self.entities: list[str] = []
        self.aborted_producers: list[int] = []
        self.aborted_offsets: list[int] = []
        self._forget_rare_texts()
        self.begin()

    def _forget_rare_texts(self) -> None:
        """Those of a few APIs: one flag says that there are any."""
        self.has_rare_texts: bool = False
        self.software_name: str = ""
        self.software_version: str = ""
        self.mechanism: str = ""
        self.auth_bytes: bytes = b""
        self.protocol_type: str = ""
        self.protocol_name: str = ""

    def begin(self) -> None:
        """Forget the facts of the body before."""
        if self.partitions:
            self.partitions = []
        if self.errors:
            self.errors = []
        if self.record_errors:
            self.record_errors = []
        if self.entities:
            self.entities = []
        if self.aborted_producers:
            self.aborted_producers = []
            self.aborted_offsets = []
        self.error_count: i64 = 0
        self.topic_count: i64 = 0
        self.top_error: i64 = NULL
        self.first_error: i64 = NULL
        self.throttle_ms: i64 = NULL
        self.acks: i64 = NULL
        self.max_wait_ms: i64 = NULL
        self.min_bytes: i64 = NULL
        self.replica_id: i64 = NULL
        self.session_id: i64 = NULL
        self.session_epoch: i64 = NULL
        self.record_count: i64 = 0
        self.record_bytes: i64 = 0
        self.has_records: bool = False
        self.group: str = ""
        self.transactional_id: str = ""
        if self.has_rare_texts:
            self._forget_rare_texts()
        # Why entries of a records field were passed over; "" when all hold together.
        self.corrupt_records: str = ""
        # Topic of the partition rows that follow; spans differ per body, so compare spans first.
        self.topic_span: i64 = NULL
        self.topic_id_span: i64 = NULL
        self.topic: str = ""
        self.topic_id: bytes = NO_ID

    def take_partial(self, plan: Plan, data: bytes, offset: i64) -> None:
        """Of a body that ends too soon, or is wrong somewhere: the facts before that place."""
        self.slots = vec[i64]([NULL] * len(self.slots))
        self.begin()
        if offset < 0:
            return
        try:
            plan.run(data, offset, self)
        except DecodeError:
            for shape in plan.shapes:
                if shape.kind & BODY:
                    self.row(shape, data)

    def row(self, shape: Shape, data: bytes) -> None:
        """One struct is read: turn its slots into facts, by the bits of its kind."""
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
            name = self._text(shape, data, RESOURCE) or "<default>"
            self.entities.append(f"{self._text(shape, data, ENTITY_TYPE)} {name}")
        elif kind & HAS_ABORTED:
            self.aborted_producers.append(self._value(shape, ABORTED_PRODUCER))
            self.aborted_offsets.append(self._value(shape, ABORTED_FIRST_OFFSET))
        if kind & BODY:
            self._body_row(shape, data)

    def _value(self, shape: Shape, role: i64) -> i64:
        return self.slots[shape.slots[role]]

    def _text(self, shape: Shape, data: bytes, role: i64) -> str:
        return self.span_text(data, self.slots[shape.slots[role]])

    def span_text(self, data: bytes, span: i64) -> str:
        """The text at a span, which must be within `data`; "" for NULL."""
        if span == NULL:
            return ""
        start = span >> 32
        return self.interner.text(data[start : start + (span & 0xFFFFFFFF)])

    def set_topic(self, data: bytes, span: i64, id_span: i64) -> None:
        """Make a topic the current one, and learn its name when id and name are there."""
        if span == self.topic_span and id_span == self.topic_id_span:
            return
        self.topic_span = span
        self.topic_id_span = id_span
        self.topic = self.span_text(data, span)
        if id_span == NULL:
            self.topic_id = NO_ID
            return
        self.topic_id = data[id_span : id_span + 16]
        if self.topic_id == NO_ID:
            return
        if self.topic:
            if self.names.get(self.topic_id) is not self.topic:
                remember_name(self.names, self.topic_id, self.topic)
        else:
            self.topic = self.names.get(self.topic_id, "")

    def _partition_row(self, shape: Shape, data: bytes) -> None:
        slots = self.slots
        at = shape.slots
        self.set_topic(data, slots[at[TOPIC]], slots[at[TOPIC_ID]])
        self.add_partition(
            slots[at[PARTITION]],
            slots[at[ERROR]],
            slots[at[BASE_OFFSET]],
            slots[at[FETCH_OFFSET]],
            slots[at[COMMITTED_OFFSET]],
            slots[at[HIGH_WATERMARK]],
            slots[at[LAST_STABLE_OFFSET]],
            slots[at[LOG_START_OFFSET]],
            slots[at[LEADER_EPOCH]],
            slots[at[PREFERRED_READ_REPLICA]],
        )
        if at[RECORDS] != 0:
            position = slots[at[POSITION]]
            self.add_records(data, slots[at[RECORDS]], position, slots[at[ABORTED_COUNT]])

    def add_partition(
        self,
        partition: i64,
        error_code: i64,
        base_offset: i64,
        fetch_offset: i64,
        committed_offset: i64,
        high_watermark: i64,
        last_stable_offset: i64,
        log_start_offset: i64,
        leader_epoch: i64,
        preferred_read_replica: i64,
    ) -> None:
        """One more partition of the current topic; NULL for what is not said of it."""
        row = Partition(self.topic, self.topic_id, partition)
        row.error_code = error_code
        row.base_offset = base_offset
        row.fetch_offset = fetch_offset
        row.committed_offset = committed_offset
        row.high_watermark = high_watermark
        row.last_stable_offset = last_stable_offset
        row.log_start_offset = log_start_offset
        row.leader_epoch = leader_epoch
        row.preferred_read_replica = preferred_read_replica
        self.partitions.append(row)

    def add_records(self, data: bytes, span: i64, position: i64, aborted_count: i64) -> None:
        """The records at a span, or none for NULL, are of the partition added last.

        `position` is that in a snapshot of which they are a piece, `aborted_count` of how many
        aborted transactions the response says that they touch, NULL when it does not.
        """
        self.has_records = True
        row = self.partitions[-1]
        if span != NULL and position <= 0:
            self._records(row, data, span >> 32, span & 0xFFFFFFFF)
            if aborted_count != NULL and row.batches is not None:
                mark_aborted(data, row.batches, self.aborted_producers, self.aborted_offsets)
        elif span != NULL:
            row.record_bytes = span & 0xFFFFFFFF
            self.record_bytes += row.record_bytes
        if self.aborted_producers:
            self.aborted_producers = []
            self.aborted_offsets = []

    def _records(self, row: Partition, data: bytes, start: i64, size: i64) -> None:
        """Walk the batch headers of a records field and count what they say."""
        scan = scan_batches(data, start, start + size)
        if scan.error is not None and not self.corrupt_records:
            self.corrupt_records = f"partition {row.partition}: {scan.error}"
        count: i64 = 0
        for batch in scan.batches:
            if batch.record_count > 0:
                count += batch.record_count
        if row.topic_id == CLUSTER_METADATA_ID or row.topic == CLUSTER_METADATA:
            learn_topics(data, scan.batches, self.names)
        row.record_count = count
        row.record_bytes = size
        self.record_count += count
        self.record_bytes += size
        if self.keeps_batches:
            row.batches = scan.batches
        if self.keeps_records and size > 0:
            row.records = data

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
        self.error_count += 1
        if self.record_errors and role == ERROR:
            self._take_record_errors(fact)
        if kind & BODY:
            self.top_error = code
        elif self.first_error == NULL:
            self.first_error = code

    def _set_config_resource(self, fact: ErrorFact, kind: i64) -> None:
        """Say of which kind the resource is that a config belongs to."""
        name = fact.resource
        if kind == CONFIG_TOPIC:
            fact.topic = name
        elif kind == CONFIG_GROUP:
            fact.group = name
        fact.resource = f"{CONFIG_RESOURCES.get(kind, f'resource type {kind}')} {name}"

    def _set_acl_resource(self, fact: ErrorFact, kind: i64) -> None:
        """Say of which kind the resource is that an ACL protects."""
        fact.resource = f"{ACL_RESOURCES.get(kind, f'resource type {kind}')} {fact.resource}"

    def _record_error_row(self, shape: Shape, data: bytes) -> None:
        """Keep what is said of one record until the partition's code is known (KIP-467)."""
        fact = ErrorFact(f"{shape.path}.{shape.names[BATCH_INDEX_MESSAGE]}", 0)
        fact.message = self._text(shape, data, BATCH_INDEX_MESSAGE)
        fact.resource = f"record {self._value(shape, BATCH_INDEX)}"
        self.record_errors.append(fact)

    def _take_record_errors(self, partition: ErrorFact) -> None:
        """The records that a partition's error concerns: rows of their own with its code."""
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
        self.acks = slots[at[ACKS]]
        self.max_wait_ms = slots[at[MAX_WAIT]]
        self.min_bytes = slots[at[MIN_BYTES]]
        self.replica_id = slots[at[REPLICA_ID]]
        self.session_id = slots[at[SESSION_ID]]
        self.session_epoch = slots[at[SESSION_EPOCH]]
        self.group = self._text(shape, data, GROUP) or self.group
        self.transactional_id = self._text(shape, data, TRANSACTIONAL_ID)
        rare = at[SOFTWARE_NAME] | at[PROTOCOL_TYPE] | at[PROTOCOL_NAME] | at[MECHANISM]
        if rare | at[AUTH_BYTES] != 0:
            self._rare_texts(shape, data)

    def _rare_texts(self, shape: Shape, data: bytes) -> None:
        self.has_rare_texts = True
        self.software_name = self._text(shape, data, SOFTWARE_NAME)
        self.software_version = self._text(shape, data, SOFTWARE_VERSION)
        self.protocol_type = self._text(shape, data, PROTOCOL_TYPE)
        self.protocol_name = self._text(shape, data, PROTOCOL_NAME)
        self.mechanism = self._text(shape, data, MECHANISM)
        span = self._value(shape, AUTH_BYTES)
        if span != NULL:
            start = span >> 32
            self.auth_bytes = data[start : start + (span & 0xFFFFFFFF)]
