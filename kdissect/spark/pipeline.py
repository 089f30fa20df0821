"""Captures → a dataset: Parquet files by table, day and tap, and what each run changed.

`dissect` can be called again with more captures, or after a crash: captures in the dataset are not
read again, no rows are duplicated or lost. See docs/decisions/spark-pipeline.md.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from kdissect.capture.rotation import COMPRESSION
from kdissect.dataset.entries import (
    NO_DATE,
    BrokenEntry,
    CaptureEntry,
    Contents,
    TapEntry,
    partition_name,
)
from kdissect.dataset.planning import (
    SPARK_SPLIT_SIZE,
    Failed,
    Inspected,
    Planned,
    inspect_capture,
    plan_taps,
    sha256_of,
    unread,
)
from kdissect.dataset.rounds import rounds_of
from kdissect.dataset.runs import Dataset, known_captures
from kdissect.dataset.storage import is_uri, reached_by, seen
from kdissect.dataset.storage_captures import local_copy
from kdissect.dataset.storage_tasks import mirrored
from kdissect.dataset.stored_columns import UNREADABLE, spark_schema
from kdissect.dataset.taps import Broken, Taps, find_taps, short_name
from kdissect.dataset.tasks import Task
from kdissect.errors import CaptureError, KdissectError
from kdissect.pipeline import Options
from kdissect.spark.second_attempt import try_again
from kdissect.spark.steps import Steps
from kdissect.spark.task_runners import TASK_BYTES, Runner, here, on_spark
from kdissect.tables.batches import TEXT_TYPE
from kdissect.tables.schemas import DEFAULT_TABLES, PROBLEMS
from kdissect.tables.writers import ParquetFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Captures up to this size in all are inspected by one task: it only looks at the headers of their
# records, 6 GB/s of large packets.
INSPECTED_BYTES: Final = 1200 << 20
# Options that do not affect rows.
PASSING: Final = ("progress", "jobs", "batch_rows")


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    `boundary_bytes` is the total size of the boundary states, merged per tap; `row_bytes` is the
    size of the staged rows. Data of taps in `failed` is unchanged.
    """

    captures: int
    capture_bytes: int
    splits: int
    boundary_bytes: int
    row_bytes: int
    broken: tuple[Broken, ...]
    failed: tuple[Failed, ...]
    contents: Contents


class Inspecting(NamedTuple):
    """How captures are inspected."""

    split_size: int
    full_hash: bool


def dissect(
    spark: "SparkSession | None",
    captures: Iterable[str | os.PathLike[str]],
    dataset: str | os.PathLike[str],
    *,
    tap: str | None = None,
    tables: Sequence[str] = DEFAULT_TABLES,
    split_size: int = SPARK_SPLIT_SIZE,
    full_hash: bool = False,
    **options: Any,
) -> Outcome:
    """Bring captures into a dataset, in the tasks of a Spark session (None: in this process).

    `captures` are paths, globs and directories visible to all executors; `tap` is a pattern that
    extracts the tap from the path (see `find_taps`); with `full_hash`, copies of captures above 16
    MB are known by all of their bytes, not by samples; `options` are those of `kdissect.Options`.
    An unreadable capture is a row in `problems`, and is listed in its contents. A tap that cannot
    be continued does not affect the others: see `Outcome.failed`. Taps of more than 256 GB in
    all are brought in, and committed, in `rounds`. Raises KdissectError.
    """
    found = find_taps([os.fspath(one) for one in captures], tap)
    return dissect_taps(
        spark, found, dataset, tables=tables, split_size=split_size, full_hash=full_hash, **options
    )


def dissect_taps(
    spark: "SparkSession | None",
    found: Taps,
    dataset: str | os.PathLike[str],
    *,
    tables: Sequence[str] = DEFAULT_TABLES,
    split_size: int = SPARK_SPLIT_SIZE,
    full_hash: bool = False,
    **options: Any,
) -> Outcome:
    """Like `dissect`, with taps that were found before."""
    chosen = Options(tables=tuple(tables), **options)
    if chosen.strict or chosen.columns:
        raise KdissectError("a dataset has all columns and problems: not strict, no columns")
    runner = here if spark is None else on_spark(spark)
    how = Inspecting(split_size, full_hash)
    outcomes: list[Outcome] = []
    for taps in rounds_of(found, partial(known_captures, dataset)):
        with Dataset(dataset) as opened:
            unreadable = () if outcomes else found.broken
            outcomes.append(_dissect(opened, taps, unreadable, chosen, how, runner))
    return all_of(outcomes)


def all_of(rounds: Sequence[Outcome]) -> Outcome:
    """The outcome of all rounds."""
    return Outcome(
        sum(one.captures for one in rounds),
        sum(one.capture_bytes for one in rounds),
        sum(one.splits for one in rounds),
        sum(one.boundary_bytes for one in rounds),
        sum(one.row_bytes for one in rounds),
        tuple(broken for one in rounds for broken in one.broken),
        tuple(failed for one in rounds for failed in one.failed),
        rounds[-1].contents,
    )


