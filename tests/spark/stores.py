"""An S3 server on this machine, for tests and measurements."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
import pyarrow.parquet

from kdissect.dataset.entries import table_files
from kdissect.dataset.runs import Contents, read_contents
from kdissect.dataset.storage import joined, remember, system_at, write_bytes
from kdissect.tables.schemas import TABLES
from tests.spark.rotated import Rows, spark_rows

# A name and a password for moto, which accepts any.
DUMMY = {
    "AWS_ACCESS_KEY_ID": "kdissect",
    "AWS_SECRET_ACCESS_KEY": "secret-of-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
}


ROOT = Path(__file__).parents[2]
WRITES = ("open_output_stream", "delete_file", "delete_dir", "delete_dir_contents")


class Bucket(NamedTuple):
    """A bucket of such a server: its name and the query of its URIs."""

    name: str
    options: str

    def uri(self, path: str) -> str:
        """As a user would write it."""
        return f"s3://{self.name}/{path}?{self.options}"

    def at(self, path: str) -> str:
        """As kdissect writes it."""
        return f"s3://{self.name}/{path}"

    def put(self, local: Path | str, path: str) -> str:
        """Bring a file there; its location."""
        write_bytes(self.at(path), Path(local).read_bytes())
        return self.at(path)


@contextmanager
def s3_server() -> Iterator[str]:
    """Start a server without buckets; yield the query of its URIs.

    It is a process of its own: `deltalake` holds the interpreter's lock while it waits.
    """
    words = [sys.executable, "-m", "tests.spark.s3_server"]
    with (
        mock.patch.dict(os.environ, DUMMY),
        subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            yield f"endpoint_override={address}&scheme=http&region=us-east-1"
        finally:
            server.stdin.close()  # it ends with it


def make_bucket(name: str, options: str) -> Bucket:
    """A new bucket."""
    remember(f"s3://{name}?{options}&allow_bucket_creation=true")
    system, path = system_at(f"s3://{name}")
    system.create_dir(path)
    remember(f"s3://{name}?{options}")
    return Bucket(name, options)


class Watched:
    """A file system that announces each request before it runs, and may be told to refuse it."""

    def __init__(
        self,
        system: Any,
        reads: Callable[[str], None] = lambda _: None,
        writes: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.system = system
        self.reads = reads
        self.writes = writes

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self.system, name)

        def request(*values: Any, **named: Any) -> Any:
            watch = self.writes if name in WRITES else self.reads
            watch(name)
            answer = asked(*values, **named)
            return Watched(answer, self.reads) if name == "open_input_file" else answer

        return request

    @property
    def closed(self) -> bool:
        """Whether a file was closed, which Arrow asks."""
        return bool(self.system.closed)

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self.system.close()


def stored_rows(dataset: str) -> Rows:
    """Rows of the files in the contents of a dataset in a store, by table."""
    rows: Rows = {}
    for table in TABLES:
        batches = [read_parquet(joined(remember(dataset), name)) for name in listed(dataset, table)]
        if batches:
            rows[table] = spark_rows(table, batches)
    return dict(sorted(rows.items()))


def read_parquet(location: str) -> pa.Table:
    """The rows of a file."""
    system, path = system_at(location)
    return pa.parquet.ParquetFile(path, filesystem=system).read()


def listed(dataset: str, table: str) -> list[str]:
    """The files of a table that the contents lists."""
    return table_files(stored_contents(dataset), table)


def stored_contents(dataset: str) -> Contents:
    """The contents, which there must be."""
    contents = read_contents(dataset)
    assert contents is not None
    return contents
