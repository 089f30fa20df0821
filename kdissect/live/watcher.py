"""`Watcher`: the loop that takes packets of a packet source through all stages to listeners.

One dissector runs from the first packet to the last, so open connections and exchanges are carried
over when a listener rotates its files. Longer than other modules: one loop, with the steps of a
tick.
"""

import gc
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from kdissect.capture.merge import count_until, count_within
from kdissect.capture.packet import Packet
from kdissect.errors import CaptureError, Problem
from kdissect.live.encryption import EncryptionPoll
from kdissect.live.keylogs import TailedKeyLogs
from kdissect.live.listener import Listener, Status
from kdissect.live.shedding import Shedder
from kdissect.pipeline import Options, PausedCollector, add_secrets, make_balance, make_dissector
from kdissect.sources.packet_source import Counts, PacketSource
from kdissect.tables.batches import builders_of
from kdissect.tables.schemas import TABLES

TICK_NS: Final = 1_000_000_000
# Longest time without a check whether to stop: a tenth of a second.
WAIT_S: Final = 0.1
# A packet source may return thousands at a time; rows are handed on after this many.
FED_AT_ONCE: Final = 256
# And at most this many bytes of them: between two such parts it checks whether to stop, and reports
# that it is alive. Inside a part the dissector requests that after much work.
FED_BYTES: Final = 1 << 20
# Counting listeners keep some 100 bytes of a row until the next tick: after this many rows the tick
# comes early.
ROWS_OF_TICK: Final = 500_000
# After a stop it continues with packets it has read and those in the capture buffer, until it has
# used this much CPU time and as much time has passed: a process of low priority on a busy host gets
# only a small share. Then connections end without a search for more frames in their buffered bytes.
REST_NS: Final = 1_000_000_000
# But not longer than this.
LONGEST_REST_NS: Final = 10_000_000_000
Clock = Callable[[], int]


