"""Clients of all ages against a broker that still takes them, or no longer does (KIP-896)."""

from typing import Any

from tools.record.agents import parse_library
from tools.record.recording import Stage
from tools.record.scenarios.basics import coffees, short_name
from tools.record.scenarios.incidents import ADMIN

TOPIC = "coffee"
# Required to speak to brokers of 0.9, which do not report their versions.
OF_0_9 = {"api.version.request": False, "broker.version.fallback": "0.9.0"}
# So that they fail soon: of a producer, of a consumer. Old consumers require request timeouts
# longer than sessions.
IMPATIENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "java": (
        {"request.timeout.ms": 4000, "max.block.ms": 4000},
        {"request.timeout.ms": 8000, "session.timeout.ms": 6000},
    ),
    "librdkafka": ({"message.timeout.ms": 4000}, {"socket.timeout.ms": 3000}),
    "kafka_python": ({}, {}),
}


def play(stage: Stage) -> None:
    """Each client produces, consumes in a group and commits, as far as it comes."""
    stage.create_topics(ADMIN, [{"name": TOPIC, "partitions": 2}])
    stage.call("java", "open_producer", "filler")
    stage.call("java", "produce", "filler", records=coffees(TOPIC, 100, has_headers=False))
    stage.call("java", "close", "filler")
    for library in stage.options.clients:
        try_everything(stage, library, short_name(library), {})
        if parse_library(library).name == "librdkafka":
            try_everything(stage, library, "librdkafka-as-0.9", OF_0_9)


def try_everything(stage: Stage, library: str, name: str, settings: dict[str, Any]) -> None:
    """A producer, then a consumer of records of a new client; each until it fails."""
    producing, consuming = IMPATIENT[parse_library(library).name]
    writer, reader = f"{name}-writer", f"{name}-reader"
    opened = {"group": f"{name}-group", "topics": [TOPIC]}
    steps: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("open_producer", writer, {"idempotent": False, "settings": settings | producing}),
        ("produce", writer, {"records": coffees(TOPIC, 0, has_headers=False)}),
        ("open_consumer", reader, opened | {"settings": settings | consuming}),
        ("poll", reader, {"seconds": 4, "records": 6}),
        ("commit", reader, {}),
    )
    failed: set[str] = set()
    for operation, client, arguments in steps:
        if client not in failed and not succeeds(stage, library, operation, client, arguments):
            failed.add(client)
    for client in (writer, reader):
        stage.attempt(library, "close", client)


def succeeds(
    stage: Stage, library: str, operation: str, client: str, arguments: dict[str, Any]
) -> bool:
    """Return whether a client succeeded; consumers without records did not."""
    reply = stage.attempt(library, operation, client, **arguments)
    has_failed = any(event["kind"] == "errors" for event in reply.events)
    is_empty = operation == "poll" and not (reply.result or {}).get("records")
    return reply.error is None and not has_failed and not is_empty