def _dissect(
    dataset: Dataset,
    taps: Sequence[Any],
    unreadable: Sequence[Broken],
    options: Options,
    how: Inspecting,
    runner: Runner,
) -> Outcome:
    contents = dataset.contents
    check_options(contents, options)
    stores = stores_of(dataset, taps, contents)
    inspect = partial(inspect_capture, **how._asdict(), stores=stores)

    def inspect_all(paths: Sequence[str]) -> list[Inspected | Broken]:
        return nearest(runner, paths)(inspect, paths, inspected_sizes(paths, how))

    def plan_again(chains: set[str]) -> Planned:
        first = merged(contents, done.taps, [], set())
        return plan_taps([tap for tap in taps if tap.chain in chains], first, inspect_all)

    planned = plan_taps(taps, contents, inspect_all)
    new = unread((one.path for one in unreadable), contents)
    broken = [
        *(one for one in unreadable if one.path in new), *planned.broken
    ]  # fmt: skip
    mended = planned.read & {one.path for one in contents.broken}
    if not planned.works and not broken and not mended:
        return Outcome(0, 0, 0, 0, 0, (), (), contents)
    task = Task(
        str(dataset.directory),
        str(dataset.run_directory),
        contents.run + 1,
        options,
        dict(enumerate(planned.works)),
        f"-{dataset.token}",
        stores,
    )
    done = Steps(task, runner).run()
    done, lost = try_again(task, done, plan_again, runner)
    broken += lost
    made = merged(contents, done.taps, [broken_entry(task, one) for one in broken], planned.read)
    made.options = described(options)
    dataset.commit(made, new_files(contents, made), stale(contents, made))
    added = [capture for tap in done.taps for capture in new_captures(tap, contents)]
    return Outcome(
        len(added),
        sum(one.size for one in added),
        sum(len(work.splits) for work in task.works.values()),
        done.boundary_bytes,
        done.row_bytes,
        tuple(broken),
        tuple(done.failed),
        made,
    )


def stores_of(dataset: Dataset, taps: Sequence[Any], contents: Contents) -> tuple[str, ...]:
    """Settings that tasks need to reach all files of a run."""
    before = [capture.path for tap in contents.taps for capture in tap.captures]
    return reached_by([str(dataset.directory), *before, *(p for tap in taps for p in tap.paths)])


def nearest(runner: Runner, paths: Sequence[str]) -> Runner:
    """Runner that inspects captures: this process for a single local one, as a stream's batches."""
    return here if len(paths) == 1 and not is_uri(paths[0]) else runner


def inspected_sizes(paths: Sequence[str], how: Inspecting) -> list[int]:
    """Bytes that take as long to dissect as these captures to inspect, see `shares`.

    A compressed capture with another name takes longer than this says.
    """
    return [
        seen(path)[0]
        if how.full_hash or is_uri(path) or COMPRESSION.search(path)
        else seen(path)[0] * TASK_BYTES // INSPECTED_BYTES
        for path in paths
    ]


def described(options: Options) -> dict[str, Any]:
    """Options that affect rows, as JSON values."""
    known = {name: getattr(options, name) for name in options.__dataclass_fields__}
    return {
        name: value._asdict() if name == "limits" else plain(value)
        for name, value in known.items()
        if name not in PASSING
    }


def plain(value: Any) -> Any:
    """Value of an option as it is after a JSON round trip."""
    if isinstance(value, Path):
        return str(value)
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def check_options(contents: Contents, options: Options) -> None:
    """Raise KdissectError if the dataset was created with other options."""
    for name, value in described(options).items():
        before = contents.options.get(name, value)
        if before != value:
            raise KdissectError(
                f"the dataset was made with {name} {before!r}, not {value!r}: "
                "a dataset has the same options for all its captures"
            )


def broken_entry(task: Task, broken: Broken) -> BrokenEntry:
    """Write the problem row of an unreadable capture."""
    tap = partition_name(short_name(broken.path, 1))
    if "problems" in task.options.tables:
        number = hashlib.sha256(broken.path.encode()).hexdigest()[:12]
        name = (
            f"problems/date={NO_DATE}/tap={tap}/r{task.run:06}{task.token}-broken-{number}.parquet"
        )
        with mirrored(task) as near:
            write_problem(near.made(name), broken)
    else:
        name = ""
    return BrokenEntry(
        broken.path, digest_of(broken), broken.size, broken.modified_ns, broken.message, name
    )


def digest_of(broken: Broken) -> str:
    """sha256 of an unreadable capture, "" if its bytes cannot be read either."""
    try:
        with local_copy(broken.path) as copy:
            return sha256_of(Path(copy))
    except (CaptureError, OSError):
        return ""


def write_problem(path: Path, broken: Broken) -> None:
    """Write a file with one row of `problems`."""
    schema = spark_schema(PROBLEMS, text=TEXT_TYPE)
    row = {
        "capture": broken.path,
        "stage": "capture",
        "kind": UNREADABLE,
        "message": broken.message,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    file = ParquetFile(path, schema, force=True)
    file.write(pa.RecordBatch.from_pylist([row], schema))
    file.finish()
    file.publish()


def merged(
    contents: Contents, taps: list[TapEntry], broken: list[BrokenEntry], read: set[str]
) -> Contents:
    """The contents with these taps added, or replacing their previous entries.

    `read` are captures that are no longer broken, even if the dataset has them so.
    """
    numbers = {tap.number for tap in taps}
    every = sorted(
        [*(tap for tap in contents.taps if tap.number not in numbers), *taps],
        key=lambda tap: tap.number,
    )
    again = read | {one.path for one in broken}
    kept = [one for one in contents.broken if one.path not in again]
    return Contents(contents.run, contents.options, every, [*kept, *broken])


def new_files(before: Contents, after: Contents) -> list[str]:
    """Files to be moved into the dataset."""
    return sorted(after.names() - before.names())


def stale(before: Contents, after: Contents) -> list[str]:
    """Files that are no longer in the contents."""
    return sorted(before.names() - after.names())


def new_captures(tap: TapEntry, before: Contents) -> list[CaptureEntry]:
    """Captures of a tap that were not in the dataset before."""
    known = {one.sha256 for other in before.taps for one in other.captures}
    return [one for one in tap.captures if one.sha256 not in known]
