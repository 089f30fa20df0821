"""Broker policies for clients: topic configs, quotas and requested telemetry."""

import time
from typing import Any

from tools.record.agents import parse_library
from tools.record.recording import FIRST_WITH_NEWEST_CLIENTS, Stage
from tools.record.scenarios.basics import WORDS, coffees, short_name
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

ADMIN = "admin-java"
CLEANER_SECONDS = 4.0
CLEANING = SMALL_SINGLE_BROKER | {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.delete.retention.ms": "200",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "200",
}
TOPICS: list[dict[str, Any]] = [
    {"name": "stamped", "partitions": 2, "configs": {"message.timestamp.type": "LogAppendTime"}},
    {"name": "compacted", "partitions": 1, "configs": COMPACTED},
    {"name": "repacked", "partitions": 2, "configs": {"compression.type": "snappy"}},
    {"name": "strict", "partitions": 1, "configs": COMPACTED},
]
BYTES_A_SECOND = 1500
TELEMETRY_SECONDS = 7.0


def play_topic_configs(stage: Stage) -> None:
    """Append times, compaction with tombstones, recompression; a record that has no key."""
    library = stage.options.clients[0]
    stage.create_topics(ADMIN, TOPICS)
    for codec in ("none", "lz4"):
        client = f"writer-{codec}"
        stage.call(library, "open_producer", client, codec=codec, idempotent=True)
        for topic in ("stamped", "repacked"):
            stage.call(library, "produce", client, records=coffees(topic, 0, has_headers=True))
        stage.call(library, "close", client)
    compact(stage, library)
    for topic, partitions in (("stamped", 2), ("repacked", 2), ("compacted", 1)):
        places = [(topic, partition, 0) for partition in range(partitions)]
        stage.call(library, "open_consumer", f"reader-{topic}", assign=places)
        stage.call(library, "poll", f"reader-{topic}", seconds=2)
        stage.call(library, "close", f"reader-{topic}")


def compact(stage: Stage, library: str) -> None:
    """The same keys again and again, then tombstones, in a transaction too; then a keyless one."""
    client = "writer-compacted"
    stage.call(library, "open_producer", client, transactional_id="compacted-id", codec="gzip")
    for turn in range(4):
        stage.call(library, "begin", client, transaction="aborted" if turn == 1 else "committed")
        records = [
            {"topic": "compacted", "partition": 0, "key": word, "value": f"{word} {turn}"}
            for word in WORDS
        ]
        if turn == 3:
            records = [record | {"value": None} for record in records[:3]]
        stage.call(library, "produce", client, records=records)
        stage.call(library, "end", client)
        time.sleep(0.5)
    stage.call(library, "close", client)
    stage.call(library, "open_producer", "keyless", idempotent=False)
    keyless = {"topic": "strict", "partition": 0, "key": None, "value": "no key"}
    stage.call(library, "produce", "keyless", records=[keyless])
    stage.call(library, "close", "keyless")
    time.sleep(CLEANER_SECONDS)


def play_throttling(stage: Stage) -> None:
    """A producer and a consumer that are too fast for their quotas."""
    library = stage.options.clients[0]
    stage.create_topics(ADMIN, [{"name": "slow", "partitions": 1}])
    limit(stage, "hasty-writer", "producer_byte_rate")
    limit(stage, "hasty-reader", "consumer_byte_rate")
    time.sleep(1.0)
    stage.call(library, "open_producer", "hasty-writer", idempotent=False, linger_ms=0)
    for turn in range(4):
        records = [
            record | {"partition": 0, "value": f"{number} " * 300}
            for number, record in enumerate(coffees("slow", turn * 10, has_headers=False))
        ]
        stage.call(library, "produce", "hasty-writer", records=records)
    stage.call(library, "close", "hasty-writer")
    small = {"fetch_size": 4000}
    stage.call(library, "open_consumer", "hasty-reader", assign=[("slow", 0, 0)], **small)
    stage.call(library, "poll", "hasty-reader", seconds=15, records=24)
    stage.call(library, "close", "hasty-reader")


def limit(stage: Stage, client_id: str, quota: str) -> None:
    """Set a quota: by request, or by the tool of an old release."""
    if stage.options.release.number >= FIRST_WITH_NEWEST_CLIENTS:
        wanted = {"client_id": client_id, "quota": quota, "limit": BYTES_A_SECOND}
        stage.call("java", "alter_quota", ADMIN, **wanted)
        return
    stage.cluster.run(
        *("kafka.admin.ConfigCommand", "--zookeeper", stage.cluster.zookeeper_address),
        *("--alter", "--entity-type", "clients", "--entity-name", client_id),
        *("--add-config", f"{quota}={BYTES_A_SECOND}"),
    )


def telemetry_properties(*_: object) -> dict[str, str]:
    """With the plugin without which a broker requests no metrics."""
    return SMALL_SINGLE_BROKER | {"metric.reporters": "TelemetryReceiver"}


def play_telemetry(stage: Stage) -> None:
    """Clients push the metrics of a subscription, at intervals and when they close."""
    changes = [("SET", "metrics", "org.apache.kafka."), ("SET", "interval.ms", "1000")]
    resource = {"type": "CLIENT_METRICS", "name": "everything"}
    stage.call("java", "alter_config", ADMIN, **resource, changes=changes)
    stage.call("java", "list_config_resources", ADMIN)
    stage.create_topics(ADMIN, [{"name": "measured", "partitions": 2}])
    for number, library in enumerate(stage.options.clients):
        client = f"{short_name(library)}-measured"
        settings = {"enable.metrics.push": "true"}
        is_java = parse_library(library).name == "java"
        more = {"settings": {} if is_java else settings}
        stage.call(library, "open_producer", client, **more)
        first = number * 100
        stage.call(library, "produce", client, records=coffees("measured", first, True))
        time.sleep(TELEMETRY_SECONDS / 2)
        stage.call(library, "produce", client, records=coffees("measured", first + 10, True))
        time.sleep(TELEMETRY_SECONDS / 2)
        stage.call(library, "close", client)
