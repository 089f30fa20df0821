from benchmarks.rings import HEADER_SIZE, PAUSE_S, make_ring
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


def test_a_ring_has_the_packets_of_its_capture_again_and_again(tmp_path):
    second = 1_000_000_000
    packets = [Captured(bytes([number]) * 50, number * second, 50) for number in range(100, 130)]
    capture = tmp_path / "one.pcap"
    capture.write_bytes(make_pcap(packets, magic=NANOSECONDS))
    ring = make_ring(capture, tmp_path / "ring", 3, 800)
    once = [(packet.time_ns, packet.data) for packet in packets]
    expected = [
        (time_ns + copy * (29 + PAUSE_S) * second, data)
        for copy in range(3)
        for time_ns, data in once
    ]
    assert packets_of(ring) == expected
    assert [path.name for path in ring] == [f"ring.pcap{number:04}" for number in range(len(ring))]
    sizes = [path.stat().st_size for path in ring]
    assert sum(sizes) == 3 * 30 * (50 + 16) + len(ring) * HEADER_SIZE
    # A file ends with the packet that goes past its size.
    assert max(sizes) < HEADER_SIZE + 800 + 50 + 16
