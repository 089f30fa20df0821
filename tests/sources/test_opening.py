"""Opening interfaces: errors are reported with advice."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdissect.errors import CaptureError, CapturePermissionError, KdissectError
from kdissect.sources.opening import open_interfaces
from kdissect.sources.ring import RingSource
from kdissect.sources.scapy_portable import ScapyPortableSource, filter_text, nanoseconds
from kdissect.sources.scapy_source import ScapySource
from kdissect.system.extras import install_command, missing_extra
from tests.sources.capturing import bytes_of, open_at, problems_of, read_all
from tests.sources.frames import frame
from tests.sources.namespaces import CABLE, Host, needs_packet_sockets, two_hosts

NOBODY = 65534


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    needs_packet_sockets()
    with two_hosts() as made:
        yield made


WRONG: list[tuple[list[str], dict[str, Any], str]] = [
    ([], {}, "no interface was named"),
    (["any", "lo"], {}, "'any' is all interfaces: name it alone"),
    (["lo"], {"through": "wire"}, "no way 'wire' to capture; there are: auto, ring, scapy"),
    (["lo"], {"snaplen": 0}, "a snaplen is from 1 to 262144 bytes, not 0"),
    (["lo"], {"snaplen": 262_145}, "a snaplen is from 1 to 262144 bytes, not 262145"),
    (["lo"], {"ports": [9092, 65536]}, "no port 65536: ports are from 1 to 65535"),
]


@pytest.mark.parametrize(("names", "asked", "text"), WRONG)
def test_invalid_sources_are_rejected(names: list[str], asked: dict[str, Any], text: str) -> None:
    with pytest.raises(CaptureError) as raised:
        open_interfaces(names, **asked)
    assert text in str(raised.value)


@pytest.mark.parametrize("through", ["auto", "ring", "scapy"])
@pytest.mark.parametrize("name", ["eth77", "", "a name longer than any", "bad/../name"])
def test_the_error_of_an_unknown_interface_lists_existing_ones(
    hosts: tuple[Host, Host], through: str, name: str
) -> None:
    with pytest.raises(CaptureError) as raised:
        open_at(hosts[0], name, through=through)
    assert str(raised.value) == f"no interface {name!r}; there are: lo, {CABLE}, any"


def test_any_is_of_the_ring_alone(hosts: tuple[Host, Host]) -> None:
    with pytest.raises(CaptureError, match="'any' is read through the ring alone"):
        open_at(hosts[0], "any", through="scapy")


@pytest.mark.tcpdump
def test_invalid_expression_closes_opened_sources(hosts: tuple[Host, Host]) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(CaptureError, match=r"--filter 'no such': .*syntax error"):
        open_at(hosts[0], "lo", CABLE, expression="no such")
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_any_failure_of_the_second_interface_closes_the_first(
    hosts: tuple[Host, Host],
) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(CaptureError, match="no interface 'eth77'"):
        open_at(hosts[0], "lo", "eth77")
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_on_linux_the_ring_is_taken(hosts: tuple[Host, Host]) -> None:
    with open_at(hosts[0]) as packet_source:
        assert isinstance(packet_source, RingSource)
        assert (packet_source.block_size, packet_source.block_count) == (1 << 18, 256)


def test_scapy_replaces_an_unavailable_ring_with_a_notice(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, broker = hosts
    # A version that no kernel has.
    monkeypatch.setattr("kdissect.sources.ring.TPACKET_V3", 77)
    with open_at(broker) as packet_source:
        assert isinstance(packet_source, ScapySource)
        assert [(one.kind, one.message) for one in problems_of(packet_source, 1)] == [
            (
                "no-ring",
                "kd0: the kernel makes no ring: Invalid argument,"
                " so packets come through scapy's socket",
            )
        ]
        client.send_frames([frame(1)])
        assert [bytes_of(packet) for packet in read_all(packet_source)] == [frame(1)]
    with pytest.raises(CaptureError, match=r"the kernel makes no ring: Invalid argument$"):
        open_at(broker, through="ring")
    monkeypatch.setattr("kdissect.sources.opening.has_package", lambda: False)
    with pytest.raises(CaptureError, match=re.escape(install_command("live"))):
        open_at(broker)


def test_without_scapy_one_line_names_the_extra(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scapy.config", None)
    with pytest.raises(KdissectError) as raised:
        open_at(hosts[0], through="scapy")
    assert str(raised.value) == missing_extra("capturing without a ring (scapy)", "live")


def test_opening_a_ring_imports_nothing_of_scapy(hosts: tuple[Host, Host]) -> None:
    code = (
        "import sys; from kdissect.sources.opening import open_interfaces;"
        "open_interfaces(['lo'], ports=[9092]).close();"
        "print([name for name in sys.modules if name.split('.')[0] in ('scapy', 'pyarrow')])"
    )
    with hosts[0].inside():
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
        )
    assert done.stdout == "[]\n"


AS_NOBODY = f"""
import os, sys
from kdissect.errors import CapturePermissionError
from kdissect.sources.opening import open_interfaces
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
try:
    open_interfaces(["lo"], through=sys.argv[1])
