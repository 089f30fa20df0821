"""Delta tables of a dataset: versions of them, and commits of files that tasks wrote.

    DATASET/exchanges/_delta_log/00000000000000000000.json       and so on for each table
    DATASET/exchanges/date=2026-11-22/tap=broker-1/NAME.parquet  where tasks have written it

A commit adds and removes files, with the number of the run as version of the application `kdissect`
(``txn``): a table that has it is left alone, so a commit may be repeated. The format is that of
Delta Lake (protocol 1 and 2), its logs are read and written by `deltalake`. A file that is removed
stays on disk for readers of earlier versions, until `vacuum`.

Logs may have been written by other programs. So they are looked at before they are opened (regular
files below the directory, of limited size), and the paths of all files that they name are checked.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from kdissect.dataset.delta_actions import (
    KEYS,
    LOGGED,
    SINCE,
    Added,
    Logged,
    Removed,
    add_action,
    delta_schema,
    logged,
    logged_plainly,
    new_fields,
    remove_action,
    settings_of,
)
from kdissect.dataset.storage import files_in, first_words, is_uri, joined
from kdissect.dataset.store_options import delta_options, delta_uri
from kdissect.errors import DatasetError, KdissectError, OutputError, StoreError
from kdissect.system.confined import Below
from kdissect.system.extras import MissingExtra
from kdissect.system.file_names import shortened
from kdissect.tables.schemas import TABLES, Table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.schema import Schema
    from deltalake.transaction import AddAction, CommitProperties, RemoveAction

APPLICATION: Final = "kdissect"
LOG: Final = "_delta_log"
ANY: Final = re.compile(r".*", re.DOTALL)
# A version, or a checkpoint of one. A writer that was killed leaves temporary files beside them,
# before the first version, too.
OF_VERSION: Final = re.compile(r"\d{20}\.(json|checkpoint\.(.+\.)?(parquet|json))")
OF_STORE: Final = re.compile(r"Generic (S3|GCS|MicrosoftAzure) error")
# Of a file of a log: a checkpoint of 400 000 files.
LOG_BYTES: Final = 256 << 20
# Other programs may commit to a table at the same time.
ATTEMPTS: Final = 5
READ_VERSION: Final = 1  # a reader's version of the format: no deletion vectors, no renamed columns


class Conflict(KdissectError):
    """Another process has committed with this version of the application."""


class Snapshot(NamedTuple):
    """A version of a table, with its files in the order of their paths, and its columns.

    `is_mixed`: columns were added to it, and files from before do not have them.
    """

    version: int
    files: tuple[Logged, ...]
    columns: tuple[str, ...]
    is_mixed: bool


class DeltaTables:
    """The Delta tables below a location; raises DatasetError, StoreError and OutputError."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.options = delta_options(location)
        # As they were read; a commit to one that has changed since fails, and is repeated.
        self._known: dict[str, DeltaTable] = {}

    def has(self, name: str) -> bool:
        """Return whether there is a table of this name; its log is checked, not read."""
        return has_log(self.location, name)

    def snapshot(self, name: str, version: int | None = None) -> Snapshot:
        """A version of a table, None is the latest one."""
        with told(joined(self.location, name)):
            opened = self._known[name] = self._opened(name, version)
            return self._files(name, opened)

    def files(self, name: str, table: "DeltaTable") -> Snapshot:
        """The version of a table that was opened."""
        with told(joined(self.location, name)):
            return self._files(name, table)

    def opened(self, name: str, version: int | None = None) -> "DeltaTable":
        """A table of the dataset, as `deltalake` has it."""
        with told(joined(self.location, name)):
            return self._opened(name, version)

    def commit(
        self, name: str, run: int, added: Sequence[Added], removed: Sequence[Removed]
    ) -> int:
        """Add and remove files of a table in one commit, unless the run has done so.

        Returns the version of the table that has the run's files.
        """
        where = joined(self.location, name)
        for _ in range(ATTEMPTS):
            with told(where), suppress(Conflict):
                opened = self._known.pop(name, None)
                if opened is None and not self.has(name):
                    self._create(name, TABLES[name], run, added)
                opened = opened or self._opened(name)
                if done_by(opened) >= run:
                    return int(opened.version())
                if not added and not removed:
                    opened.update_incremental()
                    return int(opened.version())
                check_there(where, self._files(name, opened), removed)
                self._declare(name, opened, run)
                actions: list[AddAction | RemoveAction] = [add_action(one) for one in added]
                actions += [remove_action(one) for one in removed]
                before = int(opened.version())
                committed(opened, actions, delta_schema(TABLES[name]), KEYS, run)
                opened.update_incremental()
                self.sync(name, before + 1, int(opened.version()))
                return int(opened.version())
        raise OutputError(f"{where}: other programs write to this table all the time")

    def sync(self, name: str, first: int, last: int) -> None:
        """Bring versions of a table's log on disk, which were just committed."""
        if is_uri(self.location):
            return
        with Below(self.location) as below:
            for version in range(first, last + 1):
                below.sync(f"{name}/{LOG}/{version:020}.json")
            for directory in (f"{name}/{LOG}", name, "")[: 1 if first else 3]:
                below.sync_names(directory)

    def _declare(self, name: str, opened: "DeltaTable", run: int) -> None:
        """Add columns and properties to a table that was made before they were declared."""
        before = int(opened.version())
        there = [field.name for field in opened.schema().fields]
        with conflicts():
            if fields := new_fields(TABLES[name], there, run):
                opened.alter.add_columns(fields)
            settings = settings_of(TABLES[name])
            if settings.items() - opened.metadata().configuration.items():
                opened.alter.set_table_properties(settings)
        opened.update_incremental()
        self.sync(name, before + 1, int(opened.version()))

    def _create(self, name: str, table: Table, run: int, added: Sequence[Added]) -> None:
        from deltalake.transaction import create_table_with_add_actions

        with conflicts():
            create_table_with_add_actions(
                delta_uri(joined(self.location, name)),
                delta_schema(table),
                [add_action(one) for one in added],
                mode="error",
                partition_by=list(KEYS),
                name=name,
                description=f"A row is {table.row}.",
                configuration=settings_of(table),
                storage_options=self.options,
                commit_properties=of_creation(run),
            )
        self.sync(name, 0, 0)

    def _opened(self, name: str, version: int | None = None) -> "DeltaTable":
        delta = deltalake()
        has_log(self.location, name)
        opened: DeltaTable = delta.DeltaTable(
            delta_uri(joined(self.location, name)), version=version, storage_options=self.options
        )
        if opened.protocol().min_reader_version > READ_VERSION:
            raise DatasetError(
                f"{joined(self.location, name)}: has features of Delta Lake that kdissect does "
                "not read"
            )
        return opened

    def _files(self, name: str, opened: "DeltaTable") -> Snapshot:
        # `pa.table` imports pandas, and so do times as Python values, for 0.2 s.
        # Statistics are hundreds of columns.
        actions = pa.RecordBatchReader.from_stream(opened.get_add_actions(flatten=True)).read_all()
        rows = actions.select([one for one in LOGGED if one in actions.column_names]).to_pylist()
        paths = [f"{name}/{unquote(row['path'])}" for row in rows]
        try:
            check_distinct(paths)
            files = [
                logged(path, row) if name in TABLES else logged_plainly(path, row)
                for path, row in zip(paths, rows, strict=True)
            ]
        except DatasetError as error:
            raise DatasetError(f"{joined(self.location, name)}: {error}") from error
        fields = opened.schema().fields
        return Snapshot(
            int(opened.version()),
            tuple(sorted(files)),
            tuple(field.name for field in fields),
            any(SINCE in (field.metadata or {}) for field in fields),
        )


