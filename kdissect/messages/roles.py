"""Roles of message fields that code names, and kinds of structs, for `extracted.FieldSink`."""

from typing import Final

# The meaning of a field for the tables. The number is the index into Shape.slots.
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
REPLICA_ID: Final = 11
SESSION_ID: Final = 12
SESSION_EPOCH: Final = 13
FETCH_OFFSET: Final = 14
BASE_OFFSET: Final = 15
HIGH_WATERMARK: Final = 16
LAST_STABLE_OFFSET: Final = 17
LOG_START_OFFSET: Final = 18
LEADER_EPOCH: Final = 19
PREFERRED_READ_REPLICA: Final = 20
RECORDS: Final = 21
COMMITTED_OFFSET: Final = 22
SOFTWARE_NAME: Final = 23
SOFTWARE_VERSION: Final = 24
MECHANISM: Final = 25
AUTH_BYTES: Final = 26
RESOURCE_TYPE: Final = 27  # of a config: see CONFIG_RESOURCES
BATCH_INDEX: Final = 28
BATCH_INDEX_MESSAGE: Final = 29
ENTITY_TYPE: Final = 30
PROTOCOL_TYPE: Final = 31
PROTOCOL_NAME: Final = 32
POSITION: Final = 33  # of a piece of a snapshot: only the first starts with a batch
ACL_RESOURCE_TYPE: Final = 34  # of an ACL: see ACL_RESOURCES
ABORTED_COUNT: Final = 35  # aborted transactions of a partition; NULL: not in the response
ABORTED_PRODUCER: Final = 36
ABORTED_FIRST_OFFSET: Final = 37
NAMED_COUNT: Final = 38  # behind them are the roles that only `request_fields` has

# Kinds of structs, as bits.
BODY: Final = 1
HAS_TOPIC: Final = 2
HAS_PARTITION: Final = 4
HAS_ERROR: Final = 8
HAS_RECORD_ERROR: Final = 16  # one record of a batch, the code is that of the partition
HAS_ENTITY: Final = 32  # one part of the name of a quota's entity
HAS_ABORTED: Final = 64  # an aborted transaction of the partition whose row comes next
HAS_GROUP: Final = 128  # one of the groups in a request
HAS_REPLICA: Final = 256  # the fetching broker
