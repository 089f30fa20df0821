"""A decoded body as tshark would show it: pairs of tshark's field names and values, in wire order.

tshark's names do not say which entity a field belongs to: ``kafka.offset`` is a committed offset, a
high watermark and a record's offset. So the values of each name are compared as a list, not as a
tree.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

from kdissect.messages.records import decode_records
from kdissect.protocol.apis import is_flexible
from tools.tshark.pdml import Token, short

# Field → tshark's name, None when tshark does not show it. Without dot a field wherever it stands,
# else the end of its path; with an API key and "<" or ">" only in its requests or responses, with
# a version of these too. The longest that fits is taken.
NAMES: Final[dict[str, str | None]] = {
    # Arrays that may be null, and tags.
    "aborted_transactions": None,
    "configuration_keys": None,
    "finalized_features": None,
    "finalized_features_epoch": None,
    "finalized_features[].max_version_level": None,
    "finalized_features[].min_version_level": None,
    "finalized_features[].name": None,
    "owners": None,
    "records": None,
    "supported_features[].max_version": None,
    "supported_features[].min_version": None,
    "supported_features[].name": None,
    "topic_partitions": None,
    "topics": None,
    "topics[].configs": None,
    "topics[].partitions[].replicas": None,
    "topics[].assignments": None,
    "topic_config_error_code": None,
    "zk_migration_ready": None,
    # Names that have another meaning elsewhere.
    "6<isr[]": "replica_id",
    "6<offline_replicas[]": "replica_id",
    "15>client_id": None,
    "34>topic_name": "log_dir",
    "acks": "required_acks",
    "adding_replicas[]": "replica_id",
    "allow_auto_topic_creation": "allow_auto_topic_creation",
    "api_keys[].api_key": "api_versions.api_key",
    "assignment": "member_assignment",
    "auth_bytes": "sasl_authentication",
    "base_offset": "offset",
    "batch_index": "batch_index",
    "batch_index_error_message": "batch_index_error_message",
    "broker_epoch": "broker_epoch",
    "broker_id": "node_id",
    "broker_ids[]": "replica_id",
    "37<broker_ids[]": "node_id",
    "client_host": "client_host",
    "client_software_name": "client_software_name",
    "client_software_version": "client_software_version",
    "cluster_authorized_operations": "cluster_authorized_ops",
    "cluster_id": "cluster_id",
    "commit_timestamp": "commit_timestamp",
    "committed": "transaction_result",
    "committed_leader_epoch": "leader_epoch",
    "committed_metadata": "metadata",
    "committed_offset": "offset",
    "config_operation": "config_operation",
    "config_source": "config_source",
    "configs[].name": "config_key",
    "configs[].value": "config_value",
    "configuration_keys[]": "config_key",
    "controller_epoch": "controller_epoch",
    "controller_id": "node_id",
    "coordinator_epoch": "coordinator_epoch",
    "count": "partition_count",
    "current_leader_epoch": "leader_epoch",
    "23<current_leader_epoch": "current_leader_epoch",
    "delete_partitions": "delete_partitions",
    "election_type": "election_type",
    "end_offset": "offset",
    "endpoints[].host": "host",
    "endpoints[].listener": "listener_name",
    "endpoints[].port": "port",
    "endpoints[].security_protocol": "broker_security_protocol_type",
    "error_code": "error",
    "error_message": "error_message",
    "expiry_time_period_ms": "expiry_time",
    "expiry_timestamp": "token_expiry_timestamp",
    "expiry_timestamp_ms": "token_expiry_timestamp",
    "fetch_offset": "offset",
    "first_offset": "first_offset",
    "forgotten_topics_data[].partitions[]": "forgotten_topic_partition",
    "forgotten_topics_data[].topic": "forgotten_topic_name",
    "generation_id": "generation_id",
    "generation_id_or_member_epoch": "generation_id",
    "group_id": "consumer_group",
    "group_instance_id": "consumer_group_instance",
    "group_state": "group_state",
    "groups[]": "consumer_group",
    "groups[].authorized_operations": "group_authorized_ops",
    "groups_names[]": "consumer_group",
    "high_watermark": "offset",
    "hmac": "token_hmac",
    "host": "host",
    "host_filter": "acl_host",
    "host_name": "host",
    "acls[].host": "acl_host",
    "creations[].host": "acl_host",
    "matching_acls[].host": "acl_host",
    "include_authorized_operations": "include_group_authorized_ops",
    "include_cluster_authorized_operations": "include_cluster_authorized_ops",
    "include_synonyms": "config_include_synonyms",
    "include_topic_authorized_operations": "include_topic_authorized_ops",
    "index": "partition_id",
    "is_default": "config_default",
    "is_future_key": "future",
    "is_internal": "is_internal",
    "is_new": "is_new_replica",
    "is_sensitive": "config_sensitive",
    "isolation_level": "isolation_level",
    "isr[]": "isr_id",
    "isr_nodes[]": "isr_id",
    "issue_timestamp": "token_issue_timestamp",
    "issue_timestamp_ms": "token_issue_timestamp",
    "key": "coordinator_key",
    "10<0:key": "consumer_group",
    "key_type": "coordinator_type",
    "last_stable_offset": "last_stable_offset",
    "leader": "leader_id",
    "11>leader": "group_leader_id",
    "leader_epoch": "leader_epoch",
    "leader_id": "leader_id",
    "live_brokers[].id": "node_id",
    "log_append_time_ms": "offset_time",
    "log_dir": "log_dir",
    "log_start_offset": "log_start_offset",
    "low_watermark": "offset",
    "max_bytes": "max_bytes",
    "max_lifetime_ms": "token_max_life_time",
    "max_num_offsets": "max_offsets",
    "max_timestamp": "token_max_timestamp",
    "max_timestamp_ms": "token_max_timestamp",
    "max_version": "api_versions.max_version",
    "max_wait_ms": "max_wait_time",
    "mechanism": "sasl_mechanism",
    "mechanisms[]": "sasl_mechanism",
    "member_assignment": "member_assignment",
    "member_id": "member_id",
    "member_metadata": "member_metadata",
    "members[].metadata": "member_metadata",
    "metadata": "metadata",
    "min_bytes": "min_bytes",
    "min_version": "api_versions.min_version",
    "name": "topic_name",
    "node_id": "node_id",
    "num_partitions": "num_partitions",
    "offline_replicas[]": "offline_id",
    "offset": "offset",
    "offset_lag": "offset_lag",
    "old_style_offsets[]": "offset",
    "operation": "acl_operation",
    "owners[].principal_name": "principal_name",
    "partition": "partition_id",
    "partition_epoch": "zk_version",
    "partition_error_code": "error",
    "partition_id": "partition_id",
    "partition_index": "partition_id",
    "partition_indexes[]": "partition_id",
    "partition_max_bytes": "max_bytes",
    "partition_size": "segment_size",
    "partitions[]": "partition_id",
    "path": "log_dir",
    "pattern_type": "acl_resource_pattern_type",
    "pattern_type_filter": "acl_resource_pattern_type",
    "permission_type": "acl_permission_type",
    "port": "port",
    "preferred_read_replica": "replica_id",
    "principal": "acl_principal",
    "principal_filter": "acl_principal",
    "principal_name": "principal_name",
    "principal_type": "principal_type",
    "producer_epoch": "producer_epoch",
    "producer_id": "producer_id",
    "protocol_data": "protocol_name",
    "protocol_name": "protocol_name",
    "protocol_type": "protocol_type",
    "protocols[].metadata": "protocol_metadata",
    "protocols[].name": "protocol_name",
    "rack": "rack",
    "rack_id": "rack",
    "read_only": "config_readonly",
    "rebalance_timeout_ms": "rebalance_timeout",
    "removing_replicas[]": "replica_id",
    "renew_period_ms": "renew_time",
    "replica_id": "replica_id",
    "replica_nodes[]": "replica_id",
    "replicas[]": "replica_id",
    "replication_factor": "replication_factor",
    "require_stable": "require_stable_offset",
    "resource_name": "config_resource_name",
    "resource_type": "config_resource_type",
    "29>resource_name": "acl_resource_name",
    "29>resource_type": "acl_resource_type",
    "30<resource_name": "acl_resource_name",
    "30<resource_type": "acl_resource_type",
    "31>resource_name": "acl_resource_name",
    "31>resource_type": "acl_resource_type",
    "resource_name_filter": "acl_resource_name",
    "resource_pattern_type": "acl_resource_pattern_type",
    "resource_type_filter": "acl_resource_type",
    "retention_time_ms": "retention_time",
    "session_epoch": "fetch_session_epoch",
    "session_id": "fetch_session_id",
    "session_lifetime_ms": "session_lifetime_ms",
    "session_timeout_ms": "session_timeout",
    "synonyms[].name": "config_key",
    "synonyms[].source": "config_source",
    "synonyms[].value": "config_value",
    "throttle_time_ms": "throttle_time",
    "timeout_ms": "timeout",
    "timestamp": "offset_time",
    "token_id": "token_id",
    "topic": "topic_name",
    "topic_authorized_operations": "topic_authorized_ops",
    "topic_name": "topic_name",
    "topic_names[]": "topic_name",
    "transaction_result": "transaction_result",
    "transaction_timeout_ms": "transaction_timeout",
    "transactional_id": "transactional_id",
    "v0_host": "host",
    "v0_port": "port",
    "v3_and_below_producer_epoch": "producer_epoch",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_transactional_id": "transactional_id",
    "validate_only": "validate_only",
    "zk_version": "zk_version",
}


# Shown as unsigned, though the protocol has them signed.
UNSIGNED: Final = {
    "batch_index": 32, "batch_last_offset_delta": 32, "batch_size": 32,
    "cluster_authorized_ops": 32, "group_authorized_ops": 32, "offset_lag": 64,
    "partition_count": 32, "segment_size": 64, "topic_authorized_ops": 32,
}  # fmt: skip


# Output of tshark beside the fields, and tags, which it does not decode.
NOT_FIELDS: Final = frozenset(
    {"message_compression_reduction", "tagged_field_data", "tagged_field_tag"}
)
# Old messages are compared up to here, see tshark_mistakes.
LAST_OF_MESSAGE: Final = "message_codec"


def shown(key: int, version: int, is_response: bool, body: dict[str, Any]) -> list[Token]:
    """The body's fields as tshark names them."""
    return list(Shown(key, version, is_response).field("", body))


