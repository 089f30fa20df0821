"""The project's own rules, as far as a test can hold them."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kdissect
from kdissect.cli.program import ANALYSES, COMMANDS
from tools.print_docs import PAGES, TWINS

ROOT = Path(__file__).parent.parent
PACKAGE = Path(kdissect.__path__[0])
TARGETS = (
    "demo", "setup", "check", "test", "test-all", "test-plain", "test-compiled", "wheels",
    "test-wheels", "sbom", "release-requirements", "fuzz", "properties", "recovery", "tshark",
    "bench", "bench-drawn", "bench-scaling", "bench-commands", "bench-evidence", "bench-spark",
    "bench-report", "bench-live", "soak", "siege", "bench-check", "bench-accept", "bench-recovery",
    "golden", "captures", "schema", "coverage-protocol", "docs", "man", "site", "notebooks",
    "clean",
)  # fmt: skip
# Words that docs/decisions/names.md replaced by the field's terms, and that have no other use here.
REPLACED = {
    "allowance", "crew", "newcomers", "seam", "sniffer", "sniffing", "stitch", "stitcher",
    "travelling", "unmade",
}  # fmt: skip
WORD = re.compile(r"[A-Z]?[a-z]+")
RELATIVE_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]+)?\)")


# What is at the top of the repository: anything else was added by accident.
AT_THE_TOP = {
    ".ci", ".dockerignore", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md",
    "Containerfile", "LICENSE", "MANIFEST.in", "Makefile", "NOTICE", "README.md", "benchmarks",
    "captures", "deploy", "docs", "examples", "kdissect", "notebooks", "pyproject.toml",
    "pyspark_kdissect", "release", "setup.py", "tests", "tools",
}  # fmt: skip


def compiled_modules() -> set[str]:
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED":
            words = node.value.func.value.value  # type: ignore[attr-defined]
            return set(words.split())
    raise AssertionError("setup.py has no COMPILED")


def test_nothing_else_is_at_the_top_of_the_repository() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not in a clone")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {name.partition("/")[0] for name in listed} == AT_THE_TOP


# Compiled without a machine integer in them: what they handle are objects.
OF_OBJECTS = {
    "checkpoint/connection_merge", "checkpoint/merger", "checkpoint/recent_segments",
    "checkpoint/synchronization", "encoding/choices", "encoding/classes", "encoding/documents",
    "encoding/kinds", "messages/embedded", "messages/group_protocols",
}  # fmt: skip


def test_the_modules_with_machine_integers_are_the_compiled_ones() -> None:
    with_i64 = {
        path.relative_to(PACKAGE).with_suffix("").as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(
            isinstance(node, ast.ImportFrom) and node.module == "mypy_extensions"
            for node in ast.parse(path.read_text()).body
        )
    }
    assert with_i64 | OF_OBJECTS == compiled_modules()
    assert not with_i64 & OF_OBJECTS


def names_in(path: Path) -> set[str]:
    """Names of a module: its own, and those of its classes, functions, parameters and variables."""
    found = {path.stem}
    for node in ast.walk(ast.parse(path.read_text())):
        found |= {getattr(node, field, None) or "" for field in ("name", "id", "attr", "arg")}
    return found


def test_names_that_were_replaced_do_not_come_back() -> None:
    again = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in names_in(path)
        if REPLACED & {word.lower() for word in WORD.findall(name)}
    }
    assert not again, "see docs/glossary.md and docs/decisions/names.md"


@pytest.mark.parametrize("name", PAGES)
def test_printed_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), "run make docs"


def test_every_command_has_a_twin_in_the_library_page() -> None:
    library = (ROOT / "docs" / "library.md").read_text()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in library.splitlines()
        if line.startswith("#")
    }
    assert set(TWINS) == {name for name, module in COMMANDS.items() if module != ANALYSES}
    assert {anchor for _, anchor in TWINS.values()} <= headings


def place_of(path: Path) -> Path:
    """A file of the repository; the package is elsewhere when the installed one is tested."""
    inside = Path(os.path.normpath(path)).relative_to(ROOT)
    return PACKAGE.joinpath(*inside.parts[1:]) if inside.parts[:1] == ("kdissect",) else path


def test_links_in_the_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("captures/*.md")]
    dead = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link, _ in RELATIVE_LINK.findall(page.read_text())
        if not place_of(page.parent / link).exists()
    ]
    assert dead == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


def test_links_to_headings_lead_to_one() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("captures/*.md")]
    dead = [
        f"{page.relative_to(ROOT)}: {link}#{anchor}"
        for page in pages
        for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
        if link == "" or link.endswith(".md")
        if anchor not in anchors(page.parent / link if link else page)
    ]
    assert dead == []


def test_make_prints_its_targets() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    printed = [line.split()[1] for line in done.stdout.splitlines()]
    assert printed == ["help", "demo", "test", *[t for t in TARGETS if t not in ("demo", "test")]]


def collected(sweep: str, seed: str) -> list[str]:
    """Tests that a run would have, of a module with one sweep over all captures."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "tests/checkpoint/test_law.py",
    ]
    settings = {**os.environ, "KDISSECT_SWEEP": sweep, "KDISSECT_SEED": seed, "KDISSECT_CASES": ""}
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_the_tests_that_check_leaves_out_exist() -> None:
    gone = []
    for name in (ROOT / "tests" / "costly.txt").read_text().split():
        path, _, function = name.partition("::")
        module = ROOT / path
        if not module.is_file() or f"def {function.split('::')[-1]}(" not in module.read_text():
            gone.append(name)
    assert gone == []


