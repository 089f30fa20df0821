"""Bodies are the same wherever in the capture a topic id gets its name."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.cli.program import run
from kdissect.dissection.dissector import Dissector
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.topic_name_resolution import EXCHANGE_SIZE
from kdissect.limits import Limits
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.conversation import Conversation, conversation
from tests.exchange_builders import ORDERS, PAYMENTS, request, response
from tests.messages.record_builders import make_batch, make_record

# An offset of the group "workers" for orders-3: key version 1, value version 0.
COMMIT = make_record(
    b"\0\1" + b"\0\7workers" + b"\0\6orders" + b"\0\0\0\3",
    b"\0\0" + b"\0\0\0\0\0\0\0\x2a" + b"\0\1m" + bytes(8),
)
OFFSETS_ID, OTHER_ID = ORDERS, PAYMENTS


def fetch(number: int, topic_id: Any = OFFSETS_ID) -> tuple[bytes, bytes]:
    partitions = [{"partition_index": 0, "records": make_batch([COMMIT])}]
    topic = {"topic_id": topic_id, "partitions": partitions}
    return request("Fetch", 13, number), response("Fetch", 13, number, responses=[topic])


def heartbeat(number: int) -> tuple[bytes, bytes]:
    return request("Heartbeat", 4, number), response("Heartbeat", 4, number)


def named(number: int, name: str = "__consumer_offsets") -> tuple[bytes, bytes]:
    topics = [{"topic_id": OFFSETS_ID, "name": name}]
    return request("Metadata", 12, number), response("Metadata", 12, number, topics=topics)


def talk_of(*pairs: tuple[bytes, bytes]) -> Conversation:
    talk = conversation().open()
    for asked, answered in pairs:
        talk = talk.client(asked).broker(answered)
    return talk.close()


def bodies(talk: Conversation, waiting_limit: int) -> tuple[list[Any], Dissector]:
    """The responses in the rows of bodies, in order."""
    exchanges = Exchanges()
    exchanges.keeps_frames = True
    tables = frozenset({"bodies", "problems"})
    limits = Limits(name_wait_bytes=waiting_limit)
    dissector = Dissector(exchanges, tables, True, limits=limits)
    dissector.feed(list(talk.packets()))
    dissector.finish()
    builder = BatchBuilder(TABLES["bodies"], ["talk.pcap"], exchanges.names)
    rows = builder.batch(dissector.take_rows("bodies")).to_pylist()
    return [json.loads(row["response"]) for row in rows], dissector


def opened_keys(responses: list[Any]) -> list[Any]:
    return [
        record["key"]["group"] if isinstance(record["key"], dict) else "bytes"
        for body in responses
        for topic in body.get("responses", ())
        for partition in topic["partitions"]
        for batch in partition["records"]
        for record in batch["records"]
    ]


def saved(talk: Conversation, directory: Path) -> str:
    path = directory / "talk.pcap"
    path.write_bytes(talk.pcap())
    return str(path)


def read_bodies(talk: Conversation, directory: Path) -> list[tuple[str, Any]]:
    rows = (
        kdissect.read(saved(talk, directory), table="bodies", payload=True).to_arrow().to_pylist()
    )
    return [(row["api"], json.loads(row["response"])) for row in rows]


def test_a_late_name_decodes_delayed_records_in_order(tmp_path: Path) -> None:
    steps = [fetch(1), heartbeat(2), fetch(3), named(4), heartbeat(5), fetch(6)]
    late = read_bodies(talk_of(*steps), tmp_path)
    assert [api for api, _ in late] == [
        "Fetch", "Heartbeat", "Fetch", "Metadata", "Heartbeat", "Fetch",
    ]  # fmt: skip
    early = read_bodies(talk_of(named(4), *(step for step in steps if step != named(4))), tmp_path)
    assert sorted(map(repr, late)) == sorted(map(repr, early))
    assert opened_keys([body for _, body in late]) == ["workers"] * 3


@pytest.mark.parametrize("waits", ["last", "first"])
def test_a_name_that_never_comes_ends_the_wait_with_the_capture(waits: str, tmp_path: Path) -> None:
    steps = [fetch(1), heartbeat(2)] if waits == "first" else [heartbeat(1), fetch(2)]
    found = read_bodies(talk_of(*steps), tmp_path)
    assert [api for api, _ in found] == (
        ["Fetch", "Heartbeat"] if waits == "first" else ["Heartbeat", "Fetch"]
    )
    (topic,) = next(body for api, body in found if api == "Fetch")["responses"]
    (record,) = topic["partitions"][0]["records"][0]["records"]
    assert "workers" in record["key"]


def test_delayed_exchanges_are_bounded_and_late_names_of_own_topics_are_a_problem() -> None:
    steps = [fetch(1), heartbeat(2), heartbeat(3), named(4), fetch(5)]
    enough, dissector = bodies(talk_of(*steps), waiting_limit=1 << 20)
    assert opened_keys(enough) == ["workers"] * 2
    assert dissector.sink.problem_counts == {}
    late, dissector = bodies(talk_of(*steps), waiting_limit=EXCHANGE_SIZE * 2)
    assert opened_keys(late) == ["bytes", "workers"]
    assert dissector.sink.first_problem is not None
    assert (dissector.sink.problem_counts, dissector.sink.first_problem.message) == (
        {"late-topic-name": 1},
        "records of __consumer_offsets in 1 exchanges not opened: its name came too late",
    )
    other = [fetch(1), heartbeat(2), heartbeat(3), named(4, "orders")]
    assert bodies(talk_of(*other), waiting_limit=0)[1].sink.problem_counts == {}
    assert bodies(talk_of(fetch(1, OTHER_ID)), waiting_limit=0)[1].sink.problem_counts == {}


def test_delayed_exchanges_are_released_in_turn() -> None:
    steps = [fetch(1), *(heartbeat(number) for number in range(2, 50)), named(50), heartbeat(51)]
    exchanges = Exchanges()
    exchanges.keeps_frames = True
    dissector = Dissector(exchanges, frozenset({"bodies"}))
    held = []
    for packet in talk_of(*steps).packets():
        dissector.feed([packet])
        held.append(len(dissector.waiting.waiting()))
    assert max(held) == 49
    assert (dissector.waiting.queue, dissector.waiting.size) == ([], 0)
    assert dissector.sink.tables["bodies"].count == 51


def test_exchanges_of_the_library_and_json_wait_and_text_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(talk_of(fetch(1), heartbeat(2), named(3)), tmp_path)
    assert opened_keys([exchange.response for exchange in kdissect.dissect(path)]) == ["workers"]
    assert run(["show", path, "--format", "jsonl", "--payload"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert opened_keys([line["response"] for line in shown]) == ["workers"]
    dissection = kdissect.api.dissected.Dissection(path, waits=False)
    first = next(iter(dissection))
    assert first.api == "Fetch"


HELD = """
import sys
from kdissect.dissection.dissector import Dissector
from kdissect.exchanges.pairing import Exchanges
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.test_late_names import fetch, named, talk_of

dissector = Dissector(Exchanges(), frozenset({"partitions"}))
dissector.feed(list(talk_of(fetch(1), fetch(2), named(3)).packets()))
dissector.finish()
builder = BatchBuilder(TABLES["partitions"], ["talk.pcap"], {})
made = builder.batch(dissector.take_rows("partitions"))
builder.names = dissector.exchanges.names
held = builder.finish()
print(made.num_rows, [batch["topic"].to_pylist() for batch in held], "pandas" in sys.modules)
"""


def test_rows_that_wait_for_a_name_do_not_wait_for_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    assert done.stdout == "0 [['__consumer_offsets', '__consumer_offsets']] False\n"