class Shown:
    """The fields of one layout as tokens."""

    def __init__(self, key: int, version: int, is_response: bool) -> None:
        api = f"{key}{'>' if is_response else '<'}"
        self.prefixes = (f"{api}{version}:", api, "")
        self.is_flexible = is_flexible(key, version)

    def field(self, path: str, value: Any) -> Iterator[Token]:
        if isinstance(value, dict):
            for name, field in value.items():
                if name != "unknown_tags":
                    yield from self.field(f"{path}.{name}" if path else name, field)
        elif isinstance(value, list):
            for item in value:
                yield from self.field(f"{path}[]", item)
        elif path.endswith("records") and isinstance(value, bytes):
            yield from shown_records(value)
        else:
            name = self.name(path)
            if name is not None:
                yield name, self.plain(name, value)

    def name(self, path: str) -> str | None:
        """tshark's name of a field; KeyError when nothing is known of it."""
        steps = path.split(".")
        for start in range(len(steps)):
            end = ".".join(steps[start:])
            for prefix in self.prefixes:
                if prefix + end in NAMES:
                    return NAMES[prefix + end]
        raise KeyError(f"{self.prefixes[0]}{path}")

    def plain(self, name: str, value: Any) -> Any:
        if isinstance(value, bool):
            return int(value)
        if name in UNSIGNED:
            return value % (1 << UNSIGNED[name])
        if isinstance(value, bytes):
            # tshark counts the length in, when it is a varint.
            return short(make_unsigned_varint(len(value) + 1) * self.is_flexible + value)
        return value


