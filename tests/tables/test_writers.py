"""Parquet files appear whole and together, or not at all."""

import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect.errors import OutputError
from kdissect.tables import writers
from kdissect.tables.batches import BatchBuilder, arrow_schema
from kdissect.tables.schemas import TABLES
from kdissect.tables.writers import ParquetDirectory
from tests.seeds import SEED
from tests.tables.test_rows import CAPTURES, EXPECTED, MADE, START

SCHEMAS = {name: arrow_schema(table) for name, table in TABLES.items()}


def batch_of(table: str) -> pa.RecordBatch:
    return BatchBuilder(TABLES[table], CAPTURES, {}).batch(MADE[table]())


def write_all(directory: Path, force: bool = False) -> None:
    with ParquetDirectory(directory, SCHEMAS, force) as output:
        for table in TABLES:
            output.write(table, batch_of(table))


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


ALL = {f"{name}.parquet" for name in TABLES}


def test_there_is_a_file_for_every_table_and_nothing_else(tmp_path: Path) -> None:
    write_all(tmp_path / "out" / "inner")
    assert names(tmp_path / "out" / "inner") == ALL


@pytest.mark.parametrize("table", TABLES)
def test_a_file_has_the_rows_and_the_schema(tmp_path: Path, table: str) -> None:
    write_all(tmp_path)
    found = pq.read_table(tmp_path / f"{table}.parquet")
    assert found.schema.equals(SCHEMAS[table], check_metadata=True)
    assert found.cast(found.schema).to_batches()[0].schema.names == list(EXPECTED[table])
    assert found.to_pylist() == pa.Table.from_batches([batch_of(table)]).to_pylist()


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    write_all(tmp_path)
    column = pq.read_table(tmp_path / "exchanges.parquet")["request_start"]
    assert column.type == pa.timestamp("ns", tz="UTC")
    assert column.cast(pa.int64()).to_pylist() == [START]


def test_pages_are_snappy(tmp_path: Path) -> None:
    write_all(tmp_path)
    group = pq.ParquetFile(tmp_path / "exchanges.parquet").metadata.row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {"SNAPPY"}


def test_a_table_without_rows_is_a_file_too(tmp_path: Path) -> None:
    with ParquetDirectory(tmp_path, SCHEMAS):
        pass
    assert names(tmp_path) == ALL
    assert pq.read_table(tmp_path / "errors.parquet").num_rows == 0


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "ROW_GROUP_ROWS", 4)
    with ParquetDirectory(tmp_path, {"errors": SCHEMAS["errors"]}) as output:
        for _ in range(11):
            output.write("errors", batch_of("errors"))
            assert output.files["errors"].waiting_rows < 4
    metadata = pq.ParquetFile(tmp_path / "errors.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [4, 4, 3]
    assert output.files["errors"].rows == 11


def test_row_groups_of_all_tables_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, written = Random(SEED), Counter[str]()
    batches = {name: batch_of(name) for name in TABLES}
    limit = 20 * max(batch.nbytes for batch in batches.values())
    monkeypatch.setattr(writers, "DIRECTORY_SIZE", limit)
    drawn = source.choices([*TABLES], [source.random() ** 3 for _ in TABLES], k=500)
    with ParquetDirectory(tmp_path, SCHEMAS) as output:
        for name in drawn:
            output.write(name, batches[name])
            written[name] += batches[name].num_rows
            waiting = [batch for file in output.files.values() for batch in file.waiting]
            assert sum(batch.nbytes for batch in waiting) <= limit
    metadata = {name: pq.ParquetFile(tmp_path / f"{name}.parquet").metadata for name in TABLES}
    assert {name: found.num_rows for name, found in metadata.items() if found.num_rows} == written
    # The largest is written, so each row group but the last ones frees a share of the limit.
    most = sum(batches[name].nbytes for name in drawn) * len(TABLES) / limit + len(TABLES)
    assert sum(found.num_row_groups for found in metadata.values()) <= most


def test_batches_with_other_dictionaries_are_one_column(tmp_path: Path) -> None:
    batch = batch_of("errors")
    other = batch.set_column(
        batch.schema.get_field_index("topic"),
        SCHEMAS["errors"].field("topic"),
        pa.array(["payments"]).dictionary_encode(),
    )
    with ParquetDirectory(tmp_path, {"errors": SCHEMAS["errors"]}) as output:
        output.write("errors", batch)
        output.write("errors", other)
    found = pq.read_table(tmp_path / "errors.parquet")
    assert found["topic"].to_pylist() == ["orders", "payments"]


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "problems.parquet").write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"problems\.parquet exists already; --force overwrites"):
        write_all(tmp_path)
    assert names(tmp_path) == {"problems.parquet"}
    assert (tmp_path / "problems.parquet").read_bytes() == b"mine"


def test_force_overwrites(tmp_path: Path) -> None:
    (tmp_path / "problems.parquet").write_bytes(b"mine")
    write_all(tmp_path, force=True)
    assert names(tmp_path) == ALL
    assert pq.read_table(tmp_path / "problems.parquet").num_rows == 1


def test_a_directory_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "problems.parquet").mkdir()
    with pytest.raises(OutputError, match="is a directory"):
        write_all(tmp_path, force=True)
    assert names(tmp_path) == {"problems.parquet"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_inside_leaves_the_directory_as_it_was(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "problems.parquet").write_bytes(b"mine")
    output = ParquetDirectory(tmp_path, SCHEMAS, force=True)
    output.write("errors", batch_of("errors"))
    with pytest.raises(error), output:
        raise error
    assert names(tmp_path) == {"problems.parquet"}
    assert (tmp_path / "problems.parquet").read_bytes() == b"mine"


def test_a_directory_that_was_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), ParquetDirectory(tmp_path / "out", SCHEMAS):
        raise RuntimeError
    assert names(tmp_path) == set()


def test_no_file_appears_before_all_are_written(tmp_path: Path) -> None:
    with ParquetDirectory(tmp_path, SCHEMAS) as output:
        for table in TABLES:
            output.write(table, batch_of(table))
        assert not names(tmp_path) & ALL
    assert names(tmp_path) == ALL


def test_a_place_that_is_no_directory_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    for place in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(OutputError, match="cannot make"):
            write_all(place)
    assert names(tmp_path) == {"file"}


def test_a_directory_that_goes_away_is_an_output_error(tmp_path: Path) -> None:
    output = ParquetDirectory(tmp_path / "out", SCHEMAS)
    output.write("errors", batch_of("errors"))
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    with pytest.raises(OutputError, match="cannot write"), output:
        pass
    assert names(tmp_path) == set()


@contextmanager
def small_disk() -> Iterator[None]:
    """No file may be larger than 2 KB; only inside, as pytest's own output may be a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_an_output_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(), pytest.raises(OutputError, match="cannot write"):
        write_all(tmp_path)
    assert names(tmp_path) == set()
    monkeypatch.setattr(writers, "ROW_GROUP_ROWS", 1)
    with small_disk(), pytest.raises(OutputError, match="cannot write"):
        write_all(tmp_path)
    assert names(tmp_path) == set()
