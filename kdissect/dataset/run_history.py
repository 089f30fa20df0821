"""Contents of a dataset after its last run, from the records of runs and the logs of tables."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kdissect.dataset.delta_actions import Added, Removed
from kdissect.dataset.entries import (
    BrokenEntry,
    CaptureEntry,
    Contents,
    FileEntry,
    TapEntry,
    broken_entry,
    checked_options,
    partition_name,
    table_place,
    tap_entry,
)
from kdissect.dataset.run_records import BEGUN, DONE, VERSION, Change, Record
from kdissect.errors import DatasetError
from kdissect.system import strict_json
from kdissect.system.file_names import shortened
from kdissect.tables.schemas import TABLES


@dataclass
class History:
    """What the records of a dataset say.

    `contents` are those after the last run that is done, without files; `versions` are those of
    its tables. `special` are the files of each tap that are open or nameless. `pending` is the
    change of the run after it, if it was decided and is not done.
    """

    contents: Contents
    versions: dict[str, int]
    special: dict[int, "Special"]
    pending: Change | None = None
    tables: Sequence[str] = ()  # of the pending run


@dataclass
class Special:
    """Files of a tap whose rows may still change, see `FileEntry`."""

    open: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)


def history_of(records: Iterable[Record], where: str) -> History:
    """What records say; raises DatasetError, which names the table, where they contradict."""
    ordered = sorted(records)
    done = [one.run for one in ordered if one.item == DONE]
    last = len(done)
    if done != list(range(1, last + 1)) or any(
        not 0 < one.run <= last + 1 for one in ordered
    ):  # fmt: skip
        raise DatasetError(f"{where}: runs that do not follow each other")
    told = Told(where)
    for one in ordered:
        if one.run <= last:
            told.take(one)
    history = told.history()
    history.contents.run = last
    pending = [one for one in ordered if one.run > last]
    if pending:
        following = Told(where)
        for one in ordered:
            following.take(one)
        options = following.history().contents.options
        history.tables = options.get("tables", list(TABLES))
        history.pending = change_in(pending, where)
    return history


class Told:
    """Takes records one after the other."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.options: dict[str, Any] = {}
        self.taps: dict[int, TapEntry] = {}
        self.special: dict[int, Special] = {}
        self.broken: dict[str, BrokenEntry] = {}
        self.versions: dict[str, int] = {}

    def take(self, record: Record) -> None:
        """Add a record; raises DatasetError for one that no run has made."""
        value = parsed(record, self.where)
        try:
            self._take(record.item, value)
        except DatasetError as error:
            raise DatasetError(f"{self.where}: run {record.run}: {error}") from error

    def _take(self, item: str, value: Any) -> None:
        if item == BEGUN:
            if strict_json.mapping(value, "a run").get("version") != VERSION:
                raise DatasetError("written by another version of kdissect")
        elif item == "options":
            self.options = checked_options(value)
        elif item == "tap":
            self._take_tap(strict_json.mapping(value, "a tap"))
        elif item == "capture":
            made = {**strict_json.mapping(value, "a capture")}
            number = strict_json.number(made.pop("tap", None), "tap")
            if number not in self.taps:
                raise DatasetError(f"a capture of tap {number}, which there is not")
            self.taps[number].captures.append(strict_json.entry(CaptureEntry, made, "a capture"))
        elif item == "broken":
            broken = broken_entry(value)
            self.broken.pop(broken.path, None)
            self.broken[broken.path] = broken
        elif item == "mended":
            self.broken.pop(strict_json.text(value, "a path"), None)
        elif item == DONE:
            self.versions = strict_json.counts(value, "versions")
            if unknown := self.versions.keys() - TABLES.keys():
                raise DatasetError(f"there is no table {shortened(min(unknown))}")
        elif item not in ("add", "remove"):
            raise DatasetError(f"{shortened(item)} is not known")

    def _take_tap(self, value: dict[str, Any]) -> None:
        made = {**value}
        special = Special(*(files_in(made.pop(name, None)) for name in ("open", "nameless")))
        tap = tap_entry(made)
        before = self.taps.get(tap.number)
        tap.captures = before.captures if before else []
        self.taps[tap.number] = tap
        self.special[tap.number] = special

    def history(self) -> History:
        """What all of them say."""
        taps = [self.taps[number] for number in sorted(self.taps)]
        contents = Contents(0, self.options, taps, list(self.broken.values()))
        try:
            contents.check()
        except DatasetError as error:
            raise DatasetError(f"{self.where}: {error}") from error
        return History(contents, self.versions, self.special)


def parsed(record: Record, where: str) -> Any:
    """The value of a record; raises DatasetError for one that is no JSON."""
    return strict_json.parsed(record.value.encode("utf-8", "surrogatepass"), where)


def change_in(records: Iterable[Record], where: str) -> Change:
    """Files of a run; raises DatasetError for those that are no files of tables."""
    change = Change()
    try:
        for record in records:
            value = parsed(record, where)
            if record.item == "add":
                added = strict_json.entry(Added, value, "a file")
                check_file(added)
                strict_json.number(added.size, "size")
                strict_json.mapping(strict_json.parsed(added.statistics.encode(), where), "bounds")
                change.added.append(added)
            elif record.item == "remove":
                removed = strict_json.entry(Removed, value, "a file")
                check_file(removed)
                change.removed.append(removed)
    except DatasetError as error:
        raise DatasetError(f"{where}: {error}") from error
    return change


def is_rewriting(records: Sequence[Record], needed: Collection[str], where: str) -> bool:
    """Return whether records of runs only say that files were rewritten, none of those needed."""
    if any(one.item not in (BEGUN, "add", "remove", DONE) for one in records):
        return False
    return all(one.path not in needed for one in change_in(records, where).removed)


def check_file(file: Added | Removed) -> None:
    """Raise DatasetError for a file that is not of its table."""
    if table_place(file.path)[0] != file.table:
        raise DatasetError(f"{shortened(file.path)} is no file of {shortened(file.table)}")


def files_in(value: Any) -> list[str]:
    """Paths of files of tables; raises DatasetError for others."""
    found = [strict_json.text(one, "a path") for one in strict_json.items(value, "a list of files")]
    for path in found:
        table_place(path)
    return found


def with_files(
    history: History, files: Mapping[str, Sequence[tuple[str, int, int]]], where: str
) -> Contents:
    """The contents, with the files of tables: path, size and row count.

    Raises DatasetError where a file is of no tap, or a tap's or broken capture's is missing.
    """
    contents = history.contents
    taps = {partition_name(tap.name): tap for tap in contents.taps}
    waiting = {one.file for one in contents.broken if one.file}
    for table in TABLES:
        for path, size, rows in files.get(table, ()):
            if path in waiting:
                waiting.remove(path)
                continue
            _, day, name = table_place(path)
            if name not in taps:
                raise DatasetError(f"{where}: {shortened(path)} is of no tap")
            tap = taps[name]
            special = history.special[tap.number]
            tap.files.append(
                FileEntry(
                    path, table, day, rows, size, path in special.open, path in special.nameless
                )
            )
    for tap in contents.taps:
        there = {file.path for file in tap.files}
        special = history.special[tap.number]
        waiting |= {path for path in (*special.open, *special.nameless) if path not in there}
    if waiting:
        raise DatasetError(
            f"{where}: {shortened(min(waiting))} has been removed from its table by another program"
        )
    return contents
