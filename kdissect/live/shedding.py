"""`Shedder`: leaves out work under overload, in a fixed order.

Level 0 makes all requested rows. Each higher level leaves out more: 1 records, 2 bodies,
3 partitions and batches; 4 leaves packets to the kernel, which drops and counts them, and is only
used for the limit on CPU. Levels that leave out nothing that was requested are skipped. Exchanges,
errors, connections, members and problems are made at every level, from every packet taken.

It rises at most one level a second under pressure (the buffer more than half full, packets
dropped, a limit exceeded), and falls one level after a quiet time, which gets longer after a
premature fall.
"""

import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from kdissect.capture.packet import SECOND_NS
from kdissect.dissection.detail import ALL, NO_BODIES, NO_PARTITIONS, NO_RECORD_ROWS
from kdissect.dissection.dissector import Dissector
from kdissect.errors import Problem
from kdissect.limits import MIB
from kdissect.live.listener import Status
from kdissect.tables.unused_memory import give_back

LEAVES_PACKETS: Final = 4
LEVELS: Final = ("all", "no records", "no bodies", "no partitions", "packets left to the kernel")
# Work that a level leaves out in addition to the previous ones.
LEFT_OUT: Final = (
    (NO_RECORD_ROWS, {"records"}),
    (NO_BODIES, {"bodies"}),
    (NO_PARTITIONS, {"partitions", "batches"}),
)

CPU_NS: Final = 3 * SECOND_NS  # interval over which CPU is measured
FULL: Final = 0.5
CALM: Final = 0.1
# Fractions of the limits below which load counts as quiet.
CALM_CPU: Final = 0.7
CALM_MEMORY: Final = 0.9
QUIET_NS: Final = 10 * SECOND_NS
LONGEST_QUIET_NS: Final = 320 * SECOND_NS
# A rise this soon after a fall means that the fall was premature.
RELAPSE_NS: Final = 60 * SECOND_NS
RELIEF_NS: Final = 10 * SECOND_NS
# Silence of connections that a memory limit ends, and the fraction of them ended at a time.
SILENT_NS: Final = 60 * SECOND_NS
ENDED_SHARE: Final = 16
# Longest time without a check whether to stop.
LONGEST_PAUSE_S: Final = 0.5


class Pressure(NamedTuple):
    """Reason to do less; `is_cpu`: the limit on CPU, which has a separate level."""

    why: str
    is_cpu: bool = False


