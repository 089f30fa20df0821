"""Lists the tests that `make check` leaves out: ``python -m tools.costly_tests``.

Runs one case of each quick test from source, as `make check` would, and writes to tests/costly.txt
the functions that take more than 50 ms of processor time, including their children and fixtures. A
test that is not listed is run, so the list need only be rewritten when `make check` becomes slow.

With `--add` only tests that `make check` runs are measured, and what was listed stays.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

COSTLY: Final = Path(__file__).parents[1] / "tests" / "costly.txt"
SECONDS: Final = 0.05


class Measured:
    """A plugin of pytest: the time of each test function.

    The time of a module's or session's fixture counts for every test that uses it.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.slow_fixtures: set[object] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: object) -> Generator[None, object, object]:
        before = sum(os.times()[:4])
        done = yield
        if sum(os.times()[:4]) - before > SECONDS:
            self.slow_fixtures.add(fixturedef)
        return done

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for item in session.items:
            found = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
            if self.slow_fixtures & {one for each in found for one in each}:
                self.seconds[item.nodeid.partition("[")[0]] = 2 * SECONDS

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = sum(os.times()[:4])
        done = yield
        name = item.nodeid.partition("[")[0]
        self.seconds[name] = max(self.seconds[name], sum(os.times()[:4]) - before)
        return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--add", action="store_true", help="keep what is listed")
    known = COSTLY.read_text().split() if parser.parse_args().add else []
    os.environ |= {"KDISSECT_CASES": "1", "KDISSECT_COSTLY": "0" if known else "1"}
    measured = Measured()
    code = pytest.main(["-q", "-m", "not slow", "tests"], plugins=[measured])
    costly = {name for name, seconds in measured.seconds.items() if seconds > SECONDS}
    COSTLY.write_text("".join(f"{name}\n" for name in sorted(costly.union(known))))
    print(f"{len(costly)} of {len(measured.seconds)} tests take more than {SECONDS} s")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
