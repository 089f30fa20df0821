"""Messages for missing extras; `tools.installed` runs the printed commands."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from kdissect.system.extras import MissingExtra, install_command, packages_of

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_command_names_the_packages_that_pyproject_declares(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = []
    for name in EXTRAS:
        for requirement in EXTRAS[name]:  # as setuptools writes them
            package, _, marker = map(str.strip, requirement.partition(";"))
            marker = marker.replace("'", '"')
            marker = f'{marker} and extra == "{name}"' if marker else f'extra == "{name}"'
            declared.append(f"{package}; {marker}")
    monkeypatch.setattr("importlib.metadata.requires", lambda _: ["click>=8.1", *declared])
    needed = [requirement.replace("'", '"') for requirement in EXTRAS[extra]]
    assert shlex.split(install_command(extra)) == ["pip", "install", *needed]


def test_the_error_is_one_line_with_feature_extra_and_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda _: ['a>=1; extra == "x"'])
    assert str(MissingExtra("--shiny", "x")) == '--shiny needs the extra "x": pip install "a>=1"'


def test_sources_that_are_not_installed_name_the_extra_of_the_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", missing)
    assert install_command("spark", "java") == 'pip install ".[spark,java]"'


def test_an_extra_has_the_requirements_of_its_own_marker_only() -> None:
    declared = ["a", "b>=2; extra == 'tls'", 'c; extra == "tls-more"', 'd ; extra == "tls"']
    assert packages_of("tls", declared) == ["b>=2", "d"]


def test_other_markers_of_a_requirement_stay() -> None:
    declared = [
        'a>=1; python_version < "3.14" and extra == "x"',
        'b; (os_name == "nt" or python_version < "3.12") and extra == "x"',
        'c; extra == "y"',
        'd; python_version < "3.14"',
    ]
    assert packages_of("x", declared) == [
        'a>=1; python_version < "3.14"',
        'b; (os_name == "nt" or python_version < "3.12")',
    ]


BLOCKED = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Blocked())
import kdissect.cli
for module in pkgutil.iter_modules(kdissect.cli.__path__, "kdissect.cli."):
    importlib.import_module(module.name)
"""


def test_every_module_of_the_command_is_imported_without_extras() -> None:
    """As in an installation with the declared dependencies alone; its user chose no extra."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    named = re.compile(r"[\w.-]+")
    extras = {
        found[0].lower()
        for extra, wanted in project["optional-dependencies"].items()
        if extra not in ("dev", "release", "fuzz")
        for found in map(named.match, wanted)
        if found
    }
    extras -= {found[0].lower() for found in map(named.match, project["dependencies"]) if found}
    modules = {
        module
        for module, distributions in metadata.packages_distributions().items()
        if {one.lower().replace("_", "-") for one in distributions} & extras
    }
    assert "prometheus_client" in modules
    words = [sys.executable, "-c", BLOCKED, *sorted(modules - {"google"})]
    done = subprocess.run(
        words, cwd=PROJECT.parent, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
