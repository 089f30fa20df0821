"""librdkafka clients that work in threads until stopped."""

import os
import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

STOP_SECONDS = 15.0
POLL_SECONDS = 0.1
COMMIT_SECONDS = 0.2  # between commits


class Job(threading.Thread):
    """One client's work; `counts` has records, and errors by name."""

    def __init__(self, configuration: dict[str, Any], command: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.configuration = configuration
        self.command = command
        self.counts: Counter[str] = Counter()
        self.is_over = threading.Event()

    def run(self) -> None:
        """Work until the end."""
        while not self.is_over.is_set():
            try:
                self.work()
            except KafkaException as error:
                self.counts[error.args[0].name()] += 1
                self.is_over.wait(0.1)
        self.close()

    def stop(self) -> dict[str, int]:
        """End the work; return the counts."""
        self.is_over.set()
        self.join(STOP_SECONDS)
        return dict(self.counts)

    def work(self) -> None:
        """One round."""
        raise NotImplementedError

    def close(self) -> None:
        """The end of the client."""
        raise NotImplementedError


class Writing(Job):
    """Produces `burst` records of `size` each `every_ms`; `reopens` makes a producer for each."""

    producer: Producer | None = None
    number = 0

    def work(self) -> None:
        """Produce, and perhaps wait for the answers."""
        if self.producer is None:
            self.producer = Producer(self.configuration)
        for _ in range(self.command.get("burst", 1)):
            self._send(self.producer)
        if self.command.get("each"):
            self.producer.flush(5)
        self.producer.poll(0)
        if self.command.get("reopens"):
            self.close()
        _serve(self.producer, self.is_over, self.command.get("every_ms", 20) / 1000)
        if self.number >= self.command.get("count", 1 << 60):
            self.is_over.set()

    def close(self) -> None:
        """Wait a moment for answers."""
        if self.producer is not None:
            self.producer.flush(3)
            self.producer = None

    def _send(self, producer: Producer) -> None:
        topics = self.command["topics"]
        size = self.command.get("size", 100)
        is_text = self.command.get("compressible", True)
        value = b"a value of text " * (size // 16 + 1) if is_text else os.urandom(size)
        partition = self.command.get("partition")
        if self.number % 10 < self.command.get("hot", 0):
            partition = 0
        try:
            producer.produce(
                topics[self.number % len(topics)],
                key=f"key-{self.number % self.command.get('keys', 100)}",
                value=value[:size],
                on_delivery=self._delivered,
                **({} if partition is None else {"partition": partition}),
            )
        except BufferError:
            self.counts["queue full"] += 1
        self.number += 1

    def _delivered(self, failure: Any, _: Message) -> None:
        self.counts["written" if failure is None else failure.name()] += 1


class Reading(Job):
    """Consumes, `process_ms` for each record, and `commits` now and then;
    `reopen_ms` makes a new consumer.
    """

    consumer: Consumer | None = None
    opened = committed = 0.0

    def work(self) -> None:
        """Poll once."""
        command = self.command
        if self.consumer is None:
            self.consumer = self._open()
        message = self.consumer.poll(POLL_SECONDS)
        self.counts["polls"] += 1
        if message is not None and message.error() is not None:
            self.counts[message.error().name()] += 1
        elif message is not None:
            self.counts["read"] += 1
            self.is_over.wait(command.get("process_ms", 0) / 1000)
            now = time.monotonic()
            if command.get("commits", True) and now > self.committed + COMMIT_SECONDS:
                self.consumer.commit(message=message, asynchronous=True)
                self.committed = now
        if command.get("reopen_ms") and time.monotonic() > self.opened + command["reopen_ms"] / 1e3:
            self.close()

    def close(self) -> None:
        """Leave the group."""
        if self.consumer is not None:
            self.consumer.close()
            self.consumer = None

    def _open(self) -> Consumer:
        consumer = Consumer(self.configuration)
        self.opened = time.monotonic()
        if "assign" in self.command:
            offset = self.command.get("seek", 0)
            places = [TopicPartition(*place[:2], offset) for place in self.command["assign"]]
            consumer.assign(places)
        else:
            consumer.subscribe(self.command["topics"])
        return consumer


def _serve(producer: Producer | None, is_over: threading.Event, seconds: float) -> None:
    """Wait, and serve the producer's callbacks meanwhile."""
    if producer is None:
        is_over.wait(seconds)
        return
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and not is_over.is_set():
        producer.poll(min(left, POLL_SECONDS))
