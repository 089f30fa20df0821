"""Words that sentences of findings share: who it was."""

from collections.abc import Sequence
from typing import Any, Final

from kdissect.human import count, cut
from kdissect.rules.seen import Row

NAMED: Final = 3  # so many are named, the rest is counted


def named(text: str | None) -> str:
    """A name from the wire, or what stands for none."""
    return cut(text) if text else "(no name)"


def several(rows: Sequence[Row], name: str) -> list[str]:
    """The different texts of a column, in the order of the rows."""
    return list(dict.fromkeys(named(row[name]) for row in rows))


def client_of(row: Row) -> str:
    """A client id at its address."""
    name = row.get("client") if "client" in row else row.get("client_id")
    address = row.get("client_ip")
    return f"{named(name)} at {address}" if address else named(name)


def clients_of(rows: Sequence[Row]) -> str:
    """The clients of rows, the first by name."""
    return listed(list(dict.fromkeys(client_of(row) for row in rows)), "client")


def listed(names: Sequence[str], noun: str) -> str:
    """Some names, the first of them and how many more."""
    if len(names) <= NAMED:
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    rest = len(names) - NAMED
    return f"{', '.join(names[:NAMED])} and {count(rest)} more {noun}{'s' * (rest > 1)}"


def their(rows: Sequence[Row]) -> dict[str, Any]:
    """The same as data: all client ids and addresses."""
    ids = list(dict.fromkeys(row.get("client") or row.get("client_id") for row in rows))
    addresses = list(dict.fromkeys(row.get("client_ip") for row in rows))
    return {"clients": ids, "client_ips": addresses}
