"""Rows on their way to disk: briefly in memory, then in spools until they are rotated."""

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kdissect.live.files.disk_errors import DiskTrouble
from kdissect.live.files.disk_worker import LOOK_S, DiskWorker
from kdissect.system.confined import PUBLIC, SECRET
from kdissect.tables.rotations import OPEN, OPEN_CONNECTIONS, SPOOL
from kdissect.tables.spool import Spool, spooled, sync, write_whole

# Bytes that may wait in memory for a disk, in total: 400 000 exchanges with their other rows.
HELD_BYTES: Final = 256 << 20
# This many bytes of one rotation are flushed before the next flush is due.
FLUSH_BYTES: Final = 32 << 20
# Bytes of a rotation written at once: they exist three times meanwhile.
WRITE_BYTES: Final = 8 << 20
# Ratio of memory size to spool size over all tables of a capture: 3 for exchanges, 7 for
# partitions, measured on 63 000 exchanges in batches of a second.
COMPRESSES: Final = 5
FILE_MODES: Final = {False: PUBLIC, True: SECRET}
DIRECTORY_MODES: Final = {False: 0o777, True: 0o700}


class OpenRotation:
    """Rows of an unfinished rotation, and where they are; `add`, `write`, then `seal` it.

    `add` is for the thread that reads packets, `spool` and `write` are for the writer thread.
    """

    def __init__(self, run: Path, name: str, is_secret: bool) -> None:
        self.run = run
        self.name = name
        self.directory = run / f"{OPEN}{name}"
        self.is_secret = is_secret
        self.waiting: deque[tuple[str, pa.RecordBatch]] = deque()
        self.spools: dict[str, Spool] = {}
        self.names: dict[bytes, str] = {}
        self.balance: dict[str, Any] = {}
        self.is_sealed = False
        self._snapshot: bytes | None = None
        self._files = 0

    @property
    def size(self) -> int:
        """Approximate bytes of its spools, including rows not yet spooled."""
        waiting = sum(int(batch.nbytes) for _, batch in list(self.waiting)) // COMPRESSES
        return waiting + sum(one.size + one.unwritten for one in list(self.spools.values()))

    @property
    def unwritten(self) -> int:
        """Bytes that are only in memory, in addition to those of `waiting`."""
        return sum(spool.unwritten for spool in list(self.spools.values()))

    @property
    def is_written(self) -> bool:
        """Return whether no rows are only in memory."""
        return not (self.waiting or self._snapshot is not None or self.unwritten)

    def see(self, connections: pa.RecordBatch) -> None:
        """Set the connections that are open now, replacing the earlier ones."""
        self._snapshot = spooled([connections])

    def seal(self, names: dict[bytes, str], balance: dict[str, Any]) -> None:
        """Close for new rows; `names` are topic names, `balance` is the balance of bytes."""
        self.names = names
        self.balance = balance
        self.is_sealed = True

    def spool(self) -> int:
        """Move one waiting batch into its spool; returns its bytes."""
        table, batch = self.waiting[0]
        if table not in self.spools:
            path = self.directory / f"{table}{SPOOL}"
            self.spools[table] = Spool(path, FILE_MODES[self.is_secret])
        self.spools[table].add(batch)
        self.waiting.popleft()
        return int(batch.nbytes)

    def write(self) -> None:
        """Make spooled rows survive a crash of the host; raises OSError."""
        if not self.directory.exists():
            self.directory.mkdir(DIRECTORY_MODES[self.is_secret])
            sync(self.run)
        for spool in self.spools.values():
            spool.write(is_synced=True)
        if self._files < len(self.spools):
            sync(self.directory)
            self._files = len(self.spools)
        snapshot = self._snapshot
        if snapshot is not None:
            mode = FILE_MODES[self.is_secret]
            path = self.directory / f"{OPEN_CONNECTIONS}{SPOOL}"
            write_whole(path, snapshot, is_synced=True, mode=mode)
            if self._snapshot is snapshot:
                self._snapshot = None

    def close(self) -> None:
        """Close its files."""
        for spool in self.spools.values():
            spool.close()


class SpoolWriter(DiskWorker):
    """Spools the rows of open rotations; passes on those that are sealed and written.

    `after` is called after each write. `held_bytes`, None: HELD_BYTES, may wait in memory.
    """

    def __init__(
        self,
        trouble: DiskTrouble,
        give: Callable[[OpenRotation], None],
        after: Callable[[], None],
        held_bytes: int | None = None,
    ) -> None:
        super().__init__("spools", trouble)
        self.held_bytes = held_bytes
        self.rotations: list[OpenRotation] = []
        self._give = give
        self._after = after
        self._room = threading.Condition()
        self._waiting_size = 0

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return self._waiting_size + sum(one.unwritten for one in list(self.rotations))

    def begin(self, rotation: OpenRotation) -> None:
        """Add an open rotation."""
        self.rotations.append(rotation)

    def put(self, rotation: OpenRotation, table: str, batch: pa.RecordBatch) -> None:
        """Take rows. If there are too many, wait for a slow disk, but drop them if it is full."""
        with self._room:
            while not (self.has_room() or self.trouble.has(self.name) or self.failure):
                self.wake()
                self._room.wait(LOOK_S)
            if not self.has_room():
                self.trouble.lose(table, batch.num_rows)
                return
            self._waiting_size += batch.nbytes
            rotation.waiting.append((table, batch))
            is_much = self._waiting_size > FLUSH_BYTES
        if is_much:
            self.wake()

    def has_room(self) -> bool:
        """Return whether more rows can wait."""
        return self.held < (HELD_BYTES if self.held_bytes is None else self.held_bytes)

    def has_work(self) -> bool:
        """Return whether rows are only in memory, or a sealed rotation is still here."""
        return any(not one.is_written or one.is_sealed for one in list(self.rotations))

    def close(self) -> None:
        """Close the files of the remaining rotations."""
        for rotation in self.rotations:
            rotation.close()

    def work(self) -> None:
        """Write all waiting rows, the oldest first."""
        try:
            while self.rotations:
                rotation = self.rotations[0]
                is_last = rotation.is_sealed
                self._spool(rotation)
                if rotation.spools or not rotation.is_written:
                    rotation.write()
                self._after()
                if not is_last:
                    return
                rotation.close()
                self._give(rotation)
                self.rotations.pop(0)
        finally:
            with self._room:
                self._room.notify_all()

    def _spool(self, rotation: OpenRotation) -> None:
        while rotation.waiting:
            size = rotation.spool()
            if rotation.unwritten > WRITE_BYTES:
                rotation.write()
            with self._room:
                self._waiting_size -= size
                self._room.notify_all()
