"""Which fields of the message definitions matter to the tables, and as what (see `facts`)."""

from functools import cache
from typing import Final

from kdissect.messages import facts
from kdissect.messages.short_ways import short_way_of
from kdissect.protocol.generated import is_worth_it
from kdissect.protocol.plans import Plans, Role, StraightReads
from kdissect.protocol.specs import FieldSpec

_ERRORS: Final = {"ErrorCode": facts.ERROR, "PartitionErrorCode": facts.ERROR}
_RESPONSE_FIELDS: Final = _ERRORS | {
    "ErrorMessage": facts.ERROR_MESSAGE,
    "AcknowledgeErrorCode": facts.SECOND_ERROR,
    "AcknowledgeErrorMessage": facts.SECOND_ERROR_MESSAGE,
    "TopicConfigErrorCode": facts.SECOND_ERROR,
    "ThrottleTimeMs": facts.THROTTLE,
    "BaseOffset": facts.BASE_OFFSET,
    "Offset": facts.BASE_OFFSET,  # ListOffsets
    "HighWatermark": facts.HIGH_WATERMARK,
    "LastStableOffset": facts.LAST_STABLE_OFFSET,
    "LogStartOffset": facts.LOG_START_OFFSET,
    "PreferredReadReplica": facts.PREFERRED_READ_REPLICA,
    "Position": facts.POSITION,  # FetchSnapshot
    "BatchIndex": facts.BATCH_INDEX,
    "BatchIndexErrorMessage": facts.BATCH_INDEX_MESSAGE,
    "EntityType": facts.ENTITY_TYPE,
    "AuthBytes": facts.AUTH_BYTES,
    "SessionId": facts.SESSION_ID,
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
# Of the body itself; fields of the same names in structs inside are about something else.
_BODY_FIELDS: Final = {
    "ProtocolType": facts.PROTOCOL_TYPE,  # JoinGroup, SyncGroup
    "ProtocolName": facts.PROTOCOL_NAME,
    "ProducerId": facts.PRODUCER_ID,
    "V3AndBelowProducerId": facts.PRODUCER_ID,
    "ProducerEpoch": facts.PRODUCER_EPOCH,
    "V3AndBelowProducerEpoch": facts.PRODUCER_EPOCH,
}
_REQUEST_BODY_FIELDS: Final = (
    _REQUEST_FIELDS
    | _BODY_FIELDS
    | {
        "TransactionTimeoutMs": facts.TRANSACTION_TIMEOUT,
        "Committed": facts.COMMITTED,
        "RackId": facts.RACK_ID,
    }
)
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
_PARTITIONS: Final = {
    ("Index", "int32"),  # Produce
    ("Partition", "int32"),
    ("Partitions", "[]int32"),
    ("PartitionIndexes", "[]int32"),
}
# Layouts of before 0.9 say nothing of entities.
_OLD_NAMES: Final = {"GroupId": facts.GROUP, "Topic": facts.TOPIC}
_RESOURCES: Final = {"ResourceName", "MemberId", "User", "Feature", "LogDir", "Key", "EntityName"}
# Structs whose partitions are not what the exchange is about: those a fetch session leaves off.
_PASSED_OVER: Final = {"ForgottenTopicsData"}
# Structs whose ResourceType is one of Kafka's ConfigResource, and those where it is of an ACL.
_CONFIG_RESULTS: Final = {"Results", "Responses"}
_ACL_RESULTS: Final = {"MatchingAcls"}
_ABORTED: Final = "AbortedTransactions"
_ABORTED_FIELDS: Final = {
    "ProducerId": facts.ABORTED_PRODUCER, "FirstOffset": facts.ABORTED_FIRST_OFFSET,
}  # fmt: skip
# Fields of enclosing structs that also describe the structs inside.
INHERITED: Final = frozenset(
    {facts.TOPIC, facts.TOPIC_ID, facts.GROUP, facts.RESOURCE, facts.TRANSACTIONAL_ID}
)


def request_role(field: FieldSpec, path: tuple[str, ...]) -> Role | None:
    """The role of a field of a request; None when it has none."""
    if path and path[-1] in _PASSED_OVER:
        return None
    if field.name == "Name" and path and path[-1] == "Topics":
        return Role(facts.TOPIC)
    return _role(field, _REQUEST_FIELDS if path else _REQUEST_BODY_FIELDS)


def response_role(field: FieldSpec, path: tuple[str, ...]) -> Role | None:
    """The role of a field of a response; None when it has none."""
    if field.name == "ResourceType" and path and path[-1] in _CONFIG_RESULTS:
        return Role(facts.RESOURCE_TYPE)
    if field.name == "ResourceType" and path and path[-1] in _ACL_RESULTS:
        return Role(facts.ACL_RESOURCE_TYPE)
    if field.name == _ABORTED:
        return Role(facts.ABORTED_COUNT, is_count=True)
    if path and path[-1] == _ABORTED:
        return Role(_ABORTED_FIELDS[field.name])
    return _role(field, _RESPONSE_FIELDS if path else _RESPONSE_FIELDS | _BODY_FIELDS)


def kind_of(roles: frozenset[int], is_body: bool) -> int:
    """The kind bits of a struct that has these roles; 0 when it needs no row."""
    kind = facts.BODY if is_body else 0
    if facts.PARTITION in roles:
        kind |= facts.HAS_PARTITION
    elif facts.TOPIC in roles or facts.TOPIC_ID in roles:
        kind |= facts.HAS_TOPIC
    if facts.ERROR in roles or facts.SECOND_ERROR in roles:
        kind |= facts.HAS_ERROR
    if facts.BATCH_INDEX_MESSAGE in roles:
        kind |= facts.HAS_RECORD_ERROR
    if facts.ENTITY_TYPE in roles and facts.ERROR not in roles:
        kind |= facts.HAS_ENTITY
    if facts.ABORTED_PRODUCER in roles:
        kind |= facts.HAS_ABORTED
    if facts.GROUP in roles and kind == 0:
        kind = facts.HAS_GROUP
    if facts.REPLICA_ID in roles and not is_body:
        kind |= facts.HAS_REPLICA
    return kind


@cache
def fact_plans() -> Plans:
    """The projected decodes of all API messages, with the roles that `facts.FactSink` takes.

    Always the same, so that each is built once a process.
    """
    reads: StraightReads | None = None
    if not is_worth_it():
        from kdissect.messages.straight_reads import READS

        reads = READS
    return Plans(
        request_role, response_role, kind_of, facts.ROLE_COUNT, INHERITED, short_way_of, reads
    )


def _role(field: FieldSpec, fields: dict[str, int]) -> Role | None:
    number = _role_number(field, fields)
    return None if number is None else Role(number)


def _role_number(field: FieldSpec, fields: dict[str, int]) -> int | None:
    if field.is_struct:
        return None
    if field.type == "records":
        return facts.RECORDS
    if (field.name, field.full_type) in _PARTITIONS:
        return facts.PARTITION
    if field.entity in _ENTITIES and field.type == "string":
        return _ENTITIES[field.entity]
    if field.is_array:
        return None
    if field.type == "string" and field.name in _OLD_NAMES:
        return _OLD_NAMES[field.name]
    if field.name in _RESOURCES and field.type == "string":
        return facts.RESOURCE
    return _SHARED_FIELDS.get(field.name, fields.get(field.name))
