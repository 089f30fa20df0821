"""Which fields of the message definitions matter to the tables, and as what (see `facts`)."""

from typing import Final

from kdissect.messages import facts

_ERRORS: Final = {"ErrorCode": facts.ERROR, "PartitionErrorCode": facts.ERROR}
_RESPONSE_FIELDS: Final = _ERRORS | {
    "ErrorMessage": facts.ERROR_MESSAGE,
    "AcknowledgeErrorCode": facts.SECOND_ERROR,
    "AcknowledgeErrorMessage": facts.SECOND_ERROR_MESSAGE,
    "TopicConfigErrorCode": facts.SECOND_ERROR,
    "ThrottleTimeMs": facts.THROTTLE,
    "BaseOffset": facts.BASE_OFFSET,
    "HighWatermark": facts.HIGH_WATERMARK,
    "LastStableOffset": facts.LAST_STABLE_OFFSET,
    "LogStartOffset": facts.LOG_START_OFFSET,
    "PreferredReadReplica": facts.PREFERRED_READ_REPLICA,
}
_REQUEST_FIELDS: Final = {
    "Acks": facts.ACKS,
    "MaxWaitMs": facts.MAX_WAIT,
    "MinBytes": facts.MIN_BYTES,
    "ReplicaId": facts.REPLICA_ID,
    "SessionId": facts.SESSION_ID,
    "SessionEpoch": facts.SESSION_EPOCH,
    "FetchOffset": facts.FETCH_OFFSET,
    "CurrentLeaderEpoch": facts.LEADER_EPOCH,
    "ClientSoftwareName": facts.SOFTWARE_NAME,
    "ClientSoftwareVersion": facts.SOFTWARE_VERSION,
    "Mechanism": facts.MECHANISM,
    "AuthBytes": facts.AUTH_BYTES,
}
# Names that mean the same in both directions.
_SHARED_FIELDS: Final = {
    "TopicId": facts.TOPIC_ID,
    "PartitionIndex": facts.PARTITION,
    "PartitionId": facts.PARTITION,
    "LeaderEpoch": facts.LEADER_EPOCH,
    "CommittedOffset": facts.COMMITTED_OFFSET,
}
_ENTITIES: Final = {
    "topicName": facts.TOPIC,
    "groupId": facts.GROUP,
    "transactionalId": facts.TRANSACTIONAL_ID,
}
_PARTITION_NAMES: Final = {
    ("Partition", "int32"),
    ("Partitions", "int32"),
    ("Partitions", "[]int32"),
    ("PartitionIndexes", "[]int32"),
}
_RESOURCES: Final = {"ResourceName", "MemberId", "User", "Feature", "LogDir", "Key", "EntityName"}
_RECORDS: Final = {"records"}
# Fields of enclosing structs that also describe the structs inside.
INHERITED: Final = frozenset({facts.TOPIC, facts.TOPIC_ID, facts.GROUP, facts.RESOURCE})


def role_of(name: str, type: str, entity_type: str, is_response: bool) -> int | None:
    """The role of a field, by its upstream name, type and entity type; None when it has none."""
    if type in _RECORDS:
        return facts.RECORDS
    if (name, type) in _PARTITION_NAMES:
        return facts.PARTITION
    if entity_type in _ENTITIES and type in ("string", "[]string"):
        return _ENTITIES[entity_type]
    if name in _RESOURCES and type == "string":
        return facts.RESOURCE
    if name in _SHARED_FIELDS:
        return _SHARED_FIELDS[name]
    return (_RESPONSE_FIELDS if is_response else _REQUEST_FIELDS).get(name)


def kind_of(roles: frozenset[int], is_body: bool) -> int:
    """The kind bits of a struct whose own fields have these roles; 0 when it needs no row."""
    kind = facts.BODY if is_body else 0
    if facts.PARTITION in roles:
        kind |= facts.HAS_PARTITION
    elif facts.TOPIC in roles or facts.TOPIC_ID in roles:
        kind |= facts.HAS_TOPIC
    if facts.ERROR in roles or facts.SECOND_ERROR in roles:
        kind |= facts.HAS_ERROR
    return kind
