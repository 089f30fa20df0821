"""The exchanges of a capture with snaplen 128 are those of whole packets, as docs/live.md says."""

import shutil
from pathlib import Path

import pytest

from benchmarks.snaplen import compared

CAPTURES = Path(__file__).parents[2] / "captures"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "sasl-4.3.1", "streams-4.3.1"])
def test_128_bytes_have_every_exchange_with_its_times_and_sizes(tmp_path: Path, name: str) -> None:
    if shutil.which("editcap") is None:
        pytest.skip("needs editcap of Wireshark")
    found = compared(CAPTURES / f"{name}.pcapng", 128, tmp_path, rounds=0)
    assert (found.found, found.times) == (1.0, 1.0)
    assert found.content < 1.0
    assert found.bytes_share < 0.8
    # A request's client id is beyond that.
    assert compared(CAPTURES / f"{name}.pcapng", 96, tmp_path, rounds=0).found < 1.0
