"""Topic names by id from a broker's log directories: `partition.metadata` (KIP-516).

A directory `<topic>-<partition>` of each replica has this file, written once:

    version: 0
    topic_id: vPeOCWypqUOSepEvx0cbog

Newer clients refer to topics by id, and request names every few minutes only. Directories are read
at the start, and looked at again for new ones. Names known from the wire are kept.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kdissect.capture.packet import SECOND_NS
from kdissect.errors import CaptureError, DatasetError, Problem
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.live.topic_ids import id_of
from kdissect.messages.metadata_topics import LONGEST_NAME
from kdissect.system.confined import Below

FILE: Final = "partition.metadata"
# Kafka's has some 45 bytes.
FILE_BYTES: Final = 1024
# Replicas that are to be deleted, strays, and copies on another disk have suffixes, as in
# orders-0.4f00c4b6-delete: they are not read.
PARTITION: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST_NAME}}}-\d{{1,10}}", re.ASCII)
CONTENT: Final = re.compile(rb"version: ?0\r?\ntopic_id: ?([A-Za-z0-9_-]{22})\s*", re.ASCII)
LOOK_NS: Final = 30 * SECOND_NS
# A broker has some thousands of partitions; 100 000 names take 25 MB.
PARTITIONS: Final = 100_000
# Files read at a tick, in some milliseconds.
FILES_OF_TICK: Final = 500
SHOWN: Final = 3  # names in a message


class BrokerNames(Listener):
    """Names of the topics in log `directories`, which are read on construction.

    They stay open, so that a process that drops privileges can list them. Raises CaptureError with
    advice when one cannot be read, or has no partitions. Later failures are problems.
    """

    def __init__(self, directories: Sequence[str | os.PathLike[str]]) -> None:
        self.names: dict[bytes, str] = {}
        self._read: set[tuple[int, str, int]] = set()
        self._failed: dict[str, str] = {}
        self._problems: list[Problem] = []
        self._look_ns = 0
        self._todo: Iterator[None] = iter(())
        self._opened: list[Below] = []
        try:
            for directory in directories:
                self._opened.append(opened(Path(directory)))
            for _ in self._read_all():
                pass
            self._check()
        except BaseException:
            self.close()
            raise

    def begin(self, watcher: LiveCapture) -> None:
        self._watcher = watcher
        self._tell()

    def tick(self, status: Status) -> None:
        """Read new directories, some at each tick."""
        if status.now_ns >= self._look_ns:
            self._look_ns = status.now_ns + LOOK_NS
            self._todo = self._read_all()
        before = len(self.names)
        for _ in zip(range(FILES_OF_TICK), self._todo, strict=False):
            pass
        if len(self.names) > before or self._failed:
            self._tell()

    def reopen(self) -> None:
        """Look again now."""
        self._look_ns = 0

    def finish(self, status: Status) -> None:
        self.close()

    def close(self) -> None:
        """Close the directories; idempotent."""
        for below in self._opened:
            below.close()
        self._opened = []

    def _check(self) -> None:
        """Raise where nothing was found."""
        if self.names:
            return
        paths = ", ".join(str(below.path) for below in self._opened)
        if self._failed:
            raise CaptureError(f"no names of topics in {paths}: {reasons(self._failed)}")
        raise CaptureError(
            f"{paths}: no directory of a partition has {FILE}; name a directory of the broker's "
            "log.dirs (files are written by Kafka 2.8 and later)"
        )

    def _read_all(self) -> Iterator[None]:
        """Read the files that are new; yields after each."""
        for number, below in enumerate(self._opened):
            try:
                entries = below.inodes(PARTITION, PARTITIONS)
            except OSError as error:
                self._failed[str(below.path)] = error.strerror or str(error)
                continue
            for name, inode in entries:
                key = number, name, inode
                if key not in self._read and len(self._read) < PARTITIONS:
                    if self._is_read(below, name):
                        self._read.add(key)
                    yield

    def _is_read(self, below: Below, directory: str) -> bool:
        """Read the file of a partition, if there is one; failures are noted."""
        path = f"{directory}/{FILE}"
        try:
            content = below.read(path, FILE_BYTES)
        except FileNotFoundError:
            return False  # of an older Kafka, just being created, or deleted
        except OSError as error:
            self._failed[path] = error.strerror or str(error)
        except DatasetError as error:
            self._failed[path] = str(error)
        else:
            self._take(path, content)
        return True

    def _take(self, path: str, content: bytes) -> None:
        match = CONTENT.fullmatch(content)
        if match is None:
            self._failed[path] = "not in the format of Kafka"
            return
        raw, topic = id_of(match[1].decode()), path.rpartition("-")[0]
        if self.names.setdefault(raw, topic) != topic:
            self._failed[path] = f"it has the id of {self.names[raw]}"

    def _tell(self) -> None:
        """Pass on names, and failures as one problem."""
        for raw, name in self.names.items():
            self._watcher.names.setdefault(raw, name)
        if self._failed:
            text = f"names of topics were not read: {reasons(self._failed)}"
            self._failed = {}
            now = self._watcher.now_ns
            self._watcher.dissector.add_problems([Problem("live", "unread-names", text, now)])


def opened(path: Path) -> Below:
    """Open a log directory; raises CaptureError with advice."""
    try:
        return Below(path)
    except PermissionError as error:
        raise CaptureError(
            f"{path}: {error.strerror}; log directories belong to the broker's user: start as "
            "root with --user NAME, or as that user"
        ) from error
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror or error}") from error


def reasons(failed: dict[str, str]) -> str:
    """The first failures, and the number of others."""
    first = [f"{name}: {why}" for name, why in list(failed.items())[:SHOWN]]
    more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    return "; ".join(first) + more
