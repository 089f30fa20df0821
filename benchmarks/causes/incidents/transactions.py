"""Incidents of transactions."""

from typing import Any

from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View


def fight(scene: Scene) -> None:
    """Two producers with one transactional id: each fences the other and begins again."""
    topic = scene.topic()
    settings = {"transactional.id": f"{scene.stem}-till"}
    work: dict[str, Any] = {"settings": settings, "every_ms": 60, "transaction": 20}
    work["reopens_after_failure"] = True
    with scene.capturing():
        scene.write("first", topic, **work)
        scene.sleep(3)
        with scene.incident():
            scene.write("second", topic, after_failure_ms=700, **work)
            scene.sleep(10)


def aborts(scene: Scene) -> None:
    """A producer that aborts all of its transactions, beside one that commits."""
    topic = scene.topic()
    with scene.capturing():
        good = {"transactional.id": f"{scene.stem}-good"}
        scene.write("good", topic, every_ms=30, transaction=10, settings=good)
        scene.sleep(2)
        with scene.incident():
            bad = {"transactional.id": f"{scene.stem}-till"}
            scene.write("bad", topic, every_ms=30, transaction=10, settings=bad, aborts=True)
            scene.sleep(8)


def abandoned(scene: Scene) -> None:
    """A producer's process is killed within a transaction; readers wait for its time-out."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("other", topic, every_ms=50)
        committed = {"isolation.level": "read_committed"}
        scene.read("reader", topic, group="readers", settings=committed)
        scene.sleep(3)
        with scene.incident():
            victim = "java#killed"
            settings = {"transactional.id": f"{scene.stem}-till", "transaction.timeout.ms": 5000}
            payer = scene.write("payer", topic, library=victim, every_ms=30, transaction=100000,
                                settings=settings)  # fmt: skip
            scene.wait_for(payer)
            scene.sleep(2)
            scene.kill(victim)
            scene.sleep(7)


INCIDENTS = (
    Incident(
        "transactional-id-shared",
        "{stem}-first and {stem}-second use one transactional id and fence each other",
        ("transactional-id-taken-over",), ("{stem}-till",), fight,
        (
            Variant(NEW, "one", views=(View("part:0.3-1"),)),
            Variant(OLD, "one", "java@2.8.2", (View("part:0.3-1"),)),
        ),
        also=("transactions-abort", "error-PRODUCER_FENCED", "error-INVALID_PRODUCER_EPOCH",
              "error-CONCURRENT_TRANSACTIONS", "hanging-transaction", "connection-churn"),
    ),
    Incident(
        "aborted-transactions",
        "{stem}-bad aborts all of its transactions",
        ("transactions-abort",), ("{stem}-till",), aborts,
        (
            Variant(MIDDLE, "one", views=(View("client:{stem}-bad"),)),
            Variant(NEW, "one", views=(View("part:0.3-1"),)),
        ),
    ),
    Incident(
        "abandoned-transaction",
        "{stem}-payer was killed within a transaction: read_committed consumers wait for its "
        "time-out",
        ("hanging-transaction",), ("{stem}-till",), abandoned,
        (
            Variant(NEW, "one", views=(View("part:0.2-1"),)),
            Variant(MIDDLE, "one", views=(View("part:0.2-1"),)),
        ),
        also=("consumer-lag-grows",),
    ),
)  # fmt: skip
