"""Text that is made to harm: terminals, readers, spreadsheets, parsers; and messages with it."""

import random
from collections.abc import Iterator
from typing import Any

from tests.cli.test_hostile_text import BIDI, CONTROL, HARMFUL, INVISIBLE, PLAIN, STARTS
from tests.conversation import Conversation, conversation
from tests.exchange_builders import request, response
from tests.messages.record_builders import make_batch, make_record

ANSI = (
    "\x1b[2J", "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x9b31m",
    "\x1bP1$r\x1b\\", "\r\n", "\x08\x08", "\x1b[6n",
)  # fmt: skip
FORMULAS = ("=cmd|' /C calc'!A0", "@SUM(1)", "+1+1", "-2+3", '=HYPERLINK("http://x")', "\t=1")
MARKUP = (
    "[bold]", "[/]", "[link=x]", "</script>", "<img src=x>", "{0}", "%s", "${x}", "';--", '"', "\\",
    "../../x", "a,b;c\td", "|",
)  # fmt: skip
LONGEST = 30_000  # Kafka's strings have 32 767 bytes at most
Values = dict[str, Any]


def text(source: random.Random) -> str:
    """Some hostile text, now and then a very long one."""
    kinds = (CONTROL, BIDI, INVISIBLE, HARMFUL, ANSI, FORMULAS, MARKUP, STARTS, PLAIN)
    parts = [source.choice(source.choice(kinds)) for _ in range(source.randint(1, 6))]
    made = "".join(parts)
    if source.random() < 0.05:
        most = LONGEST // max(1, len(made.encode()))
        return made * source.randint(1, most)
    return made


def raw(source: random.Random, size: int) -> bytes:
    """So many bytes of hostile text, perhaps no UTF-8 at its end."""
    made = text(source).encode()
    while len(made) < size:
        made += text(source).encode()
    return made[:size]


def messages(source: random.Random) -> Iterator[tuple[bool, bytes]]:
    """Frames of exchanges of several APIs in which every name is hostile; True is of the client."""
    yield True, request("ApiVersions", 3, 1, text(source))
    yield False, response("ApiVersions", 3, 1)
    for number in range(2, source.randint(4, 20)):
        api, version, asked, answered = source.choice(EXCHANGES)(source)
        yield True, request(api, version, number, text(source), **asked)
        yield False, response(api, version, number, **answered)


def talk(source: random.Random) -> Conversation:
    """A connection with them."""
    said = conversation()
    for is_client, frame in messages(source):
        said = said.client(frame) if is_client else said.broker(frame)
    return said.close() if source.random() < 0.7 else said


def metadata(source: random.Random) -> tuple[str, int, Values, Values]:
    name = text(source)
    brokers = [{"node_id": 1, "host": text(source), "port": 9092, "rack": text(source)}]
    answered = {"cluster_id": text(source), "topics": [{"name": name}], "brokers": brokers}
    return "Metadata", 4, {"topics": [{"name": name}]}, answered


def commit(source: random.Random) -> tuple[str, int, Values, Values]:
    name = text(source)
    asked = {
        "group_id": text(source), "member_id": text(source),
        "topics": [{"name": name, "partitions": [{"committed_metadata": text(source)}]}],
    }  # fmt: skip
    answered = {"topics": [{"name": name, "partitions": [{"error_code": 25}]}]}
    return "OffsetCommit", 8, asked, answered


def coordinator(source: random.Random) -> tuple[str, int, Values, Values]:
    told = {"error_code": 15, "error_message": text(source), "host": text(source)}
    return "FindCoordinator", 3, {"key": text(source)}, told


def join(source: random.Random) -> tuple[str, int, Values, Values]:
    member = text(source)
    asked = {
        "group_id": text(source), "member_id": member, "protocol_type": text(source),
        "protocols": [{"name": text(source), "metadata": raw(source, 40)}],
    }  # fmt: skip
    answered = {
        "protocol_name": text(source), "leader": member, "member_id": member,
        "members": [{"member_id": member, "metadata": raw(source, 40)}],
    }  # fmt: skip
    return "JoinGroup", 4, asked, answered


def create(source: random.Random) -> tuple[str, int, Values, Values]:
    name = text(source)
    configs = [{"name": text(source), "value": text(source)}]
    answered = {"topics": [{"name": name, "error_code": 37, "error_message": text(source)}]}
    return "CreateTopics", 4, {"topics": [{"name": name, "configs": configs}]}, answered


def produce(source: random.Random) -> tuple[str, int, Values, Values]:
    name = text(source)
    record = make_record(text(source).encode(), text(source).encode())
    data = [{"index": 0, "records": make_batch([record])}]
    asked = {
        "transactional_id": text(source), "acks": -1,
        "topic_data": [{"name": name, "partition_data": data}],
    }  # fmt: skip
    answered = {"responses": [{"name": name, "partition_responses": [{"error_code": 2}]}]}
    return "Produce", 7, asked, answered


EXCHANGES = (metadata, commit, coordinator, join, create, produce)
