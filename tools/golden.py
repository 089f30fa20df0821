"""Golden rows: every table of every capture in captures/ as CSV in tests/golden/.

    python -m tools.golden            write them (review the diff like source)

`golden_rows` is what the test compares with; rows are sorted, so order of completion is free.
Bodies are left out: they are larger than the capture.
"""

import csv
import io
from pathlib import Path

import pyarrow as pa

import kdissect
from kdissect.tables.schemas import TABLES

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "captures"
GOLDEN = ROOT / "tests" / "golden"
ENDINGS = (".pcap", ".pcapng", ".pcap.zst", ".pcapng.zst", ".pcap.gz", ".pcapng.gz")


def captures() -> list[Path]:
    """The committed captures."""
    return sorted(path for path in CAPTURES.rglob("*") if path.name.endswith(ENDINGS))


def golden_path(capture: Path, table: str) -> Path:
    """Where the golden rows of a table of a capture are."""
    return GOLDEN / capture.relative_to(CAPTURES).parent / f"{capture.name}.{table}.csv"


def golden_rows(capture: Path) -> dict[str, str]:
    """The CSV text of every table of a capture; times are ns since 1970."""
    tables: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES if name != "bodies"}
    for name, batch in kdissect.Run(str(capture), kdissect.Options(tables=tuple(tables))):
        tables[name].append(batch)
    return {name: csv_text(name, batches) for name, batches in tables.items()}


def csv_text(name: str, batches: list[pa.RecordBatch]) -> str:
    """Batches as one CSV text with sorted rows; the capture column is left out."""
    names = [column.name for column in TABLES[name].columns if column.name != "capture"]
    rows = []
    for batch in batches:
        columns = [plain(batch.column(batch.schema.get_field_index(name))) for name in names]
        rows += list(zip(*columns, strict=True))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(sorted(rows, key=lambda row: tuple(map(str, row))))
    return text.getvalue()


def plain(column: pa.Array) -> list[object]:
    """The values of a column, times as integers."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return ["" if value is None else value for value in column.to_pylist()]


def main() -> None:
    for capture in captures():
        for table, text in golden_rows(capture).items():
            path = golden_path(capture, table)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"{path.relative_to(ROOT)}: {text.count(chr(10)) - 1} rows")


if __name__ == "__main__":
    main()
