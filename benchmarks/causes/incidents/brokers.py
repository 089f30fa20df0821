"""Incidents of brokers: paused, killed, restarted, without space; and replicas that are missing."""

from benchmarks.causes.firewall import unreachable
from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD, RDKAFKA
from benchmarks.causes.shapes import PORT
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View

ALL_WAIT = {"acks": "all"}


def spread_topic(scene: Scene, **configs: str) -> str:
    """A topic of three partitions, one led by each broker."""
    topic = scene.topic(partitions=3, replication=3, configs=configs)
    for number in range(3):
        order = [number + 1, (number + 1) % 3 + 1, (number + 2) % 3 + 1]
        scene.place(topic, number, order)
    return topic


def pauses(scene: Scene) -> None:
    """One of three brokers is paused for most of a second, repeatedly."""
    topic = spread_topic(scene)
    with scene.capturing():
        scene.write("writer", topic, every_ms=15, settings={"acks": "1"})
        scene.read("reader", topic, group="readers")
        scene.sleep(4)
        with scene.incident(broker=scene.broker(2)):
            for _ in range(4):
                scene.pause_broker(2, 0.8)
                scene.sleep(1.2)


def single_pauses(scene: Scene) -> None:
    """The only broker is paused."""
    topic = scene.topic(partitions=2)
    with scene.capturing():
        scene.write("writer", topic, every_ms=15)
        scene.read("reader", topic, group="readers")
        scene.sleep(4)
        with scene.incident(broker=scene.broker(1)):
            for _ in range(3):
                scene.pause_broker(1, 1.2)
                scene.sleep(1.5)


def slow_follower(scene: Scene) -> None:
    """A follower is paused; acks=all waits for it."""
    topic = scene.topic(replication=3)
    scene.place(topic, 0, [1, 2, 3])
    with scene.capturing():
        scene.write("writer", topic, every_ms=15, settings=ALL_WAIT)
        scene.sleep(4)
        with scene.incident(broker="3"):
            for _ in range(4):
                scene.pause_broker(3, 0.7)
                scene.sleep(1)


def unclean_restarts(scene: Scene) -> None:
    """Broker after broker is killed and started again, without a controlled shutdown."""
    topic = spread_topic(scene)
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings=ALL_WAIT)
        scene.read("reader", topic, group="readers")
        scene.sleep(3)
        with scene.incident(broker=scene.broker(1)):
            for number in (1, 2):
                scene.kill_broker(number)
                scene.sleep(5)
                scene.start_broker(number)
                scene.sleep(3)
    scene.sleep(2)


def leader_killed(scene: Scene) -> None:
    """The leader of a busy partition is killed."""
    topic = spread_topic(scene)
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings=ALL_WAIT)
        scene.read("reader", topic, assign=[[topic, number] for number in range(3)])
        scene.sleep(3)
        with scene.incident(broker=scene.broker(3)):
            scene.kill_broker(3)
            scene.sleep(8)
    scene.start_broker(3)
    scene.sleep(3)


def below_min_isr(scene: Scene) -> None:
    """A topic that needs three copies has two: a broker is down."""
    topic = spread_topic(scene, **{"min.insync.replicas": "3"})
    scene.kill_broker(3)
    scene.sleep(6)
    try:
        with scene.capturing(), scene.incident(topic=topic):
            settings = ALL_WAIT | scene.variant.options.get("settings", {})
            writer = scene.write("writer", topic, every_ms=100, partition=0, settings=settings)
            scene.sleep(8)
    finally:
        scene.start_broker(3)
        scene.sleep(3)
    if scene.truth.clients[writer].get("written"):
        raise RuntimeError("records were accepted: the topic had enough replicas in sync")


def broker_down(scene: Scene) -> None:
    """The only broker is down when clients start."""
    scene.kill_broker(1)
    try:
        with scene.capturing(), scene.incident(broker=scene.broker(1)):
            scene.write("writer", scene.stem, every_ms=50)
            scene.read("reader", scene.stem, group="readers")
            scene.sleep(14)
    finally:
        scene.start_broker(1)
        scene.sleep(2)


