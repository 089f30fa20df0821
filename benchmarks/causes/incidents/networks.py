"""Incidents of the network between clients and brokers, and of clients that do not read it."""

from benchmarks.causes.delays import delayed, rate_limited
from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD, RDKAFKA
from benchmarks.causes.incidents.groups import freeze
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View


def far(scene: Scene) -> None:
    """Every packet takes 40 ms each way."""
    topic = scene.topic()
    with delayed(40), scene.capturing(), scene.incident(address="10.42.0.3"):
        scene.write("writer", topic, every_ms=5, each=True)
        scene.read("reader", topic, group="readers")
        scene.sleep(14)


def lossy(scene: Scene) -> None:
    """A switch drops packets of the client."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=10, each=True, size=300)
        scene.sleep(4)
        with scene.incident(address="10.42.0.3"):
            scene.lose(12)
            scene.sleep(10)
        scene.lose(0)


def backfill(scene: Scene) -> None:
    """A consumer reads all from the start through a narrow link; others wait behind it."""
    topic, old = scene.topic(), scene.topic("old")
    scene.write("early", old, every_ms=10, burst=10, size=10000, compressible=False)
    scene.sleep(6)
    scene.stop(f"{scene.stem}-early")
    with rate_limited(1500), scene.capturing():
        scene.write("writer", topic, every_ms=20, each=True)
        scene.read("reader", topic, group="readers")
        scene.sleep(4)
        with scene.incident():
            scene.read("backfill", old, assign=[[old, 0]], library="java#other")
            scene.sleep(10)


def unread(scene: Scene) -> None:
    """A consumer's process stands still again and again while much is sent to it."""
    topic = scene.topic(partitions=4)
    victim = scene.variant.library + "#frozen"
    buffer = {"receive.buffer.bytes": 65536, "max.poll.records": 5000}
    if scene.variant.library == RDKAFKA:
        buffer = {"socket.receive.buffer.bytes": 65536}
    with scene.capturing():
        scene.write("writer", topic, every_ms=10, burst=10, size=5000, library="java")
        places = [[topic, number] for number in range(4)]
        scene.read("frozen", topic, assign=places, library=victim, settings=buffer)
        scene.sleep(3)
        with scene.incident():
            for _ in range(5):
                freeze(scene, victim, 1.0)
                scene.sleep(0.6)


INCIDENTS = (
    Incident(
        "far-client",
        "Clients at {address} are 80 ms away from the broker: the network, not the broker",
        ("round-trip-makes-latency", "network-makes-p99"), ("{address}",), far,
        (Variant(NEW, "network"), Variant(MIDDLE, "network", RDKAFKA)),
        false=("broker-slow", "broker-stalls"), is_notice=True,
    ),
    Incident(
        "lossy-link",
        "A switch loses 12 % of the packets of {stem}-writer",
        ("network-makes-p99",), ("{stem}-writer",), lossy,
        (Variant(MIDDLE, "network", views=(View("part:0.3-1"),)), Variant(NEW, "network")),
        false=("broker-slow", "broker-stalls"),
    ),
    Incident(
        "backfill",
        "{stem}-backfill reads an old topic as fast as the link allows; others wait behind it",
        ("client-fills-link", "client-dominates-traffic"), ("{stem}-backfill",), backfill,
        (Variant(NEW, "network"), Variant(MIDDLE, "network")),
        also=("network-makes-p99",), false=("broker-slow", "broker-stalls"),
    ),
    Incident(
        "receiver-pauses",
        "{stem}-frozen did not read what it was sent: its process stood still for 1 s, 5 times",
        ("receiver-does-not-read",), ("{stem}-frozen",), unread,
        (
            Variant(NEW, "one", views=(View("client:{stem}-frozen"),)),
            Variant(OLD, "one", RDKAFKA),
        ),
        false=("broker-slow", "broker-stalls"),
    ),
)  # fmt: skip
