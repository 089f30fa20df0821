"""Every command that reads tables, on Parquet files with changed bytes: one error at most."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import pyarrow as pa
import pytest
from pyarrow import parquet

import kdissect
from kdissect.cli.program import program, run
from kdissect.sql.connections import locked_connection
from kdissect.sql.failures import engine_failures, reason_of
from tests.seeds import SEED
from tests.spark.sandbox import in_time

QUICKSTART: Final = Path("captures/quickstart.pcapng").absolute()
NO_TEXT: Final = b"\xe9\xff\xfe"
IDS: Final = ("exchange_id", "connection_id")
CAPTURES_ONLY: Final = ("show", "slice", "spans")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tables") / "quickstart"
    kdissect.write(QUICKSTART, directory)
    for path in directory.glob("*.parquet"):
        # As plain text in the file, so that a test can change it.
        rows = parquet.read_table(path)
        parquet.write_table(rows, path, compression="none", store_schema=False)
    return directory


@pytest.fixture
def tables(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "tables"))


def other_name(content: bytes, _: random.Random) -> bytes:
    """The name of the column `api`, which is in every condition, is no UTF-8."""
    return content.replace(b"api_key", b"api" + NO_TEXT + b"y").replace(
        b"\x03api", b"\x03" + NO_TEXT
    )


def other_names(content: bytes, _: random.Random) -> bytes:
    for name in (b"latency_ns", b"client_id", b"group_id", b"connection_id"):
        content = content.replace(name, name[:-3] + NO_TEXT)
    return content


def other_values(content: bytes, _: random.Random) -> bytes:
    for name in (b"Fetch", b"Produce", b"quickstart", b"client"):
        content = content.replace(name, name[:-3] + NO_TEXT)
    return content


def drawn_bytes(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(30):
        changed[chance.randrange(len(changed))] ^= chance.randrange(1, 256)
    return bytes(changed)


def largest(type_: pa.DataType) -> int:
    """The end of the type's integers; of times, that of the engine's microseconds."""
    is_signed = pa.types.is_timestamp(type_) or pa.types.is_signed_integer(type_)
    return (1 << type_.bit_width - is_signed) - 1


def smallest(type_: pa.DataType) -> int:
    return 0 if pa.types.is_unsigned_integer(type_) else -1 << type_.bit_width - 1


def with_ends(rows: pa.Table, end: Callable[[pa.DataType], int]) -> pa.Table:
    """The same rows, each number and time at the end of its type; times in microseconds.

    Ids stay: with one for all rows, questions that join tables by them would multiply these.
    """
    columns = {}
    for field in rows.schema:
        columns[field.name] = rows[field.name]
        is_number = pa.types.is_timestamp(field.type) or pa.types.is_integer(field.type)
        if is_number and field.name not in IDS:
            is_time = pa.types.is_timestamp(field.type)
            raw = pa.array([end(field.type)] * len(rows), pa.int64() if is_time else field.type)
            columns[field.name] = raw.cast(pa.timestamp("us", "UTC")) if is_time else raw
    return pa.table(columns)


def commands() -> list[str]:
    """Each command with --where that reads tables, by the program's own list."""
    context = click.Context(program)
    found = []
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        if name in CAPTURES_ONLY:
            continue
        if any("--where" in parameter.opts for parameter in command.params):
            found.append(name)
    return found


def words_of(command: str, tables: Path) -> list[str]:
    words = {
        "compare": ["compare", str(tables), str(tables)],
        "table": ["table", "exchanges", str(tables)],
    }
    return words.get(command, [command, str(tables)])


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("damage", [other_name, other_names, other_values, drawn_bytes])
@pytest.mark.parametrize("command", commands())
def test_changed_bytes_are_one_error_at_most(
    command: str,
    damage: Callable[[bytes, random.Random], bytes],
    tables: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    chance = random.Random(f"{SEED} {command}")
    for path in sorted(tables.glob("*.parquet")):
        path.write_bytes(damage(path.read_bytes(), chance))
    for condition in ([], ["--where", "api = 'Fetch'"]):
        with in_time():
            code = run([*words_of(command, tables), *condition])
        check_said(code, capfd.readouterr().err)


def check_said(code: int, said: str) -> None:
    """The command succeeded, or gave the reason for its failure in one line."""
    assert code in (0, 1, 2), said
    assert "Traceback" not in said, said
    if code:
        assert said.startswith("kdissect: "), said
        assert said.count("\n") == 1, said


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("end", [largest, smallest])
@pytest.mark.parametrize("command", commands())
def test_values_at_the_ends_of_their_types_are_one_error_at_most(
    command: str,
    end: Callable[[pa.DataType], int],
    tables: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for path in sorted(tables.glob("*.parquet")):
        parquet.write_table(with_ends(parquet.read_table(path), end), path)
    with in_time():
        code = run(words_of(command, tables))
    check_said(code, capfd.readouterr().err)


def test_a_time_beyond_nanoseconds_is_one_error(
    tables: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tables / "exchanges.parquet"
    parquet.write_table(with_ends(parquet.read_table(path), largest), path)
    assert run(["slowest", str(tables)]) == 1
    check_said(1, capfd.readouterr().err)


@pytest.mark.parametrize("damage", [other_name, other_names])
def test_a_column_name_that_is_no_text_is_an_error(
    damage: Callable[[bytes, random.Random], bytes],
    tables: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tables / "exchanges.parquet"
    path.write_bytes(damage(path.read_bytes(), random.Random()))
    assert run(["latency", str(tables)]) == 1
    said = capfd.readouterr().err
    assert said.startswith("kdissect: "), said
    assert said.count("\n") == 1, said


def test_a_message_of_the_engine_that_is_no_text_has_its_reason(tables: Path) -> None:
    path = tables / "exchanges.parquet"
    path.write_bytes(other_names(path.read_bytes(), random.Random()))
    with (
        locked_connection([str(path)]) as connection,
        pytest.raises(engine_failures()) as caught,
    ):
        connection.sql(f"SELECT nothing_of_this FROM read_parquet('{path}')")  # noqa: S608
    assert "nothing_of_this" in reason_of(caught.value)