def lost_without_acks(scene: Scene) -> None:
    """A broker is killed and comes back while acks=0 are sent: lost records are not reported."""
    topic = scene.topic()
    with scene.capturing():
        settings = {"acks": "0"}
        if scene.variant.library != RDKAFKA:
            settings |= {"enable.idempotence": "false"}
        writer = scene.write("writer", topic, every_ms=2, burst=5, size=500, settings=settings)
        scene.sleep(3)
        with scene.incident():
            scene.kill_broker(1)
            scene.sleep(1)
            scene.start_broker(1)
        scene.sleep(4)
    (end,) = scene.admin("list_offsets", places=[[topic, 0]], at="latest").values()
    written = scene.truth.clients[writer]["written"]
    scene.truth.clients["lost"] = {"records": written - end}
    if written <= end:
        raise RuntimeError("no record was lost")


def disk_full(scene: Scene) -> None:
    """The second broker's disk fills up; it gives up and its partitions move."""
    topic = spread_topic(scene)
    with scene.capturing():
        scene.write("small", topic, every_ms=30, settings=ALL_WAIT)
        scene.sleep(3)
        with scene.incident(broker=scene.broker(2)):
            settings = {"acks": "1", "enable.idempotence": "false"}
            scene.write("bulk", topic, every_ms=20, size=60000, partition=1, settings=settings,
                        compressible=False, count=350)  # fmt: skip
            scene.sleep(12)


def unreachable_leader(scene: Scene) -> None:
    """Packets of clients no longer reach one of three brokers, which remains leader: it
    keeps its leases at the controller.
    """
    topic = spread_topic(scene)
    java = {"request.timeout.ms": 2000, "delivery.timeout.ms": 8000}
    quick = {"socket.timeout.ms": 2000} if scene.variant.library == RDKAFKA else java
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings=ALL_WAIT | quick)
        scene.sleep(4)
        with scene.incident(broker=scene.broker(3)), unreachable("127.0.0.3", PORT):
            scene.sleep(12)
    scene.sleep(3)


def unclean_election(scene: Scene) -> None:
    """A leader is killed; its only follower was behind, and leads all the same, without records."""
    topic = scene.topic(replication=2, configs={"unclean.leader.election.enable": "true"})
    scene.place(topic, 0, [1, 2])
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings={"acks": "1"})
        scene.read("reader", topic, assign=[[topic, 0]])
        scene.sleep(3)
        scene.kill_broker(2)
        scene.sleep(6)
        with scene.incident(broker=scene.broker(1)):
            scene.kill_broker(1)
            scene.sleep(1)
            scene.start_broker(2)
            scene.sleep(8)
    scene.start_broker(1)
    scene.sleep(3)


def overloaded(scene: Scene) -> None:
    """One thread of a broker compresses the records of six producers, and others wait for it."""
    topic = scene.topic(partitions=6, configs={"compression.type": "gzip"})
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, partition=0)
        scene.sleep(2)
        with scene.incident(broker=scene.broker(1)):
            settings = {"linger.ms": 20, "batch.size": 900_000}
            for number in range(6):
                scene.write(f"bulk-{number}", topic, every_ms=10, burst=150, size=4000,
                            partition=number, compressible=False, settings=settings)  # fmt: skip
            scene.sleep(10)


