"""The interfaces of this host as a page, when none is given."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from kdissect.text.escape import escaped
from kdissect.text.grid import Column, Grid

HOW_TO_GO_ON = """\
Name one, or a capture:
  kdissect live -i {name}
  kdissect live -i any -o tables --rotate 60s
  tcpdump -U -w - port 9092 | kdissect live -
  kdissect live tap.pcap --follow"""


def show_interfaces(settings: Mapping[str, Any]) -> None:
    """Print the interfaces on stdout, where brokers listen, and the next command.

    `settings` are options of decoding, which name ports.
    """
    from kdissect.dissection.options import Options
    from kdissect.live.source_choice import wanted_ports
    from kdissect.sources.interfaces import list_interfaces
    from kdissect.sources.listening import listening

    width = shutil.get_terminal_size().columns
    ports = wanted_ports(Options(**settings))
    found = listening(ports)
    for line in page(list_interfaces(), width, found):
        click.echo(line)
    if not found:
        click.echo(
            f"  no broker listens here on {', '.join(map(str, ports))}; another: --port PORT"
        )


def page(interfaces: list[Any], width: int, endpoints: Sequence[Any] = ()) -> Iterator[str]:
    """The lines of the page; each interface is a
    `kdissect.sources.interfaces.InterfaceProperties`, each endpoint a
    `kdissect.sources.listening.Endpoint` with a port of brokers.
    """
    grid = Grid(
        Column("interface", is_text=True),
        Column("state", is_text=True),
        Column("kind", is_text=True, drop=1),
        Column("addresses", is_text=True),
        *([Column("listening", is_text=True)] if endpoints else []),
    )
    for one in interfaces:
        state = "up" if one.is_up else "down"
        row = (one.name, state, one.kind, ", ".join(one.addresses))
        grid.add(*row, *([ports_text(one, endpoints)] if endpoints else []))
    grid.add("any", "", "", "all of them", *([""] if endpoints else []))
    yield from grid.lines(width)
    yield ""
    yield from HOW_TO_GO_ON.format(name=escaped(suggested(interfaces, endpoints))).splitlines()


def ports_text(interface: Any, endpoints: Sequence[Any]) -> str:
    """Ports of brokers that are listened on at an address of the interface."""
    ports = {one.port for one in endpoints if is_at(interface, one)}
    return ", ".join(map(str, sorted(ports)))


def is_at(interface: Any, endpoint: Any) -> bool:
    """Return whether connections to the endpoint may come over the interface."""
    return bool(interface.is_up) and (
        endpoint.is_everywhere or endpoint.address in interface.addresses
    )


def suggested(interfaces: list[Any], endpoints: Sequence[Any]) -> str:
    """The only interface that a broker listens on, "any" for several; else the first that is up."""
    up = [one for one in interfaces if one.is_up]
    at = [one.name for one in up if any(is_at(one, endpoint) for endpoint in endpoints)]
    if len(at) > 1:
        return "any"
    return str(([*at, *(one.name for one in up)] or ["any"])[0])
