import gzip
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdissect
from kdissect.capture.pcap import NANOSECONDS
from kdissect.dataset import storage, tasks
from kdissect.dataset.runs import Dataset
from kdissect.dataset.storage import (
    BLOCK_SIZE,
    files_in,
    reached_by,
    read_bytes,
    remember,
    seen,
    system_at,
    write_bytes,
)
from kdissect.dataset.storage_captures import local_copy
from kdissect.dataset.taps import list_captures
from kdissect.errors import KdissectError, OutputError, Problem, StoreError
from kdissect.spark.arrow_rows import to_arrow
from kdissect.spark.dataset_tables import read_table
from kdissect.spark.pipeline import dissect
from kdissect.spark.rollups import roll_up
from tests.capture.writers import make_pcap
from tests.dataset.passes import late_text, rows_in_turn
from tests.dataset.test_runs import killed
from tests.seeds import IS_EVERY_CASE, SEED
from tests.spark.rotated import (
    ALL,
    CAPTURES,
    Rows,
    dataset_rows,
    library_rows,
    packets_of,
    rotate,
    spark_rows,
)
from tests.spark.stores import (
    DUMMY,
    Bucket,
    Watched,
    make_bucket,
    stored_contents,
    stored_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def bucket(server: str, request: pytest.FixtureRequest) -> Bucket:
    return make_bucket(f"test-{abs(hash(request.node.name))}", server)


def watch(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, **watches: Callable[[str], None]
) -> None:
    place = bucket.at("").rstrip("/")
    system, root = storage._systems[place]
    monkeypatch.setitem(storage._systems, place, (Watched(system, **watches), root))


def called(rows: Rows, names: dict[str, str]) -> Rows:
    """Rows whose captures are elsewhere."""
    made: Rows = {}
    for table, found in rows.items():
        made[table] = []
        for row in found:
            for before, after in names.items():
                row = row.replace(f"'{before}'", f"'{after}'")
            made[table].append(row)
        made[table].sort()
    return made


def put_all(bucket: Bucket, paths: list[str]) -> dict[str, str]:
    return {path: bucket.put(path, f"captures/{Path(path).name}") for path in paths}


def test_captures_in_a_store_have_the_rows_of_the_library(bucket: Bucket, tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 4, seed=1)
    names = put_all(bucket, paths)
    dataset = tmp_path / "dataset"
    outcome = dissect(None, [bucket.uri("captures")], dataset, tables=ALL, split_size=50_000)
    assert (outcome.captures, outcome.broken, outcome.failed) == (4, (), ())
    assert dataset_rows(dataset) == called(library_rows(paths), names)
    again = dissect(None, [bucket.uri("captures/*.pcap*")], dataset, tables=ALL)
    assert again.captures == 0


@pytest.mark.slow
def test_a_dataset_in_a_store_has_the_rows_of_the_library(bucket: Bucket, tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 4, seed=5)
    dataset = bucket.uri("data/kafka")
    for end in (2, 4):
        outcome = dissect(None, paths[:end], dataset, tables=ALL, split_size=100_000)
        assert stored_rows(dataset) == library_rows(paths[:end])
    assert outcome.captures == 2
    contents = stored_contents(dataset)
    assert [capture.path for capture in contents.taps[0].captures] == paths
    assert contents.run == 2
    # The files are those in the contents, and others only of versions before.
    there = {file.location for file in files_in(bucket.at("data"), recursive=True)}
    assert {bucket.at(f"data/kafka/{name}") for name in contents.names()} < there
    own = {name for name in there if "/_kdissect/" in name}
    assert own == {bucket.at(f"data/kafka/{contents.taps[0].state}")}


@pytest.mark.slow
def test_captures_in_a_store_that_overlap_or_come_too_late_have_the_rows_of_one_pass(
    bucket: Bucket, tmp_path: Path
) -> None:
    packets = packets_of(CAPTURES / "groups-4.3.1.pcapng")
    third = len(packets) // 3
    middle = packets[third : 2 * third]
    paths = []
    for number, part in enumerate((middle[::2], middle[1::2], packets[2 * third :])):
        paths.append(str(tmp_path / f"ring.pcap{number}"))
        Path(paths[-1]).write_bytes(make_pcap(part, magic=NANOSECONDS, link_type=1))
    late = str(tmp_path / "ring.pcap3")
    Path(late).write_bytes(make_pcap(packets[:third], magic=NANOSECONDS, link_type=1))
    names = put_all(bucket, [*paths, late])
    dataset = bucket.uri("kafka")
    for run in (paths[:2], paths[2:], [late]):
        outcome = dissect(None, [names[path] for path in run], dataset, tables=ALL)
        assert (outcome.captures, outcome.failed) == (len(run), ())
    (tap,) = stored_contents(dataset).taps
    assert [one.segment for one in tap.captures] == [-1, -1, -1, 3]
    told = Problem("capture", "late-capture", late_text(tap, names[late]))
    expected = called(library_rows(paths), names)
    alone = rows_in_turn([late], [len(packets) - third + 1], late=[told])
    for table, rows in called(alone, names).items():
        expected[table] = sorted([*expected.get(table, []), *rows])
    assert stored_rows(dataset) == dict(sorted(expected.items()))


def written(bucket: Bucket) -> dict[str, int]:
    return {file.location: file.modified_ns for file in files_in(bucket.at(""), recursive=True)}


def test_captures_and_dataset_may_both_be_in_stores(bucket: Bucket, tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=2)
    names = put_all(bucket, paths)
    dataset = bucket.uri("kafka")
    dissect(None, [bucket.uri("captures")], dataset, tables=ALL)
    assert stored_rows(dataset) == called(library_rows(paths), names)
    before = written(bucket)
    assert dissect(None, [bucket.uri("captures")], dataset, tables=ALL).captures == 0
    assert written(bucket) == before


def test_bytes_after_an_edge_are_fetched_for_the_second_read(
    bucket: Bucket, tmp_path: Path
) -> None:
    # TLS that crosses an edge is read from its splits again, with the keys of the whole file.
    capture = str(CAPTURES / "tls" / "tls13-4.3.1.pcapng")
    names = put_all(bucket, [capture])
    dataset = tmp_path / "dataset"
    outcome = dissect(None, [bucket.uri("captures/*.pcapng")], dataset, tables=ALL,
                      split_size=20_000)  # fmt: skip
    assert outcome.splits > 3
    assert dataset_rows(dataset) == called(library_rows([capture]), names)


def test_compressed_captures_are_fetched_whole(bucket: Bucket, tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=6)
    packed = []
    for path in paths:
        packed.append(f"{path}.gz")
        Path(packed[-1]).write_bytes(gzip.compress(Path(path).read_bytes()))
    names = put_all(bucket, packed)
    dataset = tmp_path / "dataset"
    dissect(None, [bucket.uri("captures")], dataset, tables=ALL)
    assert dataset_rows(dataset) == called(library_rows(packed), names)


def test_a_broken_capture_in_a_store_is_a_problem(bucket: Bucket, tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=8)
    names = put_all(bucket, paths)
    content = b"this is no capture" * 9
    write_bytes(bucket.at("captures/other.pcap"), content)
    write_bytes(bucket.at("captures/notes.txt"), b"passed over")
    dataset = bucket.uri("kafka")
    outcome = dissect(None, [bucket.uri("captures")], dataset)
    assert [one.path for one in outcome.broken] == [bucket.at("captures/other.pcap")]
    (entry,) = stored_contents(dataset).broken
    assert entry.sha256 == hashlib.sha256(content).hexdigest()
    rows = stored_rows(dataset)
    (told,) = [row for row in rows["problems"] if "unreadable-capture" in row]
    assert bucket.at("captures/other.pcap") in told
    assert rows["exchanges"] == called(library_rows(paths), names)["exchanges"]
    assert dissect(None, [bucket.uri("captures")], dataset).broken == ()


def test_names_and_passwords_are_written_nowhere(bucket: Bucket, tmp_path: Path) -> None:
    put_all(bucket, rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=9))
    name, password = DUMMY["AWS_ACCESS_KEY_ID"], "pass-word-of-tests"
    source = f"s3://{name}:{password}@{bucket.name}/captures?{bucket.options}"
    dissect(None, [source], tmp_path / "dataset", tables=ALL)
    stored = f"s3://{name}:{password}@{bucket.name}/kafka?{bucket.options}"
    dissect(None, [source], stored, tables=ALL)
    local = [path.read_bytes() for path in (tmp_path / "dataset").rglob("*") if path.is_file()]
    remote = [read_bytes(one) or b"" for one in written(bucket)]
    assert all(remote)
    for content in local + remote:
        assert password.encode() not in content
        assert bucket.options.encode() not in content
    with pytest.raises(KdissectError) as raised:
        dissect(None, [source.replace("/captures", "/nothing")], stored)
    assert str(raised.value) == f"s3://{bucket.name}/nothing: no file matches"


