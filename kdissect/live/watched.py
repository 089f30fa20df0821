"""``kdissect.watch``: the record batches of a live capture."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from kdissect.live.listener import Listener, Status
from kdissect.live.source_choice import Asked, open_source
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options, check_columns
from kdissect.tables.schemas import DEFAULT_TABLES

Batch = tuple[str, pa.RecordBatch]


class Watched(Listener):
    """A live capture: a context manager; iterate over it once for ``(table name, record batch)``.

    It ends with its source, or when `stop` is called, possibly by another thread.
    """

    def __init__(self, asked: Asked, options: Options) -> None:
        self.tables = frozenset(options.tables)
        self._batches: list[Batch] = []
        self._last: Status | None = None
        self._wire = open_source(asked, options)
        try:
            self._watcher = Watcher(self._wire, [self], options)
        except BaseException:
            self._wire.close()
            raise

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the source."""
        self._wire.close()

    def __iter__(self) -> Iterator[Batch]:
        watcher = self._watcher
        try:
            watcher.begin()
            while not watcher.is_stopping and watcher.step():
                yield from self._taken()
            watcher.finish()
            yield from self._taken()
        finally:
            watcher.keylogs.close()
            self._wire.close()

    @property
    def status(self) -> Status:
        """Current status, or that at the end: packets, drops, byte balance."""
        return self._last or self._watcher.status()

    def stop(self) -> None:
        """End the iteration after the rows read so far."""
        self._watcher.stop()

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        """Called by the watcher."""
        self._batches.append((table, batch))

    def finish(self, status: Status) -> None:
        """Called by the watcher."""
        self._last = status

    def _taken(self) -> list[Batch]:
        taken, self._batches = self._batches, []
        return taken


def watch(
    source: str | Sequence[str] = (),
    *,
    interface: str | Sequence[str] = (),
    tables: Sequence[str] = DEFAULT_TABLES,
    follow: bool = False,
    filter: str = "",  # noqa: A002  # as the option is called
    all_ports: bool = False,
    snaplen: int = 262_144,
    buffer_bytes: int = 64 << 20,
    through: str = "auto",
    **options: Any,
) -> Watched:
    """Capture on interfaces, or read a pipe ("-"), a capture, or with `follow` a growing one.

    Rows come within a second of their packets, by the packets' clock. `filter` is a pcap-filter(7)
    in addition to that of the brokers' ports, which `all_ports` omits; `options` are keywords of
    `Options`. Raises CaptureError with advice.
    """
    for table in tables:
        check_columns(table, ())
    sources = [source] if isinstance(source, str) else list(source)
    interfaces = [interface] if isinstance(interface, str) else list(interface)
    asked = Asked(
        sources, interfaces, follow, filter, all_ports, snaplen, buffer_bytes, through
    )  # fmt: skip
    return Watched(asked, Options(tables=tuple(tables), **options))
