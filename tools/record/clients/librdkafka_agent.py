"""The agent of librdkafka, through confluent-kafka."""

import json
import time
from typing import Any, cast

import confluent_kafka
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tools.record.clients.agent import Agent, Command, Produced, consumed, iter_records, serve
from tools.record.clients.work import Job, Reading, Writing

TIMEOUT_SECONDS = 20.0
STATISTICS_INTERVAL_MS = 200


class LibrdkafkaAgent(Agent):
    """Producers, consumers and admin clients of librdkafka, each named by its client id."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._producers: dict[str, Producer] = {}
        self._consumers: dict[str, Consumer] = {}
        self._admins: dict[str, AdminClient] = {}
        self._settings: dict[str, Command] = {}
        self._jobs: dict[str, Job] = {}
        self._statistics: dict[str, dict[str, Any]] = {}

    def versions(self) -> dict[str, str]:
        """The software this agent runs on."""
        return {
            "librdkafka": confluent_kafka.libversion()[0],
            "confluent-kafka": str(confluent_kafka.__version__),
        }

    def open_producer(
        self,
        client: str,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transactional_id: str | None = None,
        linger_ms: int = 20,
        batch_size: int = 1_000_000,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Make a producer; with a transactional id, initialise transactions."""
        configuration = self._configuration(client) | {
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": idempotent or transactional_id is not None,
            "linger.ms": linger_ms,
            "batch.size": batch_size,
            "queue.buffering.max.kbytes": 262144,
            **(settings or {}),
        }
        if transactional_id is not None:
            configuration["transactional.id"] = transactional_id
        self._settings[client] = {"codec": codec, "acks": acks}
        self._producers[client] = Producer(configuration)
        if transactional_id is not None:
            self._producers[client].init_transactions(TIMEOUT_SECONDS)

    def begin(self, client: str, transaction: str) -> None:
        """Begin a transaction; `transaction` is what becomes of it: committed or aborted."""
        self._settings[client]["transaction"] = transaction
        self._producers[client].begin_transaction()

    def end(self, client: str) -> None:
        """End the transaction the way `begin` announced."""
        outcome = self._settings[client].pop("transaction")
        producer = self._producers[client]
        if outcome == "committed":
            producer.commit_transaction(TIMEOUT_SECONDS)
        else:
            producer.abort_transaction(TIMEOUT_SECONDS)

    def produce(
        self,
        client: str,
        each: bool = False,
        journal: bool = True,
        every_ms: int = 0,
        **command: Any,
    ) -> dict[str, int]:
        """Produce and wait for the answers: after each record, or after the last; perhaps with a
        pause after each record.
        """
        producer = self._producers[client]
        settings = dict(self._settings[client])
        count = value_bytes = 0
        for record in iter_records(command):
            produced = Produced(self, client, settings, record)
            self._send(producer, client, produced, journal)
            count += 1
            value_bytes += len(produced.value or b"")
            if each:
                producer.flush(TIMEOUT_SECONDS)
            if every_ms:
                _serve_callbacks(producer, every_ms / 1000)
        if producer.flush(TIMEOUT_SECONDS):
            raise TimeoutError("records were left in the producer's queue")
        return {"records": count, "value_bytes": value_bytes}

    def open_consumer(
        self,
        client: str,
        group: str | None = None,
        topics: list[str] | None = None,
        assign: list[tuple[str, int, int]] | None = None,
        isolation: str = "read_committed",
        max_wait_ms: int = 500,
        fetch_size: int = 1_048_576,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Make a consumer that subscribes to topics or is given (topic, partition, offset)s."""
        configuration = self._configuration(client) | {
            "group.id": group or f"{client}-unused",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "partition.assignment.strategy": "range",
            "fetch.wait.max.ms": max_wait_ms,
            "max.partition.fetch.bytes": fetch_size,
            **(settings or {}),
        }
        configuration = {name: value for name, value in configuration.items() if value is not None}
        consumer = Consumer(configuration)
        self._consumers[client] = consumer
        self._settings[client] = {"group": group}
        if assign is not None:
            consumer.assign([TopicPartition(*place) for place in assign])
            return
        consumer.subscribe(
            topics or [],
            on_assign=lambda _, places: self._rebalanced(client, "assigned", places),
            on_revoke=lambda _, places: self._rebalanced(client, "revoked", places),
            on_lost=lambda _, places: self._rebalanced(client, "lost", places),
        )

    def poll(
        self,
        client: str,
        seconds: float,
        records: int | None = None,
        journal: bool = True,
        commit_each: bool = False,
    ) -> dict[str, int]:
        """Poll for a time, or until so many records came; perhaps commit after each poll."""
        consumer = self._consumers[client]
        group = self._settings[client]["group"]
        deadline = time.monotonic() + seconds
        count = 0
        while time.monotonic() < deadline and (records is None or count < records):
            message = consumer.poll(0.05)
            if message is None:
                continue
            failure = message.error()
            if failure is not None:
                self._failed(client, "poll", failure, message.topic(), message.partition())
                continue
            count += 1
            if journal:
                self.events.append(_consumed(client, group, message))
            if commit_each:
                consumer.commit(message=message, asynchronous=False)
        return {"records": count}

    def commit(self, client: str) -> None:
        """Commit the positions of all assigned partitions, and wait for the answer."""
        consumer = self._consumers[client]
        positions = consumer.position(consumer.assignment())
        known = [place for place in positions if place.offset >= 0]
        if not known:
            return
        for place in consumer.commit(offsets=known, asynchronous=False) or []:
            self.emit(
                "commits",
                session=client,
                group=self._settings[client]["group"],
                topic=place.topic,
                partition=place.partition,
                offset=place.offset,
                time_ns=time.time_ns(),
            )

    def close(self, client: str) -> None:
        """Close the client of this name; its last statistics become an event."""
        if client in self._producers:
            self._producers[client].flush(TIMEOUT_SECONDS)
            _serve_callbacks(self._producers.pop(client))
        if client in self._consumers:
            self._consumers[client].close()
            del self._consumers[client]
        if client in self._admins:
            _serve_callbacks(self._admins.pop(client))
        if client in self._statistics:
            self.emit("statistics", session=client, **_counters(self._statistics[client]))

    def start_writing(
        self, client: str, settings: dict[str, Any] | None = None, **command: Any
    ) -> None:
        """Produce in a thread until `stop`."""
        configuration = self._work_configuration(client) | {"linger.ms": 5, **(settings or {})}
        self._jobs[client] = Writing(configuration, command)
        self._jobs[client].start()

    def start_reading(
        self,
        client: str,
        group: str | None = None,
        settings: dict[str, Any] | None = None,
        **command: Any,
    ) -> None:
        """Consume in a thread until `stop`."""
        configuration = self._work_configuration(client) | {
            "group.id": group or f"{client}-unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **(settings or {}),
        }
        command.setdefault("commits", group is not None)
        self._jobs[client] = Reading(configuration, command)
        self._jobs[client].start()

    def stop(self, client: str) -> dict[str, int]:
        """End the work of a client; return its counts."""
        return self._jobs.pop(client).stop()

    def create_topics(self, client: str, topics: list[Command], timeout_ms: int = 10000) -> None:
        """Create topics: {name, partitions, replication, configs}."""
        wanted = [
            NewTopic(
                topic["name"],
                num_partitions=topic["partitions"],
                replication_factor=topic.get("replication", 1),
                config=topic.get("configs", {}),
            )
            for topic in topics
        ]
        futures = self._admin(client).create_topics(
            wanted, operation_timeout=timeout_ms / 1000, request_timeout=TIMEOUT_SECONDS
        )
        for name, future in futures.items():
            self._await(client, "create_topics", future, name)

    def list_topics(self, client: str, topic: str | None = None) -> dict[str, int]:
        """Partition counts by topic."""
        metadata = self._admin(client).list_topics(topic, timeout=TIMEOUT_SECONDS)
        for name, known in metadata.topics.items():
            if known.error is not None:
                self._failed(client, "list_topics", known.error, name, None)
        return {name: len(known.partitions) for name, known in sorted(metadata.topics.items())}

    def describe_topic_configs(self, client: str, topic: str) -> dict[str, str]:
        """The configs of a topic that differ from the broker's."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        futures = self._admin(client).describe_configs([resource], request_timeout=TIMEOUT_SECONDS)
        entries = self._await(client, "describe_configs", futures[resource], topic) or {}
        return {name: entry.value for name, entry in entries.items() if entry.source == 1}

    def list_offsets(self, client: str, places: list[tuple[str, int]], at: str) -> dict[str, int]:
        """Earliest or latest offsets by "topic-partition"."""
        spec = OffsetSpec.earliest() if at == "earliest" else OffsetSpec.latest()
        wanted = {TopicPartition(topic, partition): spec for topic, partition in places}
        futures = self._admin(client).list_offsets(wanted, request_timeout=TIMEOUT_SECONDS)
        found = {}
        for place, future in futures.items():
            answer = self._await(client, "list_offsets", future, place.topic, place.partition)
            if answer is not None:
                found[f"{place.topic}-{place.partition}"] = answer.offset
        return found

    def list_groups(self, client: str) -> dict[str, str]:
        """States by group."""
        future = self._admin(client).list_consumer_groups(request_timeout=TIMEOUT_SECONDS)
        listing = self._await(client, "list_groups", future, None)
        return {group.group_id: group.state.name for group in listing.valid}

    def describe_group(self, client: str, group: str) -> dict[str, Any]:
        """State, assignor and members of a group."""
        futures = self._admin(client).describe_consumer_groups(
            [group], request_timeout=TIMEOUT_SECONDS
        )
        found = self._await(client, "describe_group", futures[group], None)
        if found is None:
            return {}
        members = sorted(member.client_id for member in found.members)
        return {
            "state": found.state.name,
            "assignor": found.partition_assignor,
            "members": members,
        }

    def group_offsets(self, client: str, group: str) -> dict[str, int]:
        """Committed offsets by "topic-partition"."""
        futures = self._admin(client).list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_SECONDS
        )
        found = self._await(client, "group_offsets", futures[group], None)
        if found is None:
            return {}
        places = sorted(found.topic_partitions, key=lambda place: (place.topic, place.partition))
        return {f"{place.topic}-{place.partition}": place.offset for place in places}

    def _configuration(self, client: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": client,
            "broker.address.family": "v4",
            "statistics.interval.ms": STATISTICS_INTERVAL_MS,
            "stats_cb": lambda text: self._statistics.__setitem__(client, json.loads(text)),
            "log_level": 3,
        }

    def _work_configuration(self, client: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": client,
            "broker.address.family": "v4",
            "log_level": 3,
        }

    def _admin(self, client: str) -> AdminClient:
        if client not in self._admins:
            self._admins[client] = AdminClient(self._configuration(client))
        return self._admins[client]

    def _send(self, producer: Producer, client: str, produced: Produced, journal: bool) -> None:
        def delivered(failure: KafkaError | None, message: Message) -> None:
            if failure is not None:
                self._failed(client, "produce", failure, produced.topic, message.partition())
            elif journal:
                timestamp_ms = message.timestamp()[1]
                partition = cast(int, message.partition())
                produced.acknowledged(partition, message.offset(), timestamp_ms)

        arguments: dict[str, Any] = {"key": produced.key, "value": produced.value}
        if produced.partition is not None:
            arguments["partition"] = produced.partition
        if produced.headers:
            arguments["headers"] = produced.headers
        while True:
            try:
                producer.produce(produced.topic, on_delivery=delivered, **arguments)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)

    def _rebalanced(self, client: str, event: str, places: list[TopicPartition]) -> None:
        self.emit(
            "rebalances",
            session=client,
            group=self._settings[client]["group"],
            event=event,
            generation=None,
            member_id=self._consumers[client].memberid(),
            partitions=sorted([place.topic, place.partition] for place in places),
            time_ns=time.time_ns(),
        )

    def _await(
        self, client: str, operation: str, future: Any, topic: str | None, partition: int = -1
    ) -> Any:
        try:
            return future.result(TIMEOUT_SECONDS)
        except KafkaException as error:
            self._failed(client, operation, error.args[0], topic, partition)
            return None

    def _failed(
        self,
        client: str,
        operation: str,
        failure: KafkaError,
        topic: str | None,
        partition: int | None,
    ) -> None:
        code = failure.code()
        known = None if partition is None or partition < 0 else partition
        self.emit_error(client, operation, code if code > 0 else None, failure.name(), topic, known)


