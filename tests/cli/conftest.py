from pathlib import Path

import pytest


@pytest.fixture
def quickstart() -> str:
    return str(Path(__file__).parents[2] / "captures" / "quickstart.pcapng")
