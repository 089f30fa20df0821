"""Entries of a dataset's contents: taps, captures and files; and their validation.

Records of runs may have been written by other programs. So the type of every value is checked,
files must be where kdissect would put them, and nothing may occur twice.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from kdissect.errors import DatasetError
from kdissect.system import strict_json
from kdissect.system.file_names import checked_name, shortened
from kdissect.tables.balances import checked_balance
from kdissect.tables.ids import LARGEST_TAP
from kdissect.tables.schemas import TABLES

OWN: Final = "_kdissect"  # Spark, DuckDB and Arrow ignore names that begin with an underscore
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
TABLE_FILE: Final = re.compile(
    rf"(?P<table>[a-z_]+)/date=(?P<date>\d{{4}}-\d\d-\d\d|{NO_DATE})/tap=(?P<tap>[^/]+)"
    r"/[^/.][^/]*\.parquet",
    re.ASCII,
)
STATE_FILE: Final = re.compile(rf"{OWN}/states/(?P<tap>\d+)/[^/.][^/]*\.state", re.ASCII)


@dataclass
class CaptureEntry:
    """A capture in the dataset.

    `segment` is -1 for a capture that continues those before it. One that came too late for that
    has the number of the first of those late captures that were dissected together with it.
    """

    path: str
    sha256: str
    size: int
    modified_ns: int
    first_time_ns: int
    packets: int
    splits: int
    segment: int = -1


@dataclass
class BrokenEntry:
    """A capture that could not be read, and the file with its problem row."""

    path: str
    sha256: str
    size: int
    modified_ns: int
    message: str
    file: str


@dataclass
class FileEntry:
    """A Parquet file of a table; `rows` is -1 where another program did not say how many.

    `is_open`: its rows may change when more captures come. `is_nameless`: it has topics of which
    only the id is known; later captures may contain their names.
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

    `state` is the file with the checkpoint after its captures, from which later ones continue.
    `latest_ns` is the capture's clock there. `closed` is the part of `balance` that the state does
    not count: late captures, and those before a state that could not be continued. `oldest` is the
    number of the first capture that the state refers to: of an open connection, usually.
    """

    name: str
    chain: str
    number: int
    latest_ns: int
    captures: list[CaptureEntry] = field(default_factory=list)
    state: str = ""
    files: list[FileEntry] = field(default_factory=list)
    balance: dict[str, Any] = field(default_factory=dict)
    closed: dict[str, Any] = field(default_factory=dict)
    oldest: int = 0

    @property
    def packets(self) -> int:
        """Number of packets of its captures."""
        return max(sum(one.packets for one in self.captures), int(self.balance.get("packets", 0)))

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows of the tap in each table."""
        counts: dict[str, int] = {}
        for file in self.files:
            counts[file.table] = counts.get(file.table, 0) + max(file.rows, 0)
        return counts


@dataclass
class Contents:
    """`options` are those that rows depend on; all runs use the same ones.

    `mixed` are tables with files that lack some of the declared columns, and the columns that any
    of their files have.
    """

    run: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    taps: list[TapEntry] = field(default_factory=list)
    broken: list[BrokenEntry] = field(default_factory=list)
    mixed: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def next_tap(self) -> int:
        """Number of the next new tap."""
        return max((tap.number + 1 for tap in self.taps), default=0)

    def files(self) -> set[tuple[str, int, int]]:
        """Path, size and modification time of all captures that were read."""
        captures = {(c.path, c.size, c.modified_ns) for tap in self.taps for c in tap.captures}
        return captures | {(one.path, one.size, one.modified_ns) for one in self.broken}

    def tap(self, chain: str) -> TapEntry | None:
        """The tap with these files."""
        return next((tap for tap in self.taps if tap.chain == chain), None)

    def names(self) -> set[str]:
        """All files of tables, and states."""
        files = {file.path for tap in self.taps for file in tap.files}
        states = {tap.state for tap in self.taps if tap.state}
        return files | states | {one.file for one in self.broken if one.file}

    def check(self) -> None:
        """Raise DatasetError where entries contradict each other."""
        numbers = [tap.number for tap in self.taps]
        if any(number > LARGEST_TAP for number in numbers):
            raise DatasetError(f"a tap above number {LARGEST_TAP}")
        files = [file.path for tap in self.taps for file in tap.files]
        files += [one.file for one in self.broken if one.file]
        for what, given in (
            ("number", numbers),
            ("chain", [tap.chain for tap in self.taps]),
            ("name", [partition_name(tap.name) for tap in self.taps]),
            ("file", files),
        ):
            if len({*given}) != len(given):
                raise DatasetError(f"a {what} of taps is in the dataset twice")


def tap_entry(value: Any) -> TapEntry:
    """Parse a tap, without its captures and files; raises DatasetError."""
    made = strict_json.mapping(value, "a tap")
    # A tap that failed in its first run has no balance.
    balances = {
        name: checked_balance(made[name]) if made.get(name) else {}
        for name in ("balance", "closed")
    }
    tap = strict_json.entry(TapEntry, made, "a tap", captures=[], files=[], **balances)
    strict_json.number(tap.number, "number")
    if tap.state and state_tap(tap.state) != str(tap.number):
        raise DatasetError(f"{shortened(tap.state)} is no state of tap {tap.number}")
    return tap


def broken_entry(value: Any) -> BrokenEntry:
    """Parse an unreadable capture; raises DatasetError."""
    broken = strict_json.entry(BrokenEntry, value, "a broken capture")
    if broken.file and table_place(broken.file)[:2] != ("problems", NO_DATE):
        raise DatasetError(f"{shortened(broken.file)} is no file of a broken capture")
    return broken


def checked_options(value: Any) -> dict[str, Any]:
    """Check the options of a dataset; raises DatasetError."""
    options = strict_json.mapping(value, "options")
    for name in strict_json.items(options.get("tables", []), "tables"):
        if strict_json.text(name, "the name of a table") not in TABLES:
            raise DatasetError(f"there is no table {shortened(name)}")
    return options


def table_place(name: str) -> tuple[str, str, str]:
    """Table, date and tap of a file name; raises DatasetError for other names."""
    match = TABLE_FILE.fullmatch(checked_name(name))
    if match is None or match["table"] not in TABLES:
        raise DatasetError(f"{shortened(name)} is no file of a table")
    return match["table"], match["date"], match["tap"]


def state_tap(name: str) -> str:
    """Number of the tap that a state file belongs to; raises DatasetError for other names."""
    match = STATE_FILE.fullmatch(checked_name(name))
    if match is None:
        raise DatasetError(f"{shortened(name)} is no state")
    return match["tap"]


def partition_name(name: str) -> str:
    """Encode a tap's name as a partition directory that Spark, DuckDB and Arrow can decode.

    >>> partition_name("rack 1/broker")
    'rack%201%2Fbroker'
    """
    return quote(name, safe="-._")


def table_files(contents: Contents, table: str) -> list[str]:
    """Parquet files of a table, as paths in the dataset."""
    files = [file.path for tap in contents.taps for file in tap.files if file.table == table]
    if table == "problems":
        files += [one.file for one in contents.broken if one.file]
    return files