def _serve_callbacks(
    client: Producer | AdminClient, seconds: float = STATISTICS_INTERVAL_MS / 1000 * 1.5
) -> None:
    """Poll; by default until statistics are emitted once more."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        client.poll(0.01)


def _consumed(client: str, group: str | None, message: Message) -> dict[str, Any]:
    place = cast(tuple[str, int, int], (message.topic(), message.partition(), message.offset()))
    headers = len(message.headers() or [])
    kind, time_ms = message.timestamp()
    timestamp_ms = None if kind == TIMESTAMP_NOT_AVAILABLE else time_ms
    return consumed(client, group, place, timestamp_ms, message.key(), message.value(), headers)


def _counters(statistics: dict[str, Any]) -> dict[str, Any]:
    """Requests by API and bytes, summed over the connections to all brokers."""
    brokers = [known for known in statistics["brokers"].values() if known["tx"]]
    requests: dict[str, int] = {}
    for known in brokers:
        for api, count in known.get("req", {}).items():
            if count:
                requests[api] = requests.get(api, 0) + count
    return {
        "time_us": statistics["time"] * 1_000_000,
        "requests_by_api": requests,
        "tx": sum(known["tx"] for known in brokers),
        "tx_bytes": sum(known["txbytes"] for known in brokers),
        "rx": sum(known["rx"] for known in brokers),
        "rx_bytes": sum(known["rxbytes"] for known in brokers),
    }


if __name__ == "__main__":
    serve(LibrdkafkaAgent)
