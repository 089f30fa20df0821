"""Interfaces that go down or away: a problem is reported, and packets resume when they return."""

import re
import subprocess
import sys
import time

import pytest

from kdissect.errors import CaptureError
from kdissect.sources.packet_source import PacketSource
from tests.sources.capturing import PATIENCE, bytes_of, open_at, problems_of, read_all
from tests.sources.frames import frame
from tests.sources.namespaces import CABLE, Host, lay_cable

WAYS = ["ring", "scapy"]
NOBODY = 65534


pytestmark = pytest.mark.slow


def told(packet_source: PacketSource, count: int) -> list[tuple[str, str]]:
    """Kinds and texts of the next problems, "?" for how long."""
    problems = problems_of(packet_source, count)
    assert {(problem.stage, problem.time_ns > 0) for problem in problems} == {("capture", True)}
    return [(one.kind, re.sub(r"\d+\.\d s$", "? s", one.message)) for one in problems]


GONE = ("interface-gone", "kd0: the interface is gone; packets go on when it is back")
DOWN = ("interface-gone", "kd0: the interface is down; packets go on when it is back")
BACK = ("interface-back", "kd0: the interface is back after ? s")


@pytest.mark.parametrize("through", WAYS)
def test_an_interface_that_is_deleted_and_made_again_is_read_again(
    hosts: tuple[Host, Host], through: str
) -> None:
    client, broker = hosts
    with open_at(broker, through=through) as packet_source:
        client.send_frames([frame(1)])
        assert [bytes_of(packet) for packet in read_all(packet_source)] == [frame(1)]
        for number in (2, 3):
            broker.ip("link", "delete", CABLE)
            assert told(packet_source, 1) == [GONE]
            assert packet_source.read(0.05) == []
            lay_cable(client, broker)
            assert told(packet_source, 1) == [BACK]
            client.send_frames([frame(number)])
            packets = read_all(packet_source)
            assert [bytes_of(packet) for packet in packets] == [frame(number)]
            assert [packet.number for packet in packets] == [number]
        assert packet_source.counts() == (3, 0)
        assert packet_source.take_problems() == []


@pytest.mark.parametrize("through", WAYS)
def test_an_interface_that_goes_down_and_up_is_read_again(
    hosts: tuple[Host, Host], through: str
) -> None:
    client, broker = hosts
    with open_at(broker, through=through) as packet_source:
        broker.ip("link", "set", CABLE, "down")
        assert told(packet_source, 1) == [DOWN]
        broker.ip("link", "set", CABLE, "up")
        assert told(packet_source, 1) == [BACK]
        client.send_frames([frame(1)])
        assert [bytes_of(packet) for packet in read_all(packet_source)] == [frame(1)]


@pytest.mark.parametrize("through", WAYS)
def test_an_interface_replaced_unseen_is_two_problems_and_read_on(
    hosts: tuple[Host, Host], through: str
) -> None:
    client, broker = hosts
    with open_at(broker, through=through) as packet_source:
        broker.ip("link", "delete", CABLE)
        lay_cable(client, broker)
        assert [kind for kind, _ in told(packet_source, 2)] == ["interface-gone", "interface-back"]
        client.send_frames([frame(1)])
        assert [bytes_of(packet) for packet in read_all(packet_source)] == [frame(1)]


def test_an_interface_that_is_down_is_opened_and_waited_for(hosts: tuple[Host, Host]) -> None:
    client, broker = hosts
    broker.ip("link", "set", CABLE, "down")
    with open_at(broker) as packet_source:
        assert told(packet_source, 1) == [
            ("interface-down", "kd0: the interface is down; packets come when it is up")
        ]
        broker.ip("link", "set", CABLE, "up")
        assert told(packet_source, 1) == [BACK]
        client.send_frames([frame(1)])
        assert [bytes_of(packet) for packet in read_all(packet_source)] == [frame(1)]


def test_scapy_refuses_an_interface_that_is_down_with_a_clear_error(
    hosts: tuple[Host, Host],
) -> None:
    hosts[1].ip("link", "set", CABLE, "down")
    with pytest.raises(CaptureError, match=r"kd0 is down, .* leave --through out"):
        open_at(hosts[1], through="scapy")


def test_of_several_interfaces_the_others_go_on(hosts: tuple[Host, Host]) -> None:
    client, broker = hosts
    with open_at(broker, "lo", CABLE) as packet_source:
        broker.ip("link", "delete", CABLE)
        assert told(packet_source, 1) == [GONE]
        broker.talk_to(broker, [b"at home"], "127.0.0.1")
        assert {packet.capture for packet in read_all(packet_source)} == {0}
        lay_cable(client, broker)
        back = problems_of(packet_source, 1)
        assert [(one.kind, one.capture) for one in back] == [("interface-back", 1)]
        client.send_frames([frame(1)])
        assert {packet.capture for packet in read_all(packet_source)} == {1}


@pytest.mark.parametrize("through", WAYS)
def test_reopening_binds_to_the_new_interface_without_losing_packets(
    hosts: tuple[Host, Host], through: str
) -> None:
    client, broker = hosts
    with open_at(broker, through=through) as packet_source:
        client.send_frames([frame(1)])
        packet_source.reopen()
        client.send_frames([frame(2)])
        assert [bytes_of(packet) for packet in read_all(packet_source)] == [frame(1), frame(2)]
        broker.ip("link", "delete", CABLE)
        packet_source.reopen()
        assert told(packet_source, 1) == [GONE]


@pytest.mark.parametrize("through", WAYS)
def test_waiting_for_an_interface_takes_the_time_that_was_given(
    hosts: tuple[Host, Host], through: str
) -> None:
    _, broker = hosts
    with open_at(broker, through=through) as packet_source:
        broker.ip("link", "delete", CABLE)
        assert told(packet_source, 1) == [GONE]
        start = time.monotonic()
        assert packet_source.read(0.3) == []
        assert 0.25 < time.monotonic() - start < PATIENCE


UNPRIVILEGED = f"""
import os, sys
from tests.sources.capturing import bytes_of
from kdissect.sources.opening import open_interfaces
wire = open_interfaces([{CABLE!r}], ports=[9092], through=sys.argv[1])
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
print("open", flush=True)
while True:
    for packet in wire.read(0.1):
        print(bytes_of(packet).hex(), flush=True)
    for problem in wire.take_problems():
        print(problem.kind, flush=True)
"""


@pytest.mark.parametrize("through", WAYS)
def test_an_interface_is_read_again_after_privileges_were_dropped(
    hosts: tuple[Host, Host], through: str
) -> None:
    client, broker = hosts
    command = [sys.executable, "-c", UNPRIVILEGED, through]
    with (
        broker.inside(),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading,
    ):
        try:
            assert reading.stdout is not None
            assert next(reading.stdout) == "open\n"
            client.send_frames([frame(1)])
            assert next(reading.stdout) == frame(1).hex() + "\n"
            broker.ip("link", "delete", CABLE)
            assert next(reading.stdout) == "interface-gone\n"
            lay_cable(client, broker)
            assert next(reading.stdout) == "interface-back\n"
            client.send_frames([frame(2)])
            assert next(reading.stdout) == frame(2).hex() + "\n"
        finally:
            reading.kill()
