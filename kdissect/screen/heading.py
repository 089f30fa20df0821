"""The heading of the screen: source, volume, rates, and problems."""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kdissect.live.counting.lines import BEHIND_S
from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.live.encryption import Undecrypted
from kdissect.live.listener import Status
from kdissect.screen.lines import (
    CUT,
    Group,
    Line,
    Piece,
    apart,
    cut,
    side_by_side,
    sparkline,
    width_of,
)
from kdissect.screen.views import HOT_NS, VIEWS, WARM_NS, View, known_duration
from kdissect.sources.packet_source import Behind
from kdissect.text.escape import escaped
from kdissect.text.human import count, counted, duration, rate, share, size, time

# The last two minutes, at one value per second; more would not fit a line.
HISTORY_LENGTH: Final = 120
# Width to the left of the histories, so that they are aligned.
LEFT_WIDTH: Final = 25
SHORTEST_SPARKLINE: Final = 4
GOOD_SPARKLINE: Final = 12
LONGEST_SPARKLINE: Final = 40
NOT_KNOWN: Final = -1.0
# Windows are whole numbers of ticks.
ABOUT_S: Final = 2.0
# From this width on explanatory text is shown.
WIDE: Final = 100
FULL_BACKLOG: Final = 0.5
CLOCK: Final = slice(11, 19)
# Names of the views, from the widest to the narrowest line; keys are 1 to 9, and 0.
MIDDLE: Final = 6
NAMES: Final = (
    [view.name for view in VIEWS],
    [view.name if len(view.name) <= MIDDLE else view.short for view in VIEWS],
    [view.short[:3] for view in VIEWS],
    [""] * len(VIEWS),
)


