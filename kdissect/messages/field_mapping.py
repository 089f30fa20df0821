"""Field mapping: message fields that tables need, and their roles (see `roles`)."""

from functools import cache
from typing import Final

from kdissect.messages import roles
from kdissect.messages.declared_roles import PARTITION_ROLES, REQUEST_ROLES, ROLE_COUNT
from kdissect.messages.generated_code import generated_read
from kdissect.messages.partitions import FIELDS as PARTITION_FIELDS
from kdissect.messages.request_fields import FIELDS
from kdissect.protocol.plans import Plans, Role
from kdissect.protocol.specs import FieldSpec

_ERRORS: Final = {"ErrorCode": roles.ERROR, "PartitionErrorCode": roles.ERROR}
_ANSWERED: Final = {
    name: PARTITION_ROLES[field.name] for field in PARTITION_FIELDS for name in field.answered
}
_RESPONSE_FIELDS: Final = (
    _ERRORS
    | _ANSWERED
    | {
        "ErrorMessage": roles.ERROR_MESSAGE,
        "AcknowledgeErrorCode": roles.SECOND_ERROR,
        "AcknowledgeErrorMessage": roles.SECOND_ERROR_MESSAGE,
        "TopicConfigErrorCode": roles.SECOND_ERROR,
        "ThrottleTimeMs": roles.THROTTLE,
        "Position": roles.POSITION,  # FetchSnapshot
        "BatchIndex": roles.BATCH_INDEX,
        "BatchIndexErrorMessage": roles.BATCH_INDEX_MESSAGE,
        "EntityType": roles.ENTITY_TYPE,
        "AuthBytes": roles.AUTH_BYTES,
        "SessionId": roles.SESSION_ID,
    }
)
_REQUEST_FIELDS: Final = {
    name: PARTITION_ROLES[field.name] for field in PARTITION_FIELDS for name in field.asked
} | {
    "ReplicaId": roles.REPLICA_ID,  # in the body, or in a struct
    "SessionId": roles.SESSION_ID,
    "SessionEpoch": roles.SESSION_EPOCH,
    "ClientSoftwareName": roles.SOFTWARE_NAME,
    "ClientSoftwareVersion": roles.SOFTWARE_VERSION,
    "Mechanism": roles.MECHANISM,
    "AuthBytes": roles.AUTH_BYTES,
}
# Of the body itself; fields of the same names in nested structs have other meanings.
_BODY_FIELDS: Final = {
    "ProtocolType": roles.PROTOCOL_TYPE,  # JoinGroup, SyncGroup
    "ProtocolName": roles.PROTOCOL_NAME,
}
_REQUEST_BODY_FIELDS: Final = (
    _REQUEST_FIELDS
    | _BODY_FIELDS
    | {name: REQUEST_ROLES[field.name] for field in FIELDS for name in field.names}
)
_RESPONSE_BODY_FIELDS: Final = (
    _RESPONSE_FIELDS
    | _BODY_FIELDS
    | {
        name: REQUEST_ROLES[field.name]
        for field in FIELDS
        if field.in_response
        for name in field.names
    }
)
# Names with the same meaning in both directions.
_SHARED_FIELDS: Final = {
    "TopicId": roles.TOPIC_ID,
    "PartitionIndex": roles.PARTITION,
    "PartitionId": roles.PARTITION,
}
_ENTITIES: Final = {
    "topicName": roles.TOPIC,
    "groupId": roles.GROUP,
    "transactionalId": roles.TRANSACTIONAL_ID,
}
_PARTITIONS: Final = {
    ("Index", "int32"),  # Produce
    ("Partition", "int32"),
    ("Partitions", "[]int32"),
    ("PartitionIndexes", "[]int32"),
}
# Layouts of before 0.9 have no entities.
_OLD_NAMES: Final = {"GroupId": roles.GROUP, "Topic": roles.TOPIC}
_RESOURCES: Final = {"ResourceName", "MemberId", "User", "Feature", "LogDir", "Key", "EntityName"}
# Structs whose partitions are not those of the exchange: those a fetch session leaves out.
_PASSED_OVER: Final = {"ForgottenTopicsData"}
# Structs whose ResourceType is one of Kafka's ConfigResource, and those where it is of an ACL.
_CONFIG_RESULTS: Final = {"Results", "Responses"}
_ACL_RESULTS: Final = {"MatchingAcls"}
_ABORTED: Final = "AbortedTransactions"
_ABORTED_FIELDS: Final = {
    "ProducerId": roles.ABORTED_PRODUCER, "FirstOffset": roles.ABORTED_FIRST_OFFSET,
}  # fmt: skip
_ACQUIRED: Final = "AcquiredRecords"
_ACQUIRED_FIELDS: Final = {
    "FirstOffset": roles.ACQUIRED_FIRST_OFFSET, "LastOffset": roles.ACQUIRED_LAST_OFFSET,
    "DeliveryCount": roles.DELIVERY_COUNT,
}  # fmt: skip
# Fields of enclosing structs that also describe nested structs.
INHERITED: Final = frozenset(
    {
        roles.TOPIC,
        roles.TOPIC_ID,
        roles.GROUP,
        roles.RESOURCE,
        roles.TRANSACTIONAL_ID,
    }
)


