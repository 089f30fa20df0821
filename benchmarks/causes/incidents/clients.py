"""Incidents that a client's own settings or code make."""

from benchmarks.causes.shapes import DEAF_ADDRESS, FAR_NAME
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View

SECONDS = 8.0
NEW, MIDDLE, OLD = "4.3.1", "3.9.1", "2.8.2"
RDKAFKA = "librdkafka"


def linger_zero(scene: Scene) -> None:
    """A producer that sends each record alone, immediately."""
    topic = scene.topic(partitions=2)
    with scene.capturing(), scene.incident():
        settings = {"linger.ms": 0, "batch.size": 0} if scene.variant.library != RDKAFKA else {}
        settings |= {} if settings else {"linger.ms": 0, "batch.num.messages": 1}
        scene.write("writer", topic, every_ms=3, settings=settings)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def connection_per_message(scene: Scene) -> None:
    """A new producer for each record, as in a function that is called for each."""
    topic = scene.topic()
    with scene.capturing(), scene.incident():
        scene.write("writer", topic, every_ms=50, reopens=True, each=True)
        scene.sleep(SECONDS)


def absent_topic(scene: Scene) -> None:
    """A producer of a topic that does not exist, beside one that works."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=100)
        scene.sleep(1)
        with scene.incident():
            settings = scene.variant.options.get("settings", {})
            scene.write("lost", f"{scene.stem}-absent", settings=settings, every_ms=10)
            scene.sleep(12)


def hot_partition(scene: Scene) -> None:
    """One key has eight of ten records."""
    topic = scene.topic(partitions=4)
    with scene.capturing(), scene.incident():
        scene.write("writer", topic, every_ms=10, burst=3, size=1000, hot=8)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def too_large(scene: Scene) -> None:
    """Records beyond the topic's max.message.bytes, among others that fit."""
    topic = scene.topic(configs={"max.message.bytes": "20000"})
    with scene.capturing():
        scene.write("small", topic, every_ms=50)
        scene.sleep(1)
        with scene.incident():
            scene.write("large", topic, every_ms=300, size=50000, compressible=False, each=True)
            scene.sleep(SECONDS)


def busy_polls(scene: Scene) -> None:
    """A consumer that polls without waiting, on a topic with little data."""
    topic = scene.topic()
    library = scene.variant.library
    wait = "fetch.wait.max.ms" if library == RDKAFKA else "fetch.max.wait.ms"
    with scene.capturing(), scene.incident():
        scene.write("writer", topic, every_ms=500)
        scene.read("reader", topic, assign=[[topic, 0]], settings={wait: 0})
        scene.sleep(SECONDS)


def recompressed(scene: Scene) -> None:
    """The topic's codec differs from the producer's: the broker recompresses everything."""
    topic = scene.topic(configs={"compression.type": "gzip"})
    codec = scene.variant.options.get("codec", "none")
    with scene.capturing(), scene.incident(topic=topic):
        settings = {"compression.type": codec, "linger.ms": 50, "batch.size": 200000}
        scene.write("writer", topic, every_ms=50, burst=20, size=2000, settings=settings)
        scene.read("reader", topic, group="readers")
        scene.sleep(SECONDS)


def idle_closes(scene: Scene) -> None:
    """Producers that write less often than connections may be idle."""
    topic = scene.topic()
    with scene.capturing(), scene.incident(broker=scene.broker(1)):
        for number in range(3):
            scene.write(f"writer-{number}", topic, every_ms=4500)
        scene.sleep(22)


def deaf_listener(scene: Scene) -> None:
    """Bootstrap works; the advertised address has no listener."""
    with scene.capturing(), scene.incident(address=DEAF_ADDRESS):
        scene.write("writer", f"{scene.stem}-auto", every_ms=50)
        scene.sleep(12)


def unnamed_listener(scene: Scene) -> None:
    """Bootstrap works; the advertised name does not resolve. The client is started again."""
    with scene.capturing(), scene.incident(address=FAR_NAME):
        settings = {"max.block.ms": 1500} if scene.variant.library != RDKAFKA else {}
        topic = f"{scene.stem}-auto"
        scene.write("writer", topic, every_ms=50, reopens_after_failure=True, settings=settings)
        scene.sleep(12)


def tls_to_plain(scene: Scene) -> None:
    """A client with security.protocol=SSL at a plaintext listener."""
    topic = scene.topic()
    with scene.capturing():
        if scene.variant.options.get("has_others"):
            scene.write("other", topic, every_ms=50)
        with scene.incident(broker=scene.broker(1)):
            scene.write("writer", topic, settings={"security.protocol": "SSL"}, every_ms=50)
            scene.sleep(10)


def plain_to_tls(scene: Scene) -> None:
    """A client without TLS at a TLS listener."""
    with scene.capturing(), scene.incident(broker=scene.broker(1)):
        scene.write("writer", f"{scene.stem}-any", every_ms=50)
        scene.sleep(10)


