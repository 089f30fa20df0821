"""How much there is of the Parquet files that an analysis reads."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kdissect.analysis.declared import files_of


def stored_size(directories: Sequence[Path], names: Iterable[str]) -> int:
    """Bytes of the files of these tables; what is not there, or not here, counts nothing."""
    paths = [path / f"{name}.parquet" for name in files_of(names) for path in directories]
    return sum(_size_of(path) for path in paths)


def _size_of(path: Path) -> int:
    """Bytes of a file, or of those in a directory, which Spark and others write as one table."""
    if path.is_dir():
        return sum(one.stat().st_size for one in path.rglob("*.parquet") if one.is_file())
    return path.stat().st_size if path.is_file() else 0
