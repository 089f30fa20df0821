"""Boundary states hold a message or two of each connection, for any segment size."""

from pathlib import Path

import pytest

import kdissect
from benchmarks.generate import Conversation, Message, Wire
from kdissect.capture.splits import plan
from kdissect.checkpoint.split import dissect_split
from kdissect.pipeline import Options
from tests.checkpoint.law import CAPTURES, together, whole

CONNECTIONS = 3
EXCHANGES = 150
# As of a client that is there for a while; small numbers are all over other bytes.
FIRST_CORRELATION_ID = 1_234_567
# The last 1024 marks and 64 chunks.
REMEMBERED = 150_000


def large_exchange() -> tuple[bytes, bytes]:
    """A fetch request and its response of 20 kB, with the sizes before them."""
    found = kdissect.dissect(str(CAPTURES / "quickstart.pcapng"))
    largest = max(found, key=lambda exchange: exchange.response_size or 0)
    asked, answered = largest.raw_frame("request"), largest.raw_frame("response")
    assert asked is not None
    assert answered is not None
    return len(asked).to_bytes(4, "big") + asked, len(answered).to_bytes(4, "big") + answered


def messages(request: bytes, response: bytes) -> list[Message]:
    found = []
    for number in range(EXCHANGES):
        correlation_id = (FIRST_CORRELATION_ID + number).to_bytes(4, "big")
        found.append(Message(True, request[:8] + correlation_id + request[12:], 1000))
        found.append(Message(False, response[:4] + correlation_id + response[8:], 1000))
    return found


@pytest.mark.parametrize("mss", [1448, 65_160])
def test_the_size_of_a_boundary_state_does_not_depend_on_that_of_segments(
    mss: int, tmp_path: Path
) -> None:
    request, response = large_exchange()
    path = tmp_path / "large.pcap"
    with path.open("wb") as file:
        wire = Wire(file, mss)
        said = messages(request, response)
        conversations = [Conversation(wire, said, number) for number in range(CONNECTIONS)]
        while conversations:
            conversations = [one for one in conversations if one.step()]
        wire.flush()
    options = Options(tables=("exchanges", "partitions", "batches"))
    splits = plan([str(path)], 2_000_000)
    sizes = [len(dissect_split(one, options, [str(path)]).boundary.to_bytes()) for one in splits]
    assert len(sizes) > 3
    assert max(sizes) < 2 * CONNECTIONS * len(response) + REMEMBERED
    found, merger = together([str(path)], 2_000_000, options)
    assert found == whole([str(path)], options)
    assert found.balance.exchanges == CONNECTIONS * EXCHANGES
    assert (merger.joins, merger.read_again) == (CONNECTIONS * (len(splits) - 1), 0)
