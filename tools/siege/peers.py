"""Rounds of hostile peers against a real `kdissect live`, each with drawn options.

As root in a network namespace of its own: sockets on its loopback, frames on a cable in it. Every
other round, and all without these rights, read a pipe.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.live_law.replay import LISTENING, SENDING, make_cable
from tools.siege.escapes import Book, Escape
from tools.siege.listening import Broken, Live
from tools.siege.mutations import Siege
from tools.siege.storms import STORMS, Field, Piped, Sockets, marker

ISOLATED = "KDISSECT_SIEGE_ISOLATED"
COMMAND_TIMEOUT_S = 20
STORMS_EACH = 8
MIB = 1 << 20
MEMORIES = (384, 512, 768)  # MiB of --max-memory
# In addition to --max-memory: memory that the allocator has not returned.
ALLOWANCE = 32 * MIB
MARKER_TIMEOUT_S = 60.0  # in which a marker must be in the metrics
AGAIN_S = 0.3
# Each with a probability of one half, or with the given one.
OPTIONS = (
    ("--records",), ("--payload",), ("--bodies",), ("--json",), ("--rotate", "2s"),
    ("--rotate", "256KB"), ("--flush", "1s"), ("--every", "1s"), ("--max-cpu", "20"),
    ("--max", "connections=50"), ("--max", "pending_requests=10"), ("--metrics-labels", "3"),
    ("--max", "decoded_bytes=1M"),
)  # fmt: skip
OF_INTERFACES = (
    ("--through", "ring"),
    ("--through", "scapy"),
    ("--promiscuous",),
    ("--all-ports",),
)


def isolated_run(words: list[str], seed: int) -> int | None:
    """Run this program again in a network namespace; None where it is, or there are no rights."""
    if os.environ.get(ISOLATED) or os.geteuid():
        return None
    command = ["unshare", "--net", "env", f"{ISOLATED}=1", sys.executable, "-m", "tools.siege"]
    given = words if "--seed" in words else [*words, "--seed", str(seed)]
    with subprocess.Popen([*command, *given]) as inside:
        try:
            return inside.wait()
        finally:
            inside.terminate()


def besiege(siege: Siege, scratch: Path) -> Book:
    """Round after round until the time is over."""
    book = Book("peers", siege.seed, siege.place)
    has_interfaces = bool(os.environ.get(ISOLATED))
    if has_interfaces:
        up = ["ip", "link", "set", "lo", "up"]
        subprocess.run(up, check=True, timeout=COMMAND_TIMEOUT_S)
        make_cable()
    end = time.monotonic() + siege.minutes * 60
    number = siege.only or 0
    while time.monotonic() < end:
        on_interfaces = has_interfaces and number % 2 == 0
        one_round(number, book, scratch, on_interfaces, end, siege.program)
        number += 1
        if siege.only is not None:
            break
    return book


def one_round(
    number: int, book: Book, scratch: Path, on_interfaces: bool, end: float,
    program: Sequence[str],
) -> None:  # fmt: skip
    """Start it, play storms with a marker after each, end it, and read its files."""
    source = random.Random(f"{book.seed}-{number}")  # noqa: S311  # what is drawn is no secret
    megabytes = source.choice(MEMORIES)
    words = drawn_options(source, on_interfaces, megabytes)
    place = scratch / "round"
    place.mkdir()
    played: list[str] = []
    escapes: list[Escape] = []
    live = Live(words, place, not on_interfaces, program)
    book.counts["rounds on interfaces" if on_interfaces else "rounds on a pipe"] += 1
    with live:
        try:
            counted = played_round(live, source, on_interfaces, played, book, end)
            live.end()
            escapes += live.files(counted, "--payload" in words)
        except Broken as broken:
            escapes.append(broken.escape)
    escapes += live.printed()
    if live.peak > megabytes * MIB + ALLOWANCE:
        escapes.append(Escape("memory", f"{live.peak // MIB} MiB with --max-memory {megabytes}M"))
    book.peak = max(book.peak, live.peak)
    for escape in escapes:
        about = {"words": live.command, "storms": played, "peak": live.peak}
        book.escaped(number, escape, about, {"live.log": live.log.read_bytes()[-MIB:]})
    shutil.rmtree(place)


def drawn_options(source: random.Random, on_interfaces: bool, megabytes: int) -> list[str]:
    words = ["-i", "lo", "-i", LISTENING, "--buffer", "16M"] if on_interfaces else ["-"]
    for option in OPTIONS + (OF_INTERFACES if on_interfaces else ()):
        if source.random() < 0.2:
            words += option
    return [*words, "--max-memory", f"{megabytes}M"]


def played_round(
    live: Live, source: random.Random, on_interfaces: bool, played: list[str], book: Book,
    end: float,
) -> int:  # fmt: skip
    """Storms and markers; gives how many markers the metrics have counted."""
    live.await_page()
    field: Field = Sockets(live, SENDING) if on_interfaces else Piped(live, source)
    try:
        counted, sent = marked(live, field, 0, 0)
        for _ in range(STORMS_EACH):
            storm = source.choice(STORMS)
            played.append(storm.__name__)
            if isinstance(field, Piped) and source.random() < 0.3:
                field.step()
            storm(field, source)
            book.took(storm.__name__.replace("_", " "), live.peak)
            book.counts["storms"] += 1
            counted, sent = marked(live, field, counted, sent)
            if time.monotonic() > end:
                break
        book.counts["markers sent"] += sent
        book.counts["markers counted"] += counted
        return counted
    finally:
        field.close()


def marked(live: Live, field: Field, counted: int, sent: int) -> tuple[int, int]:
    """Send the marker until one more is counted: some may be dropped right after a storm."""
    give_up = time.monotonic() + MARKER_TIMEOUT_S
    while True:
        sent += 1
        marker(field, sent)
        now = live.markers_counted()
        if now > counted:
            return now, sent
        if time.monotonic() > give_up:
            raise Broken(Escape("marker", f"{sent} sent, {now} counted: {live.said()}"))
        time.sleep(AGAIN_S)
