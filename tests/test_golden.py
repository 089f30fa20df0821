"""Every table of every committed capture has the rows that were reviewed (`make golden`)."""

from pathlib import Path

import pytest

from tools.golden import (
    captures,
    digest,
    golden_digests,
    golden_path,
    golden_rows,
    is_in_full,
)


@pytest.mark.parametrize("capture", captures(), ids=lambda path: path.name)
def test_tables_of_a_capture_equal_their_golden_rows(capture: Path) -> None:
    texts = golden_rows(capture)
    if is_in_full(capture):
        for table, text in texts.items():
            assert text.splitlines() == golden_path(capture, table).read_text().splitlines(), table
    else:
        assert digest(texts) == golden_digests()[capture.name]


def test_digests_are_of_captures_that_are_there() -> None:
    names = {capture.name for capture in captures() if not is_in_full(capture)}
    assert golden_digests().keys() == names
