"""Group membership: classic with rebalances and static members, KIP-848, share, streams."""

from typing import Any

from tools.record.agents import parse_library
from tools.record.recording import FIRST_WITH_NEWEST_CLIENTS, Stage
from tools.record.scenarios.basics import short_name
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

ADMIN = "admin-java"
TOPIC = "tasks"
PARTITIONS = 4
QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
ASSIGNORS = "org.apache.kafka.clients.consumer"
# (group, assignor, first client version that has it)
CLASSIC_GROUPS = (
    ("ranged", "RangeAssignor", (0, 9)),
    ("robins", "RoundRobinAssignor", (0, 9)),
    ("sticky", "StickyAssignor", (0, 11)),
    ("cooperative", "CooperativeStickyAssignor", (2, 4)),
)
FIRST_WITH_STATIC_MEMBERS = (2, 3)
SHARE_PROPERTIES = SMALL_SINGLE_BROKER | {
    "group.share.enable": "true",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.min.record.lock.duration.ms": "15000",
}


def task(number: int) -> dict[str, Any]:
    """The number-th record."""
    text = f"task {number}"
    return {"topic": TOPIC, "partition": number % PARTITIONS, "key": f"t{number}", "value": text}


def fill(stage: Stage, library: str, count: int = 24) -> None:
    """The topic with records in it."""
    stage.create_topics(ADMIN, [{"name": TOPIC, "partitions": PARTITIONS}])
    produce(stage, library, count)


def produce(stage: Stage, library: str, count: int) -> None:
    """So many records."""
    client = f"{short_name(library)}-filler"
    stage.call(library, "open_producer", client, idempotent=False)
    stage.call(library, "produce", client, records=[task(number) for number in range(count)])
    stage.call(library, "close", client)


def play_classic(stage: Stage) -> None:
    """Two members a group and assignor; then a static member that comes back."""
    library = stage.options.clients[0]
    fill(stage, library)
    for group, assignor, first in CLASSIC_GROUPS:
        if stage.options.release.number >= first:
            pair(
                stage, library, group, {"partition.assignment.strategy": f"{ASSIGNORS}.{assignor}"}
            )
    if stage.options.release.number >= FIRST_WITH_STATIC_MEMBERS:
        restart_static_member(stage, library)
    if stage.options.release.number >= FIRST_WITH_NEWEST_CLIENTS:
        administer(stage)


def pair(stage: Stage, library: str, group: str, settings: dict[str, Any]) -> None:
    """One member, then two, then one again, which commits and leaves."""
    first, second = f"{group}-1", f"{group}-2"
    membership = {"group": group, "topics": [TOPIC], "settings": QUICK | settings}
    stage.call(library, "open_consumer", first, **membership)
    stage.call(library, "poll", first, seconds=10, records=24)
    stage.call(library, "commit", first)
    stage.call(f"{library}#2", "open_consumer", second, **membership)
    poll_both(stage, library, (first, second), 3.0)
    stage.call(f"{library}#2", "close", second)
    stage.call(library, "poll", first, seconds=1.5)
    stage.call(library, "close", first)


def poll_both(stage: Stage, library: str, clients: tuple[str, str], seconds: float) -> None:
    """Two members poll at the same time; old clients block in a join until the other joins."""
    stage.send(library, "poll", clients[0], seconds=seconds)
    stage.send(f"{library}#2", "poll", clients[1], seconds=seconds)
    stage.receive(library)
    stage.receive(f"{library}#2")


def restart_static_member(stage: Stage, library: str) -> None:
    """A member with a group instance id goes away and comes back without a rebalance."""
    settings = QUICK | {"group.instance.id": "desk-7"}
    membership = {"group": "static", "topics": [TOPIC], "settings": settings}
    for turn in (1, 2):
        stage.call(library, "open_consumer", f"static-{turn}", **membership)
        stage.call(library, "poll", f"static-{turn}", seconds=4, records=24)
        stage.call(library, "commit", f"static-{turn}")
        stage.call(library, "close", f"static-{turn}")


def administer(stage: Stage) -> None:
    """Operator's commands on groups."""
    stage.call("java", "list_groups", ADMIN)
    stage.call("java", "describe_group", ADMIN, group="ranged")
    stage.call("java", "describe_group", ADMIN, group="static")
    stage.call("java", "remove_member", ADMIN, group="static", instance="desk-7")
    stage.call("java", "remove_member", ADMIN, group="static", instance="desk-8")
    stage.call("java", "group_offsets_of", ADMIN, groups=["ranged", "robins", "no-such"])
    place = (TOPIC, 1)
    stage.call("java", "alter_group_offsets", ADMIN, group="ranged", place=place, offset=2)
    stage.call("java", "delete_group_offsets", ADMIN, group="ranged", place=place)
    stage.call("java", "delete_group_offsets", ADMIN, group="no-such", place=place)
    stage.call("java", "delete_group", ADMIN, group="robins")
    stage.call("java", "close", ADMIN)


