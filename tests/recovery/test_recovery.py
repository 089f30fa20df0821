"""A capture with faults gives a part of what is true, never anything else, and all of it that the
surviving bytes allow: see `judge`. `python -m tools.recovery` runs many more cases."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recovery.cases import judged, make_case
from tests.recovery.faults import CLASSES

CASES = 16
# Where not all that survives is found yet, or something that is not there is.
NOT_YET = {
    "reordered",
    "all that loses nothing",
    "one packet lost",
    "packets lost",
    "bursts lost",
    "one direction lossy",
    "responses only",
    "combined",
    "combined, odd port",
}


@pytest.mark.parametrize("name", sorted(set(CLASSES) - NOT_YET))
@settings(max_examples=CASES, derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_a_faulty_capture_gives_all_that_its_bytes_allow(name: str, seed: int) -> None:
    assert judged(make_case(name, seed)).findings == []


@pytest.mark.parametrize("name", sorted(NOT_YET))
@settings(max_examples=CASES, derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_every_byte_of_a_faulty_capture_is_accounted_for(name: str, seed: int) -> None:
    findings = judged(make_case(name, seed)).findings
    assert [finding for finding in findings if finding.kind == "balance"] == []
