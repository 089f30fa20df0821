import atexit
import gc
import os
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

import kdissect
from tests import lanes
from tests.seeds import SEED
from tests.shared_states import are_unchanged

hypothesis.settings.register_profile("quick", deadline=None, max_examples=100)
hypothesis.settings.register_profile("few", deadline=None, max_examples=20)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=10_000)
hypothesis.settings.load_profile("quick")

if os.environ.get("CI"):
    hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("ci")


# Cases of each test marked `sweep` that are run, or "all": others are drawn each time.
SWEEP = os.environ.get("KDISSECT_SWEEP", "2")
# Cases of every parametrized test that are drawn, for `make check`; "" runs all that are no sweeps.
CASES = os.environ.get("KDISSECT_CASES", "")
# Shares of the tests that take long, as `tools.costly_tests` has found, and of slow ones that are
# drawn; like the lanes not for the pytests that tests start.
COSTLY_SHARE = float(os.environ.pop("KDISSECT_COSTLY", "0" if CASES else "1"))
SLOW_SHARE = float(os.environ.pop("KDISSECT_SLOW", "1"))
COSTLY = Path(__file__).with_name("costly.txt")
PROGRAMS = {
    "tcpdump": "tcpdump",
    "promtool": "prometheus",
    "prometheus": "prometheus",
}  # marker and program → package
JAVA = {"java", "spark"}  # fixtures that start one
LANES = int(os.environ.pop("KDISSECT_LANES", "1"))


@pytest.fixture
def shared_path() -> Iterator[Path]:
    """A temporary directory that other users can enter.

    Those of pytest are below one that each pytest that starts closes to others.
    """
    with tempfile.TemporaryDirectory(prefix="kdissect-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(autouse=True)
def _shared_states() -> Iterator[None]:
    """Fail after a test that changes what all connections share."""
    yield
    assert are_unchanged()


def pytest_report_header() -> str:
    package = Path(kdissect.__path__[0])
    kind = "compiled" if list(package.rglob("*.so")) else "plain Python"
    return f"kdissect: {kind}, from {package}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which cases of sweeps were run, and the seed that draws them again."""
    if COSTLY_SHARE < 1:
        terminalreporter.write_line(f"{COSTLY_SHARE:.0%} of the costly tests")
    if CASES:
        terminalreporter.write_line(f"{CASES} cases of each test, KDISSECT_SEED={SEED}")
        return
    if SLOW_SHARE < 1:
        terminalreporter.write_line(f"{SLOW_SHARE:.0%} of the slow tests")
    cases = "all cases" if SWEEP == "all" else f"{SWEEP} cases of each, KDISSECT_SEED={SEED}"
    terminalreporter.write_line(f"sweeps: {cases}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draw the cases of sweeps, which are tests of every capture, generator or command."""
    slow = {name_of(item) for item in items if item.get_closest_marker("slow")}
    costly = set(COSTLY.read_text().split()) - slow
    not_drawn = undrawn(slow, SLOW_SHARE) | undrawn(costly, COSTLY_SHARE)
    leave_out(config, items, lambda item: name_of(item) in not_drawn or (CASES and uses_java(item)))
    if SWEEP == "all" and not CASES:
        return
    sweeps = defaultdict(list)
    most = {}
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if CASES or sweep:
            name = name_of(item)
            sweeps[name].append(item)
            # Where a case takes many seconds, fewer are drawn: sweep(2).
            few = sweep.args[0] if sweep and sweep.args else int(CASES or SWEEP)
            most[name] = min(few, int(CASES or SWEEP))
    draw = random.Random(SEED)
    left_out = {
        id(item)
        for name, cases in sweeps.items()
        if len(cases) > most[name]
        for item in draw.sample(cases, len(cases) - most[name])
    }
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def undrawn(names: set[str], share: float) -> set[str]:
    """The tests of these that are left out where a share of them is drawn, each with its cases."""
    return set(random.Random(SEED).sample(sorted(names), round((1 - share) * len(names))))


def uses_java(item: pytest.Item) -> bool:
    return bool(JAVA & set(getattr(item, "fixturenames", ())))


def leave_out(
    config: pytest.Config, items: list[pytest.Item], is_left_out: Callable[[pytest.Item], object]
) -> None:
    """Deselect tests."""
    left_out = [item for item in items if is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    chosen = {id(item) for item in left_out}
    items[:] = [item for item in items if id(item) not in chosen]


def name_of(item: pytest.Item) -> str:
    """The node id of a test without its case."""
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Share the tests with other processes where there are several lanes."""
    if LANES == 1 or session.testsfailed or session.config.option.collectonly:
        return None
    lanes.run(session, LANES)
    return True


def pytest_collection_finish() -> None:
    """Keep garbage collections from visiting all modules and items, which stay until the end."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # behind pytest's own collections; extensions report what stays


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of a program that is not installed, unless it is required here."""
    for program, package in PROGRAMS.items():
        is_required = os.environ.get(f"KDISSECT_{program.upper()}") == "require"
        if item.get_closest_marker(program) and not is_required and not shutil.which(program):
            pytest.skip(f"needs {program}: apt-get install {package}")
