from benchmarks.rings import HEADER_SIZE, make_ring
from kdissect.capture.files import open_captures
from kdissect.capture.pcap import NANOSECONDS
from tests.capture.writers import Captured, make_pcap


def packets_of(paths):
    with open_captures([str(path) for path in paths]) as capture:
        return [
            (packet.time_ns, packet.data[packet.start : packet.end])
            for batch in capture
            for packet in batch
        ]


def test_a_ring_has_the_packets_of_its_capture(tmp_path):
    packets = [
        Captured(bytes([number]) * 50, number * 1_000_000_000, 50) for number in range(100, 130)
    ]
    capture = tmp_path / "one.pcap"
    capture.write_bytes(make_pcap(packets, magic=NANOSECONDS))
    ring = make_ring(capture, tmp_path / "ring", 800)
    assert packets_of(ring) == [(packet.time_ns, packet.data) for packet in packets]
    assert [path.name for path in ring] == [f"ring.pcap{number:04}" for number in range(3)]
    # A file ends with the packet that goes past its size.
    assert [path.stat().st_size - HEADER_SIZE for path in ring] == [858, 858, 264]
