"""A switch that begins to lose packets on their way to the broker."""

from tools.record.configuration import Layout
from tools.record.networks import lose, switched
from tools.record.recording import Stage

LAYOUT = Layout(network=switched(), logs_client_requests=True)
TOPIC = "readings"
RECORDS = 150
LOST_PERCENT = 12
VALUE_SIZE = 300


def play(stage: Stage) -> None:
    """The same work twice: before packets are lost, and while they are."""
    stage.create_topics("admin-java", [{"name": TOPIC, "partitions": 1}])
    work(stage, "sensor-before")
    stage.act("lose", 1, lambda: lose(LOST_PERCENT))
    work(stage, "sensor-during")
    lose(0)


def work(stage: Stage, client: str) -> None:
    """A producer that waits for each answer."""
    more = {"acks": "1", "idempotent": False, "linger_ms": 0}
    stage.call("java", "open_producer", client, **more)
    records = [
        {"topic": TOPIC, "partition": 0, "key": str(number), "value": f"{number:{VALUE_SIZE}}"}
        for number in range(RECORDS)
    ]
    stage.call("java", "produce", client, records=records, each=True)
    stage.call("java", "close", client)