class Flag:
    """A `threading.Event` without a lock, on which a signal handler could deadlock."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, seconds: float) -> None:
        """Wait until it is set, up to a timeout; noticed within a tenth of a second."""
        end = time.monotonic() + seconds
        while not self._is_set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, WAIT_S))


class Watcher:
    """Reads `packet_source` until it ends or `stop` is called; listeners get the rows they want.

    `options` are those of a run of `pipeline`, with `tables` set to those that listeners want.
    `clock` returns monotonic ns, `cpu_clock` the CPU time of the thread that calls `run`, ns.
    `shedder` reduces the work under overload. `keylogs` are those of the options if they were
    opened before, with more privileges.
    """

    def __init__(
        self,
        packet_source: PacketSource,
        listeners: Sequence[Listener],
        options: Options | None = None,
        clock: Clock = time.monotonic_ns,
        shedder: Shedder | None = None,
        keylogs: TailedKeyLogs | None = None,
        cpu_clock: Clock = time.thread_time_ns,
    ) -> None:
        self.packet_source = packet_source
        self.listeners = list(listeners)
        wanted = frozenset[str]().union(*(listener.tables for listener in listeners))
        self.options = replace(options or Options(), tables=[t for t in TABLES if t in wanted])
        self.keylogs = keylogs or TailedKeyLogs(self.options.keylog)
        self.keylogs.begin()
        keys = self.keylogs.keys
        self.dissector = make_dissector(self.options, collects=False, keeps_frames=False, keys=keys)
        self.names = self.dissector.exchanges.names
        self.encryption = EncryptionPoll(self.dissector.tls.sessions)
        keys.read_more = lambda: add_secrets(keys, packet_source.find_secrets())
        # Rows do not wait for topic names: listeners that write rows later know more names then.
        self.builders = builders_of(
            self.options.tables, packet_source.names, self.names, {}, held_limit=0
        )
        self.clock = clock
        self.cpu_clock = cpu_clock
        self.shedder = shedder or Shedder()
        self.shedder.begin(self.options.tables)
        self.dropped = 0
        # Packets received but not taken at the stop.
        self.left = 0
        self._packet_ns = time.time_ns()
        # Time until which nothing came: packets with earlier times do not reset it.
        self._waited_ns = 0
        self._came_at = clock()
        self._is_ticking = False
        self._tick_ns = self._known_ns = self._packet_ns
        self._rows_since_tick = 0
        self._begun: list[Listener] = []
        self._alive_ns = self._came_at
        # Time and CPU time when the stop was noticed.
        self._stopped_at: tuple[int, int] | None = None
        self.dissector.cancellation.ask = self._pulse
        self._stopping = Flag()
        self._reopening = Flag()

    def run(self) -> None:
        """Run until the packet source ends or `stop` is called, and finish.

        On an exception, decoded rows are handed on first.
        """
        with PausedCollector():
            try:
                self.begin()
                while not self.is_stopping and self.step():
                    pass
                if self.is_stopping:
                    self._read_rest()
            finally:
                self.finish()

    def _read_rest(self) -> None:
        """Take packets that had come before the stop, until the deadline."""
        self.packet_source.end()
        while not self._is_late() and self.step():
            pass

    def begin(self) -> None:
        """Begin all listeners; those that began are always finished."""
        for listener in self.listeners:
            listener.begin(self)
            self._begun.append(listener)

    def stop(self) -> None:
        """Make `run` end; may be called from a signal handler or another thread."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopping.is_set()

    def reopen(self) -> None:
        """Make files and the packet source reopen; may be called like `stop`."""
        self._reopening.set()

    def step(self, wait_s: float = WAIT_S) -> bool:
        """Take packets available now or within `wait_s`; False when the packet source has ended."""
        if self._reopening.is_set():
            self._reopening.clear()
            self._reopen()
        packets = self.packet_source.read(wait_s)
        if packets is None:
            return False
        if packets:
            self.keylogs.read_on()
            add_secrets(self.dissector.tls.keys, self.packet_source.take_secrets())
            self._feed(packets)
            self._rest()
        elif self._is_ticking:
            self._waited_ns = self.now_ns
        if self.now_ns >= self._tick_ns:
            self._tick()
        return True

    def _feed(self, packets: list[Packet]) -> None:
        """Dissect packets, and hand on rows once they are enough for a batch.

        Packets of a replay may be hours apart: a tick comes after the first packet it is due at.
        """
        at = 0
        while at < len(packets):
            part = first_part(packets, at)
            part = part[: count_until(part, 0, self._tick_ns) + 1]
            taken = self._dissect(part)
            at += taken
            if taken:
                self._set_time(part[taken - 1].time_ns)
            self._hand_on(self.options.batch_rows)
            if self.now_ns >= self._tick_ns and at < len(packets):
                self._tick()
            if not self._pulse():
                self.left += len(packets) - at
                break

    def _pulse(self) -> bool:
        """Report that it is alive, about once a second; returns whether to continue.

        Signals are handled here too, as this is not compiled.
        """
        now = self.clock()
        if now - self._alive_ns >= TICK_NS:
            self._alive_ns = now
            for listener in self._begun:
                listener.alive()
        return not self._is_late()

    def _is_late(self) -> bool:
        """Return whether it is stopping, and the deadline has passed."""
        if not self._stopping.is_set():
            return False
        if self._stopped_at is None:
            self._stopped_at = self.clock(), self.cpu_clock()
        stopped_ns, stopped_cpu_ns = self._stopped_at
        passed_ns = self.clock() - stopped_ns
        if passed_ns < REST_NS:
            return False
        return passed_ns >= LONGEST_REST_NS or self.cpu_clock() - stopped_cpu_ns >= REST_NS

    def _dissect(self, packets: list[Packet]) -> int:
        """Dissect packets; if they make very many rows, hand these on meanwhile.

        Returns how many were taken: all, unless it is stopping and the deadline has passed.
        """
        at = self.dissector.feed_from(packets, 0)
        while at < len(packets) or self.dissector.is_behind:
            self._hand_on(1)
            if self._rows_since_tick > ROWS_OF_TICK:
                self._notify_listeners()
            if not self._pulse():
                packets = packets[:at]
            at = self.dissector.feed_from(packets, at)
        return at

    def finish(self) -> None:
        """End all connections, and hand on the remaining rows.

        All listeners finish; then the first of their errors is raised.
        """
        failures: list[BaseException] = []
        self._take_problems()
        open_connections = self.dissector.streams.open_count
        self.dissector.finish_from()
        while self.dissector.is_behind:
            with _collected(failures):
                self._hand_on(1)
            self.dissector.finish_from()
        with _collected(failures):
            self._hand_on(1)
        status = self.status()._replace(open_connections=open_connections)
        while self._begun:
            with _collected(failures):
                self._begun.pop(0).finish(status)
        self.keylogs.close()
        if failures:
            raise failures[0]

    @property
    def now_ns(self) -> int:
        """Time by the packets' clock, see `Status`."""
        return self._packet_ns + self.clock() - self._came_at

    def status(self) -> Status:
        """Current status."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        # New packets set the clock back by their delay; listeners never see that.
        self._known_ns = max(self.now_ns, self._known_ns)
        return Status(
            self._known_ns,
            make_balance(self.dissector),
            self.packet_source.counts(),
            self.packet_source.backlog(),
            self.dissector.streams.open_count,
            level=self.shedder.level,
            shed=self.shedder.shed(self.dissector),
            memory=memory_bytes(),
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            behind=self.packet_source.behind(),
            undecrypted=self.encryption.look(int(self.dissector.totals.encrypted_bytes)),
        )

    def _set_time(self, time_ns: int) -> None:
        """Set the time of the last packet; if it goes back, time advances by this host's clock.

        Also if it is before the time until which nothing came: otherwise ticks, which are due by
        this time, would not come for as long as a clock was set back, or never while one stands
        still.
        """
        if not self._is_ticking:
            # A replay begins at the time of its recording.
            self._packet_ns = self._tick_ns = self._known_ns = time_ns
            self._is_ticking = True
        elif time_ns >= max(self._packet_ns, self._waited_ns):
            self._packet_ns = time_ns
        else:
            self._packet_ns = self.now_ns
        self._came_at = self.clock()

    def _tick(self) -> None:
        now = self.now_ns
        self._tick_ns = now + TICK_NS
        self._take_problems()
        # Silent connections also end if no packets come.
        self.dissector.advance(self.clock() - self._came_at)
        self._dissect([])
        status = self.status()
        self.shedder.judge(status, self.clock(), self.dissector)
        self._dissect([])
        self._hand_on(1)
        self._notify_listeners(status._replace(level=self.shedder.level))

    def _notify_listeners(self, status: Status | None = None) -> None:
        """Call the listeners' tick."""
        self._rows_since_tick = 0
        status = status or self.status()
        for listener in self.listeners:
            listener.tick(status)

    def _rest(self) -> None:
        """Leave packets unread, if the limit on CPU requires it."""
        pause_s = self.shedder.pause_s(self.clock())
        if pause_s > 0:
            self._stopping.wait(pause_s)

    def _take_problems(self) -> None:
        problems = self.packet_source.take_problems()
        if self.left:
            text = f"{self.left} packets that had come were not taken, as it was to end"
            problems.append(Problem("live", "packets-left", text, self.now_ns))
            self.left = 0
        counts = self.packet_source.counts()
        if counts.dropped > self.dropped:
            problems.append(self._drops(counts))
            self.dropped = counts.dropped
        self.dissector.add_problems(problems)

    def _drops(self, counts: Counts) -> Problem:
        lost = counts.dropped - self.dropped
        text = f"{', '.join(self.packet_source.names)}: the capturing host lost {lost} packets"
        return Problem("capture", "dropped-packets", text, self.now_ns)

    def _hand_on(self, row_limit: int) -> None:
        """Pass the tables to listeners, all of them once one has `row_limit` rows."""
        if not self.dissector.full_tables(row_limit):
            return
        for name in self.dissector.full_tables(1):
            batch = self.builders[name].batch(self.dissector.take_rows(name))
            self._rows_since_tick += batch.num_rows
            for listener in self.listeners:
                if name in listener.tables:
                    listener.take(name, batch)

    def _reopen(self) -> None:
        self._hand_on(1)
        self.keylogs.reopen()
        try:
            self.packet_source.reopen()
        except CaptureError as error:
            text = f"the source was not opened anew: {error}"
            self.dissector.add_problems([Problem("capture", "not-reopened", text, self.now_ns)])
        for listener in self.listeners:
            listener.reopen()
        gc.collect()


@contextmanager
def _collected(failures: list[BaseException]) -> Iterator[None]:
    """Collect exceptions for later."""
    try:
        yield
    except Exception as error:
        failures.append(error)


def first_part(packets: list[Packet], at: int) -> list[Packet]:
    """Packets from `at` on to feed at once: at least one, at most FED_AT_ONCE."""
    return packets[at : count_within(packets, at, FED_AT_ONCE, FED_BYTES)]


def memory_bytes() -> int:
    """Resident memory of this process in bytes; 0 if not available."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # of the kernel, no file
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