@pytest.mark.slow
def test_sweeps_draw_so_many_cases_and_the_same_ones_by_the_seed() -> None:
    every, drawn, other = collected("all", "0"), collected("5", "7"), collected("5", "8")
    assert collected("5", "7") == drawn != other
    assert set(drawn) < set(every)
    sweeps = ("_of_a_capture_give_the_rows_of_the_whole[", "_of_late_handshakes_give_the_rows")
    for swept in sweeps:
        assert sum(swept in one for one in drawn) == 5 < sum(swept in one for one in every)
    assert {one for one in every if not any(swept in one for swept in sweeps)} < set(drawn)


def test_the_layers_import_downwards_only() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_exceptions_need_nothing_heavy() -> None:
    code = "import sys, kdissect; kdissect.KdissectError; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_failed_queries_are_caught_in_every_form() -> None:
    """DuckDB fails as UnicodeDecodeError, too: `sql.failures` alone names its exceptions."""
    naming = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"duckdb\.\w*(Error|Exception)", path.read_text())
    }
    assert naming == {"sql/failures.py"}


def test_the_version_is_the_same_everywhere() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"$', text, re.M).group(1) == kdissect.__version__  # type: ignore[union-attr]
    assert f"## {kdissect.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_module_has_a_docstring() -> None:
    failures = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        doc = ast.get_docstring(ast.parse(text))
        if text.strip() and not doc:
            failures.append(f"{path}: no docstring")
    assert failures == []


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_the_python_in_the_documents_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = (ROOT / "captures" / "quickstart.pcapng").read_bytes()
    (tmp_path / "captures").mkdir()
    for name in ("broker.pcapng", "ring-1.pcap", "ring-1.pcap.gz", "captures/a.pcap"):
        (tmp_path / name).write_bytes(capture)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"data": bytes.fromhex("0267 00000001 026d 00 00")}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(block, names)  # noqa: S102  # the documents are ours


def test_the_page_in_the_readme_is_the_page_that_is_printed() -> None:
    shown = re.search(r"```\n(captures/.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert shown
    command = [sys.executable, "-m", "kdissect", "captures/quickstart.pcapng"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = {line for line in shown.group(1).splitlines() if line != "..."}
    assert told - set(done.stdout.splitlines()) == set()
