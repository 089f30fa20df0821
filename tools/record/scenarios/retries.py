"""Idempotent producers that retry: their broker hangs for longer than their request timeout."""

from typing import Any

from tools.record.agents import parse_library
from tools.record.recording import Stage
from tools.record.scenarios.basics import coffees, short_name

TOPIC = "retried"
PAUSE_SECONDS = 2.0
TIMINGS: dict[str, dict[str, Any]] = {
    "java": {"request.timeout.ms": 800, "delivery.timeout.ms": 15000, "retry.backoff.ms": 50},
    "librdkafka": {"socket.timeout.ms": 800, "message.timeout.ms": 15000, "retry.backoff.ms": 50},
}


def play(stage: Stage) -> None:
    """Each client produces, the broker stops in the middle, and the records arrive once."""
    stage.create_topics("admin-java", [{"name": TOPIC, "partitions": 2}])
    for number, library in enumerate(stage.options.clients):
        client = f"{short_name(library)}-retrying"
        settings = TIMINGS[parse_library(library).name]
        stage.call(library, "open_producer", client, idempotent=True, settings=settings)
        first = number * 100
        stage.call(library, "produce", client, records=coffees(TOPIC, first, has_headers=True))
        hang(stage, library, client, first + 10)
        stage.call(library, "produce", client, records=coffees(TOPIC, first + 20, True))
        stage.call(library, "close", client)
    read(stage, stage.options.clients[0])


def hang(stage: Stage, library: str, client: str, first: int) -> None:
    """The broker is stopped while records are on their way; the requests time out and are sent
    again on new connections, so the broker sees both.
    """
    records = coffees(TOPIC, first, has_headers=True)

    def produce() -> None:
        stage.send(library, "produce", client, records=records)

    stage.cluster.pause(PAUSE_SECONDS, produce)
    stage.receive(library)


def read(stage: Stage, library: str) -> None:
    """Records that arrived."""
    places = [(TOPIC, partition, 0) for partition in range(2)]
    stage.call(library, "open_consumer", "retried-reader", assign=places)
    stage.call(library, "poll", "retried-reader", seconds=3)
    stage.call(library, "close", "retried-reader")
