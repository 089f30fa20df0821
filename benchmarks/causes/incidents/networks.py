"""Incidents of the network between clients and brokers, and of clients that do not read it."""

from benchmarks.causes.delays import delayed, rate_limited
from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD, RDKAFKA
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View


def far(scene: Scene) -> None:
    """Every packet takes 40 ms each way, or as long as the variant specifies."""
    topic = scene.topic()
    with (
        delayed(scene.variant.options.get("delay_ms", 40)),
        scene.capturing(),
        scene.incident(address="10.42.0.3"),
    ):
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
    """Consumers read all from the start through a narrow link; others wait behind them."""
    topic, old = scene.topic(), scene.topic("old")
    scene.write("early", old, every_ms=10, burst=10, size=10000, compressible=False)
    scene.sleep(6)
    scene.stop(f"{scene.stem}-early")
    with rate_limited(800), scene.capturing():
        scene.write("writer", topic, every_ms=20, each=True)
        scene.read("reader", topic, group="readers")
        scene.sleep(4)
        with scene.incident():
            for number in range(4):
                settings = {"receive.buffer.bytes": 200000}
                scene.read(f"backfill-{number}", old, assign=[[old, 0]], library="java#other",
                           settings=settings)  # fmt: skip
            scene.sleep(10)


def unread(scene: Scene) -> None:
    """A consumer that reads its socket only when it polls, and works long between polls."""
    topic = scene.topic()
    early = scene.write("early", topic, every_ms=10, burst=25, size=2000, count=10000)
    scene.sleep(7)
    scene.stop(early)
    settings = {"receive.buffer.bytes": 65536, "max.poll.records": 500}
    with scene.capturing(), scene.incident():
        scene.write("writer", topic, every_ms=50)
        scene.read("reader", topic, assign=[[topic, 0]], process_ms=700, settings=settings, seek=0)
        scene.sleep(12)


INCIDENTS = (
    Incident(
        "far-client",
        "Clients at {address} are far from the broker: the network is slow, not the broker",
        ("round-trip-makes-latency", "network-makes-p99"), ("{address}",), far,
        (
            Variant(NEW, "network"),
            Variant(MIDDLE, "network", RDKAFKA),
            Variant(MIDDLE, "network", options={"delay_ms": 75}),
        ),
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
        "{stem}-backfill-0 to -3 read an old topic as fast as the link allows; other clients wait",
        ("client-fills-link", "client-dominates-traffic"), ("{stem}-backfill",), backfill,
        (Variant(NEW, "network"), Variant(MIDDLE, "network")),
        also=("network-makes-p99",), false=("broker-slow", "broker-stalls"),
    ),
    Incident(
        "receiver-stops-reading",
        "{stem}-reader does not read from its connection between polls: its receive window is full",
        ("receiver-does-not-read",), ("{stem}-reader",), unread,
        (
            Variant(NEW, "one", views=(View("client:{stem}-reader"), View("part:0.3-1"))),
            Variant(OLD, "one", "java@2.8.2", (View("client:{stem}-reader"),)),
        ),
        also=("consumer-lag-grows",), false=("broker-slow", "broker-stalls"),
    ),
)  # fmt: skip