def make_unsigned_varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def shown_records(data: bytes) -> Iterator[Token]:
    """Batches with their records; of older formats the first message, as far as tshark is right."""
    for batch in decode_records(data):
        if "magic" not in batch:
            if "partial_size" in batch:
                yield "truncated_content", None
        elif batch["magic"] == 2:
            yield from shown_batch(batch)
        else:
            yield from shown_message(data)
            return


def shown_message(data: bytes) -> Iterator[Token]:
    """The first message up to its key."""
    offset, size, crc, magic, attributes = struct.unpack_from(">qiIbb", data)
    yield "offset", offset
    yield "message_size", size
    yield "message_crc", crc
    yield "message_magic", magic
    yield "message_codec", attributes & 7


def shown_batch(batch: dict[str, Any]) -> Iterator[Token]:
    yield "offset", batch["base_offset"]
    yield "message_size", batch["size"] - 12
    yield "leader_epoch", batch["leader_epoch"]
    yield "message_magic", batch["magic"]
    yield "batch_crc", batch["crc"]
    yield "batch_codec", batch["attributes"] & 7
    yield "batch_timestamp_type", batch["timestamp_type"]
    yield "batch_transactional", int(batch["is_transactional"])
    yield "batch_control_batch", int(batch["is_control"])
    yield "batch_last_offset_delta", (batch["last_offset"] - batch["base_offset"]) % (1 << 32)
    yield "batch_first_timestamp", batch["base_time_ms"]
    yield "batch_last_timestamp", batch["max_time_ms"]
    yield "producer_id", batch["producer_id"]
    yield "producer_epoch", batch["producer_epoch"]
    yield "batch_base_sequence", batch["base_sequence"]
    yield "batch_size", batch["record_count"]
    for record in batch["records"]:
        yield "record_attributes", 0
        yield "message_timestamp", record["time_ms"]
        yield "offset", record["offset"]
        yield "message_key", short(record["key"] or b"")
        yield "message_value", short(record["value"] or b"")
        for name, value in record["headers"]:
            yield "header_key", name.decode()
            yield "header_value", short(value or b"")
