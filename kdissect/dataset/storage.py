"""Files of captures and datasets, local or in a store that an Arrow file system supports.

A location is a path, or a URI without options: ``s3://bucket/captures/ring.pcap0``, ``gs://…``,
``hdfs://host:port/…``, ``abfs://…``. Settings to reach a store (endpoint, region, credentials) come
from the environment, or from a URI given by the user:
``s3://bucket/captures?endpoint_override=127.0.0.1:9000&scheme=http``. `remember` keeps them in
this process, for all locations of the same bucket, and returns the location; `reached_by` returns
what other processes have to remember. Neither is ever part of a location, so it is never written.

Only a few operations are required, which all stores support: read a range of bytes, write a file
atomically, list, remove.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from kdissect.errors import DatasetError, KdissectError, StoreError, no_such_file
from kdissect.system.confined import Below

URI: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]+)://(?P<host>[^/?]*)(?P<path>[^?]*)(?:\?(?P<options>.*))?$"
)
# Arrow passes other schemes on to any installed fsspec implementation: web pages, hubs, shells.
SCHEMES: Final = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
# Bytes per request: with a store latency of 50 ms, up to 320 MB/s.
BLOCK_SIZE: Final = 16 << 20
# Concurrent requests for small files, which mostly wait for the response.
AT_ONCE: Final = 8
# Read small files with one request; Arrow before 21 lacks this option and makes three.
AS_ONE: Final = "allow_delayed_open=true" if int(pa.__version__.split(".")[0]) >= 21 else ""

# By bucket: its URI with options, and its file system.
_options: dict[str, str] = {}
_systems: dict[str, tuple[Any, str]] = {}


class Stored(NamedTuple):
    """A file as listed by its store; the time is that of the store, in S3 whole seconds."""

    location: str
    size: int
    modified_ns: int


def is_uri(location: str) -> bool:
    """Return whether a location is in a store."""
    return URI.match(location) is not None


def remember(given: str) -> str:
    """Location of a path or URI; its options are kept for all locations of the same bucket."""
    match = URI.match(given)
    if match is None:
        return given
    if match["scheme"] == "file":
        return match["path"]
    bucket = bucket_of(given)
    if match["options"] or "@" in match["host"]:
        asked = f"?{match['options']}" if match["options"] else ""
        full = f"{match['scheme']}://{match['host']}{asked}"
        if _options.get(bucket) != full:
            _options[bucket] = full
            _systems.pop(bucket, None)
    return bucket + match["path"]


def absolute(given: str | os.PathLike[str]) -> str:
    """Absolute form of a location, independent of the working directory."""
    location = remember(os.fspath(given))
    return location if is_uri(location) else str(Path(location).absolute())


def reached_by(locations: Iterable[str]) -> tuple[str, ...]:
    """Values passed to `remember` that are needed to reach these locations."""
    buckets = sorted({bucket_of(one) for one in locations if is_uri(one)})
    return tuple(_options[bucket] for bucket in buckets if bucket in _options)


def bucket_of(uri: str) -> str:
    """The bucket of a URI, without user name and password.

    >>> bucket_of("s3://key:secret@captures/b1/ring.pcap0?region=eu-west-1")
    's3://captures'
    >>> bucket_of("abfs://files:secret@account.dfs.core.windows.net/b1")
    'abfs://files@account.dfs.core.windows.net'
    """
    match = URI.match(uri)
    if match is None:
        raise KdissectError(f"{uri}: is no URI")
    scheme, host = match["scheme"], match["host"]
    if "@" in host:
        user, _, host = host.rpartition("@")
        # Azure has the container here.
        if scheme in ("abfs", "abfss") and (container := user.partition(":")[0]):
            host = f"{container}@{host}"
    return f"{scheme}://{host}"


def joined(location: str, *names: str) -> str:
    """Join names to a location."""
    if is_uri(location):
        return "/".join([location.rstrip("/"), *names])
    return str(Path(location, *names))


def seen(location: str) -> tuple[int, int]:
    """Size and modification time of a file, -1 if it does not exist."""
    if not is_uri(location):
        try:
            status = Path(location).stat()
        except OSError:
            return -1, -1
        return status.st_size, status.st_mtime_ns
    found = _stored(location)
    return (-1, -1) if found is None else (found.size, found.modified_ns)


def files_in(directory: str, recursive: bool = False) -> list[Stored]:
    """Files of a directory in a store by name; empty if the directory does not exist."""
    with store_errors(directory):
        system, path = system_at(directory)
        selector = fs.FileSelector(path, recursive=recursive, allow_not_found=True)
        entries = system.get_file_info(selector)
    bucket = bucket_of(directory)
    return sorted(as_stored(bucket, one) for one in entries if one.type == fs.FileType.File)


def directories_in(directory: str, prefix: str) -> list[str]:
    """Subdirectories of a store directory whose names have this prefix, by name."""
    with store_errors(directory):
        system, path = system_at(directory)
        entries = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    kind = fs.FileType.Directory
    names = sorted(one.base_name for one in entries if one.type == kind)
    return [joined(directory, name) for name in names if name.startswith(prefix)]


def read_bytes(location: str, limit: int | None = None) -> bytes | None:
    """Read a file in a store, None if it does not exist; DatasetError beyond `limit` bytes."""
    with store_errors(location):
        system, path = system_at(location)
        try:
            with system.open_input_file(path) as file:
                if limit is not None and file.size() > limit:
                    raise DatasetError(f"{location}: more than {limit} bytes")
                content: bytes = file.read()
        except FileNotFoundError:
            return None
    return content


def read_below(directory: str, name: str, limit: int) -> bytes | None:
    """Read a file below a directory, in a store or here without following links.

    None if it does not exist; DatasetError beyond `limit` bytes.
    """
    if is_uri(directory):
        return read_bytes(joined(directory, name), limit)
    with suppress(FileNotFoundError), Below(directory) as below:
        return below.read(name, limit)
    return None


def write_bytes(location: str, content: bytes) -> None:
    """Write a file in a store, replacing any other."""
    with store_errors(location):
        system, path = system_at(location)
        # Otherwise Arrow would compress by file extension.
        with system.open_output_stream(path, compression=None) as file:
            file.write(content)


def upload(local: Path, location: str) -> None:
    """Upload a file to a store, replacing any other."""
    with store_errors(location), local.open("rb") as source:
        system, path = system_at(location)
        with system.open_output_stream(path, compression=None) as file:
            shutil.copyfileobj(source, file, BLOCK_SIZE)


def remove(location: str) -> None:
    """Remove a file from a store, if it exists."""
    with store_errors(location):
        system, path = system_at(location)
        try:
            system.delete_file(path)
        except FileNotFoundError:
            return


def remove_below(directory: str) -> None:
    """Remove a directory from a store, if it exists."""
    with store_errors(directory):
        system, path = system_at(directory)
        system.delete_dir_contents(path, missing_dir_ok=True)
        if system.get_file_info(path).type == fs.FileType.Directory:
            system.delete_dir(path)


def at_once(function: Callable[..., None], calls: Iterable[tuple[Any, ...]]) -> None:
    """Call the function with each tuple of values, some concurrently; re-raises its exceptions."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answer in [pool.submit(function, *values) for values in calls]:
            answer.result()


