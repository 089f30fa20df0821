"""Parts shared by incidents of clients: a continuous writer, and members that poll."""

from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

ADMIN, WRITER = "admin-java", "writer"
WRITING = "librdkafka"
EVERY_MS = 200
# A broker that takes session time-outs from a second on, where Kafka's own least is 6 s.
IMPATIENT_BROKER = SMALL_SINGLE_BROKER | {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
CLASSIC = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "300"}
NEW = {"group.protocol": "consumer"}

Member = tuple[str, str]  # library, client


def write(stage: Stage, topic: str, partitions: int, seconds: float, first: int = 0) -> None:
    """Begin to produce at a steady pace, one record a partition after the other."""
    count = int(seconds * 1000 / EVERY_MS)
    numbers = range(first, first + count)
    records = [
        {"topic": topic, "partition": number % partitions, "key": None, "value": f"n {number}"}
        for number in numbers
    ]
    stage.send(WRITING, "produce", f"{WRITER}-{topic}", records=records, every_ms=EVERY_MS)


def open_writer(stage: Stage, topic: str, partitions: int) -> None:
    """The topic and its producer."""
    stage.create_topics(ADMIN, [{"name": topic, "partitions": partitions}])
    stage.call(WRITING, "open_producer", f"{WRITER}-{topic}", idempotent=True, linger_ms=0)


def close_writer(stage: Stage, topic: str) -> None:
    """The end of what `write` began."""
    stage.receive(WRITING)
    stage.call(WRITING, "close", f"{WRITER}-{topic}")


def join(stage: Stage, member: Member, group: str, topic: str, settings: dict[str, Any]) -> None:
    """Make a member; it joins when it polls."""
    library, client = member
    opened = {"group": group, "topics": [topic], "settings": settings}
    stage.call(library, "open_consumer", client, **opened)


def poll(stage: Stage, members: dict[Member, float]) -> None:
    """Let members poll and commit, each so many seconds, all from now on."""
    for (library, client), seconds in members.items():
        stage.send(library, "poll", client, seconds=seconds, commit_each=True)
    for library, _ in members:
        stage.receive(library)
