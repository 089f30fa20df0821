"""Findings about the capture itself: missing data and its consequences."""

from collections.abc import Iterator
from typing import Final

from kdissect.rules.context import Context
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.text.human import counted, counted_of, share, size

LOST: Final = 0.001  # minimum share of the payload that is reported
MUCH: Final = 0.01
SILENT: Final = "none"  # protocol of connections without payload
WORDS: Final = {SILENT: "without data", "unknown": "of unknown protocol"}
ENCRYPTED: Final = 0.1
MID_STREAM: Final = "mid-stream"  # kind of problems: bytes before the first frame


def losses(seen: Context) -> Iterator[Finding]:
    """Packets dropped by the capture, or truncated."""
    network = seen.summary.network
    missing, whole = network.missing_bytes, network.missing_bytes + network.payload_bytes
    if not whole or missing < LOST * whole:
        return
    parts = {
        "dropped by capture": network.capture_lost_bytes,
        "cut off by snaplen": network.cut_bytes,
        "lost by capture or network": missing - network.capture_lost_bytes - network.cut_bytes,
    }
    if seen.signs.is_one_way:
        parts = {
            "of the direction that was not captured": missing - network.cut_bytes,
            "cut off by snaplen": network.cut_bytes,
        }
    why = ", ".join(f"{size(number)} {name}" for name, number in parts.items() if number > 0)
    yield Finding(
        "capture-loses-packets",
        PROBLEM if missing >= MUCH * whole else WARNING,
        f"The capture lacks {size(missing)} of payload ({share(missing, whole)}): {why}; "
        "the counts below do not include it",
        {"missing_bytes": missing, "share": missing / whole, "cut_bytes": network.cut_bytes},
        {},
        seen.summary.totals.first_time_ns,
        seen.summary.totals.last_time_ns,
    )


def encryption(seen: Context) -> Iterator[Finding]:
    """TLS connections without their secrets."""
    balance = seen.summary.balance
    hidden, payload = balance.get("encrypted_bytes", 0), balance.get("payload_bytes", 0)
    number = balance.get("encrypted_connections", 0)
    if number and (not seen.summary.totals.exchanges or hidden >= ENCRYPTED * payload):
        yield Finding(
            "connections-encrypted",
            WARNING,
            f"{counted_of(number, seen.summary.totals.connections, 'connection')} "
            f"({share(hidden, payload)} of the payload) cannot be read: TLS without secrets; "
            "--keylog FILE decrypts them",
            {"connections": number, "encrypted_bytes": hidden, "share": hidden / max(1, payload)},
        )


def undecoded(seen: Context) -> Iterator[Finding]:
    """Bytes of Kafka connections that could not be decoded."""
    network = seen.summary.network
    others = sum(row.payload_bytes for row in seen.summary.others)
    skipped = max(0, seen.summary.balance.get("skipped_bytes", 0) - others)
    kinds = [row for row in seen.summary.problems if row.bytes]
    if not seen.summary.totals.exchanges or skipped < LOST * max(1, network.payload_bytes):
        return
    # The rest of a message that began before the capture.
    is_begun = all(row.kind == MID_STREAM for row in kinds)
    # A problem found only at a connection's end has no packet.
    packet = kinds[0].packet_number if kinds else None
    place = "" if packet is None else f" at packet {packet}"
    first = f", first{place}: {kinds[0].message}" if kinds else ""
    yield Finding(
        "messages-undecoded",
        WARNING if skipped >= MUCH * network.payload_bytes and not is_begun else NOTICE,
        f"{size(skipped)} ({share(skipped, network.payload_bytes)}) on Kafka connections could not "
        f"be decoded{first}",
        {"skipped_bytes": skipped, "share": skipped / max(1, network.payload_bytes)},
        {},
        packet=packet,
    )


def failures(seen: Context) -> Iterator[Finding]:
    """Queries that failed, once for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in seen.failures.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        text = f"No results of {', '.join(names)}: {why}"
        yield Finding("not-asked", WARNING, text, {}, {"evidence": names})


def nothing(seen: Context) -> Iterator[Finding]:
    """No Kafka at all."""
    if seen.summary.totals.exchanges or seen.summary.balance.get("encrypted_connections"):
        return
    others = ", ".join(
        f"{counted(row.connections, 'connection')} {WORDS.get(row.protocol, f'of {row.protocol}')}"
        for row in seen.summary.others
    )
    yield Finding(
        "no-kafka",
        WARNING,
        f"No Kafka was found in {counted(seen.summary.balance.get('packets', 0), 'packet')}"
        + (f"; other traffic: {others}" if others else ""),
        {"packets": seen.summary.balance.get("packets", 0)},
    )


RULES: Final = (losses, encryption, undecoded, failures, nothing)
