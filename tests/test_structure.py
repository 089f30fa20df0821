"""The structure of docs/architecture.md: packages, files at the top, no circles of imports."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import kdissect

ROOT = Path(__file__).parent.parent
PACKAGE = Path(kdissect.__path__[0])
AT_THE_TOP = {"__init__", "__main__", "errors", "limits", "pipeline"}


def module_of(path: Path) -> str:
    name = path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


def imports() -> dict[str, set[str]]:
    """Imports of each module, those for type checkers included."""
    paths = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inside = {f"{node.module}.{one.name}" for one in node.names}
                named |= {one if one in paths else node.module for one in inside}
        found[module] = {one for one in named if one in paths and one != module}
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(reversed(error.args[1]))) from error


def test_only_these_modules_are_in_no_package() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == AT_THE_TOP


def test_the_architecture_page_names_every_package_in_one_line() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"^\| \[(\w+)/\]\(\.\./kdissect/\1\) \| \S.*\|$", page, re.M)
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(named) == sorted(packages)


def run(tree: ast.Module) -> list[ast.AST]:
    """Nodes outside of TYPE_CHECKING."""
    checked = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inside in ast.walk(node)
    }
    return [node for node in ast.walk(tree) if id(node) not in checked]


def test_only_the_package_spark_imports_pyspark() -> None:
    importing = {
        module
        for module, path in ((module_of(path), path) for path in PACKAGE.rglob("*.py"))
        for node in run(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        + [one.name for one in node.names]
        if name.split(".")[0] in ("pyspark", "py4j")
    }
    assert {module for module in importing if not module.startswith("kdissect.spark.")} == set()
    assert importing
