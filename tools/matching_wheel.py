"""The wheel in dist/ that is of these sources and for this Python: python -m tools.matching_wheel

Prints its path, or nothing. Matching means: the package's files are those of the tree, byte for
byte; name, version and dependencies those of pyproject.toml; compiled modules those of setup.py;
and the tag is one that this Python installs. Options of the C compiler are not seen: `make clean`
before measuring them. KDISSECT_COMPILE=0 asks for the plain wheel, else only a compiled one counts.
"""

import ast
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path, PurePosixPath
from typing import Any

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.tags import sys_tags
from pip._vendor.packaging.utils import parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kdissect", "pyspark_kdissect")
METADATA = re.compile(r"[^/]+\.dist-info/METADATA")


def matching_wheel(root: Path, directory: Path, *, compiled: bool) -> Path | None:
    """The wheel of `directory` that is of the sources in `root` and for this Python."""
    tags = set(sys_tags())
    for wheel in sorted(directory.glob("kdissect-*.whl")):
        fits = not tags.isdisjoint(parse_wheel_filename(wheel.name)[3])
        is_plain = wheel.name.endswith("-py3-none-any.whl")
        if fits and is_plain is not compiled and not differences(root, wheel, compiled=compiled):
            return wheel
    return None


def differences(root: Path, wheel: Path, *, compiled: bool) -> list[str]:
    """Differences between the wheel and the sources."""
    with zipfile.ZipFile(wheel) as archive:
        # auditwheel's have entries for directories.
        held = {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    sources = package_files(root)
    package = {
        name: data
        for name, data in held.items()
        if name.split("/")[0] in PACKAGES and not name.endswith((".so", ".pyd"))
    }
    found = [name for name in sources.keys() | package if sources.get(name) != package.get(name)]
    libraries = {
        str(PurePosixPath(name).parent / PurePosixPath(name).name.split(".")[0])
        for name in held
        if name.startswith("kdissect/") and name.endswith((".so", ".pyd"))
    }
    if libraries != ({f"kdissect/{each}" for each in compiled_names(root)} if compiled else set()):
        found.append("compiled modules")
    metadata = next(data for name, data in held.items() if METADATA.fullmatch(name))
    if described(root) != declared(metadata.decode()):
        found.append("pyproject.toml")
    return found


def package_files(root: Path) -> dict[str, bytes]:
    """The package's files that a wheel has, by their name in it."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    }


def compiled_names(root: Path) -> list[str]:
    """The modules that setup.py compiles, such as packets/ip."""
    assigned = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.parse((root / "setup.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
    }
    compiled, generated = assigned.get("COMPILED"), assigned.get("GENERATED")
    if not isinstance(compiled, ast.Call) or generated is None:
        raise SystemExit("setup.py has no COMPILED and GENERATED")
    in_tree = ast.literal_eval(compiled.func.value)  # type: ignore[attr-defined]
    return [*in_tree.split(), *ast.literal_eval(generated)]


def described(root: Path) -> dict[str, Any]:
    """Version and requirements in pyproject.toml."""
    with (root / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    needs = [(text, "") for text in project["dependencies"]]
    for extra, texts in project["optional-dependencies"].items():
        needs += [(text, extra) for text in texts]
    return _facts(project["version"], project["requires-python"], needs)


def declared(metadata: str) -> dict[str, Any]:
    """Version and requirements in a wheel's METADATA."""
    message = Parser().parsestr(metadata)
    needs = []
    for line in message.get_all("Requires-Dist", []):
        text, _, marker = line.partition(";")
        extra = re.search(r'extra == "([^"]+)"', marker)
        needs.append((text, extra[1] if extra else ""))
    return _facts(message["Version"], message["Requires-Python"], needs)


def _facts(version: str, python: str, needs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    requirements = ((Requirement(text.partition(";")[0]), extra) for text, extra in needs)
    return {
        "version": version,
        "python": python,
        "needs": sorted(
            (need.name, sorted(need.extras), str(need.specifier), extra)
            for need, extra in requirements
        ),
    }


if __name__ == "__main__":
    wants_compiled = os.environ.get("KDISSECT_COMPILE", "1") != "0"
    sys.stdout.write(str(matching_wheel(ROOT, ROOT / "dist", compiled=wants_compiled) or ""))
