"""Rows as JSON equal the output of `json.dumps`, and CSV in pieces equals CSV in one piece."""

import base64
import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kdissect.cli import long_values
from kdissect.cli.long_values import LONG, PIECE
from kdissect.cli.output import CsvWriter, JsonWriter, Writer
from kdissect.cli.table_writer import TableWriter
from tests.cli.test_hostile_text import HARMFUL, harmful_in
from tests.measuring import peak_memory
from tests.seeds import SEED

SIGNS = [*HARMFUL, *'a\\"/é☃\U0001f389', "\x7f", "plain text "]
BROKEN = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x8e", b"\0"]
TEXTS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema({
    "topic": TEXTS, "offset": pa.int64(), "key": pa.binary(), "value": pa.binary(),
    "body": pa.string(), "is_aborted": pa.bool_(),
})  # fmt: skip


def drawn_text(chance: random.Random, size: int) -> str:
    return "".join(chance.choices(SIGNS, k=size))


def drawn_bytes(chance: random.Random, size: int) -> bytes | None:
    if chance.random() < 0.1:
        return None
    data = drawn_text(chance, size).encode()
    if chance.random() < 0.4:
        at = chance.randrange(len(data) + 1)
        data = data[:at] + chance.choice(BROKEN) + data[at:]
    return data


def drawn_rows(chance: random.Random, sizes: list[int], count: int) -> list[dict[str, Any]]:
    return [
        {
            "topic": chance.choice([None, drawn_text(chance, chance.choice(sizes))]),
            "offset": chance.choice([None, chance.randrange(1 << 60)]),
            "key": drawn_bytes(chance, chance.choice(sizes)),
            "value": drawn_bytes(chance, chance.choice(sizes)),
            "body": chance.choice([None, drawn_text(chance, chance.choice(sizes))]),
            "is_aborted": chance.choice([None, False, True]),
        }
        for _ in range(count)
    ]


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = []
    for field in SCHEMA:
        values = [row[field.name] for row in rows]
        plain = pa.array(values, pa.string() if field.type == TEXTS else field.type)
        arrays.append(plain.dictionary_encode() if field.type == TEXTS else plain)
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def told(value: Any) -> Any:
    """A value in the JSON form that the documentation gives."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def dumped(row: dict[str, Any]) -> str:
    """The row by `json.dumps`, with the ASCII escape for a harmful character."""
    text = json.dumps({name: told(value) for name, value in row.items()}, ensure_ascii=False)
    if text.isascii() and "\x7f" not in text:
        return text
    harmful = {ord(one): HARMFUL_IN_ASCII[one] for one in harmful_in(text, "") if one >= " "}
    return text.translate(harmful)


HARMFUL_IN_ASCII = {one: json.dumps(one)[1:-1] for one in SIGNS} | {"\x7f": "\\u007f"}


def written(batches: list[pa.RecordBatch], *, is_array: bool) -> str:
    file = io.BytesIO()
    writer = JsonWriter(file, is_array)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return file.getvalue().decode()


def written_csv(batches: list[pa.RecordBatch]) -> bytes:
    file = io.BytesIO()
    writer = CsvWriter(file)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return file.getvalue()


def written_table(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    writer = TableWriter(file, list(SCHEMA.names))
    writer.write(batch_of(rows))
    return file.getvalue()


@pytest.mark.parametrize("number", range(20))
def test_rows_equal_json_dumps(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pieces of a few bytes, so that multi-byte characters are cut anywhere."""
    chance = random.Random(f"{SEED} {number}")
    monkeypatch.setattr(long_values, "PIECE", chance.choice([1, 2, 3, 4, 5, 7, 64]))
    monkeypatch.setattr(long_values, "LONG", chance.choice([0, 1, 20]))
    rows = drawn_rows(chance, [0, 1, 5, 30, 200], 30)
    batches = [batch_of(rows[:13]), batch_of(rows[13:]), batch_of(rows).slice(7, 11)]
    every = [*rows, *rows[7:18]]
    assert written(batches, is_array=False).splitlines() == [dumped(row) for row in every], SEED
    text = written(batches, is_array=True)
    assert text == "[\n" + ",\n".join(map(dumped, every)) + "\n]\n", f"seed {SEED}"


@pytest.mark.parametrize("number", range(20))
def test_cells_of_csv_are_the_same_in_pieces(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every value in one piece, and with pieces of a few bytes; read back by csv."""
    chance = random.Random(f"{SEED} {number}")
    rows = drawn_rows(chance, [0, 1, 5, 30, 200], 30)
    batches = [batch_of(rows[:13]), batch_of(rows[13:]), batch_of(rows).slice(7, 11)]
    whole = written_csv(batches)
    monkeypatch.setattr(long_values, "PIECE", chance.choice([1, 2, 3, 4, 5, 7, 64]))
    monkeypatch.setattr(long_values, "LONG", chance.choice([0, 1, 20]))
    assert written_csv(batches) == whole, f"seed {SEED}"
    read = list(csv.DictReader(io.StringIO(whole.decode(), newline="")))
    assert len(read) == len(rows) + 11
    for row, cells in zip([*rows, *rows[7:18]], read, strict=True):
        for name, value in row.items():
            expected = told(value)
            if isinstance(expected, dict):
                expected = f"base64:{expected['base64']}"
            text = "" if expected is None else str(expected)
            if isinstance(expected, bool):
                text = text.lower()
            assert not harmful_in(cells[name], ""), f"seed {SEED}"
            if text.isalnum() and text.isascii():
                assert cells[name] == text, f"seed {SEED}"


def test_a_table_shows_the_beginning_of_a_long_value(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(SEED)
    rows = drawn_rows(chance, [0, 1, 5, 30, 2000], 30)
    whole = written_table(rows)
    monkeypatch.setattr(long_values, "PIECE", chance.choice([1, 2, 3, 4, 5, 7, 64]))
    monkeypatch.setattr(long_values, "LONG", chance.choice([0, 1, 20]))
    assert written_table(rows) == whole, f"seed {SEED}"


def test_values_about_as_long_as_a_piece_are_the_same() -> None:
    chance = random.Random(SEED)
    for size in (LONG - 1, LONG, PIECE + 1, 3 * PIECE - 1, 3 * PIECE, 3 * PIECE + 2):
        for data in (b"a" * size, b"\0" * size, b"\xff" * size, ("é☃" * size).encode()[:size]):
            row = drawn_rows(chance, [3], 1)[0] | {"value": data}
            assert written([batch_of([row])], is_array=False) == dumped(row) + "\n", f"seed {SEED}"


class Nowhere(io.BytesIO):
    """Takes bytes and keeps none."""

    def write(self, data: Any) -> int:
        return len(data)


def jsonl(file: Nowhere) -> Writer:
    return JsonWriter(file, is_array=False)


def table(file: Nowhere) -> Writer:
    return TableWriter(file, list(SCHEMA.names))


@pytest.mark.sweep
@pytest.mark.parametrize("make", [jsonl, CsvWriter, table])
@pytest.mark.parametrize("sign", [b"\0", b"\xff", "☃".encode()])
def test_a_long_value_is_never_there_as_a_whole(
    sign: bytes, make: Callable[[Nowhere], Writer]
) -> None:
    """Python holds pieces of it only; Arrow has the value, which is not counted here."""
    size = 16 << 20
    empty = dict.fromkeys(SCHEMA.names)
    batch = batch_of([empty | {"value": sign * (size // len(sign))}])
    writer = make(Nowhere())
    assert peak_memory(lambda: writer.write(batch)) < 64 * PIECE < size / 3
