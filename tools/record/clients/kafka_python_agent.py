"""The agent of kafka-python, 1.4 to 3.x."""

import logging
import time
from typing import Any

import kafka
from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.errors import KafkaError

try:
    from kafka.net.sasl.oauth import AbstractTokenProvider
except ImportError:  # until 2.x
    from kafka.oauth import AbstractTokenProvider

from tools.record.clients.agent import Agent, Command, Produced, consumed, iter_records, serve
from tools.record.clients.encryption import with_context

TIMEOUT_SECONDS = 20.0
HAS_ISOLATION = "isolation_level" in KafkaConsumer.DEFAULT_CONFIG


class RawToken(AbstractTokenProvider):  # type: ignore[misc]
    """Gives kafka-python the OAUTHBEARER token it was made with."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token."""
        return self._token


class KafkaPythonAgent(Agent):
    """Producers, consumers and admin clients of kafka-python, each named by its client id."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        logging.disable(logging.CRITICAL)
        self._clients: dict[str, Any] = {}
        self._settings: dict[str, Command] = {}

    def versions(self) -> dict[str, str]:
        """The software this agent runs on."""
        return {"kafka-python": kafka.__version__}

    def open_producer(
        self,
        client: str,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        linger_ms: int = 20,
        batch_size: int = 16384,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Make a producer, which connects; that it could not is an error in the journal."""
        self._settings[client] = {"codec": codec, "acks": acks}
        try:
            self._clients[client] = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                client_id=client,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                linger_ms=linger_ms,
                batch_size=batch_size,
                **({"enable_idempotence": True} if idempotent else {}),
                **_understood(settings),
            )
        except KafkaError as error:
            self.emit_error(client, "open_producer", None, type(error).__name__)

    def produce(
        self, client: str, each: bool = False, journal: bool = True, **command: Any
    ) -> dict[str, int]:
        """Produce and wait for the answers: after each record, or after the last."""
        producer = self._clients[client]
        settings = dict(self._settings[client])
        waiting = []
        count = value_bytes = 0
        for record in iter_records(command):
            produced = Produced(self, client, settings, record)
            headers = {"headers": produced.headers} if produced.headers else {}
            future = producer.send(
                produced.topic,
                key=produced.key,
                value=produced.value,
                partition=produced.partition,
                **headers,
            )
            count += 1
            value_bytes += len(produced.value or b"")
            waiting.append((produced, future))
            if each:
                self._settle(client, waiting, journal)
        producer.flush(TIMEOUT_SECONDS)
        self._settle(client, waiting, journal)
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
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            client_id=client,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **({"isolation_level": isolation} if HAS_ISOLATION else {}),
            fetch_max_wait_ms=max_wait_ms,
            max_partition_fetch_bytes=fetch_size,
            **_understood(settings),
        )
        self._clients[client] = consumer
        self._settings[client] = {"group": group}
        if assign is not None:
            consumer.assign([TopicPartition(topic, partition) for topic, partition, _ in assign])
            for topic, partition, offset in assign:
                consumer.seek(TopicPartition(topic, partition), offset)
            return
        consumer.subscribe(topics or [], listener=Listener(self, client, consumer, group))

    def poll(
        self,
        client: str,
        seconds: float,
        records: int | None = None,
        journal: bool = True,
        commit_each: bool = False,
    ) -> dict[str, int]:
        """Poll for a time, or until so many records came; perhaps commit after each poll."""
        consumer = self._clients[client]
        group = self._settings[client]["group"]
        deadline = time.monotonic() + seconds
        count = 0
        while time.monotonic() < deadline and (records is None or count < records):
            for found in consumer.poll(timeout_ms=50).values():
                count += len(found)
                if journal:
                    self.events += [_consumed(client, group, record) for record in found]
                if commit_each:
                    consumer.commit()
        return {"records": count}

    def commit(self, client: str) -> None:
        """Commit the positions of all assigned partitions, and wait for the answer."""
        consumer = self._clients[client]
        consumer.commit()
        for place in sorted(consumer.assignment()):
            self.emit(
                "commits",
                session=client,
                group=self._settings[client]["group"],
                topic=place.topic,
                partition=place.partition,
                offset=consumer.position(place),
                time_ns=time.time_ns(),
            )

    def close(self, client: str) -> None:
        """Close the client of this name."""
        if client in self._clients:
            self._clients.pop(client).close()

    def list_topics(self, client: str, repeat: int = 1) -> list[str]:
        """Names of all topics."""
        names: list[str] = []
        for _ in range(repeat):
            names = self._admin(client).list_topics()
        return sorted(names)

    def describe_cluster(self, client: str) -> dict[str, Any]:
        """Cluster id and brokers."""
        answer: dict[str, Any] = self._admin(client).describe_cluster()
        return answer

    def list_offsets(self, client: str, places: list[tuple[str, int]], at: str) -> dict[str, int]:
        """Earliest or latest offsets by "topic-partition"."""
        spec = getattr(kafka.OffsetSpec, at.upper())
        wanted = {TopicPartition(topic, partition): spec for topic, partition in places}
        found = self._admin(client).list_partition_offsets(wanted)
        return {f"{place.topic}-{place.partition}": known.offset for place, known in found.items()}

    def list_groups(self, client: str) -> list[str]:
        """Names of all groups."""
        return sorted(str(group["group_id"]) for group in self._admin(client).list_groups())

    def _admin(self, client: str) -> Any:
        if client not in self._clients:
            self._clients[client] = KafkaAdminClient(
                bootstrap_servers=self.bootstrap, client_id=client
            )
        return self._clients[client]

    def _settle(self, client: str, waiting: list[tuple[Produced, Any]], journal: bool) -> None:
        """Wait for the futures and empty the list."""
        for produced, future in waiting:
            try:
                metadata = future.get(TIMEOUT_SECONDS)
            except KafkaError as error:
                code, name = error.errno or None, _name(error)
                self.emit_error(client, "produce", code, name, produced.topic, produced.partition)
                continue
            if journal:
                timestamp_ms = metadata.timestamp if metadata.timestamp != -1 else None
                produced.acknowledged(metadata.partition, metadata.offset, timestamp_ms)
        waiting.clear()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Turns rebalance callbacks into events."""

    def __init__(self, agent: Agent, client: str, consumer: KafkaConsumer, group: str | None):
        self._agent = agent
        self._client = client
        self._consumer = consumer
        self._group = group

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """A new assignment."""
        self._emit("assigned", assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """The end of the old one."""
        self._emit("revoked", revoked)

    def _emit(self, event: str, places: list[TopicPartition]) -> None:
        has_metadata = hasattr(self._consumer, "group_metadata")
        metadata = self._consumer.group_metadata() if has_metadata else None
        self._agent.emit(
            "rebalances",
            session=self._client,
            group=self._group,
            event=event,
            generation=metadata and metadata.generation_id,
            member_id=metadata and metadata.member_id,
            partitions=sorted([place.topic, place.partition] for place in places),
            time_ns=time.time_ns(),
        )


def _understood(settings: dict[str, Any] | None) -> dict[str, Any]:
    """Settings with types that JSON lacks: versions, token providers, TLS."""
    known = with_context(settings or {})
    if "api_version" in known:  # JSON has no tuples
        known["api_version"] = known["api_version"] and tuple(known["api_version"])
    if "token" in known:
        known["sasl_oauth_token_provider"] = RawToken(known.pop("token"))
    return known


def _name(error: KafkaError) -> str:
    """The error's name as Kafka writes it, else the class's."""
    return str(getattr(error, "message", None) or type(error).__name__)


def _consumed(client: str, group: str | None, record: Any) -> dict[str, Any]:
    place = (record.topic, record.partition, record.offset)
    headers = len(record.headers)
    return consumed(client, group, place, record.timestamp, record.key, record.value, headers)


if __name__ == "__main__":
    serve(KafkaPythonAgent)