class History:
    """Rates and percentiles of the last snapshots, the newest last."""

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=HISTORY_LENGTH)
        self.p99s: deque[float] = deque(maxlen=HISTORY_LENGTH)
        self.cpu = NOT_KNOWN
        self._last: tuple[int, float] | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot."""
        self.rates.append(snapshot.whole.rate)
        self.p99s.append(snapshot.whole.p99_ns)
        status = snapshot.status
        if self._last is not None and status.now_ns > self._last[0]:
            seconds = (status.now_ns - self._last[0]) / 1e9
            self.cpu = max(0.0, status.cpu_seconds - self._last[1]) / seconds
        self._last = (status.now_ns, status.cpu_seconds)

    def clear(self) -> None:
        """Discard rates and percentiles: the focus has changed."""
        self.rates.clear()
        self.p99s.clear()


class Marks(NamedTuple):
    """Text next to the title. `state` is why the display is not updated, "" if it is.

    `interval_s` is 0 if there is no next update, as the capture has ended.
    """

    title: str
    interval_s: float
    window_s: float
    state: str = ""


def heading_lines(snapshot: Snapshot, history: History, marks: Marks, width: int) -> list[Line]:
    """Three lines; the histories of the lower two are aligned, if there is room."""
    rates = with_left(rate_pieces(snapshot), rate_groups(snapshot, width), width)
    groups = latency_groups(snapshot, history, marks, width)
    latencies = with_left(latency_pieces(snapshot), groups, width)
    room = min(width - width_of(first + rest) for first, rest in (rates, latencies))
    room = min(room, LONGEST_SPARKLINE) if room >= SHORTEST_SPARKLINE else 0
    return [
        title_line(snapshot, marks, width),
        with_history(*rates, history.rates, room),
        with_history(*latencies, history.p99s, room),
    ]


def with_left(first: Line, groups: Sequence[Group], width: int) -> tuple[Line, Line]:
    """The left end of a line, and as many groups as fit next to it.

    Groups with `drop` 1 make room for a long history, others only for a short one.
    """
    first = [*first, Piece(" " * (LEFT_WIDTH - width_of(first)))]
    room = max(0, width - width_of(first))
    every = [Group([Piece("")]), *groups]
    needed = [group for group in every if group.drop != 1]
    rest: Line = []
    for some, history in (
        (kept(every), GOOD_SPARKLINE),
        (kept(needed), GOOD_SPARKLINE),
        (kept(needed), SHORTEST_SPARKLINE),
        (needed, SHORTEST_SPARKLINE),
        (needed, 0),
    ):
        rest = side_by_side(some, max(0, room - history))
        if rest and rest[-1] != CUT:
            break
    return cut(first, width), rest


def kept(groups: Sequence[Group]) -> list[Group]:
    """The groups, marked as never to be dropped."""
    return [group._replace(drop=0) for group in groups]


def with_history(first: Line, rest: Line, values: Sequence[float], room: int) -> Line:
    """The line with as much of the history as fits; the newest is at the right."""
    return [*first, Piece(sparkline(list(values), room).rjust(room), "spark"), *rest]


def title_line(snapshot: Snapshot, marks: Marks, width: int) -> Line:
    """Source, state (paused or live), time and window."""
    left = [Piece("kdissect top ", "title"), Piece(" " + escaped(marks.title))]
    right = [Piece(f" {marks.state} ", "marked"), Piece("  ")] if marks.state else []
    right.append(Piece(time(snapshot.status.now_ns)[CLOCK] + "Z"))
    right.append(Piece("  "))
    right.append(window_piece(snapshot, marks))
    if width >= WIDE and marks.interval_s:
        right.append(Piece(f"  every {marks.interval_s:g} s", "dim"))
    return apart(left, right, width)


def window_piece(snapshot: Snapshot, marks: Marks) -> Piece:
    """Window of all figures in seconds, and the requested one if that is longer."""
    if snapshot.is_sampled or snapshot.window_s < marks.window_s - ABOUT_S:
        # Just begun, or more rows in it than are kept.
        return Piece(
            f"last {snapshot.window_s:.3g} of {marks.window_s:g} s",
            "warm" if snapshot.is_sampled else "",
        )
    is_longer = snapshot.window_s > marks.window_s + ABOUT_S
    return Piece(f"last {snapshot.window_s if is_longer else marks.window_s:.3g} s")


def rate_pieces(snapshot: Snapshot) -> Line:
    """Exchanges per second."""
    return [Piece(f"{rate(snapshot.whole.rate):>7}", "bold"), Piece(" exchanges/s")]


def latency_pieces(snapshot: Snapshot) -> Line:
    """Latency percentiles."""
    whole = snapshot.whole
    return [
        Piece("p50 "),
        Piece(f"{known_duration(whole.p50_ns):>7}", "bold"),
        Piece(" p99 "),
        Piece(f"{known_duration(whole.p99_ns):>7}", f"bold {heat_of(whole.p99_ns)}"),
    ]


def heat_of(ns: int) -> str:
    """The style of a latency."""
    return "hot" if ns >= HOT_NS else "warm" if ns >= WARM_NS else ""


def rate_groups(snapshot: Snapshot, width: int) -> list[Group]:
    """Errors, bytes in each direction, and packets."""
    whole = snapshot.whole
    groups = [
        Group([Piece(f"{rate(whole.errors)} errors/s", "hot" if whole.errors > 0 else "")]),
        Group([Piece(f"in {size(whole.bytes_to_broker)}/s")], 2),
        Group([Piece(f"out {size(whole.bytes_to_client)}/s")], 2),
    ]
    if width >= WIDE:
        groups.append(Group([Piece(f"{rate(snapshot.packets_rate)} packets/s")]))
    return groups


def latency_groups(snapshot: Snapshot, history: History, marks: Marks, width: int) -> list[Group]:
    """Figures that should be 0, in red otherwise; connections, and kdissect's own load."""
    status = snapshot.status
    problems = sum(number for _, number in snapshot.problems)
    groups = (
        [Group([Piece(f"1/{snapshot.connections_share} of conn.")])]
        if snapshot.connections_share > 1
        else []
    )
    groups += [
        Group([Piece(lost_text(snapshot, width), "hot" if status.packet_source.dropped else "")]),
        Group([Piece(counted(problems, "problem"), "hot" if problems else "")]),
    ]
    if snapshot.current_findings:
        groups.append(Group([Piece(counted(len(snapshot.current_findings), "finding"), "hot")], 2))
    if status.undecrypted.connections:
        groups.append(Group([Piece(undecrypted_text(status.undecrypted, width), "hot")]))
    if snapshot.late:
        groups.append(Group([Piece(f"{count(snapshot.late)} late", "hot")]))
    if status.level:
        groups.append(Group([Piece(shed_text(snapshot, width), "hot")]))
    if status.backlog >= FULL_BACKLOG:
        groups.append(Group([Piece(f"buffer {100 * status.backlog:.0f} %", "hot")]))
    if status.behind.seconds >= BEHIND_S:
        groups.append(Group([Piece(behind_text(status.behind, width), "hot")]))
    cpu = f"cpu {100 * history.cpu:.0f} %, " if history.cpu != NOT_KNOWN else ""
    own = cpu + size(status.memory)
    connections = connections_text(status, marks, width)
    return [*groups, Group([Piece(connections)], 2), Group([Piece(own, "dim")], 1)]


