"""The agent of aiokafka: its event loop runs in a thread, so heartbeats continue meanwhile."""

import asyncio
import importlib.metadata
import logging
import threading
import time
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tools.record.clients.agent import Agent, Command, Produced, consumed, iter_records, serve
from tools.record.clients.encryption import with_context

TIMEOUT_SECONDS = 20.0


class AiokafkaAgent(Agent):
    """Producers and consumers of aiokafka, each named by its client id."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        logging.disable(logging.CRITICAL)
        self._clients: dict[str, Any] = {}
        self._settings: dict[str, Command] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def versions(self) -> dict[str, str]:
        """The software this agent runs on."""
        return {"aiokafka": importlib.metadata.version("aiokafka")}

    def open_producer(
        self,
        client: str,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transactional_id: str | None = None,
        linger_ms: int = 20,
        batch_size: int = 16384,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Make and start a producer."""

        async def open_it() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                client_id=client,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                transactional_id=transactional_id,
                linger_ms=linger_ms,
                max_batch_size=batch_size,
                **with_context(settings or {}),
            )
            await producer.start()
            return producer

        self._settings[client] = {"codec": codec, "acks": acks}
        self._clients[client] = self._wait(open_it())

    def begin(self, client: str, transaction: str) -> None:
        """Begin a transaction; `transaction` is what becomes of it: committed or aborted."""
        self._settings[client]["transaction"] = transaction
        self._wait(self._clients[client].begin_transaction())

    def end(self, client: str) -> None:
        """End the transaction the way `begin` announced."""
        outcome = self._settings[client].pop("transaction")
        producer = self._clients[client]
        committed = outcome == "committed"
        self._wait(producer.commit_transaction() if committed else producer.abort_transaction())

    def produce(
        self, client: str, each: bool = False, journal: bool = True, **command: Any
    ) -> dict[str, int]:
        """Produce and wait for the answers: after each record, or after the last."""
        sent: dict[str, int] = self._wait(self._produce(client, each, journal, command))
        return sent

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

        async def open_it() -> Any:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                client_id=client,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level=isolation,
                fetch_max_wait_ms=max_wait_ms,
                max_partition_fetch_bytes=fetch_size,
                **with_context(settings or {}),
            )
            if assign is None:
                consumer.subscribe(topics or [], listener=Listener(self, client, group))
            else:
                consumer.assign([TopicPartition(topic, part) for topic, part, _ in assign])
            await consumer.start()
            for topic, partition, offset in assign or []:
                consumer.seek(TopicPartition(topic, partition), offset)
            return consumer

        self._settings[client] = {"group": group}
        self._clients[client] = self._wait(open_it())

    def poll(
        self,
        client: str,
        seconds: float,
        records: int | None = None,
        journal: bool = True,
        commit_each: bool = False,
    ) -> dict[str, int]:
        """Poll for a time, or until so many records came; perhaps commit after each poll."""
        found: dict[str, int] = self._wait(
            self._poll(client, seconds, records, journal, commit_each)
        )
        return found

    def commit(self, client: str) -> None:
        """Commit the positions of all assigned partitions, and wait for the answer."""

        async def commit_it() -> list[tuple[TopicPartition, int]]:
            consumer = self._clients[client]
            await consumer.commit()
            return [(place, await consumer.position(place)) for place in consumer.assignment()]

        for place, offset in sorted(self._wait(commit_it())):
            self.emit(
                "commits",
                session=client,
                group=self._settings[client]["group"],
                topic=place.topic,
                partition=place.partition,
                offset=offset,
            )

    def close(self, client: str) -> None:
        """Stop the client of this name."""
        if client in self._clients:
            self._wait(self._clients.pop(client).stop())

    async def _produce(
        self, client: str, each: bool, journal: bool, command: Command
    ) -> dict[str, int]:
        producer = self._clients[client]
        settings = dict(self._settings[client])
        waiting = []
        count = value_bytes = 0
        for record in iter_records(command):
            produced = Produced(self, client, settings, record)
            future = await producer.send(
                produced.topic,
                key=produced.key,
                value=produced.value,
                headers=produced.headers or None,
                partition=produced.partition,
            )
            count += 1
            value_bytes += len(produced.value or b"")
            waiting.append((produced, future))
            if each:
                await self._settle(client, waiting, journal)
        await producer.flush()
        await self._settle(client, waiting, journal)
        return {"records": count, "value_bytes": value_bytes}

    async def _settle(
        self, client: str, waiting: list[tuple[Produced, Any]], journal: bool
    ) -> None:
        """Wait for the futures and empty the list."""
        for produced, future in waiting:
            try:
                metadata = await future
            except KafkaError as error:
                code, name = error.errno or None, type(error).__name__
                self.emit_error(client, "produce", code, name, produced.topic, produced.partition)
                continue
            if not journal:
                continue
            if metadata is None:  # acks=0: nothing is known, not even where it went
                assert produced.partition is not None
                produced.acknowledged(produced.partition, None, None)
            else:
                produced.acknowledged(metadata.partition, metadata.offset, metadata.timestamp)
        waiting.clear()

    async def _poll(
        self, client: str, seconds: float, records: int | None, journal: bool, commit_each: bool
    ) -> dict[str, int]:
        consumer = self._clients[client]
        group = self._settings[client]["group"]
        deadline = time.monotonic() + seconds
        count = 0
        while time.monotonic() < deadline and (records is None or count < records):
            for found in (await consumer.getmany(timeout_ms=50)).values():
                count += len(found)
                if journal:
                    self.events += [_consumed(client, group, record) for record in found]
                if commit_each:
                    await consumer.commit()
        return {"records": count}

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Turns rebalance callbacks into events."""

    def __init__(self, agent: Agent, client: str, group: str | None) -> None:
        self._agent = agent
        self._client = client
        self._group = group

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """A new assignment."""
        self._emit("assigned", assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """The end of the old one."""
        self._emit("revoked", revoked)

    def _emit(self, event: str, places: list[TopicPartition]) -> None:
        self._agent.emit(
            "rebalances",
            session=self._client,
            group=self._group,
            event=event,
            generation=None,
            member_id=None,
            partitions=sorted([place.topic, place.partition] for place in places),
            time_ns=time.time_ns(),
        )


def _consumed(client: str, group: str | None, record: Any) -> dict[str, Any]:
    place = (record.topic, record.partition, record.offset)
    headers = len(record.headers)
    return consumed(client, group, place, record.timestamp, record.key, record.value, headers)


if __name__ == "__main__":
    serve(AiokafkaAgent)
