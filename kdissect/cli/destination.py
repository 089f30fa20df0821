"""Where a command writes: stdout, or a file that is there when it is complete."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kdissect.errors import OutputExists, cannot_write
from kdissect.system.confined import PUBLIC, SECRET, replacing


def check_free(path: Path, force: bool) -> None:
    """Raise OutputError for an existing file, unless it may be overwritten."""
    if path.exists() and not force:
        raise OutputExists(f"{path} exists; --force overwrites it")


@contextmanager
def destination(
    path: Path | None, force: bool = False, *, is_secret: bool = False
) -> Iterator[IO[bytes]]:
    """Stdout, or a file that gets its name only when completely written.

    With `is_secret` only its owner may read it: it has packets, or keys and values of records.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_free(path, force)
    try:
        with replacing(path, SECRET if is_secret else PUBLIC) as file:
            yield file
    except OSError as error:
        raise cannot_write(path, error) from error
