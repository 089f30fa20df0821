"""Identities of captures: copies are known, and large captures are not read for it."""

import hashlib
import random
from pathlib import Path

import pytest

from kdissect.dataset.planning import (
    HASHED_WHOLE,
    SAMPLE_BYTES,
    SAMPLES,
    Inspected,
    inspect_capture,
)
from kdissect.spark.pipeline import dissect
from tests.capture.writers import START_NS, Captured, make_pcap
from tests.seeds import SEED
from tests.spark.rotated import contents_of


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(f"{SEED} identities")
    block = draw.randbytes(1 << 20)
    packets = [
        Captured(block[start : start + 60_000], START_NS + number * 1000)
        for number in range(HASHED_WHOLE // 60_000 + 20)
        for start in [draw.randrange(1 << 19)]
    ]
    path = tmp_path_factory.mktemp("large") / "ring.pcap0"
    path.write_bytes(make_pcap(packets))
    assert path.stat().st_size > HASHED_WHOLE
    return path


def identity(path: Path, **options: bool) -> str:
    found = inspect_capture(str(path), **options)
    assert isinstance(found, Inspected)
    return found.entry.sha256


def test_a_copy_is_known_and_another_capture_is_another(large: Path, tmp_path: Path) -> None:
    draw = random.Random(f"{SEED} others")
    copy = tmp_path / "ring.pcap1"
    content = large.read_bytes()
    copy.write_bytes(content)
    assert identity(copy) == identity(large)
    assert identity(large).startswith("sampled:")
    assert identity(large, full_hash=True) == hashlib.sha256(content).hexdigest()
    step = (len(content) - SAMPLE_BYTES) / (SAMPLES - 1)
    places = [0, SAMPLES - 1, draw.randrange(1, SAMPLES - 1)]
    for place in places:
        at = int(step * place) + SAMPLE_BYTES // 2
        copy.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert identity(copy) != identity(large)
    # Between samples only a full hash sees a byte.
    at = int(step * draw.randrange(SAMPLES - 1)) + SAMPLE_BYTES + 8
    copy.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    assert (identity(copy) == identity(large)) is (step > SAMPLE_BYTES + 16)
    assert identity(copy, full_hash=True) != identity(large, full_hash=True)


def test_a_copy_of_a_large_capture_is_not_dissected_again(large: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    for full_hash in (False, True):
        assert dissect(None, [large], dataset, full_hash=full_hash).captures == (not full_hash)
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(large.read_bytes())
    assert dissect(None, [copy], dataset).captures == 0
    assert len(contents_of(dataset).taps[0].captures) == 1
