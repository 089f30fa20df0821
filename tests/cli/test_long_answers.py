"""Long answers are written a few rows at a time, and are the same as in one piece."""

import csv
import io
import json
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect.cli import analyses
from kdissect.cli.analyses import readable, write_rows
from tests.seeds import SEED

ROWS = 3_000
FIELDS = [
    pa.field("client_id", pa.string(), metadata={"unit": "", "type": "text"}),
    pa.field("latency_ns", pa.int64(), metadata={"unit": "ns", "type": "int64"}),
    pa.field("share", pa.float64(), metadata={"unit": "", "type": "share"}),
    pa.field("first_time", pa.timestamp("ns", "UTC"), metadata={"unit": "", "type": "time"}),
]


def answer() -> pa.Table:
    """Rows with nulls, in several chunks."""
    source = Random(SEED)
    columns: list[list[object]] = [
        [f"client-{source.randrange(10 ** source.randrange(9))}" for _ in range(ROWS)],
        [source.randrange(10 ** source.randrange(12)) for _ in range(ROWS)],
        [source.random() for _ in range(ROWS)],
        [source.randrange(2**60) for _ in range(ROWS)],
    ]
    for column in columns:
        column[source.randrange(ROWS)] = None
    table = pa.table(columns, schema=pa.schema(FIELDS))
    at = source.randrange(1, ROWS)
    return pa.concat_tables([table.slice(0, at), table.slice(at)])


@pytest.mark.parametrize("format_", ["table", "csv", "json", "jsonl"])
@pytest.mark.parametrize("is_viewed", [False, True])
def test_pieces_are_the_whole(
    format_: str, is_viewed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def view(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return readable(batch) if is_viewed else batch

    def written(rows_at_a_time: int) -> bytes:
        monkeypatch.setattr(analyses, "ROWS_AT_A_TIME", rows_at_a_time)
        file = io.BytesIO()
        write_rows(answer(), format_, file, are_chosen=True, view=view)
        return file.getvalue()

    whole = written(ROWS)
    assert whole.count(b"client-") == ROWS - 1
    sizes.clear()
    assert written(1_000) == whole
    assert sum(sizes) == ROWS
    assert max(sizes) <= 1_000


def test_the_rows_are_there_for_other_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyses, "ROWS_AT_A_TIME", 7)
    texts = {}
    for format_ in ("csv", "jsonl", "json"):
        file = io.BytesIO()
        write_rows(answer(), format_, file, are_chosen=False)
        texts[format_] = file.getvalue().decode()
    expected = answer().to_pydict()
    rows = json.loads(texts["json"])
    assert [json.loads(line) for line in texts["jsonl"].splitlines()] == rows
    for name in ("client_id", "latency_ns", "share"):
        assert [row[name] for row in rows] == expected[name]
    cells = [*csv.DictReader(io.StringIO(texts["csv"]))]
    assert [row["client_id"] or None for row in cells] == expected["client_id"]
    numbers = [int(row["latency_ns"]) if row["latency_ns"] else None for row in cells]
    assert numbers == expected["latency_ns"]


def test_a_parquet_file_has_no_more_row_groups_than_the_answer_has_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(analyses, "ROWS_AT_A_TIME", 10)
    file = io.BytesIO()
    write_rows(answer(), "parquet", file, are_chosen=False)
    found = pq.ParquetFile(io.BytesIO(file.getvalue()))
    assert found.metadata.num_row_groups == len(answer().to_batches())
    assert found.read().equals(answer())
