"""Properties of interfaces compared with `ip` and the kernel."""

import socket
from collections.abc import Iterator

import pytest

from kdissect.sources.interfaces import InterfaceProperties, list_interfaces
from tests.sources.namespaces import CABLE, Host, needs_packet_sockets, two_hosts


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    needs_packet_sockets()
    with two_hosts() as made:
        yield made


def test_interfaces_are_listed_with_kinds_and_addresses(hosts: tuple[Host, Host]) -> None:
    host = hosts[1]
    host.ip("address", "add", "10.77.5.1/32", "dev", CABLE, "label", f"{CABLE}:second")
    host.ip("link", "set", CABLE, "mtu", "1400")
    with host.inside():
        found = {facts.name: facts for facts in list_interfaces()}
    assert found["lo"] == InterfaceProperties(
        "lo", True, "loopback", ("127.0.0.1", "::1"), 1, 65536
    )
    cable = found[CABLE]
    assert cable[:3] == (CABLE, True, "veth")
    assert {"10.77.0.1", "10.77.5.1", "fd77::1"} <= set(cable.addresses)
    assert cable[4:] == (1, 1400)


def test_an_interface_that_is_down_is_listed_as_that(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.ip("link", "set", CABLE, "down")
    host.ip("address", "flush", "dev", CABLE)
    with host.inside():
        assert list_interfaces()[1] == InterfaceProperties(CABLE, False, "veth", (), 1, 1500)


def test_vlans_and_tunnels_are_distinguished_from_ethernet(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    made = {}
    for name, words, expected in (
        ("kdv", ["link", CABLE, "name", "kdv", "type", "vlan", "id", "9"], ("vlan", 1)),
        ("kdt", ["name", "kdt", "type", "wireguard"], ("other", 101)),
        ("kdb", ["name", "kdb", "type", "bridge"], ("ethernet", 1)),
    ):
        try:
            host.ip("link", "add", *words)
        except AssertionError:
            continue  # a kind that this kernel does not have
        made[name] = expected
    with host.inside():
        found = {facts.name: (facts.kind, facts.link_type) for facts in list_interfaces()}
    assert {name: found[name] for name in made} == made


def test_all_interfaces_of_this_host_are_there() -> None:
    names = [facts.name for facts in list_interfaces()]
    assert sorted(names) == sorted(name for _, name in socket.if_nameindex())


def test_elsewhere_there_are_names_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.sources.interfaces.IS_LINUX", False)
    assert InterfaceProperties("lo", True, "other", (), -1, -1) in list_interfaces()
