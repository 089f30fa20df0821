"""Explanation of an empty result, in one line."""

from collections.abc import Mapping
from typing import Any, Final

import click

from kdissect.text.human import agreeing, count, counted

NO_EXCHANGES: Final = "no Kafka exchanges"


def explain_empty(
    what: str,
    balance: Mapping[str, Any] | None,
    condition: str | None = None,
    option: str = "--where",
) -> None:
    """Print counts of the input, the reasons, and advice on stderr.

    `balance` is None for stored tables.
    """
    click.echo(f"kdissect: {what}: {explanation(balance, condition, option)}", err=True)


def explanation(
    balance: Mapping[str, Any] | None, condition: str | None = None, option: str = "--where"
) -> str:
    """Like "read 12 034 packets, 0 Kafka exchanges; 11 980 were non-tcp. Try --port."."""
    if balance is None:
        if condition:
            return f"no row of the tables passes {option} {condition!r}."
        return "the tables have no rows for it."
    packets, exchanges = balance["packets"], balance["exchanges"]
    text = f"read {counted(packets, 'packet')}, {counted(exchanges, 'Kafka exchange')}"
    reasons = balance.get("packets_by_reason") or {}
    parts = [
        f"{count(number)} {agreeing(number, 'was', 'were')} {reason}"
        for reason, number in reasons.items()
        if number
    ]
    protocols = balance.get("protocols") or {}
    others = {name: number for name, number in protocols.items() if not name.startswith("kafka")}
    parts += [
        f"{counted(number, 'connection')} of protocol {name}" for name, number in others.items()
    ]
    if parts:
        text += "; " + ", ".join(parts)
    if exchanges and condition:
        return f"{text}. No row passes {option} {condition!r}."
    if balance.get("encrypted_connections") and not exchanges:
        return f"{text}. Try --keylog with the secrets of the TLS sessions."
    if packets and not exchanges:
        return f"{text}. Is the broker on another port? Try --port."
    return f"{text}."
