"""One run of ``kdissect live``: opens, gives up privileges, and watches until it is to end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from pwd import struct_passwd
from typing import TYPE_CHECKING, Any, Final

from kdissect.cli.live_imports import import_rest
from kdissect.cli.live_lines import Deadline, Lines, tell, tell_begin, tell_end
from kdissect.cli.live_options import Address, Rotation
from kdissect.cli.live_signals import signals
from kdissect.cli.program import FOUND, NOTHING_FOUND
from kdissect.cli.reading import explain_empty
from kdissect.limits import Limits
from kdissect.live.listener import Listener
from kdissect.live.privileges import check_directory, check_user, drop_privileges, give_directory
from kdissect.live.service import Notifier, ServiceListener
from kdissect.live.sources import Asked, open_source
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options

if TYPE_CHECKING:
    from kdissect.live.counting.metrics import MetricsListener

NEVER: Final = Rotation()
FIRST_FREE_PORT: Final = 1024  # those below are root's


@dataclass(frozen=True)
class Plan:
    """All that was asked for; None is what was not."""

    asked: Asked
    options: Options
    directory: Path | None = None
    rotation: Rotation = NEVER
    keep: int | None = None
    disk: int | None = None
    flush_s: float = 5.0
    metrics: Address | None = None
    labels: int = 100
    user: str | None = None
    max_cpu: float | None = None
    max_memory: int | None = None
    duration_s: float | None = None
    every_s: float = 5.0
    is_json: bool = False

    @property
    def has_lines(self) -> bool:
        """Whether lines go to stdout: where nothing else shows what goes on."""
        return self.directory is None or self.is_json


class Parts:
    """The listeners of a run."""

    def __init__(self, plan: Plan, notifier: Notifier) -> None:
        self.listeners: list[Listener] = []
        self.files: Any = None
        self.metrics: Any = None
        if notifier.is_heard:
            self.listeners.append(ServiceListener(notifier))
        if plan.directory is not None:
            self.files = make_files(plan, plan.directory)
            self.listeners.append(self.files)
        if plan.metrics is not None:
            self.metrics = make_metrics(plan.labels)
            self.listeners.append(self.metrics)
        if plan.has_lines:
            self.listeners += make_lines(plan)
        if plan.duration_s is not None:
            self.listeners.append(Deadline(plan.duration_s))


def run(plan: Plan) -> int:
    """Watch until the source ends, or somebody says so; gives the exit code."""
    plan = replace(plan, options=limited(plan))
    user = check_user(plan.user) if plan.user else None
    notifier = Notifier()
    with open_source(plan.asked, plan.options) as wire:
        if plan.directory is not None:
            give_directory(plan.directory, user, plan.options.payload)
        parts = Parts(plan, notifier)
        watcher = Watcher(wire, parts.listeners, plan.options, **shedding(plan))
        with signals(watcher) as signalled, served(plan, parts, user):
            tell_begin(plan.asked, plan.options)
            watcher.run()
        standing = watcher.standing()
    notifier.close()
    tell_end(standing, wire.names, parts.files)
    if standing.balance.exchanges:
        return FOUND
    explain_empty("no Kafka exchanges", asdict(standing.balance))
    return FOUND if signalled.to_stop or plan.asked.interfaces else NOTHING_FOUND


def limited(plan: Plan) -> Options:
    """The options with limits that fit the memory, unless they were said one by one."""
    if plan.max_memory is None or plan.options.limits != Limits():
        return plan.options
    from kdissect.live.memory import limits_for

    files_bytes = files_memory(plan) or 0
    limits = limits_for(plan.max_memory, plan.asked.ring_bytes, files_bytes=files_bytes)
    return replace(plan.options, limits=limits)


def files_memory(plan: Plan) -> int | None:
    """What files may hold on its way to the disk; None for what they hold anyway."""
    if plan.max_memory is None or plan.directory is None:
        return None
    from kdissect.live.memory import files_bytes_for

    return files_bytes_for(plan.max_memory)


def shedding(plan: Plan) -> dict[str, Any]:
    """What lets the watcher make less when it is too much."""
    if plan.max_cpu is None and plan.max_memory is None:
        return {}
    from kdissect.live.shedding import Shedder

    return {"shedder": Shedder(plan.max_cpu, plan.max_memory)}


@contextmanager
def served(plan: Plan, parts: Parts, user: struct_passwd | None) -> Iterator[None]:
    """Give up privileges, and answer for metrics in here.

    Threads start afterwards, as each has privileges of its own; but ports of root need root.
    """
    server: Any = None
    import_rest(plan.options.tables)
    try:
        if plan.metrics is not None and plan.metrics.port < FIRST_FREE_PORT and os.geteuid() == 0:
            server = start_server(parts.metrics, plan.metrics)
        if user is not None or os.geteuid() != 0:
            drop_privileges(user)
        if plan.directory is not None:
            check_directory(plan.directory)
        if plan.metrics is not None and server is None:
            server = start_server(parts.metrics, plan.metrics)
        yield
    finally:
        if server is not None:
            server.close()


def make_files(plan: Plan, directory: Path) -> Listener:
    """Tables as files that rotate."""
    from kdissect.live.files.rotation import RotatedTables

    files: Listener = RotatedTables(
        directory,
        tables=plan.options.tables,
        every_s=plan.rotation.every_s,
        size=plan.rotation.size,
        keep=plan.keep,
        disk=plan.disk,
        flush_s=plan.flush_s,
        is_secret=plan.options.payload,
        memory=files_memory(plan),
        notice=tell,
    )
    return files


def make_metrics(labels: int) -> "MetricsListener":
    """Counters for Prometheus."""
    from kdissect.live.counting.metrics import MetricsListener

    return MetricsListener(labels=labels)


def start_server(metrics: "MetricsListener", address: Address) -> Any:
    """Answer those who ask for metrics; has `close`."""
    from kdissect.live.counting.metrics import serve

    return serve(metrics, address.host, address.port)


def make_lines(plan: Plan) -> list[Listener]:
    """Lines on stdout, and what they are made of."""
    from kdissect.live.counting.lines import json_of, line_of
    from kdissect.live.counting.meters import Meters

    meters = Meters()
    return [meters, Lines(meters, plan.every_s, json_of if plan.is_json else line_of)]
