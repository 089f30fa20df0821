"""Looks at every file under its final name, as soon as it is there: it must be whole."""

import threading
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

LOOK_S = 0.1


class Looking(threading.Thread):
    """Ends with `stop`; `broken` lists errors, `files` counts the files read."""

    def __init__(self, output: Path) -> None:
        super().__init__(daemon=True)
        self.output = output
        self.files = 0
        self.broken: list[str] = []
        self._rotations: dict[Path, frozenset[str]] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            self.look()

    def stop(self) -> None:
        """After a last look; all rotations must be as they were when they appeared."""
        self._stopping.set()
        self.join()
        self.look()
        for rotation, names in self._rotations.items():
            now = tables_in(rotation)
            if now != names:
                self.broken.append(f"{rotation}: had {sorted(names)}, has {sorted(now)}")

    def look(self) -> None:
        for rotation in self.output.glob("[!.]*/[!.]*"):
            if rotation.is_dir() and rotation not in self._rotations:
                self._rotations[rotation] = tables_in(rotation)
                for file in rotation.glob("*.parquet"):
                    self._read(file)

    def _read(self, file: Path) -> None:
        self.files += 1
        try:
            parquet.read_table(file)
        except (OSError, pa.ArrowException) as error:
            told = f"{time.strftime('%H:%M:%S')} {file}: {error}"
            self.broken.append(told)


def tables_in(rotation: Path) -> frozenset[str]:
    return frozenset(file.name for file in rotation.glob("*.parquet"))
