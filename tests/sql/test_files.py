"""Paths for DuckDB: each opens its own file, under any name, and no other."""

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from kdissect.errors import KdissectError
from kdissect.sql.connections import locked_connection
from kdissect.sql.files import PlainPaths, parquet_files
from tests.cli.test_names import decoys, names


def number_in(path: Path, root: Path | None = None) -> list[tuple[int, ...]]:
    """Rows that DuckDB reads there, without access to anything else."""
    with PlainPaths() as paths:
        plain = paths.of(str(path), str(root or ""))
        hive = "hive_partitioning = true, hive_types = {'date': VARCHAR}"
        source = parquet_files([plain], hive) if root else parquet_files([plain])
        with locked_connection([plain]) as connection:
            return connection.sql(f"FROM {source}").fetchall()


@pytest.mark.parametrize("name", names(), ids=repr)
def test_a_path_opens_its_own_file(name: str, tmp_path: Path) -> None:
    for number, one in enumerate([name, *sorted(decoys(name))]):
        directory = tmp_path / one / "t" / "date=7"
        directory.mkdir(parents=True)
        for path in (directory / "a.parquet", tmp_path / one / one):
            parquet.write_table(pa.table({"number": [number]}), path)
    place = tmp_path / name
    assert number_in(place / "t" / "date=7" / "a.parquet") == [(0,)]
    assert number_in(place / name) == [(0,)]
    assert number_in(place / "t" / "date=7" / "a.parquet", place) == [(0, "7")]


@pytest.mark.parametrize("name", ["a[1]", "job=17", "a\\b*"])
def test_the_temporary_directory_may_have_any_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / name
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    parquet.write_table(pa.table({"number": [5]}), place / "a.parquet")
    assert number_in(place / "a.parquet") == [(5,)]
    assert [path.name for path in place.iterdir()] == ["a.parquet"]


def test_plain_paths_stay_and_links_are_removed(tmp_path: Path) -> None:
    plain, special = tmp_path / "a.parquet", tmp_path / "a[1]" / "b.parquet"
    with PlainPaths() as paths:
        assert paths.of(str(plain)) == str(plain)
        link = Path(paths.of(str(special)))
        assert paths.of(str(special.with_name("c.parquet"))) == str(link.with_name("c.parquet"))
        assert link.parent.is_symlink()
        assert paths.with_targets(f"no {link}") == f"no {special}"
    assert not os.path.lexists(link.parent)
    assert not link.parent.parent.exists()


def test_a_relative_path_is_that_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "~").mkdir()
    parquet.write_table(pa.table({"number": [3]}), tmp_path / "~" / "a.parquet")
    monkeypatch.chdir(tmp_path)
    assert number_in(Path("~/a.parquet")) == [(3,)]


def test_a_name_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / os.fsdecode(b"a\xff"))
    with PlainPaths() as paths, pytest.raises(KdissectError, match="name is not UTF-8; rename it"):
        paths.of(path)


def test_an_impossible_link_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not-there"))
    monkeypatch.setattr("kdissect.sql.files.PLACES", ())
    with PlainPaths() as paths, pytest.raises(KdissectError, match=r"a\[1\]: DuckDB needs a plain"):
        paths.of(str(tmp_path / "a[1]" / "a.parquet"))
