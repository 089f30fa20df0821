"""Golden rows: the tables of the captures in captures/, in tests/golden/.

    python -m tools.golden            write them (review the diff like source)

Of a few captures every row as CSV; of all others digests.json says how many rows a table has, of
which APIs and errors, and their sha256: a change shows. Rows are
sorted, so order of completion is free. Bodies are left out: they are larger than the capture.
"""

import csv
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

import kdissect
from kdissect.tables.schemas import TABLES

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "captures"
GOLDEN = ROOT / "tests" / "golden"
DIGESTS = GOLDEN / "digests.json"
IN_FULL = {
    "quickstart",
    "old-formats-0.10.2.2",
    "sasl-0.10.2.2",
    "telemetry-4.3.1",
    "retries-4.3.1",
}
# Counts in the digest of a table.
COUNTED = {
    "exchanges": ("api", "api_version", "outcome"),
    "errors": ("name", "path"),
    "problems": ("kind", "message"),
    "connections": ("protocol", "sasl_mechanism"),
    "batches": ("magic", "codec"),
}
ENDINGS = (".pcap", ".pcapng", ".pcap.zst", ".pcapng.zst", ".pcap.gz", ".pcapng.gz")


def captures() -> list[Path]:
    """The committed captures."""
    return sorted(path for path in CAPTURES.rglob("*") if path.name.endswith(ENDINGS))


def is_in_full(capture: Path) -> bool:
    """Return whether every row of a capture is committed."""
    return capture.name.split(".pcap")[0] in IN_FULL


def digest(texts: dict[str, str]) -> dict[str, Any]:
    """Digest that is committed for the CSV texts of a capture too large to keep in full."""
    return {name: digest_of_table(name, text) for name, text in texts.items()}


def digest_of_table(name: str, text: str) -> dict[str, Any]:
    """Number of rows, sha256 of the text, and how often the values of some columns occur."""
    rows = list(csv.DictReader(io.StringIO(text)))
    found: dict[str, Any] = {
        "rows": len(rows),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    if columns := COUNTED.get(name):
        counts = Counter(" ".join(row[column] for column in columns).strip() for row in rows)
        found["counts"] = dict(sorted(counts.items()))
    return found


def golden_digests() -> dict[str, dict[str, Any]]:
    """The committed digests by capture."""
    loaded: dict[str, dict[str, Any]] = json.loads(DIGESTS.read_text(encoding="utf-8"))
    return loaded


def golden_path(capture: Path, table: str) -> Path:
    """Path of a capture's golden rows of one table."""
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
    digests = {}
    for capture in captures():
        texts = golden_rows(capture)
        if not is_in_full(capture):
            digests[capture.name] = digest(texts)
            continue
        for table, text in texts.items():
            path = golden_path(capture, table)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"{path.relative_to(ROOT)}: {text.count(chr(10)) - 1} rows")
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
    print(f"{DIGESTS.relative_to(ROOT)}: {len(digests)} captures")


if __name__ == "__main__":
    main()