REPEATED = """
import sys
from kdissect.errors import OutputError
from kdissect.spark.pipeline import dissect
dataset, tables, capture = sys.argv[1:]
refused = 0
while True:
    try:
        dissect(None, [capture], dataset, tables=tables.split(","))
        break
    except OutputError as error:
        assert "another run writes to this dataset" in str(error), error
        refused += 1
print(refused)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True])
def test_a_run_that_is_killed_at_any_request_leaves_the_old_or_the_new_dataset(
    is_after: bool, bucket: Bucket, tmp_path: Path
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=12)
    dataset, tables = bucket.uri("kafka"), ("connections",)
    dissect(None, paths[:1], dataset, tables=tables)
    before = {location: read_bytes(location) or b"" for location in written(bucket)}
    old, new = library_rows(paths[:1], tables=tables), library_rows(paths, tables=tables)
    seen_rows = []
    stride = 1 if IS_EVERY_CASE else 3
    for step in count(random.Random(f"{SEED} {is_after}").randrange(stride), stride):
        storage.remove_below(bucket.at("kafka"))
        for location, content in before.items():
            write_bytes(location, content)
        with killed(step, is_after) as kill, pytest.MonkeyPatch.context() as patched:
            watch(bucket, patched, writes=lambda name: kill.watched(name, lambda: None)())
            dissect(None, paths, dataset, tables=tables)
        rows = stored_rows(dataset)
        seen_rows.append("old" if rows == old else "new" if rows == new else "neither")
        dissect(None, paths, dataset, tables=tables)
        assert stored_rows(dataset) == new
        if kill.left >= 0:
            break
    counts = seen_rows.count("old"), seen_rows.count("new")
    assert seen_rows == ["old"] * counts[0] + ["new"] * counts[1]
    assert counts[0] > 5 // stride
    assert counts[1] > 0
    names = [name for name in kill.steps if name.startswith("create")]
    assert len(names) == 3


def test_a_store_that_fails_while_a_capture_is_read_changes_nothing(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    names = put_all(bucket, paths)
    dataset = tmp_path / "dataset"
    reads = 0

    def fail(request: str) -> None:
        nonlocal reads
        reads += request == "read_at"
        if (request, reads) == ("read_at", 3):
            raise OSError("the store went away\nand said more")

    watch(bucket, monkeypatch, reads=fail)
    # Two were read to find the splits; this is the first of a split.
    expected = f"{bucket.at('captures/ring.pcap0')}: the store went away"
    with pytest.raises(StoreError, match=f"^{expected}$"):
        dissect(None, [bucket.uri("captures")], dataset, tables=ALL)
    assert dataset_rows(dataset) == {}
    dissect(None, [bucket.uri("captures")], dataset, tables=ALL)
    assert dataset_rows(dataset) == called(library_rows(paths), names)


def test_a_capture_that_vanishes_from_a_store_is_broken(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone,) = rotate("groups-4.3.1.pcapng", tmp_path / "one", 1, seed=1)
    (stays,) = rotate("sasl-4.3.1.pcapng", tmp_path / "two", 1, seed=2)
    sources = [bucket.put(gone, "b1/ring.pcap0"), bucket.put(stays, "b2/ring.pcap0")]
    dataset = bucket.uri("kafka")

    dissect_part = tasks.dissect_part

    def vanishing(task: tasks.Task, place: tuple[int, int]) -> object:
        storage.remove(sources[0])
        return dissect_part(task, place)

    monkeypatch.setattr(tasks, "dissect_part", vanishing)
    outcome = dissect(None, sources, dataset, tables=("exchanges",))
    (lost,) = outcome.broken
    assert (lost.path, lost.size, outcome.failed) == (sources[0], -1, ())
    assert "no such file" in lost.message
    (tap,) = stored_contents(dataset).taps
    assert tap.name == "b2-ring"
    expected = library_rows([stays], tap.number, ("exchanges",))
    assert stored_rows(dataset) == called(expected, {stays: sources[1]})


def test_the_second_of_two_runs_at_a_time_changes_nothing(bucket: Bucket) -> None:
    dataset = bucket.uri("kafka")
    for name in ("groups-4.3.1", "sasl-4.3.1"):  # also where there is a dataset before
        with Dataset(dataset) as late:
            dissect(None, [CAPTURES / f"{name}.pcapng"], dataset, tables=("exchanges",))
            before = stored_rows(dataset)
            with pytest.raises(OutputError, match="another run writes to this dataset"):
                late.commit(late.contents, [], [])
        assert stored_rows(dataset) == before


@pytest.mark.slow
def test_several_processes_write_to_one_dataset(
    bucket: Bucket,
) -> None:
    """Without locks: some runs fail and are repeated, none is lost or there twice."""
    names = ("groups-4.3.1", "sasl-4.3.1", "tokens-4.3.1")
    tables = ("connections", "exchanges")
    dataset = bucket.uri("kafka")
    words = [sys.executable, "-c", REPEATED, dataset, ",".join(tables)]
    writers = [
        subprocess.Popen([*words, str(CAPTURES / f"{name}.pcapng")], stdout=subprocess.PIPE)
        for name in names
    ]
    refused = [int(writer.communicate(timeout=300)[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    contents = stored_contents(dataset)
    assert (contents.run, sum(refused) < 50) == (3, True)
    expected: Rows = {table: [] for table in tables}
    for tap in contents.taps:
        for table, rows in library_rows([tap.captures[0].path], tap.number, tables).items():
            expected[table] = sorted([*expected[table], *rows])
    assert stored_rows(dataset) == expected


def test_a_dataset_is_refused_where_two_runs_could_commit_the_same_number() -> None:
    with pytest.raises(OutputError, match=r"^hdfs://host:9000/kafka: a dataset can be in a dir"):
        Dataset("hdfs://host:9000/kafka")


def test_a_name_that_is_there_is_no_glob(bucket: Bucket) -> None:
    for path in ("a[1].pcap", "a1.pcap", "d[2]/ring.pcap0", "d2/ring.pcap1"):
        bucket.put(CAPTURES / "tokens-4.3.1.pcapng", path)

    def names(source: str) -> set[str]:
        return {path.removeprefix(bucket.at("")) for path in list_captures([bucket.uri(source)])}

    assert names("a[1].pcap") == {"a[1].pcap"}
    assert names("a[12].pcap") == {"a1.pcap"}
    assert names("d[2]") == {"d[2]/ring.pcap0"}


def test_captures_are_found_by_directory_name_and_glob(bucket: Bucket) -> None:
    for name in ("b1/ring.pcap0", "b1/ring.pcap1", "b2/x/ring.pcap0", "b2/.hidden", "top.pcap"):
        write_bytes(bucket.at(name), b"x")

    def names(pattern: str) -> dict[str, bool]:
        found = list_captures([bucket.uri(pattern)])
        return {path.removeprefix(bucket.at("")): is_named for path, is_named in found.items()}

    assert names("b1") == {"b1/ring.pcap0": False, "b1/ring.pcap1": False}
    assert names("b1/") == names("b1")
    assert names("") == {"top.pcap": False}
    assert names("top.pcap") == {"top.pcap": True}
    assert names("b*/ring.pcap[1-9]") == {"b1/ring.pcap1": True}
    assert names("**/ring.pcap0") == {"b1/ring.pcap0": True, "b2/x/ring.pcap0": True}
    assert names("b2/**") == {"b2/.hidden": True, "b2/x/ring.pcap0": True}
    with pytest.raises(KdissectError, match=rf"^s3://{bucket.name}/b2/\*.pcap: no file matches$"):
        names("b2/*.pcap")


def test_a_copy_has_the_bytes_where_they_are_in_the_capture(bucket: Bucket) -> None:
    content = bytes(range(256)) * (BLOCK_SIZE // 512)
    write_bytes(bucket.at("capture"), content)
    with local_copy(bucket.at("capture"), 1000, 2000) as copy:
        assert Path(copy).read_bytes() == bytes(1000) + content[1000:2000]
    assert not Path(copy).exists()
    with local_copy(bucket.at("capture")) as copy:
        assert Path(copy).read_bytes() == content
    with (
        pytest.raises(KdissectError, match="nothing: no such file"),
        local_copy(bucket.at("nothing")),
    ):
        pass


def test_large_files_are_brought_in_parts(bucket: Bucket, tmp_path: Path) -> None:
    content = bytes(range(251)) * (48 << 10)
    (tmp_path / "large").write_bytes(content)
    storage.upload(tmp_path / "large", bucket.at("large"))
    assert seen(bucket.at("large"))[0] == len(content)
    assert read_bytes(bucket.at("large")) == content


def test_a_path_is_its_own_copy(tmp_path: Path) -> None:
    with local_copy(str(tmp_path / "capture")) as copy:
        assert copy == str(tmp_path / "capture")
    assert remember(f"file://{tmp_path}/capture") == copy


def test_file_uris_are_paths(tmp_path: Path) -> None:
    paths = rotate("sasl-4.3.1.pcapng", tmp_path / "ring", 2, seed=4)
    dissect(None, [f"file://{tmp_path}/ring"], f"file://{tmp_path}/dataset", tables=ALL)
    assert dataset_rows(tmp_path / "dataset") == library_rows(paths)


@pytest.mark.parametrize(
    "uri", ["hf://x/y", "fsspec+http://127.0.0.1:1/x", "http://127.0.0.1:1/x", "github://a:b@c/x"]
)
def test_a_uri_of_no_store_is_one_error_and_nothing_is_asked(uri: str) -> None:
    with pytest.raises(StoreError, match="no scheme of a store"):
        kdissect.analyse("latency", uri)


def test_options_of_a_bucket_apply_to_all_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_options", {})
    given = "s3://name:password@one/b/c.pcap?region=eu-west-1"
    assert remember(given) == "s3://one/b/c.pcap"
    assert remember("s3://two/c.pcap") == "s3://two/c.pcap"
    assert reached_by(["s3://two/x", "s3://one/y", "/local"]) == (
        "s3://name:password@one?region=eu-west-1",
    )
    system, path = system_at("s3://one/b/c.pcap")
    assert (system.region, path) == ("eu-west-1", "one/b/c.pcap")


@pytest.mark.slow
def test_questions_are_put_to_a_dataset_in_a_store(bucket: Bucket, tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=15)
    dataset = bucket.uri("kafka")
    dissect(None, paths, dataset)
    found = kdissect.analyse("latency", dataset, by=["tap", "api"]).to_arrow().to_pylist()
    expected = kdissect.analyse("latency", paths, by=["api"]).to_arrow().to_pylist()
    assert found == [{"tap": "ring"} | row for row in expected]
    assert kdissect.findings(dataset) == kdissect.findings(paths)
    with pytest.raises(KdissectError, match=rf"^s3://{bucket.name}/captures is no dataset: it has"):
        kdissect.analyse("latency", bucket.uri("captures"))


def failing_once(function: Callable[..., Any], mark: Path) -> Callable[..., Any]:
    """The store fails the first time, after the work and before the upload."""

    def failed(*values: Any) -> Any:
        answer = function(*values)
        if not mark.exists():
            mark.touch()
            raise StoreError("s3://bucket/capture: the store went away")
        return answer

    return failed


@pytest.mark.slow
def test_executors_reach_stores_and_spark_retries_failed_requests(
    spark: "SparkSession", bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdissect.spark.source import KdissectDataSource

    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=14)
    expected = called(library_rows(paths), put_all(bucket, paths))
    # The executors' environment has no name and password.
    name, password = DUMMY["AWS_ACCESS_KEY_ID"], DUMMY["AWS_SECRET_ACCESS_KEY"]
    source = f"s3://{name}:{password}@{bucket.name}/captures?{bucket.options}"
    dataset = f"s3://{name}:{password}@{bucket.name}/kafka?{bucket.options}"
    monkeypatch.setattr(
        "kdissect.spark.steps.dissect_part", failing_once(tasks.dissect_part, tmp_path / "mark")
    )
    assert dissect(spark, [source], dataset, tables=ALL).failed == ()
    assert (tmp_path / "mark").exists()
    assert stored_rows(dataset) == expected
    frame = read_table(spark, dataset, "exchanges", by_arrow=True)
    assert spark_rows("exchanges", to_arrow(frame).to_batches()) == expected["exchanges"]
    assert {row.tap for row in frame.select("tap").distinct().collect()} == {"ring"}
    spark.dataSource.register(KdissectDataSource)
    reader = spark.read.format("kdissect").option("table", "partitions")
    found = spark_rows("partitions", reader.load(source).toArrow().to_batches())
    assert found == expected["partitions"]


def test_a_log_in_a_store_names_files_of_the_dataset_only(bucket: Bucket) -> None:
    dataset = bucket.uri("kafka")
    dissect(None, [CAPTURES / "groups-4.3.1.pcapng"], dataset)
    place = bucket.at("kafka/exchanges/_delta_log/00000000000000000000.json")
    other = bucket.at("other/canary.parquet")
    write_bytes(other, b"canary")
    lines = [json.loads(line) for line in (read_bytes(place) or b"").splitlines()]
    (added,) = (line["add"] for line in lines if "add" in line)
    own = added["path"]
    for name in (
        "../other/canary.parquet",
        "../../other/canary.parquet",
        other,
        f"{own}/../../canary",
        "/etc/passwd",
        f"{own}\n",
    ):
        added["path"] = name
        write_bytes(place, "".join(f"{json.dumps(one)}\n" for one in lines).encode())
        for use in (
            lambda: dissect(None, [CAPTURES / "sasl-4.3.1.pcapng"], dataset),
            lambda: kdissect.analyse("latency", dataset),
            lambda: roll_up(dataset),
        ):
            with pytest.raises(KdissectError, match=r"exchanges: .* is no "):
                use()
    assert read_bytes(other) == b"canary"
