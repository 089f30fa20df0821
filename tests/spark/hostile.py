"""Hostile changes of datasets, and all their users."""

import copy
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from pyarrow import parquet

import kdissect
from kdissect.api.answers import analyse
from kdissect.api.summary_pass import findings
from kdissect.dataset.run_records import Record, from_parquet, to_parquet
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import dissect
from kdissect.spark.rollups import roll_up
from kdissect.spark.streaming import stream
from tests.spark.rotated import CAPTURES, rotate
from tests.spark.sandbox import Sandbox

RUN = "run-000002-0123456789ab"
DATE = "date=2026-11-21"

# Names that lead elsewhere, or are no names; OUTSIDE and INSIDE are the two directories.
NAMES = (
    "../outside/canary.txt", "OUTSIDE/canary.txt", "INSIDE/../outside/canary.txt",
    f"exchanges/{DATE}/tap=x/../../../../outside/canary.txt",
    f"exchanges/{DATE}/tap=x/../../../../outside/exchanges.parquet",
    f"exchanges/../../outside/exchanges/{DATE}/tap=x/canary.parquet",
    "_kdissect/states/0/../../../../outside/000001.state", "_kdissect/manifest.json",
    "_kdissect/lock", f"_kdissect/{RUN}/commit.json", "runs/_delta_log/x.json", "exchanges", ".",
    "..", "", "/", "//", "a//b",
    "a/./b", "exchanges/", "/etc/passwd", "file:///etc/passwd", "s3://bucket/key", "a\0b", "a\nb",
    "a\x1b[31mb", "~/canary", "$HOME/canary", "*.parquet", "exchanges/*", "\\\\host\\share",
    "x" * 300, "x/" * 600 + "y", "\ud800", "\udcff", "é", "%2e%2e/outside", "exchanges/**",
    f"nowhere/{DATE}/tap=x/a.parquet", "exchanges/date=1/tap=x/a.parquet",
    f"exchanges/{DATE}/tap=x/.hidden.parquet", f"exchanges/{DATE}/tap=x/a.json",
)  # fmt: skip

# Values in place of others.
VALUES = (
    None, True, False, 0, -1, 1, 1343, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63, -(1 << 63),
    10**4000, 0.5, 1e300, "", "x", [], {}, [[]], [None], [{}], {"": 0}, {"a": {"b": {}}},
    *NAMES,
)  # fmt: skip

# Values that `json` writes no other way.
TEXTS = (
    "", "{", "[]", "null", "1", '"x"', "NaN", "Infinity", '{"version": 2}', '{"version": NaN}',
    '{"version": 2, "version": 2}', '{"version": 1e999}', "[" * 100_000, '{"a":' * 100_000,
    "[" * 500 + "]" * 500, "\xff\xfe{}", "1" * 5000, "{}" * 2, "\ufeff{}", '"\\ud800"',
)  # fmt: skip


def sound_dataset(place: Path) -> Path:
    """A dataset with a state, two taps, rollups and a capture that cannot be read."""
    paths = rotate("sasl-4.3.1.pcapng", place / "ring", 3, seed=4)
    broken = place / "broken.pcap"
    broken.write_bytes(b"no capture")
    dissect(None, paths[:2], place / "dataset")
    dissect(None, [CAPTURES / "retries-4.3.1.pcapng", broken], place / "dataset")
    roll_up(place / "dataset")
    return place


def sandbox_of(sound: Path, place: Path) -> Sandbox:
    sandbox = Sandbox(place)
    shutil.copytree(sound / "dataset", sandbox.inside, symlinks=True)
    # As the contents names them; they are only read.
    sandbox.captures = sorted((sound / "ring").iterdir())
    return sandbox


def everything(sandbox: Sandbox) -> Iterator[str]:
    """Output of each use of a dataset, writers last."""
    inside = sandbox.inside
    yield sandbox.call(findings, inside)
    for words in (["summary"], ["latency"], [], ["table", "exchanges"]):
        yield sandbox.run(*words, inside)
    yield sandbox.run("compare", inside, inside)
    yield from each_way(sandbox)


def each_way(sandbox: Sandbox) -> Iterator[str]:
    """Output of each way to read or write a dataset: DuckDB, Arrow, rollups, runs."""
    inside = sandbox.inside
    yield sandbox.call(analyse, "latency", inside)
    yield sandbox.call(lambda: kdissect.read(inside, table="errors").to_arrow())
    yield sandbox.call(analyse, "latency", inside, rollups=True, by=["api"])
    yield sandbox.call(roll_up, inside)
    yield from writers(sandbox)


def writers(sandbox: Sandbox) -> Iterator[str]:
    """Output of commands that add captures; the last capture of the ring is new."""
    yield sandbox.call(
        stream, None, sandbox.captures, sandbox.inside, "", available_now=True, quiet_s=0
    )
    yield sandbox.call(brought_in, sandbox)


def brought_in(sandbox: Sandbox) -> None:
    """Ingest all captures; raise the error of a tap."""
    for one in dissect(None, sandbox.captures, sandbox.inside).failed:
        raise KdissectError(one.message)


def log_path(sandbox: Sandbox, table: str, version: int = 0) -> Path:
    return sandbox.inside / table / "_delta_log" / f"{version:020}.json"


def records_at(dataset: Path) -> list[Record]:
    """All records of runs, in their order."""
    found = []
    for file in dataset.glob("runs/*.parquet"):
        found += from_parquet(file.read_bytes(), str(file))
    return sorted(found)


def written_records(dataset: Path, records: list[Record]) -> None:
    """Replace all records."""
    first, *others = sorted(dataset.glob("runs/*.parquet"))
    first.write_bytes(to_parquet(records))
    none = parquet.read_table(first).slice(0, 0)
    for file in others:
        parquet.write_table(none, file)


def placed(value: Any, sandbox: "Sandbox | Elsewhere") -> Any:
    """The value with the directories' own paths."""
    if not isinstance(value, str):
        return copy.deepcopy(value)  # edits that follow change it
    return value.replace("OUTSIDE", str(sandbox.outside)).replace("INSIDE", str(sandbox.inside))


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a JSON value with each of its keys or indices."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


class Elsewhere:
    inside, outside = Path("/inside"), Path("/outside")


EDITS = st.lists(
    st.tuples(
        st.integers(0, 1 << 30), st.sampled_from(VALUES), st.sampled_from(("set", "drop", "add"))
    ),
    min_size=1,
    max_size=3,
)


def edit(made: Any, edits: list[tuple[int, Any, str]], sandbox: Sandbox | Elsewhere) -> None:
    """Change a JSON value at places that are drawn."""
    for place, value, how in edits:
        there = list(places_in(made))
        if not there:
            return
        container, key = there[place % len(there)]
        if how == "drop":
            del container[key]
        elif how == "add" and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        elif how == "add":
            container[f"{key}s"] = placed(value, sandbox)
        else:
            container[key] = placed(value, sandbox)


def link(path: Path, to: Path) -> None:
    """Put a link in the place of a file or directory, which is moved out of the way."""
    if path.is_symlink() or path.exists():
        path.rename(path.with_name(f"was-{path.name}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def fifo(path: Path, _: Path) -> None:
    """A file that is never open when it is opened without care."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def directory(path: Path, _: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
