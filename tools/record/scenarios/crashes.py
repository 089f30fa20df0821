"""Consumers that crash between receiving, processing and committing: records lost, repeated."""

from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.incidents import (
    CLASSIC,
    close_writer,
    open_writer,
    write,
)

VICTIM, HEIR = "java#2", "java#3"
TEN_AT_ONCE = {"max.poll.records": "10"}
AUTO = {"enable.auto.commit": "true"}
RECORDS = 40


def play(stage: Stage) -> None:
    """Three programs, each wrong in its own way, and a process that goes on for each."""
    # Commits what it was given, then works: what it had not worked on is lost.
    crash(stage, "commits-first", TEN_AT_ONCE, processed=14, commit_each=True, records=20)
    # Commits by a timer, and hands records to a thread that is behind: lost again.
    quick = TEN_AT_ONCE | AUTO | {"auto.commit.interval.ms": "300"}
    crash(stage, "auto-ahead", quick, processed=5, seconds=4.0)
    # Commits by a timer and works at once, but crashes before the timer: repeated.
    slow = TEN_AT_ONCE | AUTO | {"auto.commit.interval.ms": "60000"}
    crash(stage, "auto-behind", slow, processed=20, records=20)


def crash(
    stage: Stage, group: str, settings: dict[str, Any], processed: int, **polled: Any
) -> None:
    """A member takes records, works on the first so many, is killed; the next one goes on."""
    topic = f"of-{group}"
    open_writer(stage, topic, 1)
    settings = CLASSIC | settings
    opened = {"group": group, "topics": [topic], "settings": settings}
    stage.call(VICTIM, "open_consumer", f"{group}-1", **opened)
    write(stage, topic, 1, RECORDS / 5)
    stage.call(VICTIM, "poll", f"{group}-1", **{"seconds": 10, **polled}, processes=processed)
    stage.kill(VICTIM, f"{group}-1")
    close_writer(stage, topic)
    stage.call(HEIR, "open_consumer", f"{group}-2", **opened)
    rest = {"seconds": 4.0, "processes": RECORDS}
    stage.call(HEIR, "poll", f"{group}-2", **rest)
    stage.call(HEIR, "commit", f"{group}-2")
    stage.call(HEIR, "close", f"{group}-2")