except CapturePermissionError as error:
    print(error)
"""


@pytest.mark.parametrize("through", ["auto", "scapy"])
def test_missing_permission_error_explains_how_to_capture(through: str) -> None:
    needs_packet_sockets()
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, through],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    advice, _, interpreter = done.stdout.rpartition(" ")
    assert advice == (
        "lo: this user may not capture. Run it with sudo (and --user, to drop what is not needed),"
        " or in a systemd unit with AmbientCapabilities=CAP_NET_RAW, or let all programs of this"
        " Python do it: sudo setcap cap_net_raw+ep"
    )
    # An unprivileged user cannot resolve all symbolic links to it.
    assert Path(interpreter.rstrip()).resolve() == Path(sys.executable).resolve()
    assert issubclass(CapturePermissionError, CaptureError)


WITH_ONE_CAPABILITY = f"""
import ctypes, os, struct, sys
import scapy.arch, scapy.layers.l2
from kdissect.sources.opening import open_interfaces
from tests.sources.capturing import bytes_of
libc = ctypes.CDLL(None)
assert libc.prctl(8, 1, 0, 0, 0) == 0  # PR_SET_KEEPCAPS
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
cap_net_raw = 1 << 13
wanted = struct.pack("=6I", cap_net_raw, cap_net_raw, 0, 0, 0, 0)
assert libc.capset(struct.pack("=Ii", 0x20080522, 0), wanted) == 0
wire = open_interfaces([{CABLE!r}], ports=[9092], through=sys.argv[1])
print([problem.kind for problem in wire.take_problems()], flush=True)
while not (packets := wire.read(0.1)):
    pass
print(bytes_of(packets[0]).hex(), flush=True)
"""


@pytest.mark.parametrize(("through", "told"), [("ring", "[]\n"), ("scapy", "['small-buffer']\n")])
def test_one_capability_is_enough(hosts: tuple[Host, Host], through: str, told: str) -> None:
    client, broker = hosts
    command = [sys.executable, "-c", WITH_ONE_CAPABILITY, through]
    with (
        broker.inside(),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading,
    ):
        try:
            assert reading.stdout is not None
            assert next(reading.stdout) == told
            client.send_frames([frame(1)])
            assert next(reading.stdout) == frame(1).hex() + "\n"
        finally:
            reading.kill()


def test_a_ring_is_halved_until_there_is_memory_for_it(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_room = RingSource._has_room

    def is_at_most_12_mb(ring: RingSource, size: int, count: int) -> bool:
        return size * count <= 12 << 20 and has_room(ring, size, count)

    monkeypatch.setattr(RingSource, "_has_room", is_at_most_12_mb)
    client, broker = hosts
    with open_at(broker, through="ring", buffer_bytes=64 << 20) as packet_source:
        problems = [(problem.kind, problem.message) for problem in packet_source.take_problems()]
        assert problems == [("small-buffer", f"{CABLE}: memory for a ring of 8 MiB only, not 64")]
        client.send_frames([frame(1)])
        assert [bytes_of(packet) for packet in read_all(packet_source)] == [frame(1)]


class Fake:
    """Stand-in for scapy's socket on other systems."""

    def __init__(self, *packets: tuple[Any, bytes | None, Any]) -> None:
        self.packets = list(packets)
        self.closed = False

    def select(self, waiting: list[Any], wait_s: float) -> list[Any]:
        return waiting if self.packets else []

    def recv_raw(self) -> tuple[Any, bytes | None, Any]:
        return self.packets.pop(0)

    def close(self) -> None:
        self.closed = True


