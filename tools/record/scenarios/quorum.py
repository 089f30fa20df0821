"""The quorum of controllers: a snapshot of its log for a late broker, a leader that resigns."""

import time

from tools.record.configuration import Layout
from tools.record.recording import Stage
from tools.record.scenarios.replication import ADMIN, SETTLE_SECONDS

LAYOUT = Layout(brokers=2, controllers=3, captures_everything=True, late_brokers=1)
LATE_BROKER = 2
TOPICS = 40
PROPERTIES = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "1500",
    "broker.session.timeout.ms": "6000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "metadata.max.idle.interval.ms": "0",
    # 40 topics take about 8 000 bytes of the log, and as much of a snapshot.
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "controller.quorum.fetch.snapshot.max.bytes": "3000",
}


def play(stage: Stage) -> None:
    """Topics until there is a snapshot; a broker that begins with it; the leader is stopped."""
    topics = [
        {"name": f"shelf-{number}", "partitions": 2, "configs": {"retention.ms": "60000"}}
        for number in range(TOPICS)
    ]
    stage.create_topics(ADMIN, topics[: TOPICS // 2])
    stage.create_topics(ADMIN, topics[TOPICS // 2 :])
    time.sleep(SETTLE_SECONDS)
    stage.cluster.start_nodes([LATE_BROKER])
    stage.call("java", "describe_cluster", ADMIN)
    leader = leader_of(stage)
    stage.cluster.servers[leader].stop()
    time.sleep(SETTLE_SECONDS)
    leader_of(stage)
    stage.cluster.start_nodes([leader])
    time.sleep(SETTLE_SECONDS)
    stage.call("java", "delete_topics", ADMIN, topics=[topics[0]["name"]])


def leader_of(stage: Stage) -> int:
    """The controller that the quorum reports as its leader."""
    return int(stage.call("java", "describe_quorum", ADMIN).result["leader"])
