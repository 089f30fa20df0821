"""Recorded sessions of `kdissect top`: the lines of ``top --json``, one document a snapshot.

A session is data of others, as a capture is: every value is checked by type, and lines are bounded.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, get_type_hints

from kdissect.capture.packet import SECOND_NS
from kdissect.errors import CaptureError, DatasetError, OutputError, OutputExists
from kdissect.live.counting.lines import json_of
from kdissect.live.counting.snapshot import (
    ConnectionRate,
    CurrentFinding,
    DegradedConnection,
    Failing,
    Focus,
    Grouped,
    PartitionLag,
    ProblemMessage,
    Slow,
    Snapshot,
    Timed,
)
from kdissect.live.encryption import Undecrypted
from kdissect.live.listener import MID_STREAM, Listener, LiveCapture, Status
from kdissect.pipeline import Balance
from kdissect.sources.packet_source import Behind, Counts
from kdissect.system import strict_json
from kdissect.text.escape import json_safe

# A snapshot has at most some 2 000 rows of a few hundred bytes.
LINE_LIMIT: Final = 16 << 20
# Ten days of one a second: 8 MB of places of lines.
SNAPSHOTS_LIMIT: Final = 1_000_000
COMMANDS: Final = ("top", "live")
ROWS_LIMIT: Final = 10_000
LISTS: Final[Mapping[str, type[Any]]] = {
    "apis": Timed,
    "clients": Timed,
    "topics": Timed,
    "errors": Failing,
    "connections": DegradedConnection,
    "groups": Grouped,
    "slowest": Slow,
    "partitions": PartitionLag,
    "connection_rates": ConnectionRate,
    "problem_messages": ProblemMessage,
}
Check = Callable[[Any, str], Any]


class RecordedSession:
    """A session that is played: `snapshot` is the current one, `advance` and `seek` move on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as file:
            self._starts = self._scanned(file)
        self.number = 0
        self._has_begun = False
        self._read: tuple[int, Snapshot] | None = None

    def __len__(self) -> int:
        """Number of snapshots."""
        return len(self._starts)

    @property
    def is_over(self) -> bool:
        """Return whether the last snapshot is the current one."""
        return self.number == len(self) - 1

    @property
    def place(self) -> str:
        """Which of the snapshots it is."""
        return f"{self.number + 1} of {len(self)}"

    def advance(self) -> None:
        """Go to the next snapshot, if there is one."""
        self.seek(1)

    def seek(self, by: int) -> None:
        """Go so many snapshots on or back, to the first or the last at most."""
        self.number = max(0, min(self.number + by, len(self) - 1))

    def snapshot(self) -> Snapshot:
        """The current snapshot; raises CaptureError for a line that is none."""
        if self._read is None or self._read[0] != self.number:
            with self._opened() as file:
                file.seek(self._starts[self.number])
                line = file.readline(LINE_LIMIT)
            self._read = self.number, self._parsed(line)
        return self._read[1]

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise CaptureError(f"{self.path}: {error.strerror}") from error

    def _scanned(self, file: BinaryIO) -> list[int]:
        """Where lines start; one that was not written to its end is left out."""
        starts: list[int] = []
        at = 0
        while line := file.readline(LINE_LIMIT):
            if not line.endswith(b"\n"):
                if len(line) == LINE_LIMIT:
                    raise CaptureError(f"{self.path}: a line of more than {LINE_LIMIT} bytes")
                break
            if len(starts) == SNAPSHOTS_LIMIT:
                raise CaptureError(f"{self.path}: more than {SNAPSHOTS_LIMIT} lines")
            starts.append(at)
            at += len(line)
        if not starts:
            raise CaptureError(f"{self.path}: no snapshot in this session")
        return starts

    def _parsed(self, line: bytes) -> Snapshot:
        where = f"{self.path}, line {self.number + 1}"
        try:
            return snapshot_of(strict_json.mapping(strict_json.parsed(line, where), where))
        except DatasetError as error:
            text = str(error)
            raise CaptureError(text if text.startswith(where) else f"{where}: {text}") from error


