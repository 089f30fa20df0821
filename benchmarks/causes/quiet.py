"""Healthy traffic, and planned operations: no problem and no warning is expected."""

from benchmarks.causes.incidents.brokers import spread_topic
from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD, RDKAFKA
from benchmarks.causes.incidents.groups import COOPERATIVE, KIP_848, RANGE, freeze
from benchmarks.causes.incidents.security import login
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Quiet, Variant, View
from tools.record.configuration import USERS

SECONDS = 6.0
PARTS = (View("part:0-0.5"), View("part:0.5-1"))


def steady(scene: Scene) -> None:
    """Two producers and a group."""
    topic = scene.topic(partitions=2, replication=scene.variant.options.get("replication", 1))
    settings = scene.variant.options.get("settings", {})
    with scene.capturing():
        for number in range(2):
            scene.write(f"writer-{number}", topic, every_ms=20)
        scene.read("reader", topic, group="readers", settings=settings)
        scene.sleep(SECONDS)


def others(scene: Scene) -> None:
    """A producer that waits for each answer, and a member that commits."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def spread(scene: Scene) -> None:
    """The same on three brokers, all of them leaders."""
    topic = spread_topic(scene)
    with scene.capturing():
        scene.write("writer", topic, every_ms=15)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def seldom(scene: Scene) -> None:
    """A producer that writes every second, and its reader."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=1000)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def idle(scene: Scene) -> None:
    """A group of two with nothing to read."""
    topic = scene.topic(partitions=2)
    settings = scene.variant.options.get("settings", {})
    with scene.capturing():
        for number in range(2):
            scene.read(f"reader-{number}", topic, group="readers", settings=settings)
        scene.sleep(SECONDS)


def tiny(scene: Scene) -> None:
    """A few records of a producer that comes and goes."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=100, count=scene.variant.options["count"])
        scene.sleep(2)


def tiny_read(scene: Scene) -> None:
    """A consumer that reads the existing records and leaves."""
    topic = scene.topic()
    scene.write("early", topic, every_ms=10, count=50)
    scene.sleep(2)
    scene.stop(f"{scene.stem}-early")
    with scene.capturing():
        scene.read("reader", topic, group="readers")
        scene.sleep(2)


def scripts(scene: Scene) -> None:
    """Topics created, described, altered and deleted by an administrator's script."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        scene.read("reader", topic, group="readers")
        scene.sleep(2)
        for number in range(3):
            name = scene.topic(f"new-{number}", partitions=2)
            scene.admin("describe_topics", topics=[name])
            scene.admin("describe_topic_configs", topic=name)
            changes = [["SET", "retention.ms", "60000"]]
            scene.admin("alter_config", type="TOPIC", name=name, changes=changes)
        scene.admin("list_topics")
        scene.admin("describe_cluster")
        scene.admin("group_offsets", group=f"{scene.stem}-readers")
        scene.admin("list_offsets", places=[[topic, 0]], at="latest")
        scene.admin("delete_topics", topics=[f"{scene.stem}-new-{number}" for number in range(3)])
        scene.sleep(2)


def scale_out(scene: Scene) -> None:
    """Members join a group and leave it, a few seconds apart."""
    topic = scene.topic(partitions=4)
    settings = scene.variant.options.get("settings", COOPERATIVE)
    with scene.capturing():
        scene.write("writer", topic, every_ms=20)
        scene.read("reader-1", topic, group="readers", settings=settings)
        scene.sleep(3)
        second = scene.read("reader-2", topic, group="readers", settings=settings)
        scene.sleep(5)
        scene.stop(second)
        scene.sleep(4)


def partitions_added(scene: Scene) -> None:
    """A topic gets more partitions while it is used."""
    topic = scene.topic(partitions=2)
    age = {"metadata.max.age.ms": 1500}
    if scene.variant.library == RDKAFKA:
        age = {"topic.metadata.refresh.interval.ms": 1500}
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings=age)
        scene.read("reader", topic, group="readers", settings=COOPERATIVE | age
                   if scene.variant.library != RDKAFKA else age)  # fmt: skip
        scene.sleep(3)
        scene.admin("create_partitions", topic=topic, partitions=4)
        scene.sleep(6)