CLIENT = "{stem}-writer"
INCIDENTS = (
    Incident(
        "linger-zero",
        "Producer {stem}-writer sends one record per request",
        ("single-record-batches",), (CLIENT,), linger_zero,
        (
            Variant(NEW, "one", views=(View("direction:requests"),)),
            Variant(OLD, "one", RDKAFKA, views=(View("part:0.5-1"),)),
        ),
        is_notice=True,
    ),
    Incident(
        "connection-per-message",
        "Client {stem}-writer opens a connection for each record",
        ("connection-churn",), (CLIENT,), connection_per_message,
        (
            Variant(MIDDLE, "one", views=(View("part:0.3-1"), View("direction:requests"))),
            Variant(NEW, "one", RDKAFKA, views=(View("part:0-0.6"),)),
        ),
        also=("metadata-storm",),
    ),
    Incident(
        "absent-topic",
        "Client {stem}-lost keeps requesting topic {stem}-absent, which does not exist",
        ("metadata-storm", "error-UNKNOWN_TOPIC_OR_PARTITION"), ("{stem}-lost", "{stem}-absent"),
        absent_topic,
        (
            Variant(OLD, "one", "java@2.8.2", (View("part:0.4-1"),),
                    {"settings": {"retry.backoff.ms": 50}}),
            Variant(NEW, "one", RDKAFKA, (View("client:{stem}-lost"),)),
        ),
        is_notice=True,
    ),
    Incident(
        "hot-partition",
        "Partition 0 of {stem} gets eight of ten records: one key is hot",
        ("partition-skew",), ("{stem}",), hot_partition,
        (
            # Requests of the newest versions have the topic's id, and its name is in responses.
            Variant(NEW, "one", RDKAFKA, (View("direction:requests", entities=()),)),
            Variant(MIDDLE, "one", views=(View("part:0-0.7"),)),
        ),
        is_notice=True,
    ),
    Incident(
        "too-large",
        "Records of {stem}-large are larger than the topic's max.message.bytes and are refused",
        ("produce-gave-up", "error-MESSAGE_TOO_LARGE"), ("{stem}-large", "MESSAGE_TOO_LARGE"),
        too_large,
        (
            Variant(MIDDLE, "one", views=(View("client:{stem}-large"), View("part:0.5-1"))),
            Variant(OLD, "one", RDKAFKA, (View("client:{stem}-large"),)),
        ),
        also=("error-RECORD_LIST_TOO_LARGE",),
    ),
    Incident(
        "busy-polls",
        "Consumer {stem}-reader fetches without waiting (fetch.max.wait.ms=0) and gets nothing",
        ("empty-polls",), ("{stem}-reader",), busy_polls,
        (
            Variant(OLD, "one", views=(View("part:0.2-0.8"),)),
            Variant(NEW, "one", views=(View("part:0.2-0.8"),)),
        ),
        is_notice=True,
    ),
    Incident(
        "recompressed",
        "The broker recompresses all of {stem}, as the topic's compression.type is gzip",
        ("broker-recompresses",), ("{stem}",), recompressed,
        (
            Variant(NEW, "one"),
            Variant(MIDDLE, "one", options={"codec": "lz4"}),
        ),
        also=("broker-slow",), is_notice=True,
    ),
    Incident(
        "idle-closes",
        "Broker {broker} closes connections that are idle for 3 s; producers that write every "
        "4.5 s reconnect each time",
        ("idle-connections-closed",), ("{broker}",), idle_closes,
        (Variant(NEW, "idle"), Variant(MIDDLE, "idle", RDKAFKA)),
        also=("connection-churn", "connections-reset"), is_notice=True,
    ),
    Incident(
        "deaf-listener",
        "The broker advertises {address}, where nothing listens: only bootstrap works",
        ("advertised-listener-unreachable", "broker-refuses-connections"), ("{address}",),
        deaf_listener,
        (
            Variant(NEW, "deaf", views=(View("part:0.2-1"),)),
            Variant(MIDDLE, "deaf", RDKAFKA),
        ),
        also=("connection-churn", "metadata-storm", "error-LEADER_NOT_AVAILABLE"),
    ),
    Incident(
        "unnamed-listener",
        "The broker advertises {address}, which clients cannot resolve: they only bootstrap",
        ("advertised-listener-unreachable",), ("{stem}-writer",), unnamed_listener,
        (Variant(NEW, "unnamed", RDKAFKA), Variant(MIDDLE, "unnamed")),
        also=("connection-churn", "metadata-storm", "error-LEADER_NOT_AVAILABLE"),
    ),
    Incident(
        "tls-to-plain",
        "A client speaks TLS to the plaintext listener {broker}, which closes its connections",
        ("tls-on-plaintext-port",), ("{broker}",), tls_to_plain,
        (
            Variant(NEW, "one", options={"has_others": True}),
            Variant(OLD, "one", RDKAFKA),
        ),
        also=("connection-churn", "connections-reset", "no-kafka"),
        false=("connections-encrypted",),
    ),
    Incident(
        "plain-to-tls",
        "A client speaks Kafka without TLS to the TLS listener {broker}, which refuses it",
        ("plaintext-on-tls-port",), ("{broker}",), plain_to_tls,
        (Variant(NEW, "tls"), Variant(MIDDLE, "tls", RDKAFKA)),
        also=("connection-churn", "connections-reset", "requests-unanswered", "no-kafka"),
        false=("connections-encrypted",),
    ),
)  # fmt: skip
