"""Stable behaviour for scripts: exit codes of --fail-on, and the order of --sort beside --limit."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kdissect.cli.program import FAILED_ON
from kdissect.cli.program import run as run_program
from tests.seeds import SEED

PROBLEM, WARNING, ROWS = "problem", "warning", "rows"
CAPTURES = sorted(Path("captures").glob("*.pcapng"))
DRAWN = random.Random(SEED).sample(CAPTURES, 4)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line; gives its exit code and stdout."""

    def run(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        code = run_program(list(arguments))
        return code, capfd.readouterr().out

    return run


def rows_of(run: Run, *arguments: str) -> list[dict[str, Any]]:
    code, text = run(*arguments, "--format", "jsonl")
    assert code == 0
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_summary_fail_on_follows_the_severity_of_findings(path: Path, run: Run) -> None:
    code, text = run("summary", "--json", str(path))
    assert code == 0
    found = {one["severity"] for one in json.loads(text)["findings"]}
    wanted = {PROBLEM: PROBLEM in found, WARNING: bool({PROBLEM, WARNING} & found)}
    for condition, is_met in wanted.items():
        code, _ = run("summary", "--json", "--fail-on", condition, str(path))
        assert code == (FAILED_ON if is_met else 0), f"seed {SEED}"


@pytest.mark.parametrize("command", ["latency", "errors", "retries"])
def test_analyses_fail_on_rows(command: str, run: Run) -> None:
    for path in DRAWN:
        rows = rows_of(run, command, str(path))
        code, _ = run(command, "--fail-on", ROWS, str(path), "--format", "jsonl")
        assert code == (FAILED_ON if rows else 0), f"seed {SEED}"
        code, text = run(command, "--having", "1 = 0", "--fail-on", ROWS, str(path))
        assert (code, text.count("{")) == (0, 0)


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        (["latency"], ["api", "exchanges", "p99_ns", "max_ns"]),
        (["table", "exchanges"], ["latency_ns", "api", "client_id", "request_size"]),
        (["clients"], ["client_id", "exchanges", "request_bytes"]),
    ],
)
def test_rows_are_sorted_as_pandas_sorts_them(
    command: list[str], columns: list[str], run: Run
) -> None:
    draw = random.Random(f"{SEED} {command}")
    for path in DRAWN:
        plain = pd.DataFrame(rows_of(run, *command, str(path)))
        if plain.empty:
            continue
        chosen = draw.sample(columns, draw.randint(1, 2))
        falling = [draw.random() < 0.5 for _ in chosen]
        limit = draw.randint(1, len(plain) + 3)
        keys = [
            name + (":desc" if falls else "") for name, falls in zip(chosen, falling, strict=True)
        ]
        sorts = ["--sort", ",".join(keys)]
        found = pd.DataFrame(rows_of(run, *command, *sorts, "--limit", str(limit), str(path)))
        wanted = plain.sort_values(
            chosen, ascending=[not falls for falls in falling], kind="stable", na_position="last"
        ).head(limit)
        # Rows that a limit leaves may have no missing value: integers then, not floats.
        pd.testing.assert_frame_equal(
            found[chosen].reset_index(drop=True),
            wanted[chosen].reset_index(drop=True),
            check_dtype=False,
        )
