import os
import shutil
from pathlib import Path

import hypothesis
import pytest

import kdissect

hypothesis.settings.register_profile("quick", deadline=None, max_examples=100)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=10_000)
hypothesis.settings.load_profile("quick")

if os.environ.get("CI"):
    hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("ci")


def pytest_report_header() -> str:
    package = Path(kdissect.__path__[0])
    kind = "compiled" if list(package.rglob("*.so")) else "plain Python"
    return f"kdissect: {kind}, from {package}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of a program that is not installed, unless it is required here."""
    is_required = os.environ.get("KDISSECT_TCPDUMP") == "require"
    if item.get_closest_marker("tcpdump") and not is_required and not shutil.which("tcpdump"):
        pytest.skip("needs tcpdump and libpcap: apt-get install tcpdump")
