"""Modified logs and records of runs: one clear error, and no file outside is changed."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyarrow import parquet

from kdissect.dataset.delta_actions import Removed, added_file
from kdissect.dataset.delta_tables import LOG_BYTES
from kdissect.dataset.run_history import History, history_of
from kdissect.dataset.run_records import (
    VALUE_BYTES,
    Change,
    Record,
    done_record,
    records_of,
)
from kdissect.dataset.runs import Dataset, read_contents
from kdissect.errors import DatasetError
from tests.seeds import IS_EVERY_CASE
from tests.spark.hostile import (
    EDITS,
    NAMES,
    TEXTS,
    Elsewhere,
    edit,
    everything,
    log_path,
    placed,
    records_at,
    sandbox_of,
    writers,
    written_records,
)
from tests.spark.rotated import contents_of, dataset_rows
from tests.spark.sandbox import Sandbox, tree

pytestmark = pytest.mark.usefixtures("little_memory")
FEW_EXAMPLES = settings(
    max_examples=100 if IS_EVERY_CASE else 10, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


@pytest.mark.parametrize("table", ["runs", "exchanges"])
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_a_log_that_is_none_is_one_error(text: str, table: str, sandbox: Sandbox) -> None:
    place = log_path(sandbox, table)
    place.write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")
    assert table in sandbox.call(read_contents, sandbox.inside)
    assert all(writers(sandbox))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_a_record_that_is_none_is_one_error(text: str, sandbox: Sandbox) -> None:
    if "\ud800" in text:
        return  # no text of Parquet
    records = records_at(sandbox.inside)
    written_records(sandbox.inside, [records[0]._replace(value=text), *records[1:]])
    assert "runs: " in sandbox.call(read_contents, sandbox.inside)
    assert "runs: " in sandbox.run("latency", sandbox.inside)
    assert all(writers(sandbox))


@pytest.mark.slow
@FEW_EXAMPLES
@given(edits=EDITS)
def test_a_log_with_other_values_is_read_or_is_one_error(
    edits: list[tuple[int, Any, str]], sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sandbox = sandbox_of(sound, tmp_path_factory.mktemp("sandbox"))
    place = log_path(sandbox, "connections")
    made = [json.loads(line) for line in place.read_text().splitlines()]
    edit(made, edits, sandbox)
    place.write_text("".join(f"{json.dumps(one)}\n" for one in made))
    for _ in everything(sandbox):
        pass
    shutil.rmtree(sandbox.inside.parent)


@pytest.mark.slow
@FEW_EXAMPLES
@given(edits=EDITS)
def test_records_with_other_values_are_read_or_are_one_error(
    edits: list[tuple[int, Any, str]], sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sandbox = sandbox_of(sound, tmp_path_factory.mktemp("sandbox"))
    written_records(sandbox.inside, edited(records_at(sandbox.inside), edits, sandbox))
    for _ in everything(sandbox):
        pass
    shutil.rmtree(sandbox.inside.parent)


def edited(
    records: list[Record], edits: list[tuple[int, Any, str]], sandbox: Sandbox | Elsewhere
) -> list[Record]:
    """Records with other values; those that there are no more are gone, others are there twice."""
    made = [[one.run, one.item, json.loads(one.value)] for one in records]
    edit(made, edits, sandbox)
    found = []
    for number, one in enumerate(made):
        if isinstance(one, list) and len(one) > 2:
            run = one[0] if type(one[0]) is int and abs(one[0]) < 1 << 63 else 1
            item = ascii(one[1]) if not isinstance(one[1], str) else ascii(one[1])[1:-1]
            found.append(Record(run, number, item, json.dumps(one[2])))
    return found or records


def names_in(history: History) -> set[str]:
    pending = history.pending or Change()
    files = {one.path for one in (*pending.added, *pending.removed)}
    special = history.special.values()
    files |= {path for one in special for path in (*one.open, *one.nameless)}
    return history.contents.names() | files


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=EDITS)
def test_accepted_records_name_files_of_the_dataset(
    edits: list[tuple[int, Any, str]], sound: Path
) -> None:
    records = edited(records_at(sound / "dataset"), edits, Elsewhere())
    try:
        history = history_of(records, "runs")
    except DatasetError:
        return
    assert history_of([*reversed(records)], "runs") == history
    for name in names_in(history):
        assert not Path(name).is_absolute()
        assert ".." not in Path(name).parts


def kinds_of_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside, of lists to the first element only."""
    inside = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inside = list(enumerate(value))[:1]
    for key, one in inside:
        yield (*path, key)
        yield from kinds_of_places(one, (*path, key))


