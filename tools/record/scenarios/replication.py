"""Three brokers: replication, leaders that fail over, reassignment, the controllers' traffic."""

import time
from typing import Any

from tools.record.configuration import KRAFT, Layout
from tools.record.recording import Stage
from tools.record.releases import Release
from tools.record.scenarios.basics import coffees

LAYOUT = Layout(brokers=3, controllers=3, captures_everything=True)
VOTERS_LAYOUT = Layout(controllers=3, captures_everything=True, has_joining_controllers=True)
ADMIN = "admin-java"
TOPIC = "copied"
SETTLE_SECONDS = 1.2


def properties_of(_: Release, mode: str) -> dict[str, str]:
    """Properties for three replicas, with quiet fetchers to keep the recording small."""
    properties = {
        "auto.create.topics.enable": "true",
        "default.replication.factor": "3",
        "num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "group.initial.rebalance.delay.ms": "300",
        "replica.fetch.wait.max.ms": "2000",
        "replica.lag.time.max.ms": "6000",
        "min.insync.replicas": "2",
        "controlled.shutdown.enable": "true",
    }
    if mode == KRAFT:
        properties |= {
            "broker.heartbeat.interval.ms": "1500",
            "broker.session.timeout.ms": "6000",
            "controller.quorum.fetch.timeout.ms": "4000",
            "metadata.max.idle.interval.ms": "0",
        }
    return properties


def play(stage: Stage) -> None:
    """Produce and consume while a broker and a controller come and go."""
    library = stage.options.clients[0]
    stage.create_topics(ADMIN, [{"name": TOPIC, "partitions": 2, "replication": 3}])
    stage.call("java", "describe_cluster", ADMIN)
    stage.call("java", "describe_quorum", ADMIN)
    produce(stage, library, "writer", 0)
    consume(stage, library, "reader-1")
    transact(stage, library)
    for replicas in ([3, 2], [2, 1, 3]):
        stage.call("java", "reassign", ADMIN, place=(TOPIC, 1), replicas=replicas)
        time.sleep(SETTLE_SECONDS)
    stage.call("java", "list_reassignments", ADMIN)
    lose_broker(stage, library)
    if stage.options.cluster_mode == KRAFT:
        lose_controller(stage, library)
    stage.call("java", "elect_leaders", ADMIN, type="PREFERRED")
    consume(stage, library, "reader-2")
    stage.call("java", "delete_topics", ADMIN, topics=[TOPIC])
    time.sleep(SETTLE_SECONDS)


def play_voters(stage: Stage) -> None:
    """Controllers that join the quorum one after the other; the leader leaves it for good."""
    time.sleep(SETTLE_SECONDS)
    stage.call("java", "describe_quorum", ADMIN)
    stage.create_topics(ADMIN, [{"name": TOPIC, "partitions": 1, "replication": 1}])
    stage.call("java", "describe_features", ADMIN)
    first = min(node.node_id for node in stage.cluster.nodes if node.is_controller)
    stage.call(
        "java", "remove_voter", ADMIN, node=first, directory=stage.cluster.directory_id(first)
    )
    time.sleep(SETTLE_SECONDS)
    stage.call("java", "describe_quorum", ADMIN)


def produce(stage: Stage, library: str, client: str, first: int) -> None:
    """Some records with acks of all in-sync replicas."""
    stage.call(library, "open_producer", client, idempotent=True)
    stage.call(library, "produce", client, records=coffees(TOPIC, first, has_headers=True))
    stage.call(library, "close", client)


def consume(stage: Stage, library: str, client: str) -> None:
    """A group of one."""
    member: dict[str, Any] = {"group": "copiers", "topics": [TOPIC]}
    stage.call(library, "open_consumer", client, **member)
    stage.call(library, "poll", client, seconds=5, records=6)
    stage.call(library, "commit", client)
    stage.call(library, "close", client)


def transact(stage: Stage, library: str) -> None:
    """A transaction, whose markers go from broker to broker."""
    stage.call(library, "open_producer", "tx", transactional_id="copied-id")
    for outcome, first in (("committed", 100), ("aborted", 110)):
        stage.call(library, "begin", "tx", transaction=outcome)
        stage.call(library, "produce", "tx", records=coffees(TOPIC, first, has_headers=False))
        stage.call(library, "end", "tx")
    stage.call(library, "close", "tx")


def lose_broker(stage: Stage, library: str) -> None:
    """A broker leaves politely and comes back."""
    stage.cluster.servers[3].stop()
    produce(stage, library, "writer-of-two", 200)
    stage.cluster.start_nodes([3])
    time.sleep(SETTLE_SECONDS)


def lose_controller(stage: Stage, library: str) -> None:
    """The first controller leaves; another is elected if it led; it comes back."""
    controller = min(node.node_id for node in stage.cluster.nodes if node.is_controller)
    stage.cluster.servers[controller].stop()
    time.sleep(SETTLE_SECONDS)
    stage.call("java", "describe_quorum", ADMIN)
    produce(stage, library, "writer-meanwhile", 300)
    stage.cluster.start_nodes([controller])
    time.sleep(SETTLE_SECONDS)
