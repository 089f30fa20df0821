"""Incidents of settings that brokers refuse, and of limits that they keep."""

from typing import Any

from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD, RDKAFKA
from benchmarks.causes.incidents.groups import CLASSIC, RANGE
from benchmarks.causes.incidents.security import login
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View
from tools.record.configuration import USERS


def shared_instance(scene: Scene) -> None:
    """Two members have one group.instance.id; each is started again when the other fenced it."""
    topic = scene.topic(partitions=2)
    settings = CLASSIC | RANGE | {"group.instance.id": f"{scene.stem}-desk"}
    members = [(f"desk-{number}", f"{scene.variant.library}#{number}") for number in (1, 2)]
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        scene.read(members[0][0], topic, group="crew", library=members[0][1], settings=settings)
        scene.sleep(4)
        with scene.incident():
            for turn in range(1, 5):
                who, library = members[turn % 2]
                if turn > 1:
                    scene.stop(f"{scene.stem}-{who}")
                scene.read(who, topic, group="crew", library=library, settings=settings)
                scene.sleep(3)


def long_transactions(scene: Scene) -> None:
    """A transactional producer requests a longer timeout than brokers allow."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("good", topic, every_ms=50)
        scene.sleep(1)
        with scene.incident():
            settings = {
                "transactional.id": f"{scene.stem}-till", "transaction.timeout.ms": 3_600_000,
                "delivery.timeout.ms": 3_600_000,
            }  # fmt: skip
            scene.write("payer", topic, every_ms=50, transaction=10, settings=settings,
                        reopens_after_failure=True, after_failure_ms=500)  # fmt: skip
            scene.sleep(8)


def long_sessions(scene: Scene) -> None:
    """A member requests a longer session than brokers allow."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        with scene.incident():
            settings = {"session.timeout.ms": 7_200_000, "max.poll.interval.ms": 7_200_000}
            settings |= {} if scene.variant.library == RDKAFKA else {"request.timeout.ms": 5000}
            scene.read("reader", topic, group="crew", settings=settings)
            scene.sleep(8)


def full_group(scene: Scene) -> None:
    """A group has as many members as brokers allow (two), and a third wants to join."""
    topic = scene.topic(partitions=4)
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        for number in (1, 2):
            scene.read(f"member-{number}", topic, group="crew", settings=CLASSIC | RANGE)
        scene.sleep(3)
        with scene.incident():
            scene.read("third", topic, group="crew", settings=CLASSIC | RANGE)
            scene.sleep(7)


def connection_limit(scene: Scene) -> None:
    """An address has as many connections as a broker allows; others are closed immediately."""
    topic = scene.topic()
    with scene.capturing():
        scene.write("writer", topic, every_ms=50)
        scene.sleep(2)
        with scene.incident(broker=scene.broker(1)):
            for number in range(14):  # librdkafka keeps one connection each
                scene.write(f"more-{number}", topic, every_ms=200)
            scene.sleep(8)


def denied_group(scene: Scene) -> None:
    """A user without an ACL for the group that the client names."""
    topic = scene.topic()
    library = scene.variant.library
    with scene.capturing():
        good = login(library, "admin", USERS["admin"])
        scene.write("good", topic, every_ms=50, settings=good)
        scene.sleep(2)
        with scene.incident():
            settings: dict[str, Any] = login(library, "alice", USERS["alice"])
            scene.read("reader", topic, group="crew", settings=settings)
            scene.sleep(8)


CREW = "{stem}-crew"
INCIDENTS = (
    Incident(
        "shared-instance-id",
        "{stem}-desk-1 and {stem}-desk-2 have one group.instance.id and fence each other",
        ("error-FENCED_INSTANCE_ID",), ("{stem}-desk",), shared_instance,
        (
            Variant(NEW, "one", views=(View("part:0.3-1"),)),
            Variant(MIDDLE, "one", "java@3.9.1", (View("part:0.3-1"),)),
        ),
        also=("rebalance-storm", "rebalance-stops-group", "session-timeout",
              "error-UNKNOWN_MEMBER_ID"),
    ),
    Incident(
        "transaction-timeout-refused",
        "{stem}-payer asks for a transaction.timeout.ms of an hour, brokers allow a quarter of it",
        ("error-INVALID_TRANSACTION_TIMEOUT",), ("{stem}-payer",), long_transactions,
        (
            Variant(NEW, "one", views=(View("client:{stem}-payer"),)),
            Variant(OLD, "one", "java@2.8.2", (View("part:0.4-1"),)),
        ),
        also=("connection-churn",),
    ),
    Incident(
        "session-timeout-refused",
        "{stem}-reader asks for a session of two hours, brokers allow half an hour",
        ("error-INVALID_SESSION_TIMEOUT",), ("{stem}-reader",), long_sessions,
        (
            Variant(MIDDLE, "one", views=(View("client:{stem}-reader"),)),
            Variant(OLD, "one", "java@2.8.2", (View("part:0.3-1"),)),
        ),
    ),
    Incident(
        "group-full",
        "{stem}-third cannot join {stem}-crew: brokers allow two members (group.max.size)",
        ("error-GROUP_MAX_SIZE_REACHED",), ("{stem}-third",), full_group,
        (
            Variant(NEW, "limits", views=(View("client:{stem}-third"),)),
            Variant(MIDDLE, "limits", views=(View("part:0.3-1"),)),
        ),
        also=("rebalance-stops-group",),
    ),
    Incident(
        "connection-limit",
        "{broker} closes connections beyond max.connections.per.ip at once",
        ("connections-reset", "broker-refuses-connections"), ("{broker}",), connection_limit,
        (Variant(NEW, "limits"), Variant(MIDDLE, "limits", RDKAFKA)),
        also=("connection-churn",),
        false=("tls-on-plaintext-port", "advertised-listener-unreachable"),
    ),
    Incident(
        "group-denied",
        "{stem}-reader may not read in group {stem}-crew: GROUP_AUTHORIZATION_FAILED",
        ("authorization-fails",), ("{stem}-reader",), denied_group,
        (
            Variant(OLD, "sasl", views=(View("client:{stem}-reader"),)),
            Variant(NEW, "sasl", RDKAFKA, (View("part:0.4-1"),)),
        ),
    ),
)  # fmt: skip
