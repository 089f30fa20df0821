"""The law of splits where connections come again with the same ports and sequence numbers.

The edges between them may be early by a microsecond, as where captures are put together.
"""

import random
from pathlib import Path

import pytest

from kdissect.capture.pcap import NANOSECONDS
from tests.capture.writers import make_pcap
from tests.checkpoint.law import CAPTURES, read_packets, together, whole
from tests.seeds import SEED


@pytest.mark.sweep(6)
@pytest.mark.parametrize("number", range(60))
def test_splits_of_connections_that_come_again_give_the_rows_of_the_whole(
    number: int, tmp_path: Path
) -> None:
    source = random.Random(f"{SEED} {number}")
    name = source.choice(("old/kafka-0.7.pcapng", "sasl-4.3.1.pcapng", "groups-4.3.1.pcapng"))
    packets = read_packets(str(CAPTURES / name))
    first = source.choice((0, source.randrange(len(packets) // 2)))
    again = packets[first : source.randrange(first + 20, len(packets) + 1)][:2000]
    period_ns = again[-1].time_ns - again[0].time_ns + source.choice((-1000, -1000, 0, 1000))
    copies = source.randint(2, 5)
    written = [
        packet._replace(time_ns=packet.time_ns + period_ns * copy)
        for copy in range(copies)
        for packet in again
    ]
    path = tmp_path / "again.pcap"
    path.write_bytes(make_pcap(written, magic=NANOSECONDS, link_type=1))
    size = max(256, path.stat().st_size // source.choice((2, 3, 5, copies)))
    assert together([str(path)], size)[0] == whole([str(path)])