def test_every_place_of_a_record_takes_a_value_of_any_kind_or_is_one_error(sound: Path) -> None:
    records = records_at(sound / "dataset")
    kinds = {one.item: number for number, one in enumerate(records)}
    assert {*kinds} == {"begun", "options", "tap", "capture", "broken", "add", "done"}
    for number in kinds.values():
        for path in [(), *kinds_of_places(json.loads(records[number].value))]:
            for value in (None, True, -1, 1 << 63, 1.5, "", "x", [], {}, [[]], [{}], {"": []}):
                made = [json.loads(records[number].value)]
                place: Any = made
                keys = (0, *path)
                for key in keys[:-1]:
                    place = place[key]
                place[keys[-1]] = value
                changed = records[number]._replace(value=json.dumps(made[0]))
                # Also where the run is not done, and will be completed.
                for end in (len(records), -1):
                    others = [*records[:number], changed, *records[number + 1 :]][:end]
                    with suppress(DatasetError):
                        history_of(others, "runs")


def test_any_number_of_a_run_or_record_is_read_or_is_one_error(sound: Path) -> None:
    records = records_at(sound / "dataset")
    numbers = (-(1 << 63), -1, 0, 1, 2, 7, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1)
    for place, record in enumerate(records):
        for column, number in product(("run", "number"), numbers):
            changed = record._replace(**{column: number})
            with suppress(DatasetError):
                history_of([*records[:place], changed, *records[place + 1 :]], "runs")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_no_log_names_a_file_outside_its_table(name: str, sandbox: Sandbox) -> None:
    place = log_path(sandbox, "connections")
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    (added, *_) = (line["add"] for line in lines if "add" in line)
    added["path"] = placed(name, sandbox)
    place.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    assert sandbox.call(read_contents, sandbox.inside)
    assert sandbox.call(Dataset(sandbox.inside).__enter__)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("where", ["add", "remove", "open", "state", "broken"])
def test_no_record_names_a_file_outside_the_dataset(name: str, where: str, sound: Path) -> None:
    records = with_name(records_at(sound / "dataset"), where, placed(name, Elsewhere()))
    if name == "" and where in ("state", "broken"):
        history_of(records, "runs")  # there is none
        return
    with pytest.raises(DatasetError, match=r"^runs: "):
        history_of(records, "runs")


def with_name(records: list[Record], where: str, name: str) -> list[Record]:
    """Records in which a file has another name; actions are of a run that is not done."""
    last = records[-1].run
    if where in ("add", "remove"):
        value: dict[str, Any] = {"table": "connections", "path": name}
        if where == "add":
            value |= {"size": 1, "modified_ms": 1, "statistics": "{}"}
        pending = Record(last + 1, 0, where, json.dumps(value))
        return [*records, pending]
    key, item = {
        "open": ("open", "tap"), "state": ("state", "tap"), "broken": ("file", "broken"),
    }[where]  # fmt: skip
    number = max(number for number, one in enumerate(records) if one.item == item)
    made = json.loads(records[number].value)
    made[key] = [name] if where == "open" else name
    changed = records[number]._replace(value=json.dumps(made))
    return [*records[:number], changed, *records[number + 1 :]]


def test_contradictions_of_records_are_refused(sound: Path) -> None:
    records = records_at(sound / "dataset")
    runs = max(one.run for one in records)
    other = [json.loads(one.value)["name"] for one in records if one.item == "tap"][-1]

    def changed(item: str, **values: Any) -> list[Record]:
        number = next(number for number, one in enumerate(records) if one.item == item)
        made = json.dumps({**json.loads(records[number].value), **values})
        return [*records[:number], records[number]._replace(value=made), *records[number + 1 :]]

    for made in (
        changed("tap", number=1),
        changed("tap", number=1 << 40),
        changed("tap", name=other),
        changed("tap", balance={"packets": "many"}),
        changed("capture", tap=7),
        changed("options", tables=["nothing"]),
        changed("begun", version=2),
        [one for one in records if one.run > 1],
        [one for one in records if (one.run, one.item) != (1, "done")],
        [one._replace(run=one.run + 1) for one in records],
        [*records, done_record(runs, {})],
        [*records, done_record(runs + 2, {})],
        [*records, done_record(1 << 40, {})],
        [*records, done_record((1 << 63) - 1, {})],
        [done_record(-1, {}), *records],
        [*records, Record(runs + 2, 0, "begun", "{}")],
        [*records, Record(runs + 1, 0, "other", "{}")],
        [*records, done_record(runs + 1, {"nothing": 1})],
        [*records, done_record(runs + 1, {"exchanges": -1})],
    ):
        with pytest.raises(DatasetError, match=r"^runs: "):
            history_of(made, "runs")