def transactional(scene: Scene) -> None:
    """Transactions that commit, and a read_committed reader."""
    topic = scene.topic(partitions=2)
    settings = {"transactional.id": f"{scene.stem}-till"}
    with scene.capturing():
        scene.write("payer", topic, every_ms=20, transaction=20, settings=settings)
        committed = {"isolation.level": "read_committed"}
        scene.read("reader", topic, group="readers", settings=committed)
        scene.sleep(SECONDS)


def compacted(scene: Scene) -> None:
    """A compacted topic, and a reader of all of it."""
    topic = scene.topic(configs={"cleanup.policy": "compact"})
    with scene.capturing():
        scene.write("writer", topic, every_ms=10, keys=10)
        scene.read("reader", topic, assign=[[topic, 0]], seek=0)
        scene.sleep(SECONDS)


def compressed(scene: Scene) -> None:
    """A producer that compresses, in large batches."""
    topic = scene.topic()
    settings = {"compression.type": scene.variant.options["codec"], "linger.ms": 50}
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, burst=20, size=1000, settings=settings)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def shared(scene: Scene) -> None:
    """A share group of two that accepts all."""
    topic = scene.topic()
    with scene.capturing():
        scene.share("sharer-1", topic, group="jobs")
        scene.share("sharer-2", topic, group="jobs", own="java#other")
        scene.sleep(3)
        scene.write("writer", topic, every_ms=50)
        scene.sleep(SECONDS)


def planned_restarts(scene: Scene) -> None:
    """Broker after broker is shut down in order and started again."""
    topic = spread_topic(scene, **{"min.insync.replicas": "2"})
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings={"acks": "all"})
        scene.read("reader", topic, assign=[[topic, number] for number in range(3)])
        scene.sleep(3)
        for number in (3, 2):
            scene.kill_broker(number, politely=True)
            scene.sleep(2)
            scene.start_broker(number)
            scene.sleep(5)
    scene.sleep(2)


def leaders_moved(scene: Scene) -> None:
    """Leaders are moved by an administrator."""
    topic = spread_topic(scene)
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings={"acks": "all"})
        scene.read("reader", topic, assign=[[topic, number] for number in range(3)])
        scene.sleep(3)
        scene.place(topic, 0, [2, 3, 1])
        scene.sleep(3)


def logged_in(scene: Scene) -> None:
    """SASL users with the necessary permissions."""
    topic = scene.topic()
    settings = login(scene.variant.library, "admin", USERS["admin"])
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings=settings)
        scene.read("reader", topic, group="readers", settings=settings)
        scene.sleep(SECONDS)


def clients_restart(scene: Scene) -> None:
    """Producer and consumer are redeployed: they shut down cleanly and restart."""
    topic = scene.topic()
    with scene.capturing():
        for _ in range(2):
            writer = scene.write("writer", topic, every_ms=20)
            reader = scene.read("reader", topic, group="readers")
            scene.sleep(3)
            scene.stop(writer)
            scene.stop(reader)
            scene.sleep(0.5)


def catch_up(scene: Scene) -> None:
    """A new group reads an old topic from its start and catches up."""
    topic = scene.topic()
    scene.write("early", topic, every_ms=10, burst=10, count=3000)
    scene.sleep(5)
    scene.stop(f"{scene.stem}-early")
    with scene.capturing():
        scene.write("writer", topic, every_ms=20)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def many_clients(scene: Scene) -> None:
    """Eight producers and two groups."""
    topic = scene.topic(partitions=4)
    with scene.capturing():
        for number in range(8):
            scene.write(f"writer-{number}", topic, every_ms=80)
        for group in ("audit", "billing"):
            scene.read(f"{group}-reader", topic, group=group)
        scene.sleep(SECONDS)


def one_acks(scene: Scene) -> None:
    """Metrics with acks=1 or 0: at their owner's risk."""
    topic = scene.topic()
    settings = {"acks": scene.variant.options["acks"]}
    if scene.variant.library != RDKAFKA:
        settings |= {"enable.idempotence": "false"}
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings=settings)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def patient(scene: Scene) -> None:
    """A producer that collects records for two seconds, and a reader that waits for a megabyte."""
    topic = scene.topic()
    lingers = {"linger.ms": 2000, "batch.size": 500_000}
    waits = {"fetch.min.bytes": 1_000_000, "fetch.max.wait.ms": 4000}
    if scene.variant.library == RDKAFKA:
        lingers = {"linger.ms": 2000, "batch.num.messages": 10000}
        waits = {"fetch.min.bytes": 100_000, "fetch.wait.max.ms": 4000}
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, settings=lingers)
        scene.read("reader", topic, group="readers", settings=waits)
        scene.sleep(2 * SECONDS)


