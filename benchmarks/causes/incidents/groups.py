"""Incidents of consumers, their groups, offsets and coordinators."""

import os
import signal
import time

from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD, RDKAFKA
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View

CLASSIC = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500}
KIP_848 = {"group.protocol": "consumer"}
ASSIGNORS = "org.apache.kafka.clients.consumer."
COOPERATIVE = {"partition.assignment.strategy": ASSIGNORS + "CooperativeStickyAssignor"}
RANGE = {"partition.assignment.strategy": ASSIGNORS + "RangeAssignor"}
STICKY = {"partition.assignment.strategy": ASSIGNORS + "StickyAssignor"}


def slow_processing(scene: Scene) -> None:
    """A member that works for long on the records of each poll, within max.poll.interval.ms."""
    topic = scene.topic(partitions=2)
    settings = scene.variant.options.get("settings", {}) | {"max.poll.records": 50}
    process_ms = 400
    if scene.variant.library == RDKAFKA:
        settings, process_ms = {}, 10
    with scene.capturing():
        scene.write("writer", topic, every_ms=10, burst=10, library="java")
        with scene.incident():
            scene.read("reader", topic, group="slow", process_ms=process_ms, settings=settings)
            scene.sleep(14)


def flapping(scene: Scene) -> None:
    """A member that leaves and joins all the time, among two that stay."""
    topic = scene.topic(partitions=4)
    settings = scene.variant.options.get("settings", RANGE | CLASSIC)
    with scene.capturing():
        scene.write("writer", topic, every_ms=20)
        for number in (1, 2):
            scene.read(f"steady-{number}", topic, group="crew", settings=settings)
        scene.sleep(2)
        with scene.incident():
            scene.read("flapping", topic, group="crew", settings=settings, reopen_ms=800)
            scene.sleep(16)


def mixed_assignors(scene: Scene) -> None:
    """A member whose assignors have none in common with the group's."""
    topic = scene.topic(partitions=2)
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        scene.read("first", topic, group="crew", library="java", settings=RANGE)
        scene.sleep(3)
        with scene.incident():
            if scene.variant.library == RDKAFKA:
                other = {"partition.assignment.strategy": "roundrobin"}
            else:
                other = STICKY
            scene.read("second", topic, group="crew", settings=other)
            scene.sleep(6)


def paused_member(scene: Scene) -> None:
    """A member whose process is paused for longer than its session timeout."""
    topic = scene.topic(partitions=2)
    settings = scene.variant.options.get("settings", CLASSIC)
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        scene.read("steady", topic, group="crew", settings=settings)
        victim = scene.variant.library + "#frozen"
        frozen = scene.read("frozen", topic, group="crew", library=victim, settings=settings)
        scene.wait_for(frozen)
        scene.sleep(5)
        with scene.incident():
            freeze(scene, victim, 6.0)
        scene.sleep(3)


