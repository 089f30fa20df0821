import io
import json
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect.cli.destination import destination
from kdissect.cli.output import chosen_format, make_writer
from kdissect.errors import OutputError

TIME = 1_700_000_000_123_456_789
BATCH = pa.RecordBatch.from_arrays(
    [
        pa.array(["=1+1", None]).dictionary_encode(),
        pa.array([TIME, None], pa.timestamp("ns", tz="UTC")),
        pa.array([-5, None], pa.int64()),
        pa.array([True, None]),
        pa.array([b"text", b"\xff"]),
        pa.nulls(2, pa.string()),
    ],
    ["topic", "time", "count", "is_ok", "value", "nothing"],
)


def written(format_: str, columns: list[str] | None = None, times: int = 1) -> bytes:
    file = io.BytesIO()
    writer = make_writer(format_, file, columns)
    for _ in range(times):
        writer.write(BATCH)
    writer.close()
    return file.getvalue()


ROWS = [
    {
        "topic": "=1+1", "time": "2023-11-14T22:13:20.123456789Z", "count": -5, "is_ok": True,
        "value": "text", "nothing": None,
    },
    {
        "topic": None, "time": None, "count": None, "is_ok": None, "value": {"base64": "/w=="},
        "nothing": None,
    },
]  # fmt: skip


def test_json_lines_have_every_column_and_bytes_as_text_or_base64() -> None:
    lines = written("jsonl", times=2).decode().splitlines()
    assert [json.loads(line) for line in lines] == ROWS * 2


def test_json_is_one_array() -> None:
    assert json.loads(written("json", times=2)) == ROWS * 2


def test_without_rows_csv_and_parquet_have_their_head() -> None:
    file = io.BytesIO()
    make_writer("csv", file, schema=BATCH.schema).close()
    assert file.getvalue() == b'"topic","time","count","is_ok","value","nothing"\n'
    file = io.BytesIO()
    make_writer("parquet", file, schema=BATCH.schema).close()
    found = pq.read_table(io.BytesIO(file.getvalue()))
    assert (found.column_names, found.num_rows) == (BATCH.schema.names, 0)


@pytest.mark.parametrize("format_", ["json", "jsonl", "table"])
def test_without_rows_the_others_are_as_without_a_schema(format_: str) -> None:
    file = io.BytesIO()
    make_writer(format_, file, schema=BATCH.schema).close()
    assert file.getvalue() == written(format_, times=0)


def test_json_without_rows_is_an_empty_array() -> None:
    assert json.loads(written("json", times=0)) == []


def test_csv_has_one_header_and_no_formulas() -> None:
    assert written("csv", times=2).decode().splitlines() == [
        '"topic","time","count","is_ok","value","nothing"',
        '"\'=1+1","2023-11-14T22:13:20.123456789Z",-5,true,"text",',
        ',,,,"base64:/w==",',
        '"\'=1+1","2023-11-14T22:13:20.123456789Z",-5,true,"text",',
        ',,,,"base64:/w==",',
    ]


def test_parquet_keeps_types_and_nanoseconds() -> None:
    table = pq.read_table(io.BytesIO(written("parquet")))
    assert table.column("time").cast(pa.int64()).to_pylist() == [TIME, None]
    assert table.column("value").to_pylist() == [b"text", b"\xff"]


def test_a_table_leaves_out_empty_columns_and_those_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert written("table").decode().splitlines() == [
        "topic  time                            count",
        "─────  ──────────────────────────────  ─────",
        "=1+1   2023-11-14T22:13:20.123456789Z     -5",
        "",
    ]
    assert "3 of 6 columns fit" in capsys.readouterr().err


def test_a_table_has_the_columns_that_were_asked_for_fitting_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    lines = written("table", BATCH.schema.names).decode().splitlines()
    assert lines[0].split() == BATCH.schema.names


def test_a_cell_cannot_control_the_terminal() -> None:
    file = io.BytesIO()
    writer = make_writer("table", file)
    writer.write(pa.RecordBatch.from_pydict({"client_id": ["\x1b[2J\x07", "a\nb"]}))
    assert file.getvalue().decode().splitlines()[2:] == ["\\e[2J\\x07", "a\\nb"]


def test_the_file_extension_sets_the_format() -> None:
    assert chosen_format(None, Path("a.csv")) == "csv"
    assert chosen_format("json", Path("a.csv")) == "json"
    assert chosen_format(None, None) == "jsonl"
    with pytest.raises(click.UsageError, match="which format"):
        chosen_format(None, Path("a.txt"))


def test_an_output_file_is_not_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("precious")
    with pytest.raises(OutputError, match="--force"), destination(path):
        pass
    assert path.read_text() == "precious"
    with destination(path, force=True) as file:
        file.write(b"new")
    assert path.read_text() == "new"


def test_an_output_file_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    def fail_half_way() -> None:
        with destination(tmp_path / "a.csv") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert list(tmp_path.iterdir()) == []
