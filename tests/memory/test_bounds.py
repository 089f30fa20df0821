"""State left by several messages is bounded, and evictions are reported."""

import io
import lzma
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect import Limits, Options, Run
from kdissect.dissection.dissector import CONNECTION_BYTES, Dissector
from kdissect.dissection.exchange_writer import EXCHANGE_BYTES
from kdissect.dissection.row_sink import ROWS_LIMIT
from kdissect.exchanges.connection_state import ConnectionState, TopicPositions
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.fetches import FetchSessions
from kdissect.exchanges.memory_budget import MemoryBudget
from kdissect.exchanges.pairing import Exchanges
from kdissect.exchanges.sasl import LONGEST_KEPT, MAX_TOKEN_SIZE, Login, user_of
from kdissect.exchanges.topic_name_resolution import held_size
from kdissect.messages.partitions import NO_ID, Partition, partitions_of
from kdissect.messages.request_fields import RequestFields
from kdissect.packets.segment import SYN
from kdissect.streams.events import Connection
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.rows import ExchangeRows, PartitionRows
from kdissect.tables.schemas import TABLES
from kdissect.tables.writers import ROW_GROUP_SIZE, ParquetFile
from tests.capture.test_compressed import read_all
from tests.conversation import conversation
from tests.exchange_builders import Found, found_in, request, response
from tests.packets.builders import make_flow, make_tcp_packet

LONG = "n" * (LONGEST_KEPT + 1)
WHOLE = "n" * LONGEST_KEPT
FLOW = make_flow("10.0.0.1", "10.0.0.9", 50_000, 9092)
CUT = WHOLE + "\u2026"


def told(found: Found, kind: str) -> list[str]:
    return [text for one, text in found.columns("kind", "message", table="problems") if one == kind]


# Fetch sessions


def fetches(count: int, partitions: int) -> Any:
    """Incremental fetches of a session, each of which names new partitions."""
    talk = conversation()
    for number in range(count):
        first = number * partitions
        rows = [{"partition": first + one, "fetch_offset": 5} for one in range(partitions)]
        session = {"session_id": 7 if number else 0, "session_epoch": number}
        topics = [{"topic": "orders", "partitions": rows}]
        talk = talk.client(request("Fetch", 11, number, topics=topics, **session))
        talk = talk.broker(response("Fetch", 11, number, session_id=7))
    return talk


def test_positions_of_fetch_sessions_are_forgotten_when_they_take_too_much() -> None:
    stage = Exchanges(decoded_bytes=24_000)
    found = found_in(fetches(20, 100), stage)
    assert len(told(found, "session-limit")) == 2  # 24 bytes each, of 2000: after 1000 and 2000
    assert [row["outcome"] for row in found.rows] == ["answered"] * 20


def test_positions_that_only_responses_name_are_counted() -> None:
    talk = conversation()
    for number in range(20):
        rows = [{"partition_index": number * 100 + one} for one in range(100)]
        topics = [{"topic": "orders", "partitions": rows}]
        session = {"session_id": 7 if number else 0, "session_epoch": number}
        talk = talk.client(request("Fetch", 11, number, **session))
        talk = talk.broker(response("Fetch", 11, number, session_id=7, responses=topics))
    assert told(found_in(talk, Exchanges(decoded_bytes=24_000)), "session-limit") != []


def test_positions_that_fit_are_counted_and_stay() -> None:
    sessions = FetchSessions(max_size=1000)
    state = ConnectionState(Connection(0, 0, FLOW, 0, 1))
    state.positions = {"orders": TopicPositions()}
    state.positions["orders"].add(3, 10, 20)
    sessions.note(1000, 1)
    assert sessions.has_too_many()
    assert not sessions.count([state])
    assert not sessions.has_too_many()
    assert state.positions["orders"].place(3, 0) == 0


# Names


