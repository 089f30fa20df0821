"""Datasets that somebody has changed: one clear error at most, and nothing outside is touched."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import kdissect
from kdissect.answers import analyse
from kdissect.confined import Below
from kdissect.errors import DatasetError, KdissectError
from kdissect.first_page import findings
from kdissect.spark.entries import Manifest
from kdissect.spark.manifest import MANIFEST_BYTES, Dataset, read_manifest
from kdissect.spark.pipeline import dissect
from kdissect.spark.rollups import roll_up
from kdissect.spark.streaming import stream
from kdissect.spark.tasks import Task
from tests.spark.rotated import CAPTURES, dataset_rows, manifest_of, rotate
from tests.spark.sandbox import Sandbox, tree

RUN = "run-000002-0123456789ab"
DATE = "date=2026-11-21"
# Names that lead elsewhere, or are no names; OUTSIDE and INSIDE are the two directories.
NAMES = (
    "../outside/canary.txt", "OUTSIDE/canary.txt", "INSIDE/../outside/canary.txt",
    f"exchanges/{DATE}/tap=x/../../../../outside/canary.txt",
    f"exchanges/{DATE}/tap=x/../../../../outside/exchanges.parquet",
    f"exchanges/../../outside/exchanges/{DATE}/tap=x/canary.parquet",
    "_kdissect/states/0/../../../../outside/000001.state", "_kdissect/manifest.json",
    "_kdissect/lock", f"_kdissect/{RUN}/commit.json", "exchanges", ".", "..", "", "/", "//", "a//b",
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
# What `json` writes no other way.
TEXTS = (
    "", "{", "[]", "null", "1", '"x"', "NaN", "Infinity", '{"version": 2}', '{"version": NaN}',
    '{"version": 2, "version": 2}', '{"version": 1e999}', "[" * 100_000, '{"a":' * 100_000,
    "[" * 500 + "]" * 500, "\xff\xfe{}", "1" * 5000, "{}" * 2, "\ufeff{}", '"\\ud800"',
)  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a state, two taps and a capture that cannot be read, and captures for more."""
    place = tmp_path_factory.mktemp("sound")
    paths = rotate("sasl-4.3.1.pcapng", place / "ring", 3, seed=4)
    broken = place / "broken.pcap"
    broken.write_bytes(b"no capture")
    dissect(None, paths[:2], place / "dataset")
    dissect(
        None,
        [CAPTURES / "retries-4.3.1.pcapng", broken],
        place / "dataset",
    )
    roll_up(place / "dataset")
    return place


@pytest.fixture
def sandbox(sound: Path, tmp_path: Path) -> Sandbox:
    return sandbox_of(sound, tmp_path)


def sandbox_of(sound: Path, place: Path) -> Sandbox:
    sandbox = Sandbox(place)
    shutil.copytree(sound / "dataset", sandbox.inside, symlinks=True)
    # As the manifest names them; they are only read.
    sandbox.captures = sorted((sound / "ring").iterdir())
    return sandbox


def everything(sandbox: Sandbox) -> Iterator[str]:
    """What each use of a dataset says, those that write last."""
    inside = sandbox.inside
    yield sandbox.call(findings, inside)
    for words in (["summary"], ["latency"], [], ["table", "exchanges"]):
        yield sandbox.run(*words, inside)
    yield sandbox.run("compare", inside, inside)
    yield from each_way(sandbox)


def each_way(sandbox: Sandbox) -> Iterator[str]:
    """What each way to read or write a dataset says: DuckDB, Arrow, rollups, runs."""
    inside = sandbox.inside
    yield sandbox.call(analyse, "latency", inside)
    yield sandbox.call(lambda: kdissect.read(inside, table="errors").to_arrow())
    yield sandbox.call(analyse, "latency", inside, rollups=True, by=["api"])
    yield sandbox.call(roll_up, inside)
    yield from writers(sandbox)