def request_role(field: FieldSpec, path: tuple[str, ...]) -> Role | None:
    """Role of a request field; None for no role."""
    if path and path[-1] in _PASSED_OVER:
        return None
    if field.name == "Name" and path and path[-1] == "Topics":
        return Role(roles.TOPIC)
    return _role(field, _REQUEST_FIELDS if path else _REQUEST_BODY_FIELDS)


def response_role(field: FieldSpec, path: tuple[str, ...]) -> Role | None:
    """Role of a response field; None for no role."""
    if field.name == "ResourceType" and path and path[-1] in _CONFIG_RESULTS:
        return Role(roles.RESOURCE_TYPE)
    if field.name == "ResourceType" and path and path[-1] in _ACL_RESULTS:
        return Role(roles.ACL_RESOURCE_TYPE)
    if field.name == _ABORTED:
        return Role(roles.ABORTED_COUNT, is_count=True)
    if path and path[-1] == _ABORTED:
        return Role(_ABORTED_FIELDS[field.name])
    if path and path[-1] == _ACQUIRED:
        return Role(_ACQUIRED_FIELDS[field.name])
    return _role(field, _RESPONSE_FIELDS if path else _RESPONSE_BODY_FIELDS)


def kind_of(present: frozenset[int], is_body: bool) -> int:
    """Kind bits of a struct with these roles; 0 if it needs no row."""
    kind = roles.BODY if is_body else 0
    if roles.PARTITION in present:
        kind |= roles.HAS_PARTITION
    elif roles.TOPIC in present or roles.TOPIC_ID in present:
        kind |= roles.HAS_TOPIC
    if roles.ERROR in present or roles.SECOND_ERROR in present:
        kind |= roles.HAS_ERROR
    if roles.BATCH_INDEX_MESSAGE in present:
        kind |= roles.HAS_RECORD_ERROR
    if roles.ENTITY_TYPE in present and roles.ERROR not in present:
        kind |= roles.HAS_ENTITY
    if roles.ABORTED_PRODUCER in present:
        kind |= roles.HAS_ABORTED
    if roles.DELIVERY_COUNT in present:
        kind |= roles.HAS_ACQUIRED
    if roles.GROUP in present and kind == 0:
        kind = roles.HAS_GROUP
    if roles.REPLICA_ID in present and not is_body:
        kind |= roles.HAS_REPLICA
    return kind


@cache
def fact_plans() -> Plans:
    """Projected decodes of all API messages, with the roles of `extracted.FieldSink`.

    Always the same, so that each is built once a process.
    """
    return Plans(request_role, response_role, kind_of, ROLE_COUNT, INHERITED, generated_read)


def _role(field: FieldSpec, fields: dict[str, int]) -> Role | None:
    number = _role_number(field, fields)
    return None if number is None else Role(number)


def _role_number(field: FieldSpec, fields: dict[str, int]) -> int | None:
    if field.is_struct:
        return None
    if field.type == "records":
        return roles.RECORDS
    if (field.name, field.full_type) in _PARTITIONS:
        return roles.PARTITION
    if field.entity in _ENTITIES and field.type == "string":
        return _ENTITIES[field.entity]
    if field.is_array:
        return None
    if field.type == "string" and field.name in _OLD_NAMES:
        return _OLD_NAMES[field.name]
    if field.name in _RESOURCES and field.type == "string":
        return roles.RESOURCE
    return _SHARED_FIELDS.get(field.name, fields.get(field.name))
