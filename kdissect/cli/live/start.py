"""Start of ``kdissect live`` and ``top``: open what needs privileges, and drop those.

    open sockets, key logs, directories ──▶ drop privileges ──▶ import the rest, start threads
                                                    │
                                                    └─▶ (several workers) fork, each imports

A thread permanently has the privileges of the one that starts it, and importing pyarrow or numpy
starts threads. So this module, and all that it imports, imports neither; `drop_privileges` raises
where a thread runs. docs/decisions/privileges.md
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.cli.live.imports import (
    can_import_as,
    cannot_read,
    import_all,
    import_modules,
    import_without_threads,
)
from kdissect.dissection.options import Options
from kdissect.errors import KdissectError
from kdissect.live.broker_names import BrokerNames
from kdissect.live.keylogs import TailedKeyLogs
from kdissect.live.metrics_socket import Bound, bind
from kdissect.live.privileges import (
    Dropped,
    check_alone,
    check_directory,
    check_user,
    drop_privileges,
    give_directory,
    must_drop,
)
from kdissect.live.source_choice import Asked, open_sources
from kdissect.live.systemd_notify import Notifier
from kdissect.live.workers.forking import Seat, Worker, end_workers, fork_workers
from kdissect.sources.packet_source import PacketSource

if TYPE_CHECKING:
    from kdissect.cli.live.options import Address


@dataclass(frozen=True)
class Needs:
    """Resources that need privileges; None if not requested. `modules` are imported afterwards.

    With `has_screen` more is imported at any time, on first display. With several `workers`, they
    import `modules`, and the first process `leading`.
    """

    asked: Asked
    options: Options
    modules: tuple[str, ...]
    directory: Path | None = None
    metrics: "Address | None" = None
    user: str | None = None
    log_directories: tuple[Path, ...] = ()
    has_screen: bool = False
    workers: int = 1
    leading: tuple[str, ...] = ()

    @property
    def imports(self) -> tuple[tuple[str, ...], Sequence[str]]:
        """The arguments of `import_all`."""
        return (*self.modules, *self.leading), self.options.tables


@dataclass(frozen=True)
class Opened:
    """The opened resources; `dropped` is None where no privileges were dropped.

    Of several workers, `workers` are in the first process, and in each of them `seat` is its own.
    """

    packet_source: PacketSource
    keylogs: TailedKeyLogs
    notifier: Notifier
    topic_names: BrokerNames | None
    bound: Bound | None
    dropped: Dropped | None
    workers: tuple[Worker, ...] = ()
    seat: Seat | None = None


@contextmanager
def opened(needs: Needs) -> Iterator[Opened]:
    """Open all resources, and drop privileges; raises KdissectError with advice."""
    user = check_user(needs.user) if needs.user else None
    must = must_drop(user)
    if must:
        check_alone(user)
    with ExitStack() as closing:
        notifier = Notifier()
        closing.callback(notifier.close)
        packet_sources = open_sources(needs.asked, needs.options, needs.workers)
        keylogs = []
        for packet_source in packet_sources:
            closing.callback(packet_source.close)
            keylogs.append(TailedKeyLogs(needs.options.keylog))
            closing.callback(keylogs[-1].close)
        topic_names = None
        if needs.log_directories:
            topic_names = BrokerNames(needs.log_directories)
            closing.callback(topic_names.close)
        bound = None
        if needs.metrics is not None:
            bound = closing.enter_context(bind(needs.metrics.host, needs.metrics.port))
        if needs.directory is not None:
            give_directory(needs.directory, user, needs.options.payload)
        if user is not None and not can_import_as(user, *needs.imports):
            if needs.has_screen:
                raise KdissectError(f"{cannot_read(user)} (the screen imports more while it runs)")
            import_without_threads(user, *needs.imports)
        dropped = drop_privileges(user) if must else None
        if needs.workers == 1:
            import_all(*needs.imports)
        if needs.directory is not None:
            check_directory(needs.directory)
        had = Opened(packet_sources[0], keylogs[0], notifier, topic_names, bound, dropped)
        if needs.workers > 1:
            had = forked(needs, had, packet_sources, keylogs, closing)
        yield had


def forked(
    needs: Needs,
    had: Opened,
    packet_sources: Sequence[PacketSource],
    keylogs: Sequence[TailedKeyLogs],
    closing: ExitStack,
) -> Opened:
    """Fork the workers; returns the resources of this process, which is the first or one of them.

    The first process keeps the workers' sockets open: the kernel spreads packets anew when one
    leaves a group, so connections would come to other workers.
    """
    started = fork_workers(needs.workers)
    if isinstance(started, Seat):
        closing.callback(started.pipe.close)
        for number, packet_source in enumerate(packet_sources):
            if number != started.number:
                packet_source.close()
                keylogs[number].close()
        had.notifier.close()
        if had.bound is not None:
            had.bound.close()
        names = had.topic_names
        if names is not None and started.number:
            names.close()
            names = None
        import_all(needs.modules, needs.options.tables)
        source, logs = packet_sources[started.number], keylogs[started.number]
        return replace(
            had, packet_source=source, keylogs=logs, topic_names=names, bound=None, seat=started
        )
    closing.callback(end_workers, started)
    for logs in keylogs:
        logs.close()
    if had.topic_names is not None:
        had.topic_names.close()
    import_modules(needs.leading)
    return replace(had, topic_names=None, workers=tuple(started))
