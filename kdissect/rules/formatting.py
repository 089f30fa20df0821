"""Shared phrases of findings: names and lists of names."""

from collections.abc import Sequence
from typing import Any, Final

from kdissect.rules.evidence_rows import CLIENT, Row, Rows
from kdissect.text.human import counted, cut

NAMED: Final = 3  # this many are named, the rest is counted


def named(text: str | None) -> str:
    """A name from the wire, or a placeholder for a missing one."""
    return cut(text) if text else "(no name)"


def several(rows: Rows, name: str) -> list[str]:
    """The distinct texts of a column, in the order of the rows."""
    return list(dict.fromkeys(named(row[name]) for row in rows))


def client_of(row: Row) -> str:
    """A client id at its address."""
    name = row.get("client") if "client" in row else row.get("client_id")
    address = row.get("client_ip")
    return f"{named(name)} at {address}" if address else named(name)


def clients_of(rows: Rows) -> str:
    """The clients of rows, the first by name."""
    names = list(dict.fromkeys(client_of(row) for row in rows))
    return listed(names, "client", rows.distinct(CLIENT, len(names)))


def up_to(rows: Rows) -> str:
    """Qualifier of a maximum over rows: "up to ", or "" where there is one row."""
    return "up to " if len(rows) > 1 else ""


def listed(names: Sequence[str], noun: str, number: int = 0) -> str:
    """Some names, the first of them and how many more; `number` is the total when larger."""
    number = max(number, len(names))
    if number <= NAMED:
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    rest = number - min(NAMED, len(names))
    return f"{', '.join(names[:NAMED])} and {counted(rest, f'more {noun}')}"


def their(rows: Rows) -> dict[str, Any]:
    """The same as data: client ids and addresses, and the total when the list is cut."""
    ids = list(dict.fromkeys(row.get("client") or row.get("client_id") for row in rows))
    addresses = list(dict.fromkeys(row.get("client_ip") for row in rows))
    name = "client" if any("client" in row for row in rows) else "client_id"
    return counted_list("clients", ids, rows.distinct(name, len(ids))) | counted_list(
        "client_ips", addresses, rows.distinct("client_ip", len(addresses))
    )


def counted_list(name: str, values: list[Any], number: int) -> dict[str, Any]:
    """Values that a finding concerns, with their number when the list is cut."""
    return {name: values} | ({f"{name}_count": number} if number > len(values) else {})


def column_of(name: str, column: str, rows: Rows) -> dict[str, Any]:
    """The distinct values of a column as data, in the same way."""
    values = list(dict.fromkeys(row[column] for row in rows))
    return counted_list(name, values, rows.distinct(column, len(values)))
