from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kdissect.spark.pipeline import dissect
from kdissect.spark.storage import files_in
from tests.spark.conftest import REQUIRED
from tests.spark.rotated import ALL, Rows, dataset_rows, library_rows, rotate
from tests.spark.stores import Bucket, make_bucket, s3_server, stored_manifest, stored_rows


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if find_spec("moto") is None:
        if REQUIRED:
            pytest.fail("moto is not installed")
        pytest.skip("moto is not installed")
    with s3_server() as options:
        yield options


@pytest.fixture
def bucket(server: str, request: pytest.FixtureRequest) -> Bucket:
    return make_bucket(f"test-{abs(hash(request.node.name))}", server)


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
    outcome = dissect(None, [bucket.uri("captures")], dataset, tables=ALL, piece_size=50_000)
    assert (outcome.captures, outcome.broken, outcome.failed) == (4, (), ())
    assert dataset_rows(dataset) == called(library_rows(paths), names)
    again = dissect(None, [bucket.uri("captures/*.pcap*")], dataset, tables=ALL)
    assert again.captures == 0


def test_a_dataset_in_a_store_has_the_rows_of_the_library(bucket: Bucket, tmp_path: Path) -> None:
    paths = rotate("cluster-3.9.1.pcapng", tmp_path / "ring", 5, seed=5)
    dataset = bucket.uri("data/kafka")
    for end in (2, 3, 5):
        outcome = dissect(None, paths[:end], dataset, tables=ALL, piece_size=100_000)
        assert stored_rows(dataset) == library_rows(paths[:end])
    assert outcome.captures == 2
    manifest = stored_manifest(dataset)
    assert [capture.path for capture in manifest.taps[0].captures] == paths
    assert manifest.run == 3
    # What is there is what the manifest lists, and nothing else.
    there = {file.location for file in files_in(bucket.at("data"), recursive=True)}
    names = {*manifest.names(), "_kdissect/manifest.json"}
    assert there == {bucket.at(f"data/kafka/{name}") for name in names}
