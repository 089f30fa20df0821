"""Members that go away without a word: killed, and static ones that stay away short and long."""

from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.incidents import (
    CLASSIC,
    IMPATIENT_BROKER,
    NEW,
    close_writer,
    join,
    open_writer,
    poll,
    write,
)

PARTITIONS = 4
FIRST, SECOND = "java", "java#2"
# Default minimum of brokers.
LEAST = "6000"
SMALLEST = {"session.timeout.ms": LEAST, "heartbeat.interval.ms": "500"}
KILLING = IMPATIENT_BROKER | {"group.min.session.timeout.ms": LEAST}


def play_killed(stage: Stage) -> None:
    """One of two members is killed, and the other has its partitions once the session is over."""
    kill_one(stage, "tellers", SMALLEST, 10.0)
    kill_one(stage, "tellers-new", NEW, 7.5)


def kill_one(stage: Stage, group: str, settings: dict[str, Any], seconds: float) -> None:
    """Two members share a topic; the second is killed, the first polls for so long from then on."""
    topic = f"of-{group}"
    survivor, victim = (FIRST, f"{group}-1"), (SECOND, f"{group}-2")
    open_writer(stage, topic, PARTITIONS)
    for member in (survivor, victim):
        join(stage, member, group, topic, settings)
    write(stage, topic, PARTITIONS, seconds + 5.0)
    poll(stage, {survivor: 4.0, victim: 4.0})
    stage.send(survivor[0], "poll", survivor[1], seconds=seconds, commit_each=True)
    stage.kill(*victim)
    stage.receive(survivor[0])
    stage.call(*with_operation(survivor, "close"))
    close_writer(stage, topic)


def with_operation(member: tuple[str, str], operation: str) -> tuple[str, str, str]:
    """Command to a stage for one member."""
    library, client = member
    return library, operation, client


def play_static(stage: Stage) -> None:
    """A static member comes back in time, then too late; by both protocols."""
    restart(stage, "desks", CLASSIC)
    restart(stage, "desks-new", NEW)


def restart(stage: Stage, group: str, settings: dict[str, Any]) -> None:
    """The second of two static members goes away for half a second, then for longer than its
    session.
    """
    topic = f"of-{group}"
    stays = (FIRST, f"{group}-1")
    turns = [(SECOND, f"{group}-2-{turn}") for turn in ("before", "in-time", "too-late")]
    open_writer(stage, topic, PARTITIONS)
    join(stage, stays, group, topic, settings | {"group.instance.id": "desk-1"})
    write(stage, topic, PARTITIONS, 18.0)
    second = settings | {"group.instance.id": "desk-2"}
    for turn, away in zip(turns, (0.5, 5.0, 0.0), strict=True):
        join(stage, turn, group, topic, second)
        poll(stage, {stays: 3.0, turn: 3.0})
        stage.call(*with_operation(turn, "close"))
        poll(stage, {stays: away})
    stage.call(*with_operation(stays, "close"))
    close_writer(stage, topic)
