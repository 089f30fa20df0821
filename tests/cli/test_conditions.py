"""Every command and function that takes a condition: it gets rows by it, and nothing else."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

import kdissect
from kdissect.api.comparison import compare
from kdissect.cli.program import program, run
from kdissect.errors import KdissectError
from kdissect.slicing.slices import write_slice
from kdissect.spans.exporting import Spans
from tests.seeds import SEED
from tests.sql.attacks import CANARY, Prey, drawn, harmless, made_prey

QUICKSTART = Path("captures/quickstart.pcapng").absolute()
OPTIONS = ("--where", "--having", "--before", "--after")


def conditional() -> Iterator[tuple[str, str]]:
    """Each command with an option that is a condition."""
    context = click.Context(program)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            for option in set(parameter.opts) & set(OPTIONS):
                if option not in ("--before", "--after") or name == "compare":
                    yield name, option


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tables") / "quickstart"
    kdissect.write(QUICKSTART, directory)
    return directory


@pytest.fixture
def prey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prey]:
    monkeypatch.setenv("KDISSECT_CANARY", CANARY)
    monkeypatch.chdir(tmp_path)
    with made_prey(tmp_path) as made:
        yield made


def words_of(command: str, option: str, tables: Path) -> list[str]:
    """A command line of the command, without its condition."""
    if (command, option) == ("compare", "--where"):
        return [command, str(tables), str(tables)]
    words = {
        "table": ["table", "exchanges", str(QUICKSTART)],
        "slice": ["slice", str(QUICKSTART), "-o", "made.pcapng"],
        "spans": ["spans", str(QUICKSTART), "-o", "made.json"],
        "show": ["show", str(QUICKSTART), "--limit", "1"],
    }
    return words.get(command, [command, str(tables)])


def test_there_are_commands_with_conditions() -> None:
    found = list(conditional())
    assert len(found) > 40
    assert {("table", "--where"), ("compare", "--before"), ("slice", "--where")} <= set(found)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize(("command", "option"), list(conditional()))
def test_no_command_executes_an_injected_statement(
    command: str, option: str, tables: Path, prey: Prey, capfd: pytest.CaptureFixture[str]
) -> None:
    seed = f"{command} {option}"
    chance = random.Random(seed)
    before = prey.state()
    attacks = [drawn(chance, prey) for _ in range(4)]
    attacks += [
        "true) OR (true",
        "true; COPY (SELECT 1) TO 'made.csv'",
        f"'a' IN (SELECT content FROM read_text('{prey.text}'))",  # noqa: S608
    ]
    for attack in attacks:
        assert run([*words_of(command, option, tables), option, attack]) == 2, (seed, attack)
        out, err = capfd.readouterr()
        assert out == ""
        assert CANARY not in err.replace(attack, "")
        assert len(err.splitlines()) == 1, (seed, attack)
        assert err.startswith(f"kdissect: {option.removeprefix('--')}") or option in err
    assert prey.state() == before
    assert not prey.was_called()


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("command", "option"), [one for one in conditional() if one[1] == "--where"]
)
def test_injection_text_is_allowed_in_a_constant(
    command: str, option: str, tables: Path, prey: Prey, capfd: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(f"{SEED} {command}")
    condition = harmless(chance, prey)
    assert run([*words_of(command, option, tables), option, condition]) == 0, condition
    err = capfd.readouterr().err
    assert "not allowed" not in err.replace(repr(condition), "")


def asked_all() -> dict[str, Callable[[str, Path], object]]:
    """The functions of the library that take a condition."""
    return {
        "read": lambda text, _: kdissect.read(QUICKSTART, where=text).to_arrow(),
        "dissect": lambda text, _: list(kdissect.dissect(QUICKSTART, where=text)),
        "analyse-where": lambda text, made: kdissect.analyse("latency", made, where=text),
        "analyse-having": lambda text, made: kdissect.analyse("latency", made, having=text),
        "compare-where": lambda text, made: compare(made, made, where=text),
        "compare-before": lambda text, made: compare(made, before=text),
        "compare-after": lambda text, made: compare(made, after=text),
        "write_slice": lambda text, _: write_slice(QUICKSTART, "made.pcapng", text),
        "spans": lambda text, _: list(Spans(QUICKSTART, text)),
    }


@pytest.mark.parametrize("name", asked_all())
def test_no_function_executes_an_injected_statement(name: str, tables: Path, prey: Prey) -> None:
    chance = random.Random(f"{SEED} {name}")
    before = prey.state()
    for attack in [*(drawn(chance, prey) for _ in range(5)), "true) OR (true", "true; SELECT 1"]:
        with pytest.raises(KdissectError) as caught:
            asked_all()[name](attack, tables)
        told = str(caught.value)
        assert len(told.splitlines()) == 1
        assert CANARY not in told.replace(attack, "")
    assert prey.state() == before
    assert not prey.was_called()


def test_a_variable_of_the_program_is_no_table() -> None:
    all_exchanges = kdissect.read(QUICKSTART).to_arrow()
    assert all_exchanges.num_rows
    with pytest.raises(KdissectError, match="cannot ask 'all_exchanges'"):
        kdissect.read(QUICKSTART, where="api IN (SELECT api FROM all_exchanges)").to_arrow()
