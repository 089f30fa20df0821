"""Field mapping: message fields that tables need, and their roles (see `extracted`)."""

from functools import cache
from typing import Final

from kdissect.messages import extracted
from kdissect.messages.fast_paths import fast_path_of
from kdissect.protocol.generated import is_worth_it
from kdissect.protocol.plans import GeneratedReads, Plans, Role
from kdissect.protocol.specs import FieldSpec

_ERRORS: Final = {"ErrorCode": extracted.ERROR, "PartitionErrorCode": extracted.ERROR}
_RESPONSE_FIELDS: Final = _ERRORS | {
    "ErrorMessage": extracted.ERROR_MESSAGE,
    "AcknowledgeErrorCode": extracted.SECOND_ERROR,
    "AcknowledgeErrorMessage": extracted.SECOND_ERROR_MESSAGE,
    "TopicConfigErrorCode": extracted.SECOND_ERROR,
    "ThrottleTimeMs": extracted.THROTTLE,
    "BaseOffset": extracted.BASE_OFFSET,
    "Offset": extracted.BASE_OFFSET,  # ListOffsets
    "HighWatermark": extracted.HIGH_WATERMARK,
    "LastStableOffset": extracted.LAST_STABLE_OFFSET,
    "LogStartOffset": extracted.LOG_START_OFFSET,
    "PreferredReadReplica": extracted.PREFERRED_READ_REPLICA,
    "Position": extracted.POSITION,  # FetchSnapshot
    "BatchIndex": extracted.BATCH_INDEX,
    "BatchIndexErrorMessage": extracted.BATCH_INDEX_MESSAGE,
    "EntityType": extracted.ENTITY_TYPE,
    "AuthBytes": extracted.AUTH_BYTES,
    "SessionId": extracted.SESSION_ID,
}
_REQUEST_FIELDS: Final = {
    "Acks": extracted.ACKS,
    "MaxWaitMs": extracted.MAX_WAIT,
    "MinBytes": extracted.MIN_BYTES,
    "ReplicaId": extracted.REPLICA_ID,
    "SessionId": extracted.SESSION_ID,
    "SessionEpoch": extracted.SESSION_EPOCH,
    "FetchOffset": extracted.FETCH_OFFSET,
    "CurrentLeaderEpoch": extracted.LEADER_EPOCH,
    "ClientSoftwareName": extracted.SOFTWARE_NAME,
    "ClientSoftwareVersion": extracted.SOFTWARE_VERSION,
    "Mechanism": extracted.MECHANISM,
    "AuthBytes": extracted.AUTH_BYTES,
}
# Of the body itself; fields of the same names in nested structs have other meanings.
_BODY_FIELDS: Final = {
    "ProtocolType": extracted.PROTOCOL_TYPE,  # JoinGroup, SyncGroup
    "ProtocolName": extracted.PROTOCOL_NAME,
    "ProducerId": extracted.PRODUCER_ID,
    "V3AndBelowProducerId": extracted.PRODUCER_ID,
    "ProducerEpoch": extracted.PRODUCER_EPOCH,
    "V3AndBelowProducerEpoch": extracted.PRODUCER_EPOCH,
}
_REQUEST_BODY_FIELDS: Final = (
    _REQUEST_FIELDS
    | _BODY_FIELDS
    | {
        "TransactionTimeoutMs": extracted.TRANSACTION_TIMEOUT,
        "Committed": extracted.COMMITTED,
        "RackId": extracted.RACK_ID,
    }
)
# Names with the same meaning in both directions.
_SHARED_FIELDS: Final = {
    "TopicId": extracted.TOPIC_ID,
    "PartitionIndex": extracted.PARTITION,
    "PartitionId": extracted.PARTITION,
    "LeaderEpoch": extracted.LEADER_EPOCH,
    "CommittedOffset": extracted.COMMITTED_OFFSET,
}
_ENTITIES: Final = {
    "topicName": extracted.TOPIC,
    "groupId": extracted.GROUP,
    "transactionalId": extracted.TRANSACTIONAL_ID,
}
_PARTITIONS: Final = {
    ("Index", "int32"),  # Produce
    ("Partition", "int32"),
    ("Partitions", "[]int32"),
    ("PartitionIndexes", "[]int32"),
}
# Layouts of before 0.9 have no entities.
_OLD_NAMES: Final = {"GroupId": extracted.GROUP, "Topic": extracted.TOPIC}
_RESOURCES: Final = {"ResourceName", "MemberId", "User", "Feature", "LogDir", "Key", "EntityName"}
# Structs whose partitions are not those of the exchange: those a fetch session leaves out.
_PASSED_OVER: Final = {"ForgottenTopicsData"}
# Structs whose ResourceType is one of Kafka's ConfigResource, and those where it is of an ACL.
_CONFIG_RESULTS: Final = {"Results", "Responses"}
_ACL_RESULTS: Final = {"MatchingAcls"}
_ABORTED: Final = "AbortedTransactions"
_ABORTED_FIELDS: Final = {
    "ProducerId": extracted.ABORTED_PRODUCER, "FirstOffset": extracted.ABORTED_FIRST_OFFSET,
}  # fmt: skip
# Fields of enclosing structs that also describe nested structs.
INHERITED: Final = frozenset(
    {
        extracted.TOPIC,
        extracted.TOPIC_ID,
        extracted.GROUP,
        extracted.RESOURCE,
        extracted.TRANSACTIONAL_ID,
    }
)


