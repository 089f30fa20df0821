"""Brokers that are paused for moments: a follower and a leader.

A process without CPU time, waiting for its disk or in garbage collection looks like this from
outside: its host's TCP continues, and there is no response.
"""

from tools.record.configuration import Layout
from tools.record.recording import Stage
from tools.record.scenarios.at_work import (
    ADMIN,
    at_work,
    place,
    pulses,
    reads,
    warm_up,
    writes,
)

LAYOUT = Layout(brokers=3, controllers=1, logs_client_requests=True)
SLOW = 3
PAUSE_SECONDS = 1.0
BETWEEN_SECONDS = 1.3
PULSES = 3
WRITER, READER, OTHER = "java#writer", "java#reader", "librdkafka"


def play_follower(stage: Stage) -> None:
    """acks=all waits for the paused follower; acks=1 does not."""
    topics = [{"name": name, "partitions": 1, "replication": 3} for name in ("orders", "views")]
    stage.create_topics(ADMIN, topics)
    for topic in ("orders", "views"):
        place(stage, topic, 0, [1, 2, SLOW])
    stage.call(WRITER, "open_producer", "orders-all", acks="all", linger_ms=0)
    stage.call(OTHER, "open_producer", "views-one", acks="1", linger_ms=0)
    steps = (
        writes(stage, WRITER, "orders-all", [("orders", 0)], 0.03),
        writes(stage, OTHER, "views-one", [("views", 0)], 0.12),
    )
    warm_up(*steps)
    with at_work(*steps):
        pulses(stage, SLOW, PULSES, PAUSE_SECONDS, BETWEEN_SECONDS)
    stage.call(WRITER, "close", "orders-all")
    stage.call(OTHER, "close", "views-one")


def play_leader(stage: Stage) -> None:
    """Make one of three leaders slow for producer and consumer."""
    stage.create_topics(ADMIN, [{"name": "stock", "partitions": 3, "replication": 3}])
    for partition in range(3):
        place(stage, "stock", partition, [partition + 1, (partition + 1) % 3 + 1])
    places = [("stock", partition) for partition in range(3)]
    stage.call(WRITER, "open_producer", "stock-writer", acks="1", idempotent=False, linger_ms=0)
    assigned = [(*where, 0) for where in places]
    stage.call(READER, "open_consumer", "stock-reader", assign=assigned)
    writing = writes(stage, WRITER, "stock-writer", places, 0.08)
    reading = reads(stage, READER, "stock-reader")
    warm_up(writing, reading)
    with at_work(writing, reading):
        pulses(stage, SLOW, PULSES, PAUSE_SECONDS, BETWEEN_SECONDS)
    stage.call(WRITER, "close", "stock-writer")
    stage.call(READER, "close", "stock-reader")
