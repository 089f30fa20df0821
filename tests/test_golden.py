"""Every table of every committed capture has the rows that were reviewed (`make golden`)."""

from pathlib import Path

import pytest

from tools.golden import captures, golden_path, golden_rows


@pytest.mark.parametrize("capture", captures(), ids=lambda path: path.name)
def test_tables_of_a_capture_equal_their_golden_rows(capture: Path) -> None:
    for table, text in golden_rows(capture).items():
        assert text.splitlines() == golden_path(capture, table).read_text().splitlines(), table
