"""Which task publishes rows: drawn for each test of the law, as all tests have few of them."""

import random

import pytest

from kdissect.spark import steps
from tests.seeds import SEED

CHOICES = (0, steps.FEW_ROW_BYTES)


@pytest.fixture
def few_or_many_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks of their own publish rows, or the one that merges the splits of a tap."""
    drawn = random.Random(f"{SEED} {request.node.nodeid}").choice(CHOICES)
    monkeypatch.setattr(steps, "FEW_ROW_BYTES", drawn)
