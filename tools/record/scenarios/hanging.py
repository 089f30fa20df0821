"""Transactions that are never ended: of a killed producer, and of a zombie that is fenced."""

import time
from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER
from tools.record.scenarios.incidents import close_writer, open_writer, write

TOPIC = "ledger"
# How often the coordinator looks for timed-out transactions: every 10 s by default.
PROPERTIES = SMALL_SINGLE_BROKER | {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"
}
TIMEOUT = {"transaction.timeout.ms": "4000"}
READERS = (("java#2", "committed"), ("java#3", "uncommitted"))
SECONDS = 10.0


def play(stage: Stage) -> None:
    """Readers of both isolation levels look on while a transaction hangs."""
    open_writer(stage, TOPIC, 1)
    for library, level in READERS:
        opened = {"group": f"read-{level}", "topics": [TOPIC], "isolation": f"read_{level}"}
        settings = {"session.timeout.ms": "6000"}
        stage.call(library, "open_consumer", f"reader-{level}", **opened, settings=settings)
    stage.call("java#4", "open_producer", "payer", transactional_id="till", settings=TIMEOUT)
    write(stage, TOPIC, 1, SECONDS)
    for library, level in READERS:
        stage.send(library, "poll", f"reader-{level}", seconds=SECONDS + 2.0, commit_each=True)
    time.sleep(2.0)
    pay(stage, "java#4", "payer", 100, "committed")
    begin(stage, "java#4", "payer", 110, "aborted")
    stage.kill("java#4", "payer")
    for library, _ in READERS:
        stage.receive(library)
    close_writer(stage, TOPIC)
    replace(stage)
    for library, level in READERS:
        stage.call(library, "poll", f"reader-{level}", seconds=2.0, commit_each=True)
        stage.call(library, "close", f"reader-{level}")


def replace(stage: Stage) -> None:
    """A second process takes over the transactional id; the first, which lives, is fenced."""
    stage.call("java", "open_producer", "zombie", transactional_id="drawer")
    begin(stage, "java", "zombie", 200, "aborted")
    stage.call("java#2", "open_producer", "heir", transactional_id="drawer")
    pay(stage, "java#2", "heir", 210, "committed")
    stage.call("java", "produce", "zombie", records=payments(220))
    stage.attempt("java", "end", "zombie")
    stage.call("java", "close", "zombie")
    stage.call("java#2", "close", "heir")


def pay(stage: Stage, library: str, client: str, first: int, outcome: str) -> None:
    """One whole transaction."""
    begin(stage, library, client, first, outcome)
    stage.call(library, "end", client)


def begin(stage: Stage, library: str, client: str, first: int, outcome: str) -> None:
    """A transaction that is not ended; `outcome` is its final state."""
    stage.call(library, "begin", client, transaction=outcome)
    stage.call(library, "produce", client, records=payments(first))


def payments(first: int) -> list[dict[str, Any]]:
    """Three records."""
    return [
        {"topic": TOPIC, "partition": 0, "key": None, "value": f"payment {number}"}
        for number in range(first, first + 3)
    ]