def freeze(scene: Scene, library: str, seconds: float) -> None:
    """Stop a client's process for a while."""
    process = scene.agent(library).process_id
    os.kill(process, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(process, signal.SIGCONT)


def slow_rebalance(scene: Scene) -> None:
    """A member comes; another works for 4 s before it polls again, and all wait for it."""
    topic = scene.topic(partitions=4)
    with scene.capturing():
        scene.write("writer", topic, every_ms=20)
        scene.read("busy", topic, group="crew", settings=RANGE, process_ms=4000)
        scene.read("quick", topic, group="crew", settings=RANGE, library="java#second")
        scene.sleep(5)
        with scene.incident():
            scene.read("late", topic, group="crew", settings=RANGE, library="java#second")
            scene.sleep(8)


def reset_to_latest(scene: Scene) -> None:
    """A group returns after retention deleted unread records; it resumes at the end."""
    topic = scene.topic()
    latest = {"auto.offset.reset": "latest"}
    group = f"{scene.stem}-late"
    reader = scene.read("reader", topic, group="late", settings=latest)
    scene.write("early", topic, every_ms=20)
    scene.sleep(5)
    scene.stop(reader)
    scene.stop(f"{scene.stem}-early")
    scene.write("early", topic, every_ms=5, burst=20)
    scene.sleep(2)
    scene.stop(f"{scene.stem}-early")
    offsets = scene.admin("list_offsets", places=[[topic, 0]], at="latest")
    end = next(iter(offsets.values()))
    scene.admin("delete_records", place=[topic, 0, end - 100])
    scene.sleep(1)
    with scene.capturing(), scene.incident(group=group):
        scene.write("writer", topic, every_ms=50)
        scene.read("reader", topic, group="late", settings=latest)
        scene.sleep(6)


def skips(scene: Scene) -> None:
    """A consumer seeks to the end and commits there: the records between are never read."""
    topic = scene.topic()
    scene.write("early", topic, every_ms=10, burst=10, size=1000, count=4000)
    scene.sleep(6)
    scene.stop(f"{scene.stem}-early")
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        with scene.incident(group=f"{scene.stem}-late"):
            settings = {"max.poll.records": 100, "max.partition.fetch.bytes": 50000}
            scene.read("reader", topic, group="late", settings=settings, skips=True)
            scene.sleep(6)


def redelivered(scene: Scene) -> None:
    """A consumer that repeatedly closes without a commit: its successor rereads everything."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=20)
        with scene.incident():
            scene.read("reader", topic, group="crew", commits=False, reopen_ms=3000)
            scene.sleep(12)


def deleted_topic(scene: Scene) -> None:
    """A topic is deleted while it is written and read."""
    topic = scene.topic(partitions=2)
    with scene.capturing():
        scene.write("writer", topic, every_ms=20)
        scene.read("reader", topic, group="crew")
        scene.sleep(4)
        with scene.incident(topic=topic):
            scene.admin("delete_topics", topics=[topic])
            scene.sleep(8)


def coordinator_moves(scene: Scene) -> None:
    """The broker that coordinates a group, and leads nothing else, is killed."""
    topic = scene.topic(replication=3)
    scene.place(topic, 0, [1, 3, 2])
    scene.read("first", topic, group="crew", settings=CLASSIC)
    scene.sleep(3)
    scene.stop(f"{scene.stem}-first")
    for partition in range(2):
        scene.place("__consumer_offsets", partition, [2, 3, 1])
    scene.sleep(1)
    try:
        with scene.capturing():
            scene.write("writer", topic, every_ms=30)
            settings = scene.variant.options.get("settings", CLASSIC)
            for number in (1, 2):
                scene.read(f"member-{number}", topic, group="crew", settings=settings)
            scene.sleep(4)
            with scene.incident(broker=scene.broker(2)):
                scene.kill_broker(2)
                scene.sleep(9)
    finally:
        scene.start_broker(2)
        scene.sleep(4)


def retention_overtakes(scene: Scene) -> None:
    """Retention deletes records that a slow group has not read; it resumes at the oldest left."""
    configs = {"retention.bytes": "1200000", "segment.bytes": "1048576"}
    topic = scene.topic(configs=configs)
    settings = {"max.poll.records": 20, "max.partition.fetch.bytes": 20000}
    settings |= {"auto.offset.reset": "earliest"}
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, burst=2, size=5000, compressible=False)
        with scene.incident():
            scene.read("reader", topic, group="crew", process_ms=700, settings=settings)
            scene.sleep(22)


GROUP = "{stem}-crew"
INCIDENTS = (
    Incident(
        "slow-processing",
        "Group {stem}-slow falls behind: its member works for 0.4 s on 50 records, within "
        "max.poll.interval.ms",
        ("consumer-processes-slowly", "consumer-lag-grows", "consumer-behind"), ("{stem}-slow",),
        slow_processing,
        (
            # In the part, ends have the topic's id and commits its name; nothing has both.
            Variant(NEW, "one", views=(View("part:0.4-1", ids=()), View("client:{stem}-reader"))),
            Variant(MIDDLE, "one", views=(View("part:0.4-1"),)),
            Variant(NEW, "one", options={"settings": KIP_848}),
            Variant(OLD, "one", RDKAFKA),
        ),
    ),
    Incident(
        "flapping-member",
        "Group {stem}-crew rebalances constantly: a member joins and leaves every second",
        ("rebalance-storm",), (GROUP,), flapping,
        (
            Variant(OLD, "one", views=(View("part:0.3-1"),)),
            Variant(NEW, "one", views=(View("part:0.3-1"),)),
        ),
        also=("rebalance-stops-group", "connection-churn", "member-fenced"),
    ),
    Incident(
        "mixed-assignors",
        "{stem}-second cannot join group {stem}-crew: they have no assignor in common",
        ("error-INCONSISTENT_GROUP_PROTOCOL",), ("{stem}-second", GROUP), mixed_assignors,
        (
            Variant(NEW, "one", views=(View("client:{stem}-second"), View("part:0.3-1"))),
            Variant(OLD, "one", RDKAFKA, (View("client:{stem}-second"),)),
        ),
    ),
    Incident(
        "paused-member",
        "Group {stem}-crew lost {stem}-frozen, which was silent for longer than its session",
        ("session-timeout",), (GROUP,), paused_member,
        (
            Variant(MIDDLE, "one", views=(View("part:0.2-1"),)),
            Variant(OLD, "one", "java@2.8.2", (View("part:0.2-1"),)),
            Variant(NEW, "one", options={"settings": KIP_848}),
        ),
        also=("receiver-does-not-read", "rebalance-stops-group", "records-delivered-again",
              "error-UNKNOWN_MEMBER_ID", "error-ILLEGAL_GENERATION", "max-poll-exceeded"),
    ),
    Incident(
        "slow-rebalance",
        "A rebalance stops group {stem}-crew for seconds: {stem}-busy joins it late",
        ("rebalance-stops-group",), (GROUP,), slow_rebalance,
        (
            Variant(NEW, "one", views=(View("part:0.3-1"),)),
            Variant(MIDDLE, "one", "java@3.9.1"),
        ),
        also=("consumer-lag-grows",), is_notice=True,
    ),
    Incident(
        "reset-to-latest",
        "Group {stem}-late fell behind the retention of {stem} and resumed at the end: records "
        "were skipped",
        ("offset-reset-skips-records", "error-OFFSET_OUT_OF_RANGE", "commit-skips-records"),
        ("{stem}",), reset_to_latest,
        (
            Variant(NEW, "one", views=(View("client:{stem}-reader"),)),
            Variant(OLD, "one", views=(View("client:{stem}-reader"),)),
            Variant(MIDDLE, "one", RDKAFKA),
        ),
        is_notice=True,
    ),
    Incident(
        "retention-overtakes",
        "Retention deleted records of {stem} that group {stem}-crew had not read: it skipped them",
        ("error-OFFSET_OUT_OF_RANGE", "offset-reset-skips-records", "commit-skips-records"),
        ("{stem}",), retention_overtakes,
        (
            Variant(NEW, "one", views=(View("client:{stem}-reader"),)),
            Variant(MIDDLE, "one", "java@3.9.1"),
        ),
        also=("consumer-lag-grows", "consumer-behind", "consumer-processes-slowly"),
        is_notice=True,
    ),
    Incident(
        "skipped-records",
        "{stem}-reader committed beyond the records delivered to group {stem}-late",
        ("commit-skips-records",), ("{stem}-late",), skips,
        (
            Variant(MIDDLE, "one", views=(View("client:{stem}-reader"),)),
            Variant(OLD, "one", views=(View("client:{stem}-reader"),)),
        ),
        also=("consumer-behind", "consumer-lag-grows"),
    ),
    Incident(
        "no-commits",
        "Group {stem}-crew reads the same records of {stem} again: its member does not commit",
        ("records-delivered-again",), (GROUP,), redelivered,
        (
            Variant(NEW, "one", views=(View("client:{stem}-reader"),)),
            Variant(MIDDLE, "one", RDKAFKA, (View("client:{stem}-reader"),)),
        ),
        also=("rebalance-stops-group", "consumer-lag-grows"), is_notice=True,
    ),
    Incident(
        "deleted-topic",
        "Topic {stem} was deleted while it was written and read",
        (
            "topic-deleted-in-use", "error-UNKNOWN_TOPIC_OR_PARTITION", "error-UNKNOWN_TOPIC_ID",
            "produce-gave-up",
        ),
        ("{stem}",), deleted_topic,
        (
            Variant(NEW, "one", views=(View("part:0.5-1"),)),
            Variant(OLD, "one", RDKAFKA, (View("part:0.5-1"),)),
            Variant(MIDDLE, "three"),
        ),
        also=("metadata-storm", "produce-gave-up", "error-UNKNOWN_TOPIC_OR_PARTITION",
              "error-UNKNOWN_TOPIC_ID", "failover-blackout"),
        is_notice=True,
    ),
    Incident(
        "coordinator-moves",
        "{broker}, the coordinator of group {stem}-crew, failed; another took over after "
        "seconds",
        ("coordinator-moved", "failover-blackout", "broker-refuses-connections"), ("{broker}",),
        coordinator_moves,
        (
            Variant(NEW, "three", views=(View("client:{stem}-"),)),
            Variant(MIDDLE, "three", views=(View("client:{stem}-"),)),
        ),
        also=("rebalance-stops-group", "member-fenced", "error-NOT_COORDINATOR",
              "broker-refuses-connections",
              "produce-latency-slow-follower", "requests-unanswered", "session-timeout",
              "error-COORDINATOR_NOT_AVAILABLE"),
    ),
)  # fmt: skip