def wide(scene: Scene) -> None:
    """A topic of many partitions, with a key for each."""
    topic = scene.topic(partitions=150)
    with scene.capturing():
        scene.write("writer", topic, every_ms=5, keys=2000)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def paused_producer(scene: Scene) -> None:
    """A producer's process is paused for a while: no broker is slow, and nothing is lost."""
    topic = scene.topic()
    own = f"{scene.variant.library}#pausing"
    with scene.capturing():
        scene.write("writer", topic, every_ms=20, library=own)
        scene.read("reader", topic, group="readers")
        scene.sleep(3)
        for _ in range(2):
            freeze(scene, own, 1.5)
            scene.sleep(2)


def static_restarts(scene: Scene) -> None:
    """Static members are redeployed one by one, within their session timeouts."""
    topic = scene.topic(partitions=2)
    settings = RANGE | {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 1000}
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        for number in (1, 2):
            own = settings | {"group.instance.id": f"{scene.stem}-{number}"}
            scene.read(f"reader-{number}", topic, group="readers", settings=own)
        scene.sleep(4)
        for number in (1, 2):
            own = settings | {"group.instance.id": f"{scene.stem}-{number}"}
            scene.stop(f"{scene.stem}-reader-{number}")
            scene.sleep(1)
            scene.read(f"reader-{number}", topic, group="readers", settings=own)
            scene.sleep(3)


