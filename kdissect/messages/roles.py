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
LEADER_EPOCH: Final = 14
RECORDS: Final = 15
SOFTWARE_NAME: Final = 16
SOFTWARE_VERSION: Final = 17
MECHANISM: Final = 18
AUTH_BYTES: Final = 19
RESOURCE_TYPE: Final = 20  # of a config: see CONFIG_RESOURCES
BATCH_INDEX: Final = 21
BATCH_INDEX_MESSAGE: Final = 22
ENTITY_TYPE: Final = 23
PROTOCOL_TYPE: Final = 24
PROTOCOL_NAME: Final = 25
POSITION: Final = 26  # of a piece of a snapshot: only the first starts with a batch
ACL_RESOURCE_TYPE: Final = 27  # of an ACL: see ACL_RESOURCES
ABORTED_COUNT: Final = 28  # aborted transactions of a partition; NULL: not in the response
ABORTED_PRODUCER: Final = 29
ABORTED_FIRST_OFFSET: Final = 30
ACQUIRED_FIRST_OFFSET: Final = 31  # of records that a member of a share group acquired
ACQUIRED_LAST_OFFSET: Final = 32
DELIVERY_COUNT: Final = 33
NAMED_COUNT: Final = 34  # behind them are roles that only a declared field has

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
HAS_ACQUIRED: Final = 512  # acquired records of the partition whose row comes next
