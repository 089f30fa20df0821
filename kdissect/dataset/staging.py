"""Intermediate files in a run's directory: rows of splits, boundary states, corrections, names.

    RUN/staging/0/3/exchanges     rows of split 3 of tap 0, a spool for each table
    RUN/staging/0/3.boundary      boundary state of the split
    RUN/staging/0/3.corrections   corrections of its rows
    RUN/staging/0/names           topic names by id

All of it is declared values or Arrow, and is validated when it is read.
"""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from kdissect.checkpoint.boundary_state import NAMES
from kdissect.encoding.documents import Document, dump, load
from kdissect.errors import DatasetError
from kdissect.limits import MIB, Limits
from kdissect.system.confined import MISSING, OWNER_ONLY, SECRET, Below
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES
from kdissect.tables.spool import Spool, whole_spool, write_whole
from kdissect.tables.stored_rows import believed

STAGING: Final = "staging"
# Of a connection in a boundary state or a checkpoint, without buffered bytes, which have limits of
# their own: 0.5 to 1 kB, and the data of its requests.
CONNECTION_BYTES: Final = 4096
# Marks, chunks, names of topics and groups.
SHARED_BYTES: Final = 64 * MIB
NAMES_DOCUMENT: Final = Document(5, "names of topics", 1, NAMES)


class Staged:
    """A directory of tables under a temporary name, until `publish`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
        self.temporary.mkdir(mode=OWNER_ONLY, parents=True)
        self.spools: dict[str, Spool] = {}
        self.size = 0

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if table not in self.spools:
            self.spools[table] = Spool(self.temporary / table, SECRET)
        self.spools[table].add(batch)
        self.spools[table].write()
        self.size += batch.nbytes

    def publish(self) -> None:
        """Rename it to its final name, unless another attempt has done so."""
        for spool in self.spools.values():
            spool.close()
        try:
            self.temporary.rename(self.path)
        except OSError:
            shutil.rmtree(self.temporary)
            if not self.path.is_dir():
                raise


def read_staged(path: Path, root: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of such a directory below `root`; raises DatasetError for files of another origin."""
    place = path.relative_to(root)
    with Below(root) as below:
        sizes = below.sizes(str(place / name) for name in TABLES)
    for name in TABLES:
        if sizes[str(place / name)] == MISSING:
            continue
        schema = arrow_schema(TABLES[name])
        with believed(str(path / name)):
            for batch in whole_spool(path / name):
                if batch.schema != schema:
                    raise DatasetError(f"{path / name}: rows of another table than {name}")
                yield name, batch


def read_part(path: Path, root: str, limits: Limits) -> bytes:
    """Read a file below `root`; raises DatasetError if it is missing or too large."""
    try:
        with Below(root) as below:
            return below.read(str(path.relative_to(root)), most_bytes(limits))
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}") from error


def most_bytes(limits: Limits) -> int:
    """Upper bound on the size of a boundary state or checkpoint: all that incomplete data may hold.

    With the default limits, 880 MiB.
    """
    waiting = (
        limits.reassembly_bytes_in_all,
        limits.frame_bytes_in_all,
        limits.search_bytes_in_all,
        limits.waiting_bytes_in_all,
        limits.pending_bytes_in_all,
        limits.tls_bytes_in_all,
        limits.name_wait_bytes,
        limits.fragment_bytes,
    )
    # Prefixes of a boundary state have 128 MiB, in place of incomplete frames.
    return SHARED_BYTES + limits.unparked_connections * CONNECTION_BYTES + sum(waiting)


def names_bytes(names: dict[bytes, str]) -> bytes:
    """Serialize topic names by id, for `names_in`."""
    return dump(NAMES_DOCUMENT, names)


def names_in(content: bytes) -> dict[bytes, str]:
    """Deserialize topic names; raises EncodingError for other bytes."""
    names: dict[bytes, str] = load(NAMES_DOCUMENT, content)
    return names


def make_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, and create its directory; for its owner only.

    It contains raw bytes of messages, including login data.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, mode=SECRET)