def snapshot_of(data: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `json_of` has made this of; raises DatasetError for other data."""
    if data.get("command") not in COMMANDS:
        raise DatasetError("no document of `kdissect top --json`")
    lists = {name: rows_of(kind, data.get(name, []), name) for name, kind in LISTS.items()}
    problems = strict_json.counts(data.get("problems", {}), "problems")
    findings = data.get("current_findings")
    return Snapshot(
        status=status_of(data, problems),
        focus=made(Focus, data.get("focus", {}), "focus"),
        window_s=real(data.get("window_s"), "window_s"),
        is_sampled=strict_json.flag(data.get("is_sampled"), "is_sampled"),
        whole=made(Timed, data.get("whole"), "whole"),
        packets_rate=real(data.get("packets_rate"), "packets_rate"),
        problems=tuple(sorted(problems.items(), key=lambda item: -item[1])),
        waiting=whole_of(data, "waiting"),
        late=whole_of(data, "late"),
        clients_seen=whole_of(data, "clients_seen"),
        topics_seen=whole_of(data, "topics_seen"),
        connections_share=max(1, whole_of(data, "connections_share")),
        connections_seen=whole_of(data, "connections_seen"),
        current_findings=None
        if findings is None
        else rows_of(CurrentFinding, findings, "current_findings"),
        **lists,
    )


def status_of(data: Mapping[str, Any], problems: Mapping[str, int]) -> Status:
    """The status of the capture, as far as a document has it."""
    kinds = {**problems, MID_STREAM: whole_of(data, "mid_streams")}
    undecrypted = strict_json.mapping(data.get("undecrypted", {}), "undecrypted")
    balance = Balance(
        whole_of(data, "packets"), whole_of(data, "captured_bytes"), 0, 0, 0, 0, 0, 0, 0,
        whole_of(data, "ended_connections"), 0, whole_of(data, "exchanges"), {}, {}, kinds,
    )  # fmt: skip
    return Status(
        strict_json.number(data.get("time_ns"), "time_ns"),
        balance,
        Counts(whole_of(data, "received"), whole_of(data, "dropped")),
        real(data.get("backlog", 0), "backlog"),
        whole_of(data, "open_connections"),
        whole_of(data, "level"),
        strict_json.counts(data.get("shed", {}), "shed"),
        whole_of(data, "memory"),
        real(data.get("cpu_seconds", 0), "cpu_seconds"),
        Undecrypted(
            strict_json.counts(undecrypted.get("reasons", {}), "reasons"),
            whole_of(undecrypted, "bytes"),
        ),
        made(Behind, data.get("behind", {}), "behind"),
    )


def whole_of(data: Mapping[str, Any], name: str) -> int:
    """A count; 0 where the document has none."""
    return strict_json.number(data.get(name, 0), name)


def real(value: Any, what: str) -> float:
    """A number, with a fraction or without."""
    if type(value) not in (int, float) or not abs(value) <= strict_json.LARGEST:
        raise DatasetError(f"{what} is no number")
    return float(value)


CHECKS: Final[Mapping[Any, Check]] = {
    str: strict_json.text,
    int: strict_json.any_number,
    bool: strict_json.flag,
    float: real,
}


def rows_of(kind: type[Any], value: Any, what: str) -> tuple[Any, ...]:
    """Rows of a list, at most ROWS_LIMIT."""
    rows = strict_json.items(value, what)
    if len(rows) > ROWS_LIMIT:
        raise DatasetError(f"{what} has more than {ROWS_LIMIT} rows")
    return tuple(made(kind, row, what) for row in rows)


def made(kind: type[Any], value: Any, what: str) -> Any:
    """A named tuple of an object; fields that are not known are of a later version."""
    given = strict_json.mapping(value, what)
    defaults = kind._field_defaults
    values = {}
    for name, type_ in hints_of(kind).items():
        if name in given:
            values[name] = CHECKS[type_](given[name], f"{what}.{name}")
        elif name not in defaults:
            raise DatasetError(f"{what} has no {name}")
    return kind(**values)


HINTS: Final[dict[type[Any], dict[str, Any]]] = {}


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """Types of the fields; found once."""
    if kind not in HINTS:
        HINTS[kind] = get_type_hints(kind)
    return HINTS[kind]


class Recorder(Listener):
    """Writes snapshots of `snapshot` to a new file, for its owner alone, every `every_s` seconds.

    Raises OutputError where it cannot be written.
    """

    def __init__(
        self,
        path: Path,
        every_s: float,
        snapshot: Callable[[], Snapshot],
        head: Mapping[str, Any],
    ) -> None:
        self.path = path
        self.count = 0
        self._every_ns = round(every_s * SECOND_NS)
        self._snapshot = snapshot
        self._head = head
        self._last_ns: int | None = None
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise OutputExists(f"{path} exists; a session is recorded to a new file") from error
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from error
        self._file = os.fdopen(number, "wb")

    def begin(self, watcher: LiveCapture | None = None) -> None:
        """Nothing is written before the first rows."""

    def tick(self, status: Status) -> None:
        if self._last_ns is None:
            self._last_ns = status.now_ns
        elif status.now_ns >= self._last_ns + self._every_ns:
            self._write(status)

    def finish(self, status: Status) -> None:
        """Write the last snapshot, and close the file."""
        self._write(status)
        self._file.close()

    def _write(self, status: Status) -> None:
        self._last_ns = status.now_ns
        line = json_safe(json.dumps({**self._head, **json_of(self._snapshot())}))
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}") from error
        self.count += 1
