"""Start of ``kdissect live`` and ``top``: open what needs privileges, and drop those.

    open sockets, key logs, directories ──▶ drop privileges ──▶ import the rest, start threads

A thread permanently has the privileges of the one that starts it, and importing pyarrow or numpy
starts threads. So this module, and all that it imports, imports neither; `drop_privileges` raises
where a thread runs. docs/decisions/privileges.md
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.cli.live_imports import (
    can_import_as,
    cannot_read,
    import_all,
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
from kdissect.live.source_choice import Asked, open_source
from kdissect.live.systemd_notify import Notifier
from kdissect.sources.packet_source import PacketSource

if TYPE_CHECKING:
    from kdissect.cli.live_options import Address


@dataclass(frozen=True)
class Needs:
    """Resources that need privileges; None if not requested. `modules` are imported afterwards.

    With `has_screen` more is imported at any time, on first display.
    """

    asked: Asked
    options: Options
    modules: tuple[str, ...]
    directory: Path | None = None
    metrics: "Address | None" = None
    user: str | None = None
    log_directories: tuple[Path, ...] = ()
    has_screen: bool = False

    @property
    def imports(self) -> tuple[tuple[str, ...], Sequence[str]]:
        """The arguments of `import_all`."""
        return self.modules, self.options.tables


@dataclass(frozen=True)
class Opened:
    """The opened resources; `dropped` is None where no privileges were dropped."""

    packet_source: PacketSource
    keylogs: TailedKeyLogs
    notifier: Notifier
    topic_names: BrokerNames | None
    bound: Bound | None
    dropped: Dropped | None


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
        packet_source = open_source(needs.asked, needs.options)
        closing.callback(packet_source.close)
        keylogs = TailedKeyLogs(needs.options.keylog)
        closing.callback(keylogs.close)
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
        import_all(*needs.imports)
        if needs.directory is not None:
            check_directory(needs.directory)
        yield Opened(packet_source, keylogs, notifier, topic_names, bound, dropped)
