"""Any value of any option: an answer, or an error of kdissect's own, and never a traceback.

Options are the program's, values are drawn from what people and scripts write by mistake.
"""

import io
import shutil
import sys
from pathlib import Path
from random import Random
from unittest import mock

import click
import pytest

import kdissect
from kdissect.cli.program import ANSWERED, FAILED, FAILED_ON, MISUSED, program, run
from tests.seeds import IS_EVERY_CASE, SEED

CAPTURE = Path(__file__).parents[2] / "captures" / "retries-4.3.1.pcapng"
# They go on until they are stopped, ask for input, or start others; each has tests of its own.
NOT_HERE = {"live", "top", "spark", "tls-keys", "completion"}
# Those whose values say where to write, which server to use, or how many processes to start.
LEFT_OUT = {"--output", "--help", "--help-all", "--master", "--engine", "--endpoint", "--jobs"}
COMMANDS = [name for name in program.list_commands(click.Context(program)) if name not in NOT_HERE]
VALUES = (
    "", " ", ",", ",,", "a,a", "api,api", "api", "client,client_id", "topic", "window",
    "latency_ns", "0", "-0", "1", "-1", "007", "1e3", "1e999", "nan", "inf", "\u0663", "9" * 30,
    "0x10", "1.5", "1_000", "10s", "-10s", "0s", "1d", "1000000d", "9" * 25 + "s", "10", "ms",
    "1h30m", "+5s", "+5s..", "..", "2026-01-01", "2026-13-45", "1970-01-01..2300-01-01", "now",
    "api = 'Fetch'", "NULL", "api = ", "1/0 > 1", "'", '"', "--", ";",
    "api = 'Fetch'; drop table exchanges", "*", "%s", "{}", "\u00e9", "\N{PILE OF POO}",
    "\x1b[31m", "\u202e", "x" * 5000, "kafka", "json", "csv", "text", "Fetch", "10.0.0.1",
    "10.0.0.1:9092", "[::1]:9092", ":9092", "host:99999", "9092", "65536", "/", "/dev/null", ".",
    "..", "-", "~", "no/such/file", "CAPTURE", "\n", "a\nb", "\t", "ok", "warning", "problem",
)  # fmt: skip
DRAWN = 60 if IS_EVERY_CASE else 12


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("arguments")
    shutil.copy(CAPTURE, directory / "CAPTURE")
    kdissect.write(directory / "CAPTURE", directory / "TABLES")
    return directory


def command_of(name: str) -> click.Command:
    found = program.get_command(click.Context(program), name)
    assert found is not None
    return found


def drawn_words(name: str, source: Random) -> list[str]:
    """A command with some of its options, most of them with a value that is none of theirs."""
    command = command_of(name)
    words = [name]
    if isinstance(command, click.Group):
        inner = source.choice(command.list_commands(click.Context(command)))
        found = command.get_command(click.Context(command), inner)
        assert found is not None
        command = found
        words.append(inner)
    words += source.choices([["CAPTURE"], ["TABLES"], [source.choice(VALUES)], []], [6, 3, 1, 1])[0]
    options = [
        one
        for one in command.params
        if isinstance(one, click.Option) and not LEFT_OUT & {*one.opts}
    ]
    for option in source.sample(options, min(source.randrange(1, 4), len(options))):
        flag = source.choice([*option.opts, *option.secondary_opts])
        if option.is_flag or option.count:
            words.append(flag)
        elif isinstance(option.type, click.Choice) and source.random() < 0.5:
            words += [flag, source.choice([str(one) for one in option.type.choices])]
        else:
            words += [flag, source.choice(VALUES)]
    return words


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_any_value_is_answered_or_explained(
    name: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    source = Random(f"{SEED} {name}")
    for number in range(DRAWN):
        words = drawn_words(name, source)
        if any("-o" in one.opts for one in command_of(name).params):
            words += ["-o", str(tmp_path / str(number))]
        with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
            try:
                code = run(words)
            except Exception as error:  # a traceback in a terminal
                pytest.fail(f"{words}: {error!r}")
        said = capsys.readouterr().err
        assert code in (ANSWERED, FAILED, MISUSED, FAILED_ON), words
        if code in (FAILED, MISUSED):
            last = said.strip().splitlines()[-1]
            assert last.startswith(("kdissect: ", "Error: ")) or "Usage: " in said, (words, said)
        assert "Traceback" not in said, words
