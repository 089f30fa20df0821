"""Clients that keep working while their brokers fail or move."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tools.record.configuration import KRAFT
from tools.record.recording import Stage
from tools.record.releases import Release
from tools.record.scenarios import replication

Step = Callable[[int], None]

ADMIN = "admin-java"
VALUE = "a line of an order, long enough to be one: "
SETTLE_SECONDS = 0.5
WARMING_ROUNDS = 8
STEADY = {
    "replica.fetch.wait.max.ms": "1000",
    "replica.lag.time.max.ms": "30000",
    "broker.session.timeout.ms": "9000",
}


def properties_of(release: Release, mode: str) -> dict[str, str]:
    """Three replicas of everything, and none leaves the ISR."""
    assert mode == KRAFT
    return replication.properties_of(release, mode) | STEADY


def warm_up(*steps: Step) -> None:
    """Warm up: connections, metadata, classes of a JVM."""
    for step in steps:
        for number in range(-WARMING_ROUNDS, 0):
            step(number)


@contextmanager
def at_work(*steps: Step) -> Iterator[None]:
    """Repeat each step in a thread of its own, counting from 0, while the block runs."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def repeat(step: Step) -> None:
        number = 0
        try:
            while not is_over.is_set():
                step(number)
                number += 1
        except Exception as failure:  # it belongs to the thread that waits below
            failures.append(failure)

    threads = [threading.Thread(target=repeat, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def writes(
    stage: Stage, library: str, client: str, places: Iterable[tuple[str, int]], pace: float
) -> Step:
    """A step that produces a record to each place, waits for the answers, then for the pace."""

    def step(number: int) -> None:
        records = [
            {
                "topic": topic,
                "partition": partition,
                "key": f"{client}-{partition}-{number}",
                "value": f"{VALUE}{number}",
            }
            for topic, partition in places
        ]
        stage.call(library, "produce", client, records=records)
        time.sleep(pace)

    return step


def reads(stage: Stage, library: str, client: str) -> Step:
    """A step that polls a consumer for half a second."""

    def step(_: int) -> None:
        stage.call(library, "poll", client, seconds=0.5)

    return step


def place(stage: Stage, topic: str, partition: int, replicas: list[int]) -> None:
    """Say which brokers have a partition; the first shall lead it."""
    where = (topic, partition)
    stage.call("java", "reassign", ADMIN, place=where, replicas=replicas)
    time.sleep(SETTLE_SECONDS)
    stage.call("java", "elect_leaders", ADMIN, type="PREFERRED", place=where)


def pulses(stage: Stage, node: int, count: int, seconds: float, between: float) -> None:
    """Stop a server again and again for a moment."""
    server = stage.cluster.servers[node]
    for _ in range(count):
        time.sleep(between)
        stage.act("pause", node, lambda: server.pause(seconds, lambda: None))
    time.sleep(between)