def play_consumer_groups(stage: Stage) -> None:
    """Groups of the protocol of KIP-848, one a client."""
    fill(stage, stage.options.clients[0])
    for library in stage.options.clients:
        settings: dict[str, Any] = {"group.protocol": "consumer"}
        if parse_library(library).name == "librdkafka":
            settings |= {"partition.assignment.strategy": None, "session.timeout.ms": None}
        pair_of_new(stage, library, f"{short_name(library)}-new", settings)
    stage.call("java", "describe_group", ADMIN, group=f"{short_name(stage.options.clients[0])}-new")
    stage.call("java", "list_groups", ADMIN)


def pair_of_new(stage: Stage, library: str, group: str, settings: dict[str, Any]) -> None:
    """Like `pair`, with a static member."""
    first, second = f"{group}-1", f"{group}-2"
    membership: dict[str, Any] = {"group": group, "topics": [TOPIC]}
    stage.call(library, "open_consumer", first, **membership, settings=settings)
    stage.call(library, "poll", first, seconds=10, records=24)
    stage.call(library, "commit", first)
    stage.call("java", "describe_group", ADMIN, group=group)
    static = settings | {"group.instance.id": "desk-7"}
    stage.call(f"{library}#2", "open_consumer", second, **membership, settings=static)
    poll_both(stage, library, (first, second), 12.0)
    stage.call(f"{library}#2", "close", second)
    stage.call(library, "close", first)


def play_share_groups(stage: Stage) -> None:
    """Two members of a share group: some records are released and come again, some rejected."""
    stage.create_topics(ADMIN, [{"name": TOPIC, "partitions": 2}])
    resource = {"type": "GROUP", "name": "sharers"}
    earliest = ("SET", "share.auto.offset.reset", "earliest")
    stage.call("java", "alter_config", ADMIN, **resource, changes=[earliest])
    records = [task(number) | {"partition": number % 2} for number in range(40)]
    stage.call("java", "open_producer", "filler")
    stage.call("java", "produce", "filler", records=records)
    stage.call("java", "close", "filler")
    for client in ("sharer-1", "sharer-2"):
        stage.call("java", "open_share_consumer", client, group="sharers", topics=[TOPIC])
    for seconds in (6, 2):
        stage.call("java", "share_poll", "sharer-1", seconds=seconds, records=20)
        stage.call("java", "share_poll", "sharer-2", seconds=seconds, records=20)
    stage.call("java", "describe_share_group", ADMIN, group="sharers")
    stage.call("java", "share_group_offsets", ADMIN, group="sharers")
    stage.call("java", "close", "sharer-1")
    stage.call("java", "close", "sharer-2")
    place = (TOPIC, 0)
    stage.call("java", "alter_share_group_offsets", ADMIN, group="sharers", place=place, offset=3)
    stage.call("java", "delete_share_group_offsets", ADMIN, group="sharers", topic=TOPIC)
    stage.call("java", "list_groups", ADMIN)
    stage.call("java", "delete_share_group", ADMIN, group="sharers")


def play_streams(stage: Stage) -> None:
    """A Kafka Streams program that counts, by the classic protocol."""
    _stream(stage, {}, "counters")


def play_streams_groups(stage: Stage) -> None:
    """The same by the streams protocol (KIP-1071)."""
    _stream(stage, {"group.protocol": "streams"}, "counters-new")
    stage.call("java", "describe_streams_group", ADMIN, group="counters-new")
    stage.call("java", "list_groups", ADMIN)


def _stream(stage: Stage, settings: dict[str, Any], group: str) -> None:
    library = stage.options.clients[0]
    fill(stage, "java", 12)
    stage.create_topics(ADMIN, [{"name": "counts", "partitions": 2}])
    settings = settings | {
        "auto.offset.reset": "earliest",
        "commit.interval.ms": "500",
        "replication.factor": "1",
        "state.dir": str(stage.directory / "streams"),
    }
    opened = {"group": group, "from": TOPIC, "to": "counts", "settings": settings}
    stage.call(library, "open_streams", "streams-1", seconds=6, **opened)
    more = opened | {"settings": settings | {"state.dir": str(stage.directory / "streams-2")}}
    stage.call(library, "open_streams", "streams-2", seconds=5, **more)
    produce(stage, "java", 8)
    stage.call("java", "describe_group", ADMIN, group=group)
    stage.call(library, "close", "streams-2")
    stage.call(library, "close", "streams-1")