def request_role(field: FieldSpec, path: tuple[str, ...]) -> Role | None:
    """Role of a request field; None for no role."""
    if path and path[-1] in _PASSED_OVER:
        return None
    if field.name == "Name" and path and path[-1] == "Topics":
        return Role(extracted.TOPIC)
    return _role(field, _REQUEST_FIELDS if path else _REQUEST_BODY_FIELDS)


def response_role(field: FieldSpec, path: tuple[str, ...]) -> Role | None:
    """Role of a response field; None for no role."""
    if field.name == "ResourceType" and path and path[-1] in _CONFIG_RESULTS:
        return Role(extracted.RESOURCE_TYPE)
    if field.name == "ResourceType" and path and path[-1] in _ACL_RESULTS:
        return Role(extracted.ACL_RESOURCE_TYPE)
    if field.name == _ABORTED:
        return Role(extracted.ABORTED_COUNT, is_count=True)
    if path and path[-1] == _ABORTED:
        return Role(_ABORTED_FIELDS[field.name])
    return _role(field, _RESPONSE_FIELDS if path else _RESPONSE_FIELDS | _BODY_FIELDS)


def kind_of(roles: frozenset[int], is_body: bool) -> int:
    """Kind bits of a struct with these roles; 0 if it needs no row."""
    kind = extracted.BODY if is_body else 0
    if extracted.PARTITION in roles:
        kind |= extracted.HAS_PARTITION
    elif extracted.TOPIC in roles or extracted.TOPIC_ID in roles:
        kind |= extracted.HAS_TOPIC
    if extracted.ERROR in roles or extracted.SECOND_ERROR in roles:
        kind |= extracted.HAS_ERROR
    if extracted.BATCH_INDEX_MESSAGE in roles:
        kind |= extracted.HAS_RECORD_ERROR
    if extracted.ENTITY_TYPE in roles and extracted.ERROR not in roles:
        kind |= extracted.HAS_ENTITY
    if extracted.ABORTED_PRODUCER in roles:
        kind |= extracted.HAS_ABORTED
    if extracted.GROUP in roles and kind == 0:
        kind = extracted.HAS_GROUP
    if extracted.REPLICA_ID in roles and not is_body:
        kind |= extracted.HAS_REPLICA
    return kind


@cache
def fact_plans() -> Plans:
    """Projected decodes of all API messages, with the roles of `extracted.FieldSink`.

    Always the same, so that each is built once a process.
    """
    reads: GeneratedReads | None = None
    if not is_worth_it():
        from kdissect.messages.generated_readers import READS

        reads = READS
    return Plans(
        request_role,
        response_role,
        kind_of,
        extracted.ROLE_COUNT,
        INHERITED,
        fast_path_of,
        reads,
    )


def _role(field: FieldSpec, fields: dict[str, int]) -> Role | None:
    number = _role_number(field, fields)
    return None if number is None else Role(number)


def _role_number(field: FieldSpec, fields: dict[str, int]) -> int | None:
    if field.is_struct:
        return None
    if field.type == "records":
        return extracted.RECORDS
    if (field.name, field.full_type) in _PARTITIONS:
        return extracted.PARTITION
    if field.entity in _ENTITIES and field.type == "string":
        return _ENTITIES[field.entity]
    if field.is_array:
        return None
    if field.type == "string" and field.name in _OLD_NAMES:
        return _OLD_NAMES[field.name]
    if field.name in _RESOURCES and field.type == "string":
        return extracted.RESOURCE
    return _SHARED_FIELDS.get(field.name, fields.get(field.name))
