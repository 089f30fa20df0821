"""One run of ``kdissect live``, without privileges, until it is to end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.cli.documents import head
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.live.advice import WorkersAdvice
from kdissect.cli.live.lines import Deadline, Lines, tell, tell_begin, tell_end, tell_finding
from kdissect.cli.live.plan import Plan, files_memory, limited
from kdissect.cli.live.signals import signals
from kdissect.cli.live.start import Opened
from kdissect.cli.program import ANSWERED
from kdissect.live.listener import Listener
from kdissect.live.metrics_socket import Bound
from kdissect.live.open_before import OpenBefore
from kdissect.live.privileges import ThreadCheck
from kdissect.live.systemd_notify import ServiceListener
from kdissect.live.watcher import Watcher

if TYPE_CHECKING:
    from kdissect.api.finding_states import FindingEvent
    from kdissect.errors import Problem
    from kdissect.live.counting.metrics import MetricsListener
    from kdissect.live.counting.sampled_metrics import SampledMetrics
    from kdissect.live.counting.snapshot import Snapshot
    from kdissect.live.files.rotation import RotatedTables
    from kdissect.live.otlp import MetricsPush
    from kdissect.live.webhook import Webhook


class Parts:
    """The listeners of a run."""

    def __init__(self, plan: Plan, opened: Opened) -> None:
        self.listeners: list[Listener] = []
        self.files: Any = None
        self.metrics: Any = None
        self.findings: Any = None
        if opened.notifier.is_heard:
            self.listeners.append(ServiceListener(opened.notifier))
        if opened.topic_names is not None:
            self.listeners.append(opened.topic_names)
        if plan.directory is not None:
            self.files = make_files(plan, plan.directory)
            self.listeners.append(self.files)
        if plan.findings_s is not None:
            self.findings, hook = make_findings(plan, plan.findings_s)
            self.listeners += [self.findings, *hook]
        if opened.bound is not None or plan.otlp is not None:
            self.metrics = make_metrics(plan.labels)
            self.metrics.share = plan.asked.share
            if self.findings is not None:
                self.metrics.findings = self.findings.labels
            self.listeners.append(self.metrics)
        if plan.otlp is not None:
            self.listeners.append(make_push(self.metrics, plan.otlp))
        if plan.has_lines:
            self.listeners += make_lines(plan, self.findings)
        if plan.asked.interfaces:
            self.listeners.append(WorkersAdvice())
        if plan.asked.earlier:
            self.listeners.append(OpenBefore())
        if plan.duration_s is not None:
            self.listeners.append(Deadline(plan.duration_s))
        if opened.dropped is not None:
            # Started last: all others have started their threads by then.
            self.listeners.append(ThreadCheck(opened.dropped))


def run(plan: Plan, opened: Opened) -> int:
    """Run until the source ends, or the user stops it; return the exit code."""
    plan = replace(plan, options=limited(plan))
    packet_source = opened.packet_source
    parts = Parts(plan, opened)
    watcher = Watcher(
        packet_source, parts.listeners, plan.options, keylogs=opened.keylogs, **shedding(plan)
    )
    with signals(watcher), served(parts.metrics, opened.bound):
        tell_begin(plan.asked, plan.options)
        watcher.run()
    status = watcher.status()
    tell_end(status, packet_source.names, parts.files)
    if not status.balance.exchanges:
        explain_empty(NO_EXCHANGES, asdict(status.balance))
    return ANSWERED


def shedding(plan: Plan) -> dict[str, Any]:
    """The shedding policy of the watcher under overload."""
    if plan.max_cpu is None and plan.max_memory is None:
        return {}
    from kdissect.live.shedding import Shedder

    return {"shedder": Shedder(plan.max_cpu, plan.max_memory)}


@contextmanager
def served(metrics: "SampledMetrics | None", bound: Bound | None) -> Iterator[None]:
    """Serve metrics inside this context, where requested."""
    server = None if bound is None or metrics is None else start_server(metrics, bound)
    try:
        yield
    finally:
        if server is not None:
            server.close()


def make_files(plan: Plan, directory: Path) -> "RotatedTables":
    """Writer of the tables as rotating files."""
    from kdissect.live.files.rotation import RotatedTables

    return RotatedTables(
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


def make_metrics(labels: int) -> "MetricsListener":
    """Counters for Prometheus."""
    from kdissect.live.counting.metrics import MetricsListener

    return MetricsListener(labels=labels)


def start_server(metrics: "SampledMetrics", bound: Bound) -> Any:
    """Start the metrics server; the result has `close`."""
    from kdissect.live.metrics_server import serve_at

    return serve_at(bound, metrics)


def make_findings(plan: Plan, window_s: float) -> tuple[Any, list[Listener]]:
    """Findings while packets come, and the webhook that gets their events, if there is one."""
    from kdissect.api.live_findings import LiveFindings

    say, hooks = make_events(plan)
    return LiveFindings(window_s, say, is_waiting=not plan.asked.is_live), list(hooks)


def make_shared_findings(plan: Plan, window_s: float, workers: int) -> tuple[Any, list[Any]]:
    """The same of several workers; problems are told on stderr."""
    from kdissect.api.shared_window import SharedFindings

    say, hooks = make_events(plan, tell_problem)
    return SharedFindings(window_s, workers, say=say, fail=tell_problem), hooks


def make_events(
    plan: Plan, fail: Callable[["Problem"], None] = lambda _: None
) -> tuple[Callable[["FindingEvent"], None], list["Webhook"]]:
    """Where events of findings go: lines on stderr, or the JSON documents, and a webhook."""
    says: list[Callable[[FindingEvent], None]] = [] if plan.is_json else [tell_finding]
    hooks: list[Webhook] = []
    if plan.webhook is not None:
        hook = make_hook(plan.webhook, fail)
        hooks.append(hook)
        says.append(lambda event: hook.put({**head("live"), "finding_events": [event.data()]}))

    def say(event: "FindingEvent") -> None:
        for one in says:
            one(event)

    return say, hooks


def make_hook(target: Any, fail: Callable[["Problem"], None]) -> "Webhook":
    """Sender of events."""
    from kdissect.live.webhook import Webhook

    return Webhook(target, fail)


def make_push(
    metrics: "SampledMetrics", endpoint: str, fail: Callable[["Problem"], None] = lambda _: None
) -> "MetricsPush":
    """Sender of metrics as OTLP."""
    from kdissect.live.otlp import MetricsPush

    return MetricsPush(metrics, endpoint, fail)


def tell_problem(problem: "Problem") -> None:
    """Print a problem on stderr."""
    tell(f"{problem.kind}: {problem.message}")


def versioned(snapshot: "Snapshot", findings: Any) -> dict[str, Any]:
    """A snapshot as a JSON document, with the findings if they were asked for."""
    from kdissect.live.counting.lines import json_of

    more = {} if findings is None else findings.take_data()
    return {**head("live"), **json_of(snapshot), **more}


def make_lines(plan: Plan, findings: Any) -> list[Listener]:
    """Lines on stdout, and the meters they show."""
    from kdissect.live.counting.lines import line_of
    from kdissect.live.counting.meters import Meters

    meters = Meters()
    meters.share = plan.asked.share
    text_of = partial(versioned, findings=findings) if plan.is_json else line_of
    return [meters, Lines(meters, plan.every_s, text_of)]
