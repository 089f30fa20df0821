"""A client that logs when it sent and received: what an exchange took by its clock."""

import time

from tools.record.configuration import Layout
from tools.record.recording import Stage

LAYOUT = Layout(logs_client_requests=True)
TOPIC = "measured"
PRODUCER, READER = "measured-writer", "measured-reader"
RECORDS = 120
PACE_SECONDS = 0.02
PAUSE_SECONDS = 0.3
LONG_POLL_MS = 200


def play(stage: Stage) -> None:
    """Records one by one, a broker that stands still for a moment, long polls with and without
    something to read.
    """
    stage.create_topics("admin-java", [{"name": TOPIC, "partitions": 1}])
    stage.call("java", "open_producer", PRODUCER, acks="all", linger_ms=0)
    for number in range(RECORDS):
        produce(stage, number)
        time.sleep(PACE_SECONDS)
    stage.cluster.pause(PAUSE_SECONDS, lambda: send(stage, RECORDS))
    stage.receive("java")
    assigned = [(TOPIC, 0, 0)]
    stage.call("java", "open_consumer", READER, assign=assigned, max_wait_ms=LONG_POLL_MS)
    for _ in range(10):
        stage.call("java", "poll", READER, seconds=0.3)
        produce(stage, RECORDS)
    stage.call("java", "close", READER)
    stage.call("java", "close", PRODUCER)


def produce(stage: Stage, number: int) -> None:
    """One record, answered."""
    send(stage, number)
    stage.receive("java")


def send(stage: Stage, number: int) -> None:
    """One record, whose answer is for `receive`."""
    record = {"topic": TOPIC, "partition": 0, "key": f"{number}", "value": "how long? " * 9}
    stage.send("java", "produce", PRODUCER, records=[record])
