"""The profile by which GCC optimizes a build of this tree: python -m tools.build_profile DIRECTORY

Builds the package here so that it counts how often each branch is taken, installs it in a new
environment, and dissects all of captures/ with it. The counts go to DIRECTORY. The next build in
the same place with KDISSECT_PROFILE=DIRECTORY is optimized by them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CAPTURES: Final = ROOT / "captures"
# By the library: the program leaves without the exit handlers of C, which write the counts.
DISSECTS: Final = """
import sys, tempfile
import kdissect
for path in sys.argv[1:]:
    for tables in (None, ("exchanges", "records")):
        with tempfile.TemporaryDirectory() as out:
            kdissect.write(path, out, tables, jobs=1)
"""


def captures() -> list[Path]:
    """The committed captures of real brokers and clients."""
    return sorted(CAPTURES.glob("*.pcapng"))


def forget_build() -> None:
    """Remove what setuptools keeps: objects that are newer than their sources stay as they are."""
    for pattern in ("lib*", "bdist*", "temp*"):
        for left in ROOT.glob(f"build/{pattern}"):
            shutil.rmtree(left)


def count(directory: Path, paths: Iterable[Path]) -> None:
    """Build with counters, and dissect captures."""
    with tempfile.TemporaryDirectory(prefix="kdissect-profile-") as made:
        environment = os.environ | {
            "KDISSECT_COMPILE": "require",
            "KDISSECT_PROFILE": str(directory),
        }
        subprocess.run([sys.executable, "-m", "venv", f"{made}/venv"], check=True)
        python = f"{made}/venv/bin/python"
        pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
        forget_build()
        subprocess.run([*pip, "install", ROOT], check=True, env=environment)
        subprocess.run([python, "-P", "-c", DISSECTS, *paths], check=True, cwd=made)
    forget_build()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        sys.exit(f"{directory} is not empty")
    count(directory, captures())
    print(f"{len([*directory.glob('*.gcda')])} files of counts in {directory}")


if __name__ == "__main__":
    main()
