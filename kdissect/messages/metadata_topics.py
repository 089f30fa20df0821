"""TopicRecords of the KRaft log (KIP-500): names of topic ids in what controllers send to brokers.

record value   varint frame version, varint type (2), varint version (0),
               name (compact; of 2.8, frame version 0: int16 length), uuid
"""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.messages.batches import Batch
from kdissect.messages.record_slices import read_slices
from kdissect.messages.records import make_budget
from kdissect.protocol.primitives import read_compact_string, read_string

CLUSTER_METADATA: Final = "__cluster_metadata"
CLUSTER_METADATA_ID: Final = bytes(15) + b"\x01"  # in every cluster
UNPACKED_LIMIT: Final = 65_536
NAME_AT: Final = 3
# Frame version, type and version, each a varint of one byte.
PREVIEW_TOPIC_RECORD: Final = b"\x00\x02\x00"
TOPIC_RECORD: Final = b"\x01\x02\x00"
ID_SIZE: Final = 16
LONGEST_NAME: Final = 249  # of a topic: Topic.MAX_NAME_LENGTH
NAMES_LIMIT: Final = 200_000  # topics of all clusters; each takes about 250 bytes


def learn_topics(data: bytes, batches: list[Batch], names: dict[bytes, str]) -> None:
    """Add the topics that batches of the log in `data` create to `names`, by their ids.

    Controllers do not compress their log; a compressed one may grow to `UNPACKED_LIMIT` bytes and a
    multiple of its size.
    """
    size: i64 = 0
    for batch in batches:
        size += batch.size
    budget = make_budget(size, UNPACKED_LIMIT)
    for batch in batches:
        if batch.is_control:
            continue
        for scan in read_slices(data, batch, budget, budget.size):
            for record in scan.records:
                learn_topic(record.value() or b"", names)


def learn_topic(value: bytes, names: dict[bytes, str]) -> None:
    """Add the topic that a record's value creates to `names`; other records are ignored."""
    head = value[:NAME_AT]
    if head not in (TOPIC_RECORD, PREVIEW_TOPIC_RECORD):
        return
    read_name = read_compact_string if head == TOPIC_RECORD else read_string
    try:
        name, end = read_name(value, NAME_AT)
    except DecodeError:
        return
    topic_id = value[end : end + ID_SIZE]
    if name and len(topic_id) == ID_SIZE:
        remember_name(names, topic_id, name)


def remember_name(names: dict[bytes, str], topic_id: bytes, name: str) -> None:
    """Add a topic to `names`, unless there are too many or the name is invalid.

    A topic keeps its name: of several, which damage makes, the first counts.
    """
    if len(name) <= LONGEST_NAME and len(names) < NAMES_LIMIT:
        names.setdefault(topic_id, name)