def test_names_of_software_are_cut_and_told() -> None:
    names = {"client_software_name": LONG, "client_software_version": WHOLE}
    talk = conversation().client(request("ApiVersions", 3, 1, **names))
    found = found_in(talk.broker(response("ApiVersions", 3, 1)))
    assert found.columns(*names, table="connections") == [(CUT, WHOLE)]
    assert told(found, "decoded-limit") == [
        f"the name of the client's software is cut to {LONGEST_KEPT} characters"
    ]


def test_a_mechanism_that_no_name_is_allowed_to_be_is_not_kept() -> None:
    login = Login()
    login.begin(LONG, True)
    assert login.mechanism == ""


@pytest.mark.parametrize("version", [0, 1])
def test_a_user_is_cut_and_told(version: int) -> None:
    token = f"\0{LONG}\0secret".encode()
    talk = conversation().client(request("SaslHandshake", version, 1, mechanism="PLAIN"))
    talk = talk.broker(response("SaslHandshake", version, 1))
    if version == 0:
        talk = talk.client(struct.pack(">i", len(token)) + token).broker(bytes(4))
    else:
        talk = talk.client(request("SaslAuthenticate", 1, 2, auth_bytes=token))
        talk = talk.broker(response("SaslAuthenticate", 1, 2))
    found = found_in(talk)
    assert found.column("sasl_user", table="connections") == [CUT]
    assert told(found, "decoded-limit") == [
        f"the name of the user is cut to {LONGEST_KEPT} characters"
    ]


def test_a_user_of_wide_characters_is_cut_at_the_same_length() -> None:
    login = Login()
    login.begin("PLAIN", True)
    login.send_raw(b"\0" + "\U0001f600".encode() * LONGEST_KEPT + b"\0secret")
    assert login.user == "\U0001f600" * LONGEST_KEPT
    login.send_raw(b"\0" + "\U0001f600".encode() * (LONGEST_KEPT + 9) + b"\0secret")
    assert login.user == "\U0001f600" * LONGEST_KEPT + "\u2026"


def test_a_token_that_no_broker_takes_names_no_user() -> None:
    start = b"\0anna\0"
    room = MAX_TOKEN_SIZE - len(start)
    assert user_of("PLAIN", start + b"x" * room) == "anna"
    assert user_of("PLAIN", start + b"x" * (room + 1)) == ""


def test_a_connection_keeps_no_long_client_id() -> None:
    for client, kept in (("c", "c"), (WHOLE, WHOLE), (LONG, None)):
        stage = Exchanges()
        dissector = Dissector(stage, frozenset(TABLES), collects=True)
        talk = conversation()
        for number, one in enumerate(("c", client)):
            talk = talk.client(request("ListGroups", 0, number, one))
            talk = talk.broker(response("ListGroups", 0, number))
        dissector.feed(talk.packets())
        (state,) = stage.states.values()
        assert [one.client_id for one in dissector.take_exchanges()] == ["c", client]
        assert (state.last_client_id, state.client_id_bytes) == (kept, (kept or "").encode())


# Waiting data


def exchange_with(partition_count: int = 0) -> Exchange:
    made = Exchange(Connection(0, 0, FLOW, 0, 1), 0, 0, 0)
    if partition_count:
        rows = [Partition("orders", NO_ID, number) for number in range(partition_count)]
        made.partitions = partitions_of(rows)
    return made


@pytest.mark.parametrize("name", ["group_id", "transactional_id", "client_id"])
def test_names_of_a_request_that_waits_count(name: str) -> None:
    memory_budget = MemoryBudget(Limits(pending_bytes_in_all=10_000))
    assert not memory_budget.add_request(exchange_with())
    long = exchange_with()
    long.asked = RequestFields()
    setattr(long if name == "client_id" else long.asked, name, "g" * 10_000)
    assert memory_budget.add_request(long)
    memory_budget.remove_request(long)
    assert not memory_budget.has_too_many_requests()


def test_partitions_of_an_exchange_that_waits_for_a_name_count() -> None:
    assert held_size(exchange_with(1000)) - held_size(exchange_with()) >= 120_000


