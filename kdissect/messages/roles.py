"""Roles of message fields, and kinds of structs, for `extracted.FieldSink`."""

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
POSITION: Final = 36  # of a piece of a snapshot: only the first starts with a batch
ACL_RESOURCE_TYPE: Final = 37  # of an ACL: see ACL_RESOURCES
ABORTED_COUNT: Final = 38  # aborted transactions of a partition; NULL: not in the response
ABORTED_PRODUCER: Final = 39
ABORTED_FIRST_OFFSET: Final = 40
PRODUCER_ID: Final = 41
PRODUCER_EPOCH: Final = 42
TRANSACTION_TIMEOUT: Final = 43
COMMITTED: Final = 44
RACK_ID: Final = 45
ROLE_COUNT: Final = 46

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
