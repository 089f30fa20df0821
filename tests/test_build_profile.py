"""Counts of branches by which GCC optimizes a build: whether it finds them is GCC's to say."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import instructions

GCC = shutil.which("gcc") or ""
SETUP = Path(__file__).parent.parent / "setup.py"
PROGRAM = "int main(int count, char **all) { return count > 1 ? 0 : all[0][0] == 0; }\n"

pytestmark = pytest.mark.skipif(not GCC, reason="only GCC counts so")


def from_setup() -> dict[str, Any]:
    """Functions of setup.py, which would build if it were imported."""
    names = {"PROFILED", "UNITS", "is_counted", "check_counts", "profile_options"}
    tree = ast.parse(SETUP.read_text())
    tree.body = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names)
    ]
    found: dict[str, Any] = {"Path": Path, "sys": sys}
    exec(compile(tree, str(SETUP), "exec"), found)  # noqa: S102 - our own
    return found


def compiled(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """GCC in a directory, as setuptools runs it."""
    (directory / "temp" / "build").mkdir(parents=True, exist_ok=True)
    (directory / "unit.c").write_text(PROGRAM)
    output = ("-c", "unit.c", "-o", "temp/build/unit_streams.o")
    return subprocess.run(
        [GCC, "-O2", *options, *output], cwd=directory, capture_output=True, text=True, check=False
    )


def test_a_build_counts_and_the_next_one_there_is_optimized_by_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, place, other = (tmp_path / name for name in ("profile", "place", "other"))
    profile.mkdir()
    made = from_setup()
    compiling, linking = made["profile_options"](str(profile))
    assert compiled(place, *compiling).returncode == 0
    subprocess.run(
        [GCC, *linking, "temp/build/unit_streams.o", "-o", "program"], cwd=place, check=True
    )
    assert not [*profile.iterdir()]
    subprocess.run([place / "program"], check=True)

    using, linking = made["profile_options"](str(profile))
    assert linking == []
    strict = (*using, "-Werror=missing-profile", "-Werror=coverage-mismatch")
    assert compiled(place, *strict).returncode == 0
    # Elsewhere GCC looks for other names, and would go on without counts.
    assert "missing-profile" in compiled(other, *strict).stderr

    # The build looks for the same names, of all units.
    for name in (*made["UNITS"], "straight", "runtime"):
        (found,) = profile.glob("*unit_streams.gcda")
        copy = profile / found.name.replace("unit_streams", f"unit_{name}")
        copy.write_bytes(found.read_bytes())
    monkeypatch.chdir(place)
    made["check_counts"]("temp", str(profile))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="was not counted there"):
        made["check_counts"]("temp", str(profile))


def test_benchmarks_look_for_what_the_build_writes() -> None:
    assert from_setup()["PROFILED"].encode() == instructions.PROFILED


def test_without_a_directory_nothing_is_counted() -> None:
    assert from_setup()["profile_options"]("") == ([], [])