def writers(sandbox: Sandbox) -> Iterator[str]:
    """What those say that bring captures in; the last capture of the ring is new."""
    yield sandbox.call(
        stream, None, sandbox.captures, sandbox.inside, "", available_now=True, quiet_s=0
    )
    yield sandbox.call(brought_in, sandbox)


def brought_in(sandbox: Sandbox) -> None:
    """Bring all captures in; what is told of a tap is raised."""
    for one in dissect(None, sandbox.captures, sandbox.inside).failed:
        raise KdissectError(one.message)


def manifest_path(sandbox: Sandbox) -> Path:
    return sandbox.inside / "_kdissect" / "manifest.json"


def placed(value: Any, sandbox: "Sandbox | Elsewhere") -> Any:
    """The value with the directories' own paths."""
    if not isinstance(value, str):
        return value
    return value.replace("OUTSIDE", str(sandbox.outside)).replace("INSIDE", str(sandbox.inside))


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a JSON value with each of its keys or indices."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


def test_a_sound_dataset_is_used_as_ever(sandbox: Sandbox) -> None:
    assert [*everything(sandbox)] == [""] * 12
    manifest = manifest_of(sandbox.inside)
    assert len(manifest.taps[0].captures) == 3
    assert len(manifest.broken) == 1


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_a_manifest_that_is_none_is_one_error(text: str, sandbox: Sandbox) -> None:
    manifest_path(sandbox).write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")
    for said in (
        sandbox.call(read_manifest, sandbox.inside),
        sandbox.run("latency", sandbox.inside),
    ):
        assert "manifest" in said
    assert all(writers(sandbox))


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
            container.append(container[key])
        elif how == "add":
            container[f"{key}s"] = placed(value, sandbox)
        else:
            container[key] = placed(value, sandbox)


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
def test_what_is_believed_of_a_manifest_can_be_written_again(
    edits: list[tuple[int, Any, str]], sound: Path
) -> None:
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


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("where", ["file", "state", "broken"])
def test_a_manifest_cannot_name_what_is_no_file_of_the_dataset(
    name: str, where: str, sound: Path
) -> None:
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
def test_a_commit_cannot_move_or_remove_what_is_not_its_own(
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


def test_a_commit_cannot_remove_files_that_its_manifest_or_nobody_lists(sandbox: Sandbox) -> None:
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
    """The other way round: what the checks let through is a run that was killed."""
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


def own_file(sandbox: Sandbox, number: int = 0) -> str:
    return manifest_of(sandbox.inside).taps[0].files[number].path


@pytest.mark.slow
@pytest.mark.parametrize("to", [".", "canary.txt"])
@pytest.mark.parametrize(
    "name",
    [
        "_kdissect", "_kdissect/manifest.json", "_kdissect/lock", "_kdissect/states",
        "_kdissect/states/0", "_kdissect/rollups", "_kdissect/rollups/1",
        f"_kdissect/{RUN}", f"_kdissect/{RUN}/commit.json", "exchanges", "FILE", "DATE", "STATE",
    ],
)  # fmt: skip
def test_no_link_in_a_dataset_is_followed(name: str, to: str, sandbox: Sandbox) -> None:
    file = own_file(sandbox)
    state = manifest_of(sandbox.inside).taps[0].state
    name = {
        "FILE": file,
        "DATE": str(Path(file).parent.parent),
        "STATE": state,
    }.get(name, name)
    link(sandbox.inside / name, sandbox.outside / to)
    said = [*each_way(sandbox)]
    assert any("symbolic link" in one for one in said), said
    assert (sandbox.inside / name).is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("change", [fifo, directory])
@pytest.mark.parametrize(
    "name",
    ["_kdissect/manifest.json", "_kdissect/lock", f"_kdissect/{RUN}/commit.json", "FILE", "STATE"],
)
def test_what_is_no_regular_file_is_not_opened(
    name: str, change: Callable[[Path, Path], None], sandbox: Sandbox
) -> None:
    name = {"FILE": own_file(sandbox), "STATE": manifest_of(sandbox.inside).taps[0].state}.get(
        name, name
    )
    change(sandbox.inside / name, sandbox.outside)
    assert any(each_way(sandbox))


def test_a_rollup_that_is_a_link_is_made_anew(sandbox: Sandbox) -> None:
    rollup = sorted(sandbox.inside.glob("_kdissect/rollups/**/*.parquet"))[0]
    link(rollup, sandbox.outside / "rollups/1/client_id/canary.parquet")
    assert not any(each_way(sandbox))
    assert not rollup.is_symlink()


def other_parquet(path: Path, chance: random.Random) -> None:
    """Another Parquet file, or something like one, in the place of a file."""
    content = bytearray(path.read_bytes())
    what = chance.randrange(6)
    if what == 0:
        parquet.write_table(pa.table({"x": [1, 2]}), path)
    elif what == 1:
        rows = parquet.ParquetFile(path).read()
        at = chance.randrange(rows.num_columns)
        changed = pa.array(["x"] * rows.num_rows)
        parquet.write_table(rows.set_column(at, rows.schema.names[at], changed), path)
    elif what == 2:
        rows = parquet.ParquetFile(path).read()
        parquet.write_table(rows.drop_columns([chance.choice(rows.schema.names)]), path)
    elif what == 3:
        path.write_bytes(content[: chance.randrange(len(content))])
    elif what == 4:
        parquet.write_table(parquet.ParquetFile(path).read().slice(1), path)
    else:
        for _ in range(30):
            content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("_", range(8))
def test_a_parquet_file_that_is_another_is_one_error_at_most(_: int, sandbox: Sandbox) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    try:
        files = [sandbox.inside / one.path for one in manifest_of(sandbox.inside).taps[0].files]
        other_parquet(chance.choice(files), chance)
        for rollup in sandbox.inside.glob("_kdissect/rollups/**/*.parquet"):
            other_parquet(rollup, chance)
        for _ in everything(sandbox):
            pass
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04r\xff\xff\xff\x1f.", b"cos\nsystem\n(Vx\ntR.", bytes(10_000)]
)
def test_a_state_that_is_none_fails_its_tap_alone(content: bytes, sandbox: Sandbox) -> None:
    state = sandbox.inside / manifest_of(sandbox.inside).taps[0].state
    state.write_bytes(content)
    (failed,) = dissect(None, sandbox.captures, sandbox.inside).failed
    assert "no state of this version of kdissect" in failed.message
    sandbox.check()


def test_a_state_larger_than_memory_is_not_read(sandbox: Sandbox) -> None:
    state = sandbox.inside / manifest_of(sandbox.inside).taps[0].state
    os.truncate(state, 1 << 40)  # of which the disk has nothing
    (failed,) = dissect(None, sandbox.captures, sandbox.inside).failed
    assert "more than" in failed.message


def test_a_manifest_larger_than_its_limit_is_not_read(sandbox: Sandbox) -> None:
    os.truncate(manifest_path(sandbox), MANIFEST_BYTES + 1)
    assert f"more than {MANIFEST_BYTES} bytes" in sandbox.call(read_manifest, sandbox.inside)


@pytest.mark.parametrize("tail", [b",[]", b",{}", b',""', b",0", b',{"":0}'])
def test_a_manifest_of_many_small_values_is_refused_before_they_are_made(
    tail: bytes, sandbox: Sandbox
) -> None:
    manifest_path(sandbox).write_bytes(b'{"taps": [0' + tail * 500_000 + b"]}")
    assert "too many values" in sandbox.call(read_manifest, sandbox.inside)


class Swapped:
    """Changes a file of the staging directory between two tasks of a run."""

    def __init__(self, kind: str, change: Callable[[Path], None]) -> None:
        self.kind = kind
        self.change = change
        self.count = 0

    def __call__(self, task: Task, place: Any) -> Any:
        for path in sorted(Path(task.run_directory).glob(f"staging/*/{self.kind}")):
            self.change(path)
            self.count += 1
        return self.function(task, place)


EVIL = b"cos\nsystem\n(Vtouch executed\ntR."


@pytest.mark.parametrize(
    "content", [EVIL, b"", b"kdv1" + bytes(40)], ids=["pickle", "none", "header"]
)
@pytest.mark.parametrize("kind", ["names", "*.corrections", "*.seam", "*/exchanges"])
def test_a_swapped_file_of_the_staging_directory_runs_nothing(
    kind: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from kdissect.spark import steps

    capture = str(CAPTURES / "sasl-4.3.1.pcapng")
    swapped = Swapped(kind, lambda path: path.write_bytes(content) and None)
    step = "stitch_tap" if kind == "*.seam" else "publish"
    swapped.function = getattr(steps, step)  # type: ignore[attr-defined]
    monkeypatch.setattr(steps, step, swapped)
    outcome = dissect(None, [capture], tmp_path / "dataset", piece_size=20_000)
    assert swapped.count
    if content or kind != "*/exchanges":
        (failed,) = outcome.failed
        assert failed.message
    assert not (tmp_path / "executed").exists()
    assert outcome.manifest.taps == [] or kind == "*/exchanges"


def test_a_swapped_seam_of_another_piece_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdissect.spark import steps

    def exchanged(task: Task, place: Any) -> Any:
        seams = sorted(Path(task.run_directory).glob("staging/*/*.seam"))
        seams[0].write_bytes(seams[1].read_bytes())
        return stitch_tap(task, place)

    stitch_tap = steps.stitch_tap
    monkeypatch.setattr(steps, "stitch_tap", exchanged)
    capture = str(CAPTURES / "sasl-4.3.1.pcapng")
    (failed,) = dissect(None, [capture], tmp_path / "dataset", piece_size=20_000).failed
    assert "is of another one" in failed.message


def test_a_state_of_other_captures_is_refused(tmp_path: Path) -> None:
    """Its pieces say which files are read again."""
    from kdissect.seams.state import State

    paths = rotate("tls/tls13-4.3.1.pcapng", tmp_path / "ring", 2, seed=1)
    keys = CAPTURES / "tls/tls13-4.3.1.keys"
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=("exchanges",), keylog=str(keys))
    place = dataset / manifest_of(dataset).taps[0].state
    state = State.from_bytes(place.read_bytes())
    assert state.pieces
    other = tuple(piece._replace(path="/dev/zero") for piece in state.pieces)
    place.write_bytes(state._replace(pieces=other).to_bytes())
    (failed,) = dissect(None, paths, dataset, tables=("exchanges",), keylog=str(keys)).failed
    assert "other captures" in failed.message


def test_what_was_refused_is_used_again_when_the_manifest_is_whole(sandbox: Sandbox) -> None:
    text = manifest_path(sandbox).read_text()
    manifest_path(sandbox).write_text(text[:-20])
    assert all(writers(sandbox))
    manifest_path(sandbox).write_text(text)
    assert not any(writers(sandbox))
    assert dataset_rows(sandbox.inside)["exchanges"]


def test_names_below_a_directory_stay_below(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.inside.mkdir()
    (sandbox.inside / "link").symlink_to(sandbox.outside)
    with Below(sandbox.inside) as below:
        for name in (*NAMES, "link/canary.txt", "link/states/0/000001.state", "link"):
            given = placed(name, sandbox)
            for act in (
                lambda one: below.remove(one),
                lambda one: below.write(one, b"x"),
                lambda one: below.make_directory(one),
                lambda one: below.remove_tree(one),
                lambda one: below.read(one, 10),
                lambda one: below.rename(one, f"{one}x"),
            ):
                with suppress(KdissectError, OSError):
                    act(given)
                sandbox.check()
