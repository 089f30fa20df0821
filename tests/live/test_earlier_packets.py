"""`--with`: TLS connections whose handshakes are in an earlier capture are decrypted."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

import kdissect
from kdissect.errors import InvalidArgument
from kdissect.live.listener import Listener
from kdissect.live.open_before import NEVER_NS, OpenBefore
from kdissect.live.source_choice import Asked
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.sources.earlier_packets import EarlierPackets
from kdissect.sources.recorded_source import RecordedSource
from kdissect.streams.connections import IDLE_NS
from kdissect.tables.rotations import runs_in
from tests.live.made_rows import status
from tests.live.worker_sets import live, rows, send
from tests.sources.namespaces import Host

CAPTURES = Path(__file__).parents[2] / "captures" / "tls"
COLUMNS = ["api", "api_version", "correlation_id", "client_id", "request_start", "response_start",
           "request_size", "response_size", "outcome"]  # fmt: skip
Row = tuple[Any, ...]


class Taken(Listener):
    """Keeps rows of exchanges."""

    tables = frozenset({"exchanges"})

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def take(self, table: str, batch: Any) -> None:
        self.rows += [tuple(row[name] for name in COLUMNS) for row in batch.to_pylist()]


def longest(capture: Path) -> Any:
    """Packets of the connection that has the most."""
    flows = defaultdict(list)
    for packet in rdpcap(str(capture)):
        if TCP in packet:
            flows[frozenset((packet[TCP].sport, packet[TCP].dport))].append(packet)
    return max(flows.values(), key=len)


def read_in_two(first: Path, second: Path, keys: Path) -> list[Row]:
    taken = Taken()
    options = Options(tables=("exchanges",), keylog=[str(keys)])
    with EarlierPackets([first], RecordedSource(second)) as packet_source:
        assert packet_source.names == [str(second), str(first)]
        Watcher(packet_source, [OpenBefore(), taken], options).run()
    return taken.rows


def is_in(row: Row, since_ns: int) -> bool:
    return row[4] is not None and row[5] is not None and row[4].value >= since_ns


@pytest.mark.parametrize("name", ["tls12-4.3.1", "tls13-4.3.1"])
def test_a_connection_goes_on_after_a_hole(tmp_path: Path, name: str) -> None:
    keys = CAPTURES / f"{name}.keys"
    packets = longest(CAPTURES / f"{name}.pcapng")
    whole, first, second = (tmp_path / part for part in ("whole.pcap", "1.pcap", "2.pcap"))
    wrpcap(str(whole), packets)
    table = kdissect.read(whole, table="exchanges", keylog=[str(keys)]).to_arrow()
    every = [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()]
    found_after = 0
    for handshake, begin in ((12, 16), (12, len(packets) // 2), (14, len(packets) * 2 // 3)):
        wrpcap(str(first), packets[:handshake])
        wrpcap(str(second), packets[begin:])
        assert not kdissect.read(second, table="exchanges", keylog=[str(keys)]).to_arrow().num_rows
        since_ns = int(packets[begin + 2].time * 10**9)
        late = {row for row in every if is_in(row, since_ns)}
        found = {row for row in read_in_two(first, second, keys) if is_in(row, since_ns)}
        assert found <= set(every)
        # A request that is cut by the edge, or its neighbour, may be missing.
        assert len(late - found) <= 1
        found_after += len(found)
    assert found_after > 3


def test_silence_of_days_ends_no_connection(tmp_path: Path) -> None:
    packets = longest(CAPTURES / "tls13-4.3.1.pcapng")
    wrpcap(str(tmp_path / "1.pcap"), packets[:12])
    for packet in packets:
        packet.time += 86_400 * 3
    wrpcap(str(tmp_path / "2.pcap"), packets[20:])
    keys = CAPTURES / "tls13-4.3.1.keys"
    assert len(read_in_two(tmp_path / "1.pcap", tmp_path / "2.pcap", keys)) > 10


def test_later_silence_ends_connections_again() -> None:
    streams, now = SimpleNamespace(idle_ns=IDLE_NS), [1000.0]
    opened: Any = OpenBefore(lambda: now[0])
    opened.begin(SimpleNamespace(dissector=SimpleNamespace(streams=streams)))
    for now[0], expected in ((1001.0, NEVER_NS), (1899.0, NEVER_NS), (1900.0, IDLE_NS)):
        opened.tick(status(0))
        assert streams.idle_ns == expected


def test_keys_may_change_in_the_hole(tmp_path: Path) -> None:
    """The broker of this capture updates its keys after 4 000 bytes."""
    path, keys = (CAPTURES / f"tls13-rekeyed-4.3.1.{end}" for end in ("pcapng", "keys"))
    packets = longest(path)
    wrpcap(str(tmp_path / "1.pcap"), packets[:12])
    wrpcap(str(tmp_path / "2.pcap"), packets[len(packets) // 2 :])
    found = read_in_two(tmp_path / "1.pcap", tmp_path / "2.pcap", keys)
    table = kdissect.read(path, table="exchanges", keylog=[str(keys)]).to_arrow()
    every = {(row["api"], row["correlation_id"], row["client_id"]) for row in table.to_pylist()}
    assert {(row[0], row[2], row[3]) for row in found} <= every
    assert len(found) > 10


@pytest.mark.slow
def test_a_capture_of_an_interface_begins_in_a_connection(
    cable: tuple[Host, Host], tmp_path: Path
) -> None:
    client, broker = cable
    packets = longest(CAPTURES / "tls13-4.3.1.pcapng")
    wrpcap(str(tmp_path / "before.pcap"), packets[:12])
    keys = str(CAPTURES / "tls13-4.3.1.keys")
    tables = tmp_path / "tables"
    words = ("-o", str(tables), "--keylog", keys, "--with", str(tmp_path / "before.pcap"))
    with live(broker, tmp_path, *words) as running:
        send(client, [[bytes(packet)] for packet in packets[20:]])
        running.hear("WATCHDOG=1")
        running.hear("WATCHDOG=1")
        said = running.end()
    assert "no Kafka" not in said, said
    found = [row["api"] for run in runs_in(tables) for row in rows(run, "exchanges")]
    assert len(found) > 10
    assert {"Fetch", "Metadata"} <= set(found)


def test_it_is_for_interfaces_of_one_process() -> None:
    path = CAPTURES / "tls13-4.3.1.pcapng"
    with pytest.raises(InvalidArgument, match=r"earlier\.pcap later\.pcap"):
        Asked(["-"], earlier=[path]).check()
    with pytest.raises(InvalidArgument, match="leave --workers out"):
        Asked(interfaces=["lo"], earlier=[path]).check_workers(2)