def test_elsewhere_packets_come_as_scapy_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ether, loopback = SimpleNamespace(__name__="Ether"), SimpleNamespace(__name__="Loopback")
    fake = Fake(
        (ether, b"first", 1_700_000_000.123456),
        (None, None, None),
        (loopback, b"second one", Decimal("1700000000.123456789")),
        (SimpleNamespace(__name__="IP"), b"", 1),
    )
    asked = []

    def listen(name: str, promiscuous: bool, expression: str = "") -> Fake:
        asked.append((name, promiscuous, expression))
        return fake

    monkeypatch.setattr("kdissect.sources.scapy_portable.listen_with_scapy", listen)
    monkeypatch.setattr("kdissect.sources.opening.IS_LINUX", False)
    with open_interfaces(["en0"], ports=[9093, 9092], expression="ip", snaplen=6) as packet_source:
        assert isinstance(packet_source, ScapyPortableSource)
        packets = packet_source.read(0.1)
        assert packet_source.read(0) == []
    assert packets is not None
    assert [
        (one.number, one.time_ns, one.link_type, bytes_of(one), one.original_length)
        for one in packets
    ] == [
        (1, 1_700_000_000_123_456_000, 1, b"first", 5),
        (2, 1_700_000_000_123_456_789, 0, b"second", 10),
        (3, 1_000_000_000, 101, b"", 0),
    ]
    assert asked == [("en0", False, "(tcp and (port 9092 or port 9093)) and (ip)")]
    assert fake.closed


def test_elsewhere_the_end_comes_with_the_first_packet_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ether, before = SimpleNamespace(__name__="Ether"), time.time() - 1
    for later in ([], [before + 3600] * 3):
        fake = Fake(*[(ether, b"a", each) for each in [before, before, *later]])
        monkeypatch.setattr("kdissect.sources.opening.IS_LINUX", False)
        monkeypatch.setattr(
            "kdissect.sources.scapy_portable.listen_with_scapy", lambda *_, fake=fake: fake
        )
        with open_interfaces(["en0"]) as packet_source:
            packet_source.end()
            packets = packet_source.read(60)
            assert packets is not None
            assert [bytes_of(one) for one in packets] == [b"a", b"a"]
            assert packet_source.read(60) is None
            assert packet_source.read(60) is None


def test_elsewhere_there_are_no_rings_and_one_interface_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kdissect.sources.opening.IS_LINUX", False)
    with pytest.raises(CaptureError, match="there are rings on Linux alone"):
        open_interfaces(["en0"], through="ring")
    with pytest.raises(CaptureError, match="several interfaces at once are read on Linux alone"):
        open_interfaces(["en0", "en1"])


def test_times_and_filters_for_other_systems() -> None:
    assert nanoseconds(1.5) == 1_500_000_000
    assert nanoseconds(1_700_000_000.000001) == 1_700_000_000_000_001_000
    assert filter_text([], "") == "tcp"
    assert filter_text([], "host a") == "(tcp) and (host a)"
    assert filter_text([2, 1, 2], "") == "tcp and (port 1 or port 2)"
