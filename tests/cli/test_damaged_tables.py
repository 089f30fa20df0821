"""Every command that reads tables, on Parquet files whose bytes were changed: one error at most."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
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
        said = capfd.readouterr().err
        assert code in (0, 1, 2), said
        if code == 2:
            assert said.startswith("kdissect: "), said
            assert said.count("\n") == 1, said


@pytest.mark.parametrize("damage", [other_name, other_names])
def test_a_column_whose_name_is_no_text_is_said(
    damage: Callable[[bytes, random.Random], bytes],
    tables: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tables / "exchanges.parquet"
    path.write_bytes(damage(path.read_bytes(), random.Random()))
    assert run(["latency", str(tables)]) == 2
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
