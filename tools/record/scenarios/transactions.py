"""Transactions of every client: committed, aborted, with a consumer's offsets; one that hangs."""

from tools.record.agents import parse_library
from tools.record.recording import FIRST_WITH_NEWEST_CLIENTS, Stage
from tools.record.scenarios.basics import PARTITIONS, coffees, settings_of, short_name

TOPIC, SOURCE = "ledger", "inbox"


def play(stage: Stage) -> None:
    """Each client's transactions, then readers of both isolation levels."""
    names = (TOPIC, SOURCE)
    stage.create_topics("admin-java", [{"name": each, "partitions": PARTITIONS} for each in names])
    for number, library in enumerate(stage.options.clients):
        transact(stage, library, number * 100)
    java = next(each for each in stage.options.clients if parse_library(each).name == "java")
    relay(stage, java)
    for isolation in ("read_committed", "read_uncommitted"):
        client = f"reader-{isolation.removeprefix('read_')}"
        places = [(TOPIC, partition, 0) for partition in range(PARTITIONS)]
        stage.call(java, "open_consumer", client, assign=places, isolation=isolation)
        stage.call(java, "poll", client, seconds=3)
        stage.call(java, "close", client)
    if stage.options.release.number >= FIRST_WITH_NEWEST_CLIENTS:
        inspect(stage, java)


def transact(stage: Stage, library: str, first: int) -> None:
    """One transaction of each outcome."""
    client = f"{short_name(library)}-tx"
    settings = settings_of(library, stage.options.release)
    named = {"codec": "gzip", "transactional_id": f"{client}-id", "settings": settings}
    stage.call(library, "open_producer", client, **named)
    for place, outcome in enumerate(("committed", "aborted", "committed")):
        stage.call(library, "begin", client, transaction=outcome)
        records = coffees(TOPIC, first + place * 10, has_headers=True)
        stage.call(library, "produce", client, records=records)
        stage.call(library, "end", client)
    stage.call(library, "close", client)


def relay(stage: Stage, java: str) -> None:
    """Consume, produce and commit the consumed offsets in one transaction."""
    stage.call(java, "open_producer", "feeder", idempotent=True)
    stage.call(java, "produce", "feeder", records=coffees(SOURCE, 0, has_headers=True))
    stage.call(java, "close", "feeder")
    stage.call(java, "open_consumer", "relay-in", group="relay", topics=[SOURCE])
    stage.call(java, "poll", "relay-in", seconds=10, records=6)
    stage.call(java, "open_producer", "relay-out", transactional_id="relay-id")
    stage.call(java, "begin", "relay-out", transaction="committed")
    stage.call(java, "produce", "relay-out", records=coffees(TOPIC, 900, has_headers=True))
    stage.call(java, "send_offsets", "relay-out", consumer="relay-in")
    stage.call(java, "end", "relay-out")
    stage.call(java, "close", "relay-out")
    stage.call(java, "close", "relay-in")


def inspect(stage: Stage, java: str) -> None:
    """Look at transactions while one is open, fence it, terminate it."""
    admin = "admin-java"
    stage.call(java, "open_producer", "hanging", transactional_id="hanging-id")
    stage.call(java, "begin", "hanging", transaction="aborted")
    stage.call(java, "produce", "hanging", records=coffees(TOPIC, 950, has_headers=False))
    stage.call("java", "list_transactions", admin)
    stage.call("java", "describe_transaction", admin, id="hanging-id")
    stage.call("java", "describe_transaction", admin, id="no-such-id")
    stage.call("java", "describe_producers", admin, place=(TOPIC, 0))
    stage.call("java", "terminate_transaction", admin, id="hanging-id")
    stage.call("java", "fence_producer", admin, id="hanging-id")
    late = coffees(TOPIC, 960, has_headers=False)
    stage.call(java, "produce", "hanging", records=late)  # fenced: every record fails