def connections_text(status: Status, marks: Marks, width: int) -> str:
    """Number of open connections; at the end also of all, most of which were closed before."""
    number = status.open_connections
    if width < WIDE:
        return f"{count(number)} conn."
    if marks.interval_s == 0 and status.balance.connections:
        return f"{count(number)} of {counted(status.balance.connections, 'connection')} open"
    return counted(number, "connection")


def behind_text(behind: Behind, width: int) -> str:
    """How far the end of a followed file is ahead, in time and bytes."""
    text = f"{duration(round(behind.seconds * 1e9))} behind"
    return f"{text} ({size(behind.bytes)})" if width >= WIDE else text


def undecrypted_text(undecrypted: Undecrypted, width: int) -> str:
    """Number of TLS connections that are not decrypted, and why."""
    text = f"{count(undecrypted.connections)} TLS"
    return f"{text} not decrypted: {undecrypted.reason}" if width >= WIDE else text


def shed_text(snapshot: Snapshot, width: int) -> str:
    """Total of the shed counters, and the level."""
    status = snapshot.status
    number = sum(status.shed.values())
    if not number:
        return f"shed level {status.level}"
    return f"shed {count(number)}" + (f" (level {status.level})" if width >= WIDE else "")


def lost_text(snapshot: Snapshot, width: int) -> str:
    """Packets dropped by the system, and their share."""
    packet_source = snapshot.status.packet_source
    text = counted(packet_source.dropped, "drop")
    if packet_source.dropped and width >= WIDE:
        text += f" ({share(packet_source.dropped, packet_source.received + packet_source.dropped)})"
    return text


def tab_line(shown: int, snapshot: Snapshot, width: int) -> tuple[Line, list[range]]:
    """Names of the views, with the current one in reverse; and the columns of each.

    Views of possible problems are marked if they have rows.
    """
    for names in NAMES:
        line: Line = []
        places = []
        for number, (name, view) in enumerate(zip(names, VIEWS, strict=True)):
            start = width_of(line)
            style = "tab" if number == shown else mark_of(view, snapshot)
            line += [Piece(f"{(number + 1) % 10} {name}".strip(), style), Piece(" ")]
            places.append(range(start, width_of(line)))
        if width_of(line) - 1 <= width:
            break
    return line[:-1], places


def mark_of(view: View, snapshot: Snapshot) -> str:
    """Style of a view's name."""
    if view.name in ("Errors", "Connections", "Problems", "Findings"):
        return "warm" if view.rows(snapshot) else "dim"
    if view.name == "Groups" and any(group.is_rebalancing for group in snapshot.groups):
        return "warm"
    return ""


def crumbs(focus: Focus) -> Line:
    """The focus; empty without one."""
    line: Line = []
    for what, name in (("client", focus.client), ("API", focus.api), ("topic", focus.topic)):
        if name:
            line += [Piece(" › ", "dim"), Piece(what + " ", "dim"), Piece(escaped(name), "name")]
    return [Piece("all", "dim"), *line] if line else []