BROKER = "{broker}"
AFTER_A_BROKER = (
    "broker-refuses-connections", "rebalance-stops-group", "produce-latency-slow-follower",
    "requests-unanswered", "produce-sent-again", "error-NOT_COORDINATOR",
    "error-COORDINATOR_NOT_AVAILABLE", "replicas-missing", "coordinator-moved",
    "failover-blackout", "connection-churn", "broker-restarted", "member-fenced",
)  # fmt: skip
INCIDENTS = (
    Incident(
        "broker-pauses",
        "{broker} was paused for 0.8 s, four times",
        ("broker-stalls",), (BROKER,), pauses,
        (
            Variant(MIDDLE, "three", views=(View("broker:127.0.0.2"), View("part:0.5-1"))),
            Variant(OLD, "three", RDKAFKA, (View("broker:127.0.0.2"),)),
        ),
        also=("broker-slow", "produce-latency-slow-follower"),
    ),
    Incident(
        "only-broker-pauses",
        "{broker}, the only broker, was paused for 1.2 s, three times",
        ("broker-stalls",), (BROKER,), single_pauses,
        (
            Variant(NEW, "one", views=(View("direction:responses", ids=()), View("part:0.4-1"))),
            Variant(OLD, "one", views=(View("client:{stem}-writer"),)),
            Variant(MIDDLE, "one", "sarama"),
            Variant(NEW, "one", "kafkajs"),
        ),
        also=("broker-slow",),
    ),
    Incident(
        "follower-pauses",
        "Follower {broker} was paused for 0.7 s, four times: acks=all waited for it",
        ("produce-latency-slow-follower",), ("broker {broker}",), slow_follower,
        (
            Variant(NEW, "three", views=(View("broker:127.0.0.1"),)),
            Variant(MIDDLE, "three", views=(View("broker:127.0.0.1"),)),
        ),
        also=("broker-stalls",),
    ),
    Incident(
        "unclean-restarts",
        "Brokers 1 and 2 were killed one after the other and restarted",
        ("failover-blackout", "broker-restarted"), (BROKER,), unclean_restarts,
        (
            Variant(MIDDLE, "three", views=(View("client:{stem}-"),)),
            Variant(OLD, "three", views=(View("client:{stem}-"),)),
        ),
        also=AFTER_A_BROKER,
    ),
    Incident(
        "killed-leader",
        "{broker} was killed; its partition had no leader for seconds",
        ("failover-blackout",), (BROKER,), leader_killed,
        (
            Variant(NEW, "three", RDKAFKA, (View("client:{stem}-writer"),)),
            Variant(OLD, "three", views=(View("client:{stem}-writer"),)),
        ),
        also=AFTER_A_BROKER,
    ),
    Incident(
        "below-min-isr",
        "{topic} needs three in-sync replicas and has two: acks=all is rejected",
        ("replicas-missing",), ("{topic}",), below_min_isr,
        (
            Variant(MIDDLE, "three", views=(View("client:{stem}-writer"), View("part:0.5-1"))),
            Variant(NEW, "three", RDKAFKA, (View("client:{stem}-writer"),)),
        ),
        also=("produce-gave-up", "broker-refuses-connections"),
    ),
    Incident(
        "broker-down",
        "{broker} does not run: no connection succeeds",
        ("broker-refuses-connections",), (BROKER,), broker_down,
        (Variant(NEW, "one", views=(View("part:0.1-1"),)), Variant(OLD, "one", RDKAFKA)),
        also=("no-kafka",),
    ),
    Incident(
        "lost-without-acks",
        "The broker went down and {stem}-writer continued with acks=0: records were lost unnoticed",
        ("acks-0-records-lost",), ("{stem}-writer",), lost_without_acks,
        (Variant(MIDDLE, "one"), Variant(NEW, "one", RDKAFKA)),
        also=AFTER_A_BROKER, is_notice=True,
    ),
    Incident(
        "disk-full",
        "The disk of {broker} is full: KAFKA_STORAGE_ERROR, and it shuts down",
        ("error-KAFKA_STORAGE_ERROR", "failover-blackout", "broker-refuses-connections"),
        (BROKER, "KAFKA_STORAGE_ERROR"), disk_full,
        (Variant(NEW, "disk"), Variant(MIDDLE, "disk")),
        also=AFTER_A_BROKER,
    ),
    Incident(
        "unreachable-leader",
        "Packets of clients no longer reach {broker}, which goes on leading a partition",
        ("broker-unreachable", "failover-blackout"), (BROKER,), unreachable_leader,
        (
            Variant(NEW, "three", views=(View("client:{stem}-writer"),)),
            Variant(MIDDLE, "three", RDKAFKA, (View("part:0.4-1"),)),
        ),
        # Producers give batches up, and followers do not reach the leader either.
        also=(*AFTER_A_BROKER, "network-makes-p99", "produce-gave-up"),
        false=("broker-stalls", "broker-slow"),
    ),
    Incident(
        "unclean-election",
        "{broker} was killed; a follower that was behind leads without the last records",
        ("failover-blackout",), (BROKER,), unclean_election,
        (Variant(NEW, "three"), Variant(MIDDLE, "three", views=(View("client:{stem}-"),))),
        also=(*AFTER_A_BROKER, "error-OFFSET_OUT_OF_RANGE", "records-delivered-again"),
    ),
    Incident(
        "overloaded-broker",
        "{broker} has one thread for requests, which compresses what six producers send",
        ("broker-slow", "broker-stalls"), (BROKER,), overloaded,
        (
            Variant(MIDDLE, "narrow", views=(View("client:{stem}-writer"),)),
            Variant(NEW, "narrow", RDKAFKA, (View("part:0.3-1"),)),
        ),
        also=("produce-sent-again", "broker-recompresses"),
        false=("network-makes-p99", "round-trip-makes-latency", "receiver-does-not-read"),
    ),
)  # fmt: skip
