import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.errors import KdissectError
from kdissect.tables.spool import HEADER, Spool, SpoolReader, spooled, whole_spool, write_whole

TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema([("number", pa.int64()), pa.field("text", TEXT, metadata={"unit": ""})])


def batch(*numbers: int) -> pa.RecordBatch:
    texts = pa.array([f"text {number}" for number in numbers]).dictionary_encode()
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), texts], schema=SCHEMA)


def written(path: Path, *batches: pa.RecordBatch) -> list[int]:
    """A spool with a piece for each batch; the sizes of the file after each."""
    sizes = []
    with Spool(path) as spool:
        for one in batches:
            spool.add(one)
            spool.write(is_synced=True)
            sizes.append(path.stat().st_size)
    return sizes


def test_batches_round_trip_with_texts_and_column_meanings(tmp_path: Path) -> None:
    batches = [batch(1, 2), batch(3), batch(4, 5, 6)]
    written(tmp_path / "rows", *batches)
    found = list(whole_spool(tmp_path / "rows"))
    assert found == batches
    assert found[0].schema.equals(SCHEMA, check_metadata=True)


def test_several_batches_are_one_piece_when_they_are_written_at_once(tmp_path: Path) -> None:
    with Spool(tmp_path / "rows") as spool:
        spool.add(batch(1))
        spool.add(batch(2))
        assert (spool.size, spool.rows, spool.unwritten > 0) == (0, 2, True)
    assert list(SpoolReader(tmp_path / "rows")) == [batch(1), batch(2)]
    assert spool.size == (tmp_path / "rows").stat().st_size


def test_a_spool_without_batches_is_no_file_and_reads_as_none(tmp_path: Path) -> None:
    with Spool(tmp_path / "rows"):
        pass
    assert not (tmp_path / "rows").exists()
    reader = SpoolReader(tmp_path / "rows")
    assert (list(reader), reader.damage) == ([], "")
    assert spooled([]) == b""


def test_a_spool_that_is_cut_anywhere_gives_the_batches_of_its_whole_pieces(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    batches = [batch(1, 2), batch(3), batch(4)]
    ends = written(path, *batches)
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        reader = SpoolReader(path)
        whole = sum(end <= size for end in ends)
        assert list(reader) == batches[:whole]
        assert reader.lost_bytes == size - ([0, *ends][whole])
        assert ("is cut short" in reader.damage) == (reader.lost_bytes > 0)


def test_spool_with_any_wrong_byte_yields_earlier_flushes_and_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    batches = [batch(1, 2), batch(3), batch(4)]
    ends = written(path, *batches)
    content = path.read_bytes()
    for at in range(3, len(content), 11):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])
        reader = SpoolReader(path)
        assert list(reader) == batches[: sum(end <= at for end in ends)]
        assert reader.damage.startswith(str(path))
        assert reader.damage.endswith("are lost")


def test_a_piece_that_is_sound_and_no_stream_of_arrow_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    content = b"anything at all" * 9
    path.write_bytes(HEADER.pack(b"kds1", zlib.crc32(content), len(content)) + content)
    reader = SpoolReader(path)
    assert list(reader) == []
    assert "is not what was written" in reader.damage


def test_strict_reader_of_a_damaged_spool_gets_the_sound_part_then_an_error(
    tmp_path: Path,
) -> None:
    first, _ = written(tmp_path / "rows", batch(1), batch(2))
    os.truncate(tmp_path / "rows", first + 20)
    found = []
    with pytest.raises(KdissectError, match="rows in its last 20 bytes, from byte"):
        found.extend(one for one in whole_spool(tmp_path / "rows"))
    assert list(SpoolReader(tmp_path / "rows")) == [batch(1)]


@pytest.mark.parametrize("failing", ["write", "fdatasync"])
def test_rows_rejected_by_a_full_disk_are_written_once_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "rows"
    with Spool(path) as spool:
        spool.add(batch(1))
        spool.write()
        before = path.read_bytes()
        spool.add(batch(2))
        with monkeypatch.context() as patch:
            patch.setattr(os, failing, half_written if failing == "write" else full)
            with pytest.raises(OSError, match="No space left"):
                spool.write(is_synced=True)
        assert path.read_bytes() == before
        spool.add(batch(3))
        spool.write()
    assert list(whole_spool(path)) == [batch(1), batch(2), batch(3)]


def full(*_: object) -> int:
    raise OSError(28, "No space left on device")


write_some: Callable[[int, bytes], int] = os.write


def half_written(file: int, content: memoryview) -> int:
    """Takes half, then nothing more."""
    if len(content) < 50:
        return full()
    return write_some(file, content[: len(content) // 2])


def test_a_file_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "names"
    write_whole(path, b"before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half_written)
        with pytest.raises(OSError, match="No space left"):
            write_whole(path, b"after" * 100)
    assert path.read_bytes() == b"before"
    write_whole(path, b"after", is_synced=True, mode=0o600)
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]
