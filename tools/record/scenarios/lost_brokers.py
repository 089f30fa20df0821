"""Leaders that go while clients work, and a follower that falls out of the replicas in sync."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tools.record.configuration import Layout
from tools.record.recording import Stage
from tools.record.releases import Release
from tools.record.scenarios.at_work import (
    ADMIN,
    VALUE,
    at_work,
    place,
    properties_of,
    reads,
    warm_up,
    writes,
)

LAYOUT = Layout(brokers=3, controllers=1, logs_client_requests=True)
TOPIC = "bets"
LOST, HEIR, OTHER = 2, 3, 1  # OTHER leads the partition to which nothing happens
FIRST, SECOND, THIRD, READER = "java#first", "java#second", "java#third", "librdkafka"
PACE_SECONDS = 0.12
STEADY_SECONDS = 2.0
SESSION_SECONDS = 3.0
LAGGING = 3
SHRUNK_SECONDS = 3.0
REFUSED_SECONDS = 2.0


def quick_to_fence(release: Release, mode: str) -> dict[str, str]:
    """A broker that is silent for some seconds loses its partitions."""
    return properties_of(release, mode) | {
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": f"{SESSION_SECONDS * 1000:.0f}",
    }


def quick_to_shrink(release: Release, mode: str) -> dict[str, str]:
    """A follower that has not caught up for 1.5 s is out of sync."""
    return properties_of(release, mode) | {
        "replica.fetch.wait.max.ms": "500",
        "replica.lag.time.max.ms": "1500",
    }


def play_killed(stage: Stage) -> None:
    """The leader of a busy partition is killed; there is no leader until its session ends."""
    with betting(stage):
        time.sleep(STEADY_SECONDS)
        stage.act("kill", LOST, lambda: stage.cluster.servers[LOST].stop(politely=False))
        time.sleep(SESSION_SECONDS + STEADY_SECONDS)


def play_stopped(stage: Stage) -> None:
    """An operator moves the leadership to another broker; then that one is shut down."""
    with betting(stage):
        time.sleep(STEADY_SECONDS)
        stage.act("move", HEIR, lambda: place(stage, TOPIC, 0, [HEIR, LOST, OTHER]))
        time.sleep(2 * STEADY_SECONDS)
        stage.act("stop", HEIR, stage.cluster.servers[HEIR].stop)
        time.sleep(STEADY_SECONDS)


@contextmanager
def betting(stage: Stage) -> Iterator[None]:
    """Two producers, a partition each, and a consumer of both, at work."""
    stage.create_topics(ADMIN, [{"name": TOPIC, "partitions": 2, "replication": 3}])
    place(stage, TOPIC, 0, [LOST, HEIR, OTHER])
    place(stage, TOPIC, 1, [OTHER, HEIR, LOST])
    for library, client in ((FIRST, "bets-first"), (SECOND, "bets-second")):
        stage.call(library, "open_producer", client, acks="all", linger_ms=0)
    assigned = [(TOPIC, 0, 0), (TOPIC, 1, 0)]
    stage.call(READER, "open_consumer", "bets-reader", assign=assigned)
    steps = (
        writes(stage, FIRST, "bets-first", [(TOPIC, 0)], PACE_SECONDS),
        writes(stage, SECOND, "bets-second", [(TOPIC, 1)], PACE_SECONDS),
    )
    warm_up(*steps)
    with at_work(*steps, reads(stage, READER, "bets-reader")):
        yield
    stage.call(FIRST, "close", "bets-first")
    stage.call(SECOND, "close", "bets-second")
    stage.call(READER, "close", "bets-reader")


def play_lagging(stage: Stage) -> None:
    """A follower is paused until it is out of sync.

    Clients that need all three copies wait for it, or are refused after that; clients that need two
    continue.
    """
    needs = {"strict": "3", "relaxed": "2"}
    topics = [
        {
            "name": name,
            "partitions": 1,
            "replication": 3,
            "configs": {"min.insync.replicas": copies},
        }
        for name, copies in needs.items()
    ]
    stage.create_topics(ADMIN, topics)
    settings = {"retry.backoff.ms": 250, "retry.backoff.max.ms": 250}
    writers = {"strict-waits": FIRST, "relaxed-goes-on": SECOND, "strict-refused": THIRD}
    for topic in needs:
        place(stage, topic, 0, [1, 2, LAGGING])
    steps = []
    for client, library in writers.items():
        more = {"acks": "all", "linger_ms": 0, "settings": settings}
        stage.call(library, "open_producer", client, **more)
        where = [(client.split("-")[0], 0)]
        steps.append(writes(stage, library, client, where, PACE_SECONDS))
    warm_up(*steps)

    def come_late() -> None:
        time.sleep(SHRUNK_SECONDS)
        record = {"topic": "strict", "partition": 0, "key": "late", "value": VALUE}
        stage.send(THIRD, "produce", "strict-refused", records=[record])

    server = stage.cluster.servers[LAGGING]
    with at_work(*steps[:2]):
        time.sleep(STEADY_SECONDS)
        stage.act("pause", LAGGING, lambda: server.pause(REFUSED_SECONDS, come_late))
        stage.receive(THIRD)
        time.sleep(STEADY_SECONDS)
    for client, library in writers.items():
        stage.call(library, "close", client)
