"""Incidents of share groups."""

from benchmarks.causes.incidents.clients import NEW
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View


def released(scene: Scene) -> None:
    """A member that releases its records: they are redelivered up to the delivery limit."""
    topic = scene.topic(partitions=scene.variant.options.get("partitions", 1))
    with scene.capturing(), scene.incident():
        scene.share("releasing", topic, group="jobs", answer="RELEASE", process_ms=20)
        scene.sleep(3)
        scene.write("writer", topic, every_ms=50)
        scene.sleep(10)


def stuck(scene: Scene) -> None:
    """A member that takes records and neither acknowledges nor releases them."""
    topic = scene.topic(partitions=scene.variant.options.get("partitions", 1))
    with scene.capturing():
        scene.share("good", topic, group="jobs", own="java#other")
        scene.sleep(3)
        scene.write("writer", topic, every_ms=50)
        scene.sleep(2)
        with scene.incident():
            scene.share("stuck", topic, group="jobs", answer="NONE", hold_ms=6000)
            scene.sleep(13)


INCIDENTS = (
    Incident(
        "share-released",
        "Share group {stem}-jobs receives the same records again: {stem}-releasing releases them",
        ("share-group-redelivers",), ("{stem}-jobs",), released,
        (
            Variant(NEW, "share", views=(View("part:0.4-1"),)),
            Variant(NEW, "share", options={"partitions": 3}),
        ),
        also=("records-delivered-again",), is_notice=True,
    ),
    Incident(
        "share-member-stuck",
        "{stem}-stuck holds records of share group {stem}-jobs until their locks end: they are "
        "delivered again",
        ("share-member-stuck", "share-group-redelivers", "error-INVALID_RECORD_STATE"),
        ("{stem}-stuck",), stuck,
        (
            Variant(NEW, "share", views=(View("client:{stem}-stuck"),)),
            Variant(NEW, "share", options={"partitions": 2}),
        ),
        also=("records-delivered-again",),
        is_notice=True,
    ),
)  # fmt: skip
