"""Without pandas everything works but `to_pandas()`, whose error names the package to install."""

import subprocess
import sys
from pathlib import Path

import pytest

CAPTURE = Path(__file__).parent.parent.parent / "captures" / "quickstart.pcapng"
# As where it is not installed. None in sys.modules is not the same: pyarrow takes it for pandas.
HIDDEN = """import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoPandas())
"""


def python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", HIDDEN + code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "call",
    [
        f"kdissect.read({str(CAPTURE)!r}, columns=['request_start'])",
        f"kdissect.analyse('latency', {str(CAPTURE)!r})",
    ],
)
def test_a_data_frame_without_pandas_is_an_error_that_names_the_package(call: str) -> None:
    code = f"""
import kdissect
try:
    {call}.to_pandas()
except kdissect.KdissectError as error:
    print(type(error).__name__, error)
"""
    done = python(code)
    first, _, text = done.stdout.strip().partition(" ")
    assert (first, done.stderr) == ("MissingExtra", "")
    assert "\n" not in text
    assert text.startswith('to_pandas() needs the extra "pandas": pip install ')


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        [str(CAPTURE)],
        ["table", "exchanges", str(CAPTURE), "--format", "json", "--limit", "2"],
        ["table", "exchanges", str(CAPTURE), "--where", "latency_ns > 1000", "--format", "csv"],
        ["slowest", str(CAPTURE), "--limit", "2"],
    ],
    ids=lambda arguments: arguments[0].rpartition("/")[2],
)
def test_a_command_prints_the_same_without_pandas(arguments: list[str]) -> None:
    code = f"from kdissect.cli.program import run\nsys.exit(run({arguments!r}))"
    hidden = python(code)
    whole = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=False
    )
    outcomes = [(done.returncode, done.stdout, done.stderr) for done in (hidden, whole)]
    assert outcomes[0] == outcomes[1]
    assert hidden.stdout
