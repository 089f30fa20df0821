"""A task whose dataset is in a store: it works in a local directory of its own.

Its input is downloaded on demand, its output is uploaded when all of it is complete. Two attempts
of a task upload the same files, so neither damages the output of the other.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdissect.dataset.staging import STAGING
from kdissect.dataset.storage import (
    at_once,
    files_in,
    is_uri,
    joined,
    read_bytes,
    remember,
    seen,
    upload,
)
from kdissect.dataset.tasks import Task
from kdissect.errors import DatasetError, KdissectError, no_such_file
from kdissect.system.file_names import checked_name, shortened


class StoredTask(Task):
    """Like `Task`, with local paths; created by `mirrored`."""

    origin: Task
    directory: Path
    fetched: set[Path]

    def there(self, path: Path) -> Path:
        """The same path, after its content in the store has been downloaded."""
        if path.exists():
            return path
        location = self.location(path)
        if seen(location)[0] >= 0:
            self._fetch(location, path)
            return path
        names = [one.location for one in files_in(location, recursive=True)]
        at_once(self._fetch, [(one, path / inside(location, one)) for one in names])
        return path

    def location(self, path: Path) -> str:
        """Location of a file in the store: all but intermediate files are in their final place."""
        parts = path.relative_to(self.directory).parts
        is_staged = parts[0] == STAGING
        return joined(self.origin.run_directory if is_staged else self.origin.dataset, *parts)

    def upload(self) -> None:
        """Upload the output to the store."""
        made = [path for path in sorted(self.directory.rglob("*")) if path.is_file()]
        new = [(path, self.location(path)) for path in made if path not in self.fetched]
        at_once(upload, new)

    def _fetch(self, location: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = read_bytes(location)
        if content is None:
            raise KdissectError(no_such_file(location))
        path.write_bytes(content)
        self.fetched.add(path)


def inside(directory: str, location: str) -> str:
    """Name of a file below a directory of a store; raises DatasetError for an unsafe one."""
    if not location.startswith(f"{directory}/"):
        raise DatasetError(f"{shortened(location)} is not in {directory}")
    return checked_name(location.removeprefix(f"{directory}/"))


@contextmanager
def mirrored(task: Task) -> Iterator[Task]:
    """The task with local paths, as it runs on this host."""
    for one in task.stores:
        remember(one)
    if not is_uri(task.dataset):
        yield task
        return
    with tempfile.TemporaryDirectory(prefix="kdissect-") as directory:
        made = StoredTask(*task._replace(dataset=directory, run_directory=directory))
        made.origin, made.directory, made.fetched = task, Path(directory), set()
        yield made
        made.upload()
