"""Heartbeats that repeat: each gives the events that it gives when it is all there is."""

import random
import uuid
from typing import Any, NamedTuple

from tests.conversation import Conversation, conversation
from tests.exchange_builders import found_in, request, response
from tests.seeds import SEED

KINDS = 12
NEWS = ("subscribed_topic_names", "topic_partitions")
REPEATED = 8  # times, each kind
COLUMNS = (
    "event", "group_id", "member_id", "generation", "subscription", "assignment", "error_code",
)  # fmt: skip


class Kind(NamedTuple):
    """A heartbeat except for its correlation id; `told` is its response, if there is one."""

    asked: dict[str, Any]
    told: dict[str, Any] | None


def drawn(draw: random.Random) -> Kind:
    """A heartbeat, most probably one without news."""
    owned = [{"topic_id": uuid.UUID(int=1), "partitions": [draw.randrange(2)]}]
    asked = {
        "member_id": draw.choice("ab"),
        "member_epoch": draw.choice([-1, 0, 1, 1, 1]),
        "subscribed_topic_names": draw.choice([None, None, None, ["news"]]),
        "topic_partitions": draw.choice([None, None, None, owned]),
    }
    told = {
        "error_code": draw.choice([0, 0, 0, 25]),
        "member_epoch": draw.choice([1, 1, 1, 2]),
        "assignment": draw.choice([None, None, None, {"topic_partitions": []}]),
    }
    return Kind(asked, told if draw.random() < 0.9 else None)


def talked(kinds: list[Kind]) -> Conversation:
    talk = conversation().open()
    for number, (asked, told) in enumerate(kinds, 1):
        ask = request("ConsumerGroupHeartbeat", 0, number, group_id="g", **asked)
        talk = talk.client(ask)
        if told is not None:
            talk = talk.broker(response("ConsumerGroupHeartbeat", 0, number, **told))
    return talk.close()


def test_a_repeated_heartbeat_gives_the_events_that_it_gives_alone() -> None:
    draw = random.Random(f"{SEED} heartbeats")
    steady = Kind(
        {"member_id": "a", "member_epoch": 1, **dict.fromkeys(NEWS)},
        {"error_code": 0, "member_epoch": 1, "assignment": None},
    )
    kinds = [steady, *(drawn(draw) for _ in range(KINDS))]
    alone = [found_in(talked([kind])).columns(*COLUMNS, table="members") for kind in kinds]
    assert alone[0] == []
    places = draw.sample(range(len(kinds)), counts=[REPEATED] * len(kinds), k=REPEATED * len(kinds))
    found = found_in(talked([kinds[place] for place in places]))
    expected = [event for place in places for event in alone[place]]
    assert found.columns(*COLUMNS, table="members") == expected
