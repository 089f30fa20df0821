"""Incidents of users: wrong passwords, missing rights, quotas."""

from typing import Any

from benchmarks.causes.incidents.clients import MIDDLE, NEW, OLD, RDKAFKA
from benchmarks.causes.stage import Scene
from benchmarks.causes.table import Incident, Variant, View
from tools.record.configuration import SECURITY, USERS

PLAIN_MODULE = f"{SECURITY}.plain.PlainLoginModule required"


def login(library: str, user: str, password: str) -> dict[str, Any]:
    """Settings of a login with SASL/PLAIN."""
    settings = {"security.protocol": "SASL_PLAINTEXT"}
    if library == RDKAFKA:
        mechanism = {"sasl.mechanisms": "PLAIN", "sasl.username": user, "sasl.password": password}
        return settings | mechanism
    jaas = f'{PLAIN_MODULE} username="{user}" password="{password}";'
    return settings | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}


def wrong_password(scene: Scene) -> None:
    """A client with a wrong password tries again and again, beside one that works."""
    topic = scene.topic()
    library = scene.variant.library
    with scene.capturing():
        good = login(library, "admin", USERS["admin"])
        scene.write("good", topic, every_ms=50, settings=good)
        scene.sleep(2)
        with scene.incident():
            wrong = login(library, "alice", "wrong-password")
            scene.write("writer", topic, settings=wrong, reopens_after_failure=True)
            scene.sleep(8)


def no_rights(scene: Scene) -> None:
    """A user without an ACL writes."""
    topic = scene.topic()
    library = scene.variant.library
    with scene.capturing():
        good = login(library, "admin", USERS["admin"])
        scene.write("good", topic, every_ms=50, settings=good)
        scene.sleep(2)
        with scene.incident():
            settings = login(library, "alice", USERS["alice"])
            if library != RDKAFKA:
                settings |= {"enable.idempotence": "false"}
            scene.write("writer", topic, settings=settings, every_ms=100)
            scene.sleep(8)


def throttled(scene: Scene) -> None:
    """A producer writes more than its quota allows."""
    topic = scene.topic(partitions=2)
    quota = scene.variant.options.get("quota", "producer_byte_rate")
    who = "writer" if quota.startswith("producer") else "reader"
    limited = f"{scene.stem}-{who}"
    scene.admin("alter_quota", client_id=limited, quota=quota, limit=60000)
    scene.sleep(1)
    with scene.capturing(), scene.incident():
        scene.write("writer", topic, every_ms=20, size=2000, compressible=False)
        scene.read("reader", topic, group="readers")
        scene.sleep(10)


INCIDENTS = (
    Incident(
        "wrong-password",
        "{stem}-writer logs in with a wrong password, repeatedly",
        ("authentication-fails",), ("{stem}-writer",), wrong_password,
        (
            Variant(NEW, "sasl", views=(View("client:{stem}-writer"), View("part:0.4-1"))),
            Variant(OLD, "sasl", RDKAFKA, (View("client:{stem}-writer"),)),
        ),
        also=("connection-churn", "connections-reset", "error-SASL_AUTHENTICATION_FAILED"),
    ),
    Incident(
        "no-rights",
        "{stem}-writer may not write to {stem}: TOPIC_AUTHORIZATION_FAILED",
        ("authorization-fails",), ("{stem}-writer",), no_rights,
        (
            Variant(NEW, "sasl", RDKAFKA, (View("client:{stem}-writer"),)),
            Variant(OLD, "sasl", views=(View("part:0.4-1"),)),
        ),
        also=("metadata-storm", "produce-gave-up"),
    ),
    Incident(
        "producer-quota",
        "Brokers throttle {stem}-writer: it writes more than its quota",
        ("throttled-by-quota",), ("{stem}-writer",), throttled,
        (
            Variant(MIDDLE, "one",
                    views=(View("direction:responses", entities=()), View("part:0.4-1"))),
            Variant(NEW, "one", RDKAFKA, (View("part:0.4-1"),)),
        ),
        also=("produce-sent-again", "broker-slow"),
    ),
    Incident(
        "consumer-quota",
        "Brokers throttle {stem}-reader: it reads more than its quota",
        ("throttled-by-quota",), ("{stem}-reader",), throttled,
        (
            Variant(NEW, "one", views=(View("client:{stem}-reader"),),
                    options={"quota": "consumer_byte_rate"}),
            Variant(OLD, "one", options={"quota": "consumer_byte_rate"}),
        ),
        also=("consumer-lag-grows", "consumer-behind"),
    ),
)  # fmt: skip
