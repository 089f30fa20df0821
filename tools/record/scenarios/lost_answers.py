"""Answers to Produce that never arrive: idempotent producers write once, others twice."""

from tools.record.configuration import BEHIND, Layout
from tools.record.recording import Stage
from tools.record.relay import Relay
from tools.record.scenarios.basics import short_name

LAYOUT = Layout(is_relayed=True, logs_client_requests=True)
TOPIC = "payments"
BEFORE, AFTER = 5, 5


def play(stage: Stage) -> None:
    """Each library with and without idempotence: the answer to its sixth record is lost."""
    relay = Relay()
    port = stage.cluster.ports.client
    relay.start(port + BEHIND, port)
    try:
        stage.create_topics("admin-java", [{"name": TOPIC, "partitions": 1}])
        for library in stage.options.clients:
            for is_idempotent in (True, False):
                pay(stage, relay, library, is_idempotent)
        stage.call("java", "open_consumer", "auditor", assign=[(TOPIC, 0, 0)])
        stage.call("java", "poll", "auditor", seconds=2)
        stage.call("java", "close", "auditor")
    finally:
        relay.stop()


def pay(stage: Stage, relay: Relay, library: str, is_idempotent: bool) -> None:
    """A producer that sends its records one by one."""
    client = f"{short_name(library)}-{'idempotent' if is_idempotent else 'plain'}"
    more = {"idempotent": is_idempotent, "acks": "all", "linger_ms": 0}
    stage.call(library, "open_producer", client, **more)

    def produce(first: int, count: int) -> None:
        records = [
            {"topic": TOPIC, "partition": 0, "key": client, "value": f"pay {number} to the baker"}
            for number in range(first, first + count)
        ]
        stage.call(library, "produce", client, records=records, each=True)

    produce(0, BEFORE)
    relay.swallow(client)
    produce(BEFORE, 1)
    produce(BEFORE + 1, AFTER)
    stage.call(library, "close", client)