def test_contradictions_of_logs_and_records_are_refused(sandbox: Sandbox) -> None:
    place = log_path(sandbox, "connections")
    text = place.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    for change in (
        lambda one: one["partitionValues"].update(tap="other"),
        lambda one: one["partitionValues"].update(date="2026-01-01"),
        lambda one: one.update(size=-1),
        lambda one: one.update(stats='{"numRecords": -5}'),
        lambda one: one.update(path=one["path"].replace("tap=", "tap=x")),
    ):
        made = json.loads(json.dumps(lines))
        change(next(one["add"] for one in made if "add" in one))
        place.write_text("".join(f"{json.dumps(one)}\n" for one in made))
        assert sandbox.call(read_contents, sandbox.inside)
    # A file whose rows may change is in its table.
    there = [one for one in lines if "add" not in one]
    place.write_text("".join(f"{json.dumps(one)}\n" for one in there))
    assert "removed from its table" in sandbox.call(read_contents, sandbox.inside)
    place.write_text(text)
    assert not any(writers(sandbox))


def decided(sandbox: Sandbox, change: Change) -> None:
    """A run that was decided and killed: of a process that may write records."""
    contents = contents_of(sandbox.inside)
    with Dataset(sandbox.inside) as dataset:
        after = replace(contents, run=contents.run + 1)
        dataset.runs.decide(after.run, records_of(contents, after, change))


def test_a_decided_run_removes_no_file(sandbox: Sandbox) -> None:
    file = contents_of(sandbox.inside).taps[1].files[0]
    strange = str(Path(file.path).with_name("own.parquet"))
    (sandbox.inside / strange).write_bytes(b"mine")
    before = {**tree(sandbox.inside)}
    decided(sandbox, Change(removed=[Removed(file.table, file.path), Removed(file.table, strange)]))
    # It is in no version of the table, so another program has changed that.
    assert "another program" in sandbox.call(Dataset(sandbox.inside).__enter__)
    after = tree(sandbox.inside)
    assert {name: after[name] for name, (_, _, content) in before.items() if content} == {
        name: one for name, one in before.items() if one[2]
    }


def test_a_sound_run_that_was_decided_is_completed(sandbox: Sandbox) -> None:
    """The reverse: records that pass the checks, of a run that was killed."""
    file = next(one for one in contents_of(sandbox.inside).taps[1].files if not one.is_open)
    name = file.path.replace("r00000", "r00009")
    shutil.copy(sandbox.inside / file.path, sandbox.inside / name)
    added = added_file(str(sandbox.inside), name)
    decided(sandbox, Change([added], [Removed(file.table, file.path)]))
    with Dataset(sandbox.inside) as dataset:
        assert dataset.contents.run == 3
    paths = {one.path for one in contents_of(sandbox.inside).taps[1].files}
    assert name in paths
    assert file.path not in paths


@pytest.mark.parametrize("table", ["runs", "exchanges"])
def test_a_log_larger_than_its_limit_is_not_read(table: str, sandbox: Sandbox) -> None:
    os.truncate(log_path(sandbox, table), LOG_BYTES + 1)
    assert f"more than {LOG_BYTES} bytes" in sandbox.call(read_contents, sandbox.inside)


def test_records_that_would_not_fit_into_memory_are_refused_before_they_are_made(
    sandbox: Sandbox,
) -> None:
    (file,) = sandbox.inside.glob("runs/000001-*-begun.parquet")
    value = f'"{"x" * (1 << 20)}"'
    rows = VALUE_BYTES // len(value) + 1
    columns = [[1] * rows, [0] * rows, ["begun"] * rows]
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [value])
    names = ["run", "number", "item", "value"]
    parquet.write_table(pa.table([*columns, text], names=names), file, compression="zstd")
    assert file.stat().st_size < 1 << 16
    assert f"more than {VALUE_BYTES} bytes" in sandbox.call(read_contents, sandbox.inside)


@pytest.mark.parametrize("tail", [b",[]", b",{}", b',""', b",0", b',{"":0}'])
def test_a_record_of_many_small_values_is_refused_before_they_are_made(
    tail: bytes, sandbox: Sandbox
) -> None:
    records = records_at(sandbox.inside)
    value = (b'{"taps": [0' + tail * 500_000 + b"]}").decode()
    written_records(sandbox.inside, [records[0]._replace(value=value), *records[1:]])
    assert "too many values" in sandbox.call(read_contents, sandbox.inside)


def test_rejected_dataset_is_usable_after_its_log_is_restored(sandbox: Sandbox) -> None:
    for table in ("runs", "exchanges"):
        text = log_path(sandbox, table).read_text()
        log_path(sandbox, table).write_text(text[:-20])
        assert all(writers(sandbox))
        log_path(sandbox, table).write_text(text)
    assert not any(writers(sandbox))
    assert dataset_rows(sandbox.inside)["exchanges"]
