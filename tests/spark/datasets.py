"""One dataset of several captures, each a tap, and the same as directories of tables."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import kdissect
from kdissect.spark.pipeline import dissect

CAPTURES = Path(__file__).parents[2] / "captures"
Asked = tuple[str, dict[str, Any]]


class Both(NamedTuple):
    """A dataset, and a directory of tables for each of its taps, in their order."""

    dataset: Path
    directories: list[Path]


def both_of(captures: Iterable[str], place: Path) -> Both:
    """Captures, by their names without the ending, in both forms."""
    dataset = place / "dataset"
    paths = [CAPTURES / f"{name}.pcapng" for name in captures]
    taps = dissect(None, paths, dataset).contents.taps
    directories = [place / tap.name for tap in taps]
    for tap, directory in zip(taps, directories, strict=True):
        kdissect.write([capture.path for capture in tap.captures], directory)
    return Both(dataset, directories)
