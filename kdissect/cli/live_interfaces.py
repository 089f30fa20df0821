"""The interfaces of this host as a page, when none is given."""

import shutil
from collections.abc import Iterator
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


def show_interfaces() -> None:
    """Print the interfaces on stdout, and the next command."""
    from kdissect.sources.interfaces import list_interfaces

    for line in page(list_interfaces(), shutil.get_terminal_size().columns):
        click.echo(line)


def page(interfaces: list[Any], width: int) -> Iterator[str]:
    """The lines of the page; each interface is a
    `kdissect.sources.interfaces.InterfaceProperties`.
    """
    grid = Grid(
        Column("interface", is_text=True),
        Column("state", is_text=True),
        Column("kind", is_text=True, drop=1),
        Column("addresses", is_text=True),
    )
    for one in interfaces:
        state = "up" if one.is_up else "down"
        grid.add(one.name, state, one.kind, ", ".join(one.addresses))
    grid.add("any", "", "", "all of them")
    yield from grid.lines(width)
    yield ""
    names = [one.name for one in interfaces if one.is_up]
    yield from HOW_TO_GO_ON.format(name=escaped(names[0]) if names else "any").splitlines()
