"""Every capture in the tree, cut at random into rotated files, each a tap of one dataset."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.seeds import SEED
from tests.spark.rotated import ALL, CAPTURES, Rows, contents_of, dataset_rows, library_rows, rotate

EVERY = tuple(sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.glob("**/*.pcap*")))
# So small that the captures, of a few kilobytes, have several.
SPLIT_SIZE = 100_000


class Everything:
    """Captures as rotated files in their own directories, and the library's rows of them."""

    def __init__(self, directory: Path, captures: Sequence[str] = EVERY, **options: Any) -> None:
        self.options = options
        self.paths: dict[str, list[str]] = {}
        for capture in captures:
            chance = random.Random(f"{SEED} {capture}")
            # The rest of the name, as a pattern of rotated files could be in it.
            place = directory / f"{capture.replace('/', '-').replace('.', '-')}-x"
            count = chance.randint(2, 7)
            self.paths[str(place)] = rotate(capture, place, count, chance.randint(0, 999))
        self.sources = [path for paths in self.paths.values() for path in paths]
        self._expected: dict[tuple[str, int], Rows] = {}

    def expected(self, directory: str, tap: int) -> Rows:
        """The rows of a capture as the tap with this number has them."""
        known = self._expected.get((directory, tap))
        if known is None:
            known = library_rows(self.paths[directory], tap, ALL, **self.options)
            self._expected[directory, tap] = known
        return known

    def check(self, dataset: Path) -> int:
        """The dataset has those rows, table by table; gives how many."""
        contents = contents_of(dataset)
        assert contents.broken == []
        taps = {str(Path(tap.chain).parent): tap for tap in contents.taps}
        assert sorted(taps) == sorted(self.paths)
        count = 0
        for directory, tap in taps.items():
            assert [one.path for one in tap.captures] == self.paths[directory]
            found, expected = dataset_rows(dataset, tap.name), self.expected(directory, tap.number)
            for table in {*found, *expected}:
                assert found.get(table) == expected.get(table), f"{directory}: {table}"
                count += len(found[table])
        return count
