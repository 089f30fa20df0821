import base64
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import kdissect
from kdissect.live.files.publishing import Sealed, publish
from kdissect.protocol.primitives import uuid_text
from kdissect.tables.rotations import BALANCE
from kdissect.tables.spool import Spool
from tests.live.replays import CAPTURES, read_run, replay, rows_of

CAPTURE = CAPTURES / "consumer-groups-4.3.1.pcapng"
NAME = "000001-20261122T060000Z"


def sealed(run: Path, table: str, batches: list[pa.RecordBatch], names: dict[bytes, str]) -> Sealed:
    spools = run / f".open-{NAME}"
    spools.mkdir(parents=True)
    with Spool(spools / f"{table}.spool") as spool:
        for batch in batches:
            spool.add(batch)
    return Sealed(spools, [table], names, None, False)


def names_of(rows: pa.Table) -> dict[bytes, str]:
    pairs = zip(rows["topic_id"].to_pylist(), rows["topic"].to_pylist(), strict=True)
    return {
        base64.urlsafe_b64decode(id_ + "=="): topic
        for id_, topic in pairs
        if id_ is not None and topic is not None
    }


@pytest.mark.parametrize("table", ["partitions", "batches", "records"])
def test_rows_get_the_names_that_are_known_when_they_are_rotated(
    tmp_path: Path, table: str
) -> None:
    made = kdissect.read(CAPTURE, table=table).to_arrow()
    names = names_of(made)
    assert names
    place = made.schema.get_field_index("topic")
    field = made.schema.field(place)
    # Those that have no id keep the name that they came with.
    has_id = made["topic_id"].is_valid()
    topics = made["topic"].cast(pa.string()).to_pylist()
    nameless = [
        None if known else topic for known, topic in zip(has_id.to_pylist(), topics, strict=True)
    ]
    column = pa.array(nameless, pa.string()).dictionary_encode()
    early = made.set_column(place, field, column)
    publish(sealed(tmp_path, table, early.to_batches(max_chunksize=50), names))
    assert rows_of(read_run(tmp_path, table)) == rows_of(made)


def test_assignments_get_the_names_too(tmp_path: Path) -> None:
    made = kdissect.read(CAPTURE, table="members").to_arrow()
    names = names_of(kdissect.read(CAPTURE, table="partitions").to_arrow())
    place = made.schema.get_field_index("assignment")
    texts = [text.as_py() for text in made["assignment"]]
    early = texts
    for raw, name in names.items():
        early = [
            None if text is None else text.replace(f"{name}:", f"{uuid_text(raw)}:")
            for text in early
        ]
    assert early != texts
    column = pa.array(early, pa.string()).dictionary_encode()
    changed = made.set_column(place, made.schema.field(place), column)
    publish(sealed(tmp_path, "members", changed.to_batches(), names))
    assert rows_of(read_run(tmp_path, "members")) == rows_of(made)


def test_large_rotations_are_written_a_row_group_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.live.files.publishing.GROUP_SIZE", 20_000)
    made = kdissect.read(CAPTURE).to_arrow()
    publish(sealed(tmp_path, "exchanges", made.to_batches(max_chunksize=20), {}))
    file = parquet.ParquetFile(tmp_path / NAME / "exchanges.parquet")
    assert file.metadata.num_row_groups == 3
    assert rows_of(file.read()) == rows_of(made)


def test_spools_of_another_release_keep_their_columns(tmp_path: Path) -> None:
    made = kdissect.read(CAPTURE).to_arrow()
    older = made.drop_columns(["rtt_ns"]).append_column(
        "gone_since", pa.nulls(len(made)).cast("int8")
    )
    publish(sealed(tmp_path, "exchanges", older.to_batches(), {}))
    found = parquet.ParquetFile(tmp_path / NAME / "exchanges.parquet").read()
    assert found.column_names == older.column_names
    assert rows_of(found) == rows_of(older)


def test_a_rotation_gets_its_name_when_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its spools go when the name is."""
    done: list[str] = []
    fsync, rename, rmtree = os.fsync, os.rename, shutil.rmtree

    def noted_fsync(file: int) -> None:
        name = Path(f"/proc/self/fd/{file}").readlink().name
        done.append(f"sync {re.sub('[0-9a-f]{32}', 'ANY', name)}")
        fsync(file)

    def noted_rename(name: str, to: str, **directories: int) -> None:
        done.append(f"rename {name} {to}")
        rename(name, to, **directories)

    def noted_rmtree(name: str, **named: Any) -> None:
        done.append(f"remove {name}")
        rmtree(name, **named)

    made = kdissect.read(CAPTURE).to_arrow()
    one = sealed(tmp_path / "run", "exchanges", made.to_batches(), {})
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    monkeypatch.setattr(shutil, "rmtree", noted_rmtree)
    publish(one)
    assert done == [
        "sync .exchanges.parquet.ANY.tmp",
        f"sync .making-{NAME}",
        f"rename .making-{NAME} {NAME}",
        "sync run",
        f"remove .open-{NAME}",
    ]


def test_publishing_a_published_rotation_removes_its_spools(tmp_path: Path) -> None:
    made = kdissect.read(CAPTURE).to_arrow()
    one = sealed(tmp_path, "exchanges", made.to_batches(), {})
    (tmp_path / NAME).mkdir()
    publish(one)
    publish(one)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_the_balance_of_a_killed_process_is_not_told(tmp_path: Path) -> None:
    made = kdissect.read(CAPTURE).to_arrow()
    publish(sealed(tmp_path, "exchanges", made.to_batches(), {}))
    assert not (tmp_path / NAME / BALANCE).exists()
    replay(CAPTURE, tmp_path / "live", ["exchanges"])
    assert len(list(tmp_path.glob(f"live/*/*/{BALANCE}"))) == 1