def check_distinct(paths: Sequence[str]) -> None:
    """Raise DatasetError where a file is there twice."""
    if len({*paths}) != len(paths):
        raise DatasetError("a file is in its table twice")


def check_there(where: str, now: Snapshot, removed: Iterable[Removed]) -> None:
    """Raise DatasetError where a file that is to be replaced has been rewritten by others."""
    there = {file.path for file in now.files}
    gone = [one.path for one in removed if one.path not in there]
    if gone:
        raise DatasetError(
            f"{where}: {shortened(gone[0])} has rows that this run replaces, and another program "
            f"has rewritten or removed it; restore the table to an earlier version"
        )


def committed(
    table: "DeltaTable",
    actions: Sequence["AddAction | RemoveAction"],
    schema: "Schema",
    keys: Sequence[str],
    run: int,
    application: str = APPLICATION,
) -> None:
    """Commit to a table; raises Conflict if others did so since it was opened."""
    with conflicts():
        table.create_write_transaction(
            list(actions),
            "append",
            schema,
            partition_by=list(keys),
            commit_properties=of_run(run, application),
        )


def done_by(table: "DeltaTable", application: str = APPLICATION) -> int:
    """Number of the last run that has committed to a table, 0 for none."""
    return table.transaction_version(application) or 0


def of_run(run: int, application: str = APPLICATION, retries: int = ATTEMPTS) -> "CommitProperties":
    """Properties of the commit of a run."""
    delta = deltalake()
    made: CommitProperties = delta.CommitProperties(
        max_commit_retries=retries, app_transactions=[delta.Transaction(application, run)]
    )
    return made


