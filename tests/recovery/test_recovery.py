"""A capture with faults gives a part of what is true, never anything else, and all of it that the
surviving bytes allow: see `judge`. `python -m tools.recovery` runs many more cases."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recovery.cases import SHOWN, judged, make_case
from tests.recovery.faults import CLASSES

CASES = 16


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(CLASSES))
@settings(max_examples=CASES, derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_a_faulty_capture_gives_all_that_its_bytes_allow(name: str, seed: int) -> None:
    assert judged(make_case(name, seed)).findings == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "captures"), SHOWN)
def test_former_recovery_errors_stay_fixed(name: str, number: int, captures: Sequence[str]) -> None:
    assert judged(make_case(name, number, captures)).findings == []
