"""Tests of each wheel: python -m tools.test_wheels [--pythons PYTHON ...] [-- PYTEST ARGUMENTS]

For each Python that is found here: a new environment in build/, the wheel of dist/ that pip chooses
for it with what developing needs, and the tests of what was installed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools.pythons import found_pythons, version_of

ROOT = Path(__file__).resolve().parent.parent


def developer_requirements() -> list[str]:
    """Packages that the tests need in addition to kdissect."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    return list(extras["dev"])


def installed(python: Path, environment: Path) -> Path:
    """Python of a new environment with the wheel and the tests' requirements."""
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([python, "-m", "venv", environment], check=True)
    inside = environment / "bin" / "python"
    pip = [inside, "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    # The one wheel, then its dependencies: pip takes the best of dist/, and nothing is built.
    pick = ["--no-index", "--no-deps", "--only-binary=:all:", "--find-links", ROOT / "dist"]
    subprocess.run([*pip, *pick, "kdissect"], check=True)
    subprocess.run([*pip, "kdissect"], check=True)
    subprocess.run([*pip, *developer_requirements()], check=True)
    return inside


def tested(python: Path, arguments: Sequence[str]) -> bool:
    """Return whether the tests pass on the wheel for this Python."""
    version = version_of(python)
    print(f"=== Python {version}", flush=True)
    inside = installed(python, ROOT / "build" / f"wheel-{version}")
    subprocess.run([inside, "-P", "-m", "kdissect", "--version"], cwd=ROOT.parent, check=True)
    environment = os.environ | {"TESTED": f"build/tested-{version}"}
    command = [ROOT / ".ci" / "test-installed", inside, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pythons", nargs="*", type=Path, help="default: all that are found")
    parser.add_argument("arguments", nargs="*", metavar="PYTEST ARGUMENT")
    options = parser.parse_args()
    pythons = options.pythons or list(found_pythons().values())
    failed = [version_of(python) for python in pythons if not tested(python, options.arguments)]
    if failed:
        sys.exit(f"failed on Python {', '.join(failed)}")


if __name__ == "__main__":
    main()