def of_creation(run: int) -> "CommitProperties":
    """Properties of the commit that creates a table.

    It is not retried: a retry would be version 1 of a table that another process has just created,
    without a check for conflicts.
    """
    return of_run(run, retries=0)


def deltalake() -> Any:
    """The package that reads and writes logs; raises MissingExtra without it."""
    try:
        import deltalake
    except ModuleNotFoundError as error:
        raise MissingExtra("a dataset", "datasets") from error
    return deltalake


def has_log(location: str, name: str) -> bool:
    """Return whether a table has a version; DatasetError for links, or files too large."""
    place = f"{name}/{LOG}"
    if is_uri(location):
        sizes = {one.location: one.size for one in files_in(joined(location, place))}
    else:
        with suppress(FileNotFoundError), Below(location) as below:
            below.check(place)
            below.directories(place, ANY)  # a link to one
            return has_version(check_sizes(location, below.files(place)))
        return False
    return has_version(check_sizes("", sizes))


def has_version(names: Iterable[str]) -> bool:
    """Return whether one of the files of a log is a version of the table."""
    return any(OF_VERSION.fullmatch(PurePosixPath(name).name) for name in names)


def check_sizes(location: str, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Raise DatasetError where a file of a log is larger than kdissect reads."""
    for name, size in sizes.items():
        if size > LOG_BYTES:
            where = joined(location, name) if location else name
            raise DatasetError(f"{where}: more than {LOG_BYTES} bytes")
    return sizes


@contextmanager
def conflicts() -> Iterator[None]:
    """Raise Conflict where another process was faster."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError as error:
        raise Conflict(first_words(error)) from error
    except DeltaError as error:
        if "already exists" in str(error):
            raise Conflict(first_words(error)) from error
        raise


@contextmanager
def told(where: str) -> Iterator[None]:
    """Convert what `deltalake` raises to kdissect errors that name the table."""
    try:
        yield
    except (KdissectError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        if is_uri(where) and is_of_store(error):
            raise StoreError(f"{where}: {first_words(error)}") from error
        raise DatasetError(f"{where}: Delta table: {first_words(error)}") from error


def is_of_store(error: BaseException) -> bool:
    """Return whether a store could not be reached, or refused a request."""
    return isinstance(error, OSError) or OF_STORE.search(str(error)) is not None
