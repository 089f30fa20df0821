"""Members that are busy for longer than max.poll.interval.ms, and the lag that it makes."""

import time

from tools.record.recording import Stage
from tools.record.scenarios.incidents import (
    CLASSIC,
    NEW,
    Member,
    close_writer,
    join,
    open_writer,
    poll,
    write,
)

TOPIC = "clicks"
SLOW = {"max.poll.interval.ms": "3000", "session.timeout.ms": "2500"}
GROUPS = {
    "slow-java": ("java", CLASSIC | SLOW),
    "slow-librdkafka": ("librdkafka#2", CLASSIC | SLOW),
    "slow-new": ("java#2", NEW | {"max.poll.interval.ms": "3000"}),
}
BUSY_SECONDS = 5.0


def play(stage: Stage) -> None:
    """A member a group: each polls and commits, works too long, is thrown out and comes back."""
    open_writer(stage, TOPIC, 1)
    members: list[Member] = []
    for group, (library, settings) in GROUPS.items():
        members.append((library, f"{group}-1"))
        join(stage, members[-1], group, TOPIC, settings)
    write(stage, TOPIC, 1, 14.0)
    poll(stage, dict.fromkeys(members, 4.0))
    commit(stage, members)
    time.sleep(BUSY_SECONDS)
    poll(stage, dict.fromkeys(members, 4.0))
    close_writer(stage, TOPIC)
    poll(stage, dict.fromkeys(members, 1.0))
    commit(stage, members)
    for library, client in members:
        stage.call(library, "close", client)


def commit(stage: Stage, members: list[Member]) -> None:
    """Offsets that each reports as committed."""
    for library, client in members:
        stage.call(library, "commit", client)