@contextmanager
def store_errors(location: str, missing: type[KdissectError] = KdissectError) -> Iterator[None]:
    """Convert errors of a store to kdissect errors that name the location."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing(no_such_file(location)) from error
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{location}: {first_words(error)}") from error


def first_words(error: BaseException) -> str:
    """A store's error message, on one line, without passwords that an address may contain."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"//[^/@\s]*@", "//", lines[0])


def system_at(location: str) -> tuple[Any, str]:
    """The file system, and the path in it; raises StoreError for a scheme of no store."""
    bucket = bucket_of(location)
    if bucket not in _systems:
        scheme = bucket.partition(":")[0]
        if scheme not in SCHEMES:
            known = ", ".join(SCHEMES)
            raise StoreError(f"{bucket}: {scheme} is no scheme of a store; those are: {known}")
        given = _options.get(bucket, bucket)
        if bucket.startswith("s3:") and AS_ONE and "allow_delayed_open" not in given:
            given += ("&" if "?" in given else "?") + AS_ONE
        base, _, options = given.partition("?")
        system, root = fs.FileSystem.from_uri(f"{base}/?{options}" if options else f"{base}/")
        _systems[bucket] = system, root.rstrip("/")
    system, root = _systems[bucket]
    return system, root + location.removeprefix(bucket).rstrip("/")


def _stored(location: str) -> Stored | None:
    with store_errors(location):
        system, path = system_at(location)
        entry = system.get_file_info(path)
    is_file = entry.type == fs.FileType.File
    return as_stored(bucket_of(location), entry) if is_file else None


def as_stored(bucket: str, entry: Any) -> Stored:
    root = _systems[bucket][1]
    return Stored(bucket + entry.path.removeprefix(root), entry.size, entry.mtime_ns or 0)
