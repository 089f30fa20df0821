"""What is in a dataset, and how files come into it: all that one run made, or nothing.

    DATASET/exchanges/date=2026-11-22/tap=broker-1/r000001-t0-0.parquet
    DATASET/_kdissect/manifest.json          what is in it
    DATASET/_kdissect/states/0/000001.state  what later captures of the tap are put together with
    DATASET/_kdissect/run-000002-6f1c.../    what a run makes until it is committed

A run writes into a directory that no reader looks into. When all is there it writes
``commit.json``: the new manifest, files to be moved and files to be removed. From then on the run
counts: whoever opens the dataset next does what is not done yet. A run without it is as if it had
not been.
"""

import fcntl
import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from kdissect.errors import KdissectError, OutputError
from kdissect.spark.storage import is_uri, joined, read_bytes, remember

VERSION: Final = 2
MANIFEST: Final = "manifest.json"
OWN: Final = "_kdissect"  # Spark, DuckDB and Arrow pass over what begins with an underscore


@dataclass
class CaptureEntry:
    """A capture that is in; `packets` is -1 when nobody counted them."""

    path: str
    sha256: str
    size: int
    modified_ns: int
    first_time_ns: int
    packets: int
    pieces: int


@dataclass
class BrokenEntry:
    """A capture that could not be read, and the file with the row that says so."""

    path: str
    sha256: str
    size: int
    modified_ns: int
    message: str
    file: str


@dataclass
class FileEntry:
    """A Parquet file of a table.

    `is_open`: its rows may be others when more captures come. `is_nameless`: of topics in it only
    the id is known, and later captures may know the name.
    """

    path: str
    table: str
    date: str
    rows: int
    size: int
    is_open: bool = False
    is_nameless: bool = False


@dataclass
class TapEntry:
    """A tap, whose ids begin at ``number << 36``.

    `state` is the file of what is known behind its captures. A tap that was read by one task has
    none: it has to be read again when captures come. `latest_ns` is the time of its last packet.
    """

    name: str
    chain: str
    number: int
    latest_ns: int
    captures: list[CaptureEntry] = field(default_factory=list)
    state: str = ""
    files: list[FileEntry] = field(default_factory=list)
    balance: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, int]:
        """How many rows the tap has in each table."""
        counts: dict[str, int] = {}
        for file in self.files:
            counts[file.table] = counts.get(file.table, 0) + file.rows
        return counts


@dataclass
class Manifest:
    """`options` are those that rows depend on; all runs have the same."""

    run: int = 0
    next_tap: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    taps: list[TapEntry] = field(default_factory=list)
    broken: list[BrokenEntry] = field(default_factory=list)

    def files(self) -> set[tuple[str, int, int]]:
        """Path, size and time of all captures that were read."""
        captures = {(c.path, c.size, c.modified_ns) for tap in self.taps for c in tap.captures}
        return captures | {(one.path, one.size, one.modified_ns) for one in self.broken}

    def tap(self, chain: str) -> TapEntry | None:
        """The tap with these files."""
        return next((tap for tap in self.taps if tap.chain == chain), None)

    def names(self) -> set[str]:
        """All files of a dataset but its manifest."""
        files = {file.path for tap in self.taps for file in tap.files}
        states = {tap.state for tap in self.taps if tap.state}
        return files | states | {one.file for one in self.broken if one.file}

    def to_json(self) -> dict[str, Any]:
        """As it is written; rows of each tap are there for readers, and counted anew."""
        made = asdict(self)
        for text, tap in zip(made["taps"], self.taps, strict=True):
            text["rows"] = tap.rows
        return {"version": VERSION, **made}

    @classmethod
    def from_json(cls, made: dict[str, Any]) -> "Manifest":
        """Raises KdissectError for one of another version."""
        if made.get("version") != VERSION:
            raise KdissectError("the dataset's manifest is of another version of kdissect")
        taps = []
        for text in made["taps"]:
            entry = {key: value for key, value in text.items() if key != "rows"}
            entry["captures"] = [CaptureEntry(**one) for one in text["captures"]]
            entry["files"] = [FileEntry(**one) for one in text["files"]]
            taps.append(TapEntry(**entry))
        broken = [BrokenEntry(**one) for one in made["broken"]]
        return cls(made["run"], made["next_tap"], made["options"], taps, broken)


class Dataset:
    """A dataset that is open for one run; a context manager, which keeps others from writing.

    Raises OutputError when another process writes to it, or it cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.own = directory / OWN
        self.manifest = Manifest()
        self.run_directory = self.own
        self.token = ""  # the directory's name is unique, so names of files need not be
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> "Dataset":
        try:
            self.own.mkdir(parents=True, exist_ok=True)
            self._lock = (self.own / "lock").open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._recover()
            name = f"run-{self.manifest.run + 1:06}-{uuid.uuid4().hex[:12]}"
            self.run_directory = self.own / name
            self.run_directory.mkdir()
        except BlockingIOError as error:
            self._unlock()
            raise OutputError(f"{self.directory}: another run writes to this dataset") from error
        except OSError as error:
            self._unlock()
            raise OutputError(f"cannot write {self.directory}: {error.strerror}") from error
        except KdissectError:
            self._unlock()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.run_directory != self.own and not (self.run_directory / "commit.json").exists():
            shutil.rmtree(self.run_directory, ignore_errors=True)
        self._unlock()

    def commit(self, manifest: Manifest, moved: list[str], removed: list[str]) -> None:
        """Let the run count: files of its directory are moved to the same place in the dataset."""
        manifest.run = self.manifest.run + 1
        content = {"manifest": manifest.to_json(), "moved": moved, "removed": removed}
        write_json(self.run_directory / "commit.json", content)
        self._apply(self.run_directory)

    def _recover(self) -> None:
        """Do what committed runs have left undone, and forget the others."""
        for run in sorted(self.own.glob("run-*")):
            if (run / "commit.json").exists():
                self._apply(run)
            else:
                shutil.rmtree(run, ignore_errors=True)
        self.manifest = read_manifest(self.directory) or Manifest()

    def _apply(self, run: Path) -> None:
        """May be begun again after any step."""
        content = json.loads((run / "commit.json").read_text())
        for name in content["moved"]:
            source, destination = run / name, self.directory / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            if source.exists():
                source.replace(destination)
        for name in content["removed"]:
            (self.directory / name).unlink(missing_ok=True)
        write_json(self.own / MANIFEST, content["manifest"])
        self.manifest = Manifest.from_json(content["manifest"])
        # First what says that there is something to do, so that it is never half there.
        (run / "commit.json").unlink()
        shutil.rmtree(run, ignore_errors=True)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def read_manifest(dataset: str | os.PathLike[str]) -> Manifest | None:
    """The manifest of a dataset at a path or a URI, None where there is none."""
    location = remember(os.fspath(dataset))
    if is_uri(location):
        content = read_bytes(joined(location, OWN, MANIFEST))
        return None if content is None else Manifest.from_json(json.loads(content))
    path = Path(location, OWN, MANIFEST)
    return Manifest.from_json(json.loads(path.read_text())) if path.exists() else None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """A file that is there whole or not at all, also when the machine stops."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