JAVA_OLD, JAVA_MIDDLE = "java@2.8.2", "java@3.9.1"
TINY = tuple({"count": count} for count in (1, 3, 8))
QUIETS = (
    Quiet("quiet-steady", "Two producers and a group", steady, (
        Variant(NEW, "one", views=(*PARTS, View("direction:requests"), View("cut:300"))),
        Variant(MIDDLE, "one", views=(View("sampled"), View("direction:responses"))),
        Variant(OLD, "one", views=(View("client:{stem}-reader"), View("cut:120"))),
        Variant(NEW, "one", RDKAFKA, PARTS),
        Variant(OLD, "one", JAVA_OLD),
        Variant(NEW, "one", JAVA_MIDDLE, options={"settings": KIP_848}),
        Variant(NEW, "one", options={"settings": KIP_848}, views=(View("part:0.5-1"),)),
    )),
    Quiet("quiet-others", "A producer and a group of one of other libraries", others, (
        Variant(NEW, "one", "sarama"), Variant(MIDDLE, "one", "kafkajs"),
        Variant(OLD, "one", "kafka_python"), Variant(NEW, "one", "aiokafka"),
        Variant(OLD, "one", "franz"),
    )),
    Quiet("quiet-spread", "A producer and a group on three brokers", spread, (
        Variant(NEW, "three", views=(View("broker:127.0.0.1"), View("broker:127.0.0.2"))),
        Variant(MIDDLE, "three", RDKAFKA, (View("broker:127.0.0.3"), View("client:{stem}-"))),
        Variant(OLD, "three", views=(View("broker:127.0.0.2"), View("part:0.5-1"))),
    )),
    Quiet("quiet-seldom", "A record a second", seldom, (
        Variant(NEW, "one", views=PARTS), Variant(OLD, "one", RDKAFKA), Variant(MIDDLE, "one"),
    )),
    Quiet("quiet-idle", "A group of two with nothing to read", idle, (
        Variant(NEW, "one", views=(View("part:0.5-1"),)),
        Variant(NEW, "one", options={"settings": KIP_848}),
        Variant(OLD, "one", RDKAFKA), Variant(MIDDLE, "one", JAVA_OLD),
    )),
    Quiet("quiet-tiny", "A few records", tiny, (
        Variant(NEW, "one", options=TINY[0]), Variant(OLD, "one", options=TINY[1]),
        Variant(MIDDLE, "one", options=TINY[2]), Variant(NEW, "one", RDKAFKA, options=TINY[1]),
        Variant(OLD, "one", RDKAFKA, options=TINY[0]),
    )),
    Quiet("quiet-tiny-read", "A consumer of existing records", tiny_read, (
        Variant(NEW, "one"), Variant(OLD, "one"), Variant(MIDDLE, "one", RDKAFKA),
    )),
    Quiet("quiet-scripts", "Topics created, altered and deleted by a script", scripts, (
        Variant(NEW, "one"), Variant(MIDDLE, "three"), Variant(OLD, "one"),
    )),
    Quiet("quiet-scale-out", "Members join a group and leave it", scale_out, (
        Variant(NEW, "one", views=(View("part:0.4-1"),)),
        Variant(NEW, "one", options={"settings": KIP_848}, views=(View("part:0.4-1"),)),
        Variant(OLD, "one"), Variant(MIDDLE, "one", JAVA_MIDDLE),
    )),
    Quiet("quiet-partitions", "A topic gets more partitions", partitions_added, (
        Variant(NEW, "one"), Variant(OLD, "one", RDKAFKA),
    )),
    Quiet("quiet-transactions", "Transactions that commit", transactional, (
        Variant(NEW, "one", views=PARTS), Variant(MIDDLE, "three"), Variant(OLD, "one", JAVA_OLD),
    )),
    Quiet("quiet-compacted", "A compacted topic", compacted, (
        Variant(MIDDLE, "one"), Variant(NEW, "one", RDKAFKA),
    )),
    Quiet("quiet-compressed", "Compressed batches", compressed, (
        Variant(NEW, "one", options={"codec": "zstd"}),
        Variant(OLD, "one", options={"codec": "lz4"}),
        Variant(MIDDLE, "one", RDKAFKA, options={"codec": "gzip"}),
        Variant(NEW, "one", RDKAFKA, options={"codec": "snappy"}),
    )),
    Quiet("quiet-share", "A share group that accepts all", shared, (
        Variant(NEW, "share", views=(View("part:0.5-1"), View("client:{stem}-sharer-1"))),
    )),
    Quiet("quiet-restarts", "Brokers are shut down cleanly and restarted", planned_restarts, (
        Variant(NEW, "three", views=(View("client:{stem}-"),)), Variant(MIDDLE, "three"),
    )),
    Quiet("quiet-moves", "Leaders are moved by an administrator", leaders_moved, (
        Variant(NEW, "three"), Variant(OLD, "three"),
    )),
    Quiet("quiet-logins", "Users who log in with SASL", logged_in, (
        Variant(NEW, "sasl"), Variant(OLD, "sasl", RDKAFKA),
    )),
    Quiet("quiet-deployment", "Clients are redeployed", clients_restart, (
        Variant(NEW, "one"), Variant(MIDDLE, "one", RDKAFKA), Variant(OLD, "one"),
    )),
    Quiet("quiet-catch-up", "A new group reads an old topic and catches up", catch_up, (
        Variant(NEW, "one"), Variant(OLD, "one", RDKAFKA),
    )),
    Quiet("quiet-many", "Eight producers and two groups", many_clients, (
        Variant(NEW, "one", views=(View("part:0.5-1"),)), Variant(MIDDLE, "three", RDKAFKA),
    )),
    Quiet("quiet-acks", "Metrics with acks=0 or 1", one_acks, (
        Variant(NEW, "one", options={"acks": "0"}), Variant(OLD, "one", options={"acks": "1"}),
    )),
    Quiet("quiet-patient", "Producer and reader that wait for large batches", patient, (
        Variant(NEW, "one", views=(View("client:{stem}-reader"),)),
        Variant(MIDDLE, "one", RDKAFKA, (View("part:0.3-1"),)),
    )),
    Quiet("quiet-wide", "A topic of 150 partitions", wide, (
        Variant(NEW, "one", views=(View("part:0.5-1"),)), Variant(MIDDLE, "one", RDKAFKA),
    )),
    Quiet("quiet-paused-producer", "A producer's process stands still twice", paused_producer, (
        Variant(MIDDLE, "one", views=(View("part:0.3-1"),)), Variant(NEW, "one", RDKAFKA),
    )),
    Quiet("quiet-static", "Static members are deployed anew", static_restarts, (
        Variant(NEW, "one", views=(View("part:0.3-1"),)), Variant(MIDDLE, "one"),
    )),
)  # fmt: skip