def test_orphans_flushed_at_once_share_the_budget_of_a_message() -> None:
    rows = [{"partition_index": number, "high_watermark": number} for number in range(50)]
    topics = [{"topic": "orders", "partitions": rows}]
    talk = conversation(has_acks=False)
    for number in range(1, 6):
        talk = talk.broker(response("Fetch", 11, number, session_id=7, responses=topics))
    roomy = found_in(talk)
    assert len(roomy.tables["partitions"]) == 5 * 50
    small = found_in(talk, Exchanges(decoded_bytes=40_000))  # each takes 18 966 bytes
    assert [row["outcome"] for row in small.rows] == ["orphan"] * 5
    assert len(small.tables["partitions"]) == 2 * 50
    assert told(small, "decoded-limit") == ["Fetch response v11: 50 partitions without row"] * 3


# Rows


def test_rows_count_the_texts_of_their_dictionaries() -> None:
    rows = ExchangeRows()
    for group in ("a" * 100, "b" * 50, "a" * 100):
        rows.column("group_id").index(group)
    assert rows.all_text_size() == 150


def test_very_many_partitions_of_a_message_are_rows() -> None:
    count = 40_003
    rows = PartitionRows()
    made = exchange_with(count)
    rows.add(made)
    batch = BatchBuilder(TABLES["partitions"], ["a"], {}, ["partition"]).batch(rows)
    assert batch["partition"].to_pylist() == list(range(count))


def test_rows_without_a_name_are_held_back_up_to_a_size() -> None:
    builder = BatchBuilder(TABLES["partitions"], ["a"], {}, held_bytes=1)
    for expected in (0, 1):
        rows = PartitionRows()
        made = exchange_with()
        made.partitions = partitions_of([Partition("", uuid.UUID(int=9).bytes, 0)])
        rows.add(made)
        assert builder.batch(rows).num_rows == expected
    assert [batch.num_rows for batch in builder.finish()] == [1]


def test_a_row_group_of_long_texts_ends_at_a_size(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("body", pa.string())])
    half = pa.record_batch([pa.array(["x" * (ROW_GROUP_SIZE // 2 + 1)])], schema)
    file = ParquetFile(tmp_path / "a.parquet", schema)
    for _ in range(4):
        file.write(half)
    file.finish()
    file.publish()
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups == 2


# Compressed captures


def test_an_xz_file_that_asks_for_a_dictionary_of_4_gib_is_refused() -> None:
    compressed = bytearray(lzma.compress(bytes(1000), preset=0))
    at = 12  # the block's header: its size, flags, the filter, one property, the CRC
    size = (compressed[at] + 1) * 4
    place = compressed.index(b"\x21\x01", at, at + size) + 2
    compressed[place] = 40
    compressed[at + size - 4 : at + size] = struct.pack(
        "<I", zlib.crc32(compressed[at : at + size - 4])
    )
    content, problems = read_all(bytes(compressed))
    assert content == b""
    assert ["emory" in problem.message for problem in problems] == [True]


# Rows


def opened(connections: int) -> bytes:
    """A capture of so many SYNs, a microsecond apart, each from another client."""
    frame = make_tcp_packet(flags=SYN, source="10.0.0.0")
    content = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)]
    for number in range(connections):
        content.append(struct.pack("<IIII", 1_700_000_000, number, len(frame), len(frame)))
        content += (frame[:27], number.to_bytes(3, "big"), frame[30:])
    return b"".join(content)


def test_connections_that_end_together_give_rows_in_several_batches() -> None:
    most = ROWS_LIMIT // CONNECTION_BYTES + 1
    run = Run(io.BytesIO(opened(most + 100)), Options(tables=("connections",)))
    sizes = [batch.num_rows for _, batch in run]
    assert sum(sizes) == most + 100
    assert max(sizes) <= most


@pytest.mark.parametrize(
    ("table", "size"), [("connections", CONNECTION_BYTES), ("exchanges", EXCHANGE_BYTES)]
)
def test_rows_are_counted_with_all_their_integers(table: str, size: int) -> None:
    assert size == 8 * len(BatchBuilder(TABLES[table], [], {}).position)
