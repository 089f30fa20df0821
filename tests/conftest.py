import os
from pathlib import Path

import hypothesis

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
