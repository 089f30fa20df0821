"""A group that rebalances for all the ordinary reasons: joins, more partitions, topics, leaves."""

from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.incidents import ADMIN, CLASSIC, NEW, Member, poll

# How long clients cache their metadata, so that they notice changes.
FRESH = {"metadata.max.age.ms": "500"}
SECONDS = 3.0


def play(stage: Stage) -> None:
    """The same by both protocols."""
    change(stage, "watchers", CLASSIC | FRESH)
    change(stage, "watchers-new", NEW | FRESH)


def change(stage: Stage, group: str, settings: dict[str, Any]) -> None:
    """One member, two, more partitions, another topic of the pattern, one member again."""
    topics = [f"{group}-{name}" for name in ("news", "sport")]
    stage.create_topics(ADMIN, [{"name": topics[0], "partitions": 2}])
    first, second = ("java#2", f"{group}-1"), ("java#3", f"{group}-2")
    opened = {"group": group, "pattern": f"{group}-.*", "settings": settings}
    for library, client in (first, second):
        stage.call(library, "open_consumer", client, **opened)
    poll(stage, {first: SECONDS})
    poll(stage, {first: SECONDS, second: SECONDS})
    change_while_polled(stage, (first, second), "create_partitions", topic=topics[0], partitions=4)
    sport = [{"name": topics[1], "partitions": 2}]
    change_while_polled(stage, (first, second), "create_topics", topics=sport)
    stage.call(second[0], "close", second[1])
    poll(stage, {first: SECONDS})
    stage.call(first[0], "close", first[1])


def change_while_polled(
    stage: Stage, members: tuple[Member, ...], operation: str, **arguments: Any
) -> None:
    """Let an administrator make a change while members poll."""
    for library, client in members:
        stage.send(library, "poll", client, seconds=SECONDS + 1)
    if operation == "create_topics":
        stage.create_topics(ADMIN, **arguments)
    else:
        stage.call("java", operation, ADMIN, **arguments)
    for library, _ in members:
        stage.receive(library)
