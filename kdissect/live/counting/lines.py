"""A snapshot as one line of text, or as JSON: for use without a screen."""

import unicodedata
from datetime import UTC, datetime
from typing import Any, Final

from kdissect.live.counting.snapshot import Snapshot, Timed
from kdissect.text.escape import escaped
from kdissect.text.human import DURATION_UNITS

WIDTH: Final = 100
NONE: Final = "-"
DAY_S: Final = 86_400
BEHIND_S: Final = 1.0  # with less, data has just been written
MULTIPLES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def line_of(snapshot: Snapshot) -> str:
    """The main figures in at most `WIDTH` columns, escaped for a terminal.

    Time, exchanges and errors per second, latency (50 %, 99 %), the API with the most exchanges,
    the client with the longest ones, waiting requests, connections with overdue ones, packets lost;
    connections whose TLS is not decrypted, if there are any; how far behind a file it reads, if
    that is a second; the share of connections that are captured, if not all.
    """
    whole, status = snapshot.whole, snapshot.status
    head = [
        f"{datetime.fromtimestamp(status.now_ns // 1_000_000_000, UTC):%H:%M:%S}",
        f"{number(whole.rate)} ex/s",
        f"{number(whole.errors)} err/s",
        f"{duration(whole.p50_ns)}/{duration(whole.p99_ns)}",
    ]
    tail = [
        f"wait {number(snapshot.waiting)}",
        f"late {number(snapshot.late)}",
        f"drop {number(status.packet_source.dropped)}",
    ]
    if snapshot.connections_share > 1:
        tail.append(f"1/{snapshot.connections_share}")
    if status.undecrypted.connections:
        tail.append(f"tls {number(status.undecrypted.connections)}")
    if status.behind.seconds >= BEHIND_S:
        tail.append(f"behind {age(status.behind.seconds)}")
    left = WIDTH - sum(len(part) + 2 for part in head + tail)
    if left < 2:
        # With all the others there is no room for names, nor for the requests that wait.
        return "  ".join([*head, *tail[1:]])
    api = cut(snapshot.apis[0].name if snapshot.apis else NONE, left // 3)
    client = client_text(snapshot.clients, left - cells(api) - 2)
    return "  ".join([*head, api, client, *tail])


def age(seconds: float) -> str:
    """At most six columns, with days from one on.

    >>> age(75.25), age(200_000)
    ('75.2s', '2.31d')
    """
    return duration(round(seconds * 1e9)) if seconds < DAY_S else f"{number(seconds / DAY_S)}d"


def client_text(clients: tuple[Timed, ...], width: int) -> str:
    """The client with the highest p99, and its value."""
    slowest = max(clients, key=lambda client: client.p99_ns, default=None)
    if slowest is None:
        return NONE
    time = duration(slowest.p99_ns)
    left = width - len(f"slow:  {time}")
    return f"slow: {cut(slowest.name or NONE, left)} {time}" if left > 0 else cut(time, width)


def number(value: float) -> str:
    """At most five columns, up to 10^18; values below a hundredth are shown as a hundredth.

    >>> number(0), number(0.0123), number(999.6), number(12345)
    ('0', '0.012', '1k', '12.3k')
    """
    if 0 < value < 0.01:
        return "0.01"
    for unit, name in MULTIPLES:
        if value >= unit * 0.9995:
            return f"{value / unit:.3g}{name}"
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"


def duration(ns: int) -> str:
    """At most six columns, up to a day; "-" for negative values.

    >>> duration(1_234_567), duration(999_999), duration(4321_000_000_000), duration(-1)
    ('1.23ms', '1ms', '4321s', '-')
    """
    if ns < 0:
        return NONE
    if ns >= 1e12:
        return f"{ns / 1e9:.0f}s"
    for unit, name in DURATION_UNITS:
        if ns >= unit * 0.9995:
            return f"{ns / unit:.3g}{name}"
    return f"{ns}ns"


def cells(text: str) -> int:
    """Upper bound on the terminal columns of a text."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def cut(text: str, width: int) -> str:
    """Escape a text and cut it to `width` columns."""
    # This much is enough: escaping only makes it longer.
    safe = escaped(text[:WIDTH])
    if cells(safe) <= width:
        return safe
    while cells(safe) >= width and safe:
        safe = safe[:-1]
    return f"{safe}…" if width > 0 else ""


def json_of(snapshot: Snapshot) -> dict[str, Any]:
    """The whole snapshot as a value for `json.dumps`, with the names of its fields.

    Names are as in the packets; `json.dumps` escapes characters that harm a terminal as long as
    `ensure_ascii` stays on.
    """
    status, balance = snapshot.status, snapshot.status.balance
    lists = (
        "apis", "clients", "topics", "errors", "connections", "groups", "slowest", "partitions",
        "connection_rates", "problem_messages",
    )  # fmt: skip
    findings = snapshot.current_findings
    return {
        "time_ns": status.now_ns,
        "window_s": snapshot.window_s,
        "is_sampled": snapshot.is_sampled,
        "connections_share": snapshot.connections_share,
        "focus": snapshot.focus._asdict(),
        "whole": snapshot.whole._asdict(),
        "packets_rate": snapshot.packets_rate,
        **{name: [one._asdict() for one in getattr(snapshot, name)] for name in lists},
        "waiting": snapshot.waiting,
        "late": snapshot.late,
        "clients_seen": snapshot.clients_seen,
        "topics_seen": snapshot.topics_seen,
        "connections_seen": snapshot.connections_seen,
        "problems": dict(snapshot.problems),
        "mid_streams": status.mid_streams,
        "packets": balance.packets,
        "captured_bytes": balance.captured_bytes,
        "exchanges": balance.exchanges,
        "received": status.packet_source.received,
        "dropped": status.packet_source.dropped,
        "backlog": status.backlog,
        "behind": status.behind._asdict(),
        "open_connections": status.open_connections,
        "ended_connections": status.balance.connections,
        "undecrypted": {
            "connections": status.undecrypted.connections,
            "bytes": status.undecrypted.bytes,
            "reasons": dict(status.undecrypted.reasons),
        },
        "level": status.level,
        "shed": dict(status.shed),
        "memory": status.memory,
        "cpu_seconds": status.cpu_seconds,
        "current_findings": None if findings is None else [one._asdict() for one in findings],
    }
