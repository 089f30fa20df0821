"""Modified manifests and commits: one clear error, and no file outside is changed."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kdissect.dataset.entries import Manifest
from kdissect.dataset.manifest import MANIFEST_BYTES, Dataset, read_manifest
from kdissect.errors import DatasetError, KdissectError
from kdissect.spark.pipeline import dissect
from tests.seeds import IS_EVERY_CASE
from tests.spark.hostile import (
    EDITS,
    NAMES,
    RUN,
    TEXTS,
    Elsewhere,
    edit,
    everything,
    manifest_path,
    placed,
    sandbox_of,
    writers,
)
from tests.spark.rotated import dataset_rows, manifest_of
from tests.spark.sandbox import Sandbox, tree


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_a_manifest_that_is_none_is_one_error(text: str, sandbox: Sandbox) -> None:
    manifest_path(sandbox).write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")
    for said in (
        sandbox.call(read_manifest, sandbox.inside),
        sandbox.run("latency", sandbox.inside),
    ):
        assert "manifest" in said
    assert all(writers(sandbox))


@pytest.mark.slow
@settings(
    max_examples=100 if IS_EVERY_CASE else 15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(edits=EDITS)
def test_a_manifest_with_other_values_is_read_or_is_one_error(
    edits: list[tuple[int, Any, str]], sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sandbox = sandbox_of(sound, tmp_path_factory.mktemp("sandbox"))
    made = json.loads(manifest_path(sandbox).read_text())
    edit(made, edits, sandbox)
    manifest_path(sandbox).write_text(json.dumps(made))
    for _ in everything(sandbox):
        pass
    shutil.rmtree(sandbox.inside.parent)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=EDITS)
def test_accepted_manifests_round_trip(edits: list[tuple[int, Any, str]], sound: Path) -> None:
    made = json.loads((sound / "dataset/_kdissect/manifest.json").read_text())
    edit(made, edits, Elsewhere())
    try:
        manifest = Manifest.from_json(made)
    except DatasetError:
        return
    again = Manifest.from_json(json.loads(json.dumps(manifest.to_json())))
    assert again == manifest
    for name in manifest.names():
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


def test_every_place_of_a_manifest_takes_a_value_of_any_kind_or_is_one_error(sound: Path) -> None:
    content = (sound / "dataset/_kdissect/manifest.json").read_text()
    for path in kinds_of_places(json.loads(content)):
        for value in (None, True, -1, 1 << 63, 1.5, "", "x", [], {}, [[]], [{}], [None], {"": []}):
            made = json.loads(content)
            place = made
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            try:
                manifest = Manifest.from_json(made)
            except DatasetError:
                continue
            assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("where", ["file", "state", "broken"])
def test_manifest_cannot_list_files_outside_the_dataset(name: str, where: str, sound: Path) -> None:
    made = json.loads((sound / "dataset/_kdissect/manifest.json").read_text())
    if where == "file":
        made["taps"][0]["files"][0]["path"] = name
    elif where == "state":
        made["taps"][0]["state"] = name
    else:
        made["broken"][0]["file"] = name
    if name == "" and where != "file":
        Manifest.from_json(made)  # there is none
        return
    with pytest.raises(DatasetError):
        Manifest.from_json(made)


def test_a_file_of_another_tap_or_table_is_refused(sound: Path) -> None:
    text = (sound / "dataset/_kdissect/manifest.json").read_text()
    for change in (
        lambda one: one["taps"][0]["files"].append(one["taps"][1]["files"][0]),
        lambda one: one["taps"][0]["files"].append(one["taps"][0]["files"][0]),
        lambda one: one["taps"].append(one["taps"][0]),
        lambda one: one["taps"][0].update(number=1),
        lambda one: one["taps"][0].update(number=one["next_tap"]),
        lambda one: one["taps"][0].update(name="other"),
        lambda one: one["taps"][0]["files"][0].update(table="problems"),
        lambda one: one["taps"][0]["files"][0].update(date="2026-01-01"),
        lambda one: one["taps"][0].update(state=one["taps"][0]["state"].replace("/0/", "/1/")),
        lambda one: one["taps"][0]["files"][0].update(rows=-1),
        lambda one: one["taps"][0]["balance"].update(packets="many"),
        lambda one: one["taps"][0]["balance"].pop("packets"),
        lambda one: one["options"].update(tables=["nothing"]),
        lambda one: one.update(next_tap=1 << 40),
        lambda one: one.update(version=1),
    ):
        made = json.loads(text)
        change(made)
        with pytest.raises(DatasetError):
            Manifest.from_json(made)


def committed(sandbox: Sandbox, **changed: Any) -> Path:
    """A run that has committed, as one that was killed leaves it."""
    run = sandbox.inside / "_kdissect" / RUN
    run.mkdir()
    manifest = json.loads(manifest_path(sandbox).read_text())
    content = {"manifest": manifest | {"run": manifest["run"] + 1}, "moved": [], "removed": []}
    (run / "commit.json").write_text(json.dumps(content | changed))
    return run


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("where", ["moved", "removed"])
def test_commit_cannot_move_or_remove_foreign_files(
    name: str, where: str, sandbox: Sandbox
) -> None:
    run = committed(sandbox, **{where: [placed(name, sandbox)]})
    (run / "canary.txt").write_text("moved")
    before = {**tree(sandbox.inside)}
    assert sandbox.call(dissect, None, [], sandbox.inside) or sandbox.call(
        Dataset(sandbox.inside).__enter__
    )
    with pytest.raises(KdissectError):
        Dataset(sandbox.inside).__enter__()
    sandbox.check()
    after = {**tree(sandbox.inside)}
    assert after == before | {"_kdissect/lock": after["_kdissect/lock"]}


def test_commit_cannot_remove_files_listed_by_its_manifest_or_by_none(sandbox: Sandbox) -> None:
    manifest = manifest_of(sandbox.inside)
    listed = manifest.taps[0].files[0].path
    strange = str(Path(listed).with_name("own.parquet"))
    (sandbox.inside / strange).write_bytes(b"mine")
    for where in ("moved", "removed"):
        for name in (listed, strange):
            run = committed(sandbox, **{where: [name]})
            with pytest.raises(DatasetError, match="no file of the run"):
                Dataset(sandbox.inside).__enter__()
            shutil.rmtree(run)
    assert (sandbox.inside / strange).read_bytes() == b"mine"
    assert (sandbox.inside / listed).exists()


@pytest.mark.parametrize("run", [-1, 0, 1, 4, 1 << 62, "3", None])
def test_a_commit_of_another_run_is_refused(run: Any, sandbox: Sandbox) -> None:
    manifest = json.loads(manifest_path(sandbox).read_text())
    committed(sandbox, manifest=manifest | {"run": run})
    with pytest.raises(DatasetError):
        Dataset(sandbox.inside).__enter__()


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_a_commit_that_is_none_is_one_error(text: str, sandbox: Sandbox) -> None:
    run = committed(sandbox)
    (run / "commit.json").write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")
    for said in writers(sandbox):
        assert "commit" in said or RUN in said


def test_a_sound_commit_is_ended(sandbox: Sandbox) -> None:
    """The reverse: manifests that pass the checks, of a run that was killed."""
    manifest = json.loads(manifest_path(sandbox).read_text())
    gone = manifest["taps"][0]["files"].pop(0)["path"]
    new = manifest["taps"][1]["files"][0]
    name = new["path"].replace("r00000", "r00009")
    manifest["taps"][1]["files"].append({**new, "path": name})
    run = committed(sandbox, manifest=manifest | {"run": 3}, moved=[name], removed=[gone])
    (run / name).parent.mkdir(parents=True)
    shutil.copy(sandbox.inside / new["path"], run / name)
    with Dataset(sandbox.inside) as dataset:
        assert dataset.manifest.run == 3
    assert (sandbox.inside / name).exists()
    assert not (sandbox.inside / gone).exists()
    assert not run.exists()


def test_a_manifest_larger_than_its_limit_is_not_read(sandbox: Sandbox) -> None:
    os.truncate(manifest_path(sandbox), MANIFEST_BYTES + 1)
    assert f"more than {MANIFEST_BYTES} bytes" in sandbox.call(read_manifest, sandbox.inside)


@pytest.mark.parametrize("tail", [b",[]", b",{}", b',""', b",0", b',{"":0}'])
def test_a_manifest_of_many_small_values_is_refused_before_they_are_made(
    tail: bytes, sandbox: Sandbox
) -> None:
    manifest_path(sandbox).write_bytes(b'{"taps": [0' + tail * 500_000 + b"]}")
    assert "too many values" in sandbox.call(read_manifest, sandbox.inside)


def test_rejected_dataset_is_usable_after_the_manifest_is_restored(sandbox: Sandbox) -> None:
    text = manifest_path(sandbox).read_text()
    manifest_path(sandbox).write_text(text[:-20])
    assert all(writers(sandbox))
    manifest_path(sandbox).write_text(text)
    assert not any(writers(sandbox))
    assert dataset_rows(sandbox.inside)["exchanges"]
