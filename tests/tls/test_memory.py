"""Memory held for TLS is bounded."""

import tracemalloc

import pytest

from kdissect.packets.segment import ACK, SYN
from kdissect.streams.connections import Streams
from kdissect.tls.keylog import KeyLog
from kdissect.tls.stage import Tls
from tests.limit_cases import HELLO, TLS_RECORD
from tests.test_limits import MIB, bare_segment, flow_of


def test_of_all_tls_that_waits_the_oldest_is_given_up() -> None:
    """Three records fit: the fourth connection's first, then each next one, costs another."""
    stage = Tls(KeyLog(), max_held_in_all=3000)
    streams = Streams()
    connections = [flow_of(number) for number in range(4)]
    number = 0
    for step, payload in enumerate((HELLO, TLS_RECORD, TLS_RECORD)):
        for flow in connections:
            number += 1
            sequence = 1 + (len(HELLO) + len(TLS_RECORD) * (step - 1) if step else 0)
            if step == 0:
                for event in streams.feed(bare_segment(number, flow, SYN, 0)):
                    stage.feed(event)
            segment = bare_segment(number, flow, ACK, sequence, payload)
            for event in streams.feed(segment):
                stage.feed(event)
            assert stage.held <= 3000
    told = [(problem.kind, problem.connection_id) for problem in stage.problems]
    assert told == [("tls-held-limit", number) for number in (1, 2, 3)]
    for event in streams.finish():
        stage.feed(event)
    assert stage.held == 0


@pytest.mark.parametrize("size", [0, 1])
def test_tiny_records_count_by_the_memory_that_they_take(size: int) -> None:
    """200 000 empty records of a mebibyte would take 100 MB."""
    stage, streams = Tls(KeyLog()), Streams()
    record = b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)
    streams.feed(bare_segment(0, flow_of(0), SYN, 0))
    tracemalloc.start()
    sequence = 1
    for number, payload in enumerate([HELLO] + [record * 200] * 500, 1):
        for event in streams.feed(bare_segment(number, flow_of(0), ACK, sequence, payload)):
            stage.feed(event)
        sequence += len(payload)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [problem.kind for problem in stage.problems] == ["tls-held-limit"]
    assert peak < 3 * MIB
