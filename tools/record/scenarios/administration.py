"""Operators' commands: topics, configs, ACLs, quotas, users, groups, quorum.

Many of these fail somewhere, because a broker of that version or mode cannot do them: the errors
are part of the recording.
"""

from typing import Any

from tools.record.configuration import KRAFT
from tools.record.recording import Stage
from tools.record.releases import Release
from tools.record.scenarios.basics import coffees
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

ADMIN = "admin-java"
TOPIC = "ledger"
GROUP = "clerks"


def config(kind: str, name: str, *change: str) -> dict[str, Any]:
    """A change of one config: (SET, name, value), (DELETE, name), ..."""
    return {"type": kind, "name": name, "changes": [change]}


def scram(user: str, bits: int) -> dict[str, Any]:
    """A user's credential."""
    return {"user": user, "mechanism": f"SCRAM-SHA-{bits}"}


# (operation, its arguments), in the order of play.
OPERATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("describe_cluster", {}),
    ("list_topics", {}),
    ("describe_topics", {"topics": [TOPIC, "no-such-topic"]}),
    ("create_partitions", {"topic": TOPIC, "partitions": 3}),
    ("create_partitions", {"topic": TOPIC, "partitions": 1}),
    ("describe_topic_configs", {"topic": TOPIC}),
    ("alter_config", config("TOPIC", TOPIC, "SET", "retention.ms", "7000")),
    ("alter_config", config("TOPIC", TOPIC, "APPEND", "retention.ms", "7")),
    ("alter_config", config("TOPIC", TOPIC, "DELETE", "retention.ms")),
    ("alter_config", config("BROKER", "1", "SET", "log.cleaner.io.buffer.load.factor", "0.8")),
    ("alter_config", config("BROKER", "", "SET", "max.connections.per.ip", "9999")),
    ("alter_config", config("BROKER_LOGGER", "1", "SET", "kafka.log.LogCleaner", "WARN")),
    ("describe_config", {"type": "BROKER", "name": "1"}),
    ("describe_config", {"type": "GROUP", "name": GROUP}),
    ("list_config_resources", {}),
    ("describe_features", {}),
    ("update_feature", {"feature": "metadata.version", "level": 3}),
    ("update_feature", {"feature": "no.such.feature", "level": 1}),
    ("create_acls", {"topic": "led"}),
    ("describe_acls", {}),
    ("delete_acls", {"topic": "led"}),
    ("alter_quota", {"client_id": "greedy", "quota": "producer_byte_rate", "limit": 100000}),
    ("alter_quota", {"client_id": "greedy", "quota": "no_such_quota", "limit": 1}),
    ("describe_quotas", {}),
    ("alter_quota", {"client_id": "greedy", "quota": "producer_byte_rate"}),
    ("set_password", {**scram("bob", 256), "password": "bob-secret"}),
    ("set_password", {**scram("bob", 512), "password": "bob-secret"}),
    ("describe_users", {}),
    ("delete_user", scram("bob", 512)),
    ("delete_user", scram("nobody", 256)),
    ("create_token", {}),
    ("describe_tokens", {}),
    ("list_offsets", {"places": [(TOPIC, 0), (TOPIC, 1)], "at": "latest"}),
    ("list_offsets_at", {"place": (TOPIC, 0), "at": "max_timestamp"}),
    ("list_offsets_at", {"place": (TOPIC, 0), "at": "earliest_local"}),
    ("list_offsets_at", {"place": (TOPIC, 0), "at": "latest_tiered"}),
    ("list_offsets_at", {"place": (TOPIC, 0), "at": "1500000000000"}),
    ("delete_records", {"place": (TOPIC, 0, 2)}),
    ("describe_producers", {"place": (TOPIC, 0)}),
    ("reassign", {"place": (TOPIC, 0), "replicas": [1]}),
    ("reassign", {"place": (TOPIC, 0), "replicas": [1, 9]}),
    ("reassign", {"place": (TOPIC, 0)}),
    ("list_reassignments", {}),
    ("elect_leaders", {"type": "PREFERRED", "place": (TOPIC, 0)}),
    ("elect_leaders", {"type": "UNCLEAN"}),
    ("describe_log_dirs", {"nodes": [1]}),
    ("move_replica", {"place": (TOPIC, 0), "node": 1, "directory": "/nowhere"}),
    ("list_groups", {}),
    ("describe_group", {"group": GROUP}),
    ("describe_classic_group", {"group": GROUP}),
    ("group_offsets", {"group": GROUP}),
    ("alter_group_offsets", {"group": GROUP, "place": (TOPIC, 0), "offset": 1}),
    ("delete_group_offsets", {"group": GROUP, "place": (TOPIC, 0)}),
    ("delete_group", {"group": GROUP}),
    ("describe_quorum", {}),
    ("unregister_broker", {"node": 77}),
    ("delete_topics", {"topics": [TOPIC, "no-such-topic"]}),
)  # fmt: skip


def properties_of(_: Release, mode: str) -> dict[str, str]:
    """With an authorizer that lets everybody in."""
    authorizer = "kafka.security.authorizer.AclAuthorizer"
    if mode == KRAFT:
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    return SMALL_SINGLE_BROKER | {
        "authorizer.class.name": authorizer,
        "super.users": "User:ANONYMOUS",
    }


def play(stage: Stage) -> None:
    """A topic and a group, then everything in order."""
    stage.create_topics(ADMIN, [{"name": TOPIC, "partitions": 2}])
    stage.call("java", "open_producer", "writer")
    stage.call("java", "produce", "writer", records=coffees(TOPIC, 0, has_headers=True))
    stage.call("java", "close", "writer")
    stage.call("java", "open_consumer", "clerk", group=GROUP, topics=[TOPIC])
    stage.call("java", "poll", "clerk", seconds=10, records=6)
    stage.call("java", "commit", "clerk")
    stage.call("java", "close", "clerk")
    for operation, arguments in OPERATIONS:
        stage.call("java", operation, ADMIN, **arguments)
    stage.call("java", "close", ADMIN)