class Shedder:
    """Evaluates a `Status` a second, and sets how much the dissector makes; see `level`.

    `max_cpu` is in percent of one processor, `max_memory` in bytes. `cpu` returns the CPU seconds
    of the process.
    """

    def __init__(
        self,
        max_cpu: float | None = None,
        max_memory: int | None = None,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self.max_cpu = max_cpu
        self.max_memory = max_memory
        self.level = ALL
        self.ended_connections = 0
        self._cpu = cpu
        self._levels = [ALL]
        # Times and CPU seconds, the oldest first, since the last change of level.
        self._used: deque[tuple[int, float]] = deque()
        self._dropped = 0
        self._changed_ns: int | None = None
        self._fell_ns: int | None = None
        self._quiet_since: int | None = None
        self._quiet_ns = QUIET_NS
        self._relieved_ns: int | None = None
        self._paced: tuple[int, float] | None = None

    def begin(self, tables: Collection[str]) -> None:
        """Set the tables that are made, and so the data that can be shed."""
        self._levels = [ALL, *(level for level, names in LEFT_OUT if names & set(tables))]
        if self.max_cpu is not None:
            self._levels.append(LEAVES_PACKETS)

    def judge(self, status: Status, now_ns: int, dissector: Dissector) -> None:
        """Let `dissector` make more or less; `now_ns` is of a monotonic clock."""
        cpu = self._cpu_percent(status, now_ns)
        pressure = self._pressure(status, cpu)
        self._dropped = status.packet_source.dropped
        if pressure is not None:
            self._quiet_since = None
            self._rise(pressure, status, now_ns, dissector)
        elif self._is_quiet(status, cpu):
            self._fall(status, now_ns, dissector)
        else:
            self._quiet_since = None
        self._relieve(status, now_ns, dissector)

    def shed(self, dissector: Dissector) -> dict[str, int]:
        """Shed counters since the beginning, by kind, without zeros."""
        counts = {**dissector.detail.shed.counts(), "connections": self.ended_connections}
        return {name: count for name, count in counts.items() if count}

    def pause_s(self, now_ns: int) -> float:
        """Time to leave packets unread, so that the limit on CPU is kept."""
        if self.level != LEAVES_PACKETS or self.max_cpu is None:
            return 0.0
        cpu = self._cpu()
        if self._paced is None:
            self._paced = now_ns, cpu
        since_ns, since_cpu = self._paced
        owed = (cpu - since_cpu) * 100 / self.max_cpu - (now_ns - since_ns) / SECOND_NS
        if owed <= 0:
            # Unused time is not carried over.
            self._paced = now_ns, cpu
            return 0.0
        return min(owed, LONGEST_PAUSE_S)

    def _cpu_percent(self, status: Status, now_ns: int) -> float | None:
        """CPU load over the last seconds; None if the interval was too short."""
        used = self._used
        used.append((now_ns, status.cpu_seconds))
        while len(used) > 1 and used[1][0] <= now_ns - CPU_NS:
            used.popleft()
        since_ns, before = used[0]
        if now_ns - since_ns < CPU_NS:
            return None
        return (status.cpu_seconds - before) * 100 * SECOND_NS / (now_ns - since_ns)

    def _pressure(self, status: Status, cpu: float | None) -> Pressure | None:
        lost = status.packet_source.dropped - self._dropped
        if self.max_cpu is not None and cpu is not None and cpu > self.max_cpu:
            return Pressure(f"{cpu:.0f} % of a processor, {self.max_cpu:g} allowed", is_cpu=True)
        if lost > 0:
            return Pressure(f"{lost} packets dropped")
        if status.backlog > FULL:
            return Pressure(f"the buffer is {100 * status.backlog:.0f} % full")
        if self.max_memory is not None and status.memory > self.max_memory:
            sizes = f"{status.memory // MIB} MiB of memory, {self.max_memory // MIB} allowed"
            return Pressure(sizes)
        return None

    def _is_quiet(self, status: Status, cpu: float | None) -> bool:
        """Return whether load is well below all pressure thresholds."""
        if status.backlog >= CALM:
            return False
        if self.max_memory is not None and status.memory >= CALM_MEMORY * self.max_memory:
            return False
        return self.max_cpu is None or (cpu is not None and cpu < CALM_CPU * self.max_cpu)

    def _rise(self, pressure: Pressure, status: Status, now_ns: int, dissector: Dissector) -> None:
        above = [level for level in self._levels if level > self.level]
        if not above or (above[0] == LEAVES_PACKETS and not pressure.is_cpu):
            return
        if self._changed_ns is not None and now_ns - self._changed_ns < SECOND_NS:
            return
        if self._fell_ns is not None:
            was_wrong = now_ns - self._fell_ns < max(RELAPSE_NS, self._quiet_ns)
            self._quiet_ns = min(2 * self._quiet_ns, LONGEST_QUIET_NS) if was_wrong else QUIET_NS
            self._fell_ns = None
        self._change(above[0], pressure.why, status, now_ns, dissector)

    def _fall(self, status: Status, now_ns: int, dissector: Dissector) -> None:
        if self._quiet_since is None:
            self._quiet_since = now_ns
        quiet_ns = now_ns - self._quiet_since
        if self.level == ALL or quiet_ns < self._quiet_ns:
            return
        below = max(level for level in self._levels if level < self.level)
        self._fell_ns = self._quiet_since = now_ns
        why = f"quiet for {quiet_ns // SECOND_NS} s"
        self._change(below, why, status, now_ns, dissector)

    def _change(
        self, level: int, why: str, status: Status, now_ns: int, dissector: Dissector
    ) -> None:
        kind = "load-shed" if level > self.level else "load-restored"
        named = [f"level {one} ({LEVELS[one]})" for one in (self.level, level)]
        text = f"from {named[0]} to {named[1]}: {why}"
        dissector.add_problems([Problem("live", kind, text, status.now_ns)])
        dissector.set_detail(min(level, NO_PARTITIONS))
        self.level = level
        self._changed_ns = now_ns
        self._used.clear()
        self._paced = None

    def _relieve(self, status: Status, now_ns: int, dissector: Dissector) -> None:
        """Release free memory and end silent connections if memory is still exceeded."""
        if self.max_memory is None or status.memory <= self.max_memory:
            return
        if self._relieved_ns is not None and now_ns - self._relieved_ns < RELIEF_NS:
            return
        self._relieved_ns = now_ns
        give_back()
        if any(self.level < level < LEAVES_PACKETS for level in self._levels):
            return
        most = max(1, status.open_connections // ENDED_SHARE)
        ended = dissector.end_silent(status.now_ns - SILENT_NS, most)
        if ended:
            self.ended_connections += ended
            text = f"{ended} connections silent for a minute end here, for want of memory"
            dissector.add_problems([Problem("live", "load-shed", text, status.now_ns)])
