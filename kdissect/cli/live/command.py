"""``kdissect live``: live capture, to rotating files, lines and metrics."""

from pathlib import Path
from typing import Any

import click

from kdissect.cli import options
from kdissect.cli.environment import require_extra
from kdissect.cli.help import CAPTURE, Command, option
from kdissect.cli.live.options import (
    Address,
    Rotation,
    address_of,
    bytes_of,
    capturing,
    parsed_by,
    refuse_workers,
    rotation_of,
    seconds_of,
    topic_names,
    window_of,
    workers_option,
)
from kdissect.cli.program import ANSWERED
from kdissect.errors import InvalidArgument
from kdissect.live.otlp_endpoint import endpoint_of
from kdissect.tables.schemas import DEFAULT_TABLES


@click.command(
    "live",
    cls=Command,
    short_help="Live capture, to rotating files, lines and metrics.",
    epilog=options.examples(
        "kdissect live                                        the interfaces of this host",
        "kdissect live -i eth0 --duration 1m",
        "kdissect live -i any -o tables --rotate 60s --keep 1440 --user kafka",
        "ssh broker tcpdump -U -w - port 9092 | kdissect live - --json",
        "kdissect live 'ring-*.pcap' --follow -o tables --rotate 256MB --disk 10G",
        "kdissect live -i eth0 -o tables --metrics :9123 --max-cpu 50 --max-memory 1G",
    ),
)
@capturing
@click.option(
    "-o",
    "--output",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory for tables as Parquet files.",
)
@click.option(
    "--rotate",
    "rotation",
    callback=parsed_by(rotation_of),
    multiple=True,
    metavar="60s|256MB",
    help="Rotate files after that time or size; repeat for both.  [default: 60s]",
)
@click.option(
    "--keep", type=click.IntRange(1), metavar="N", help="Keep the newest N rotations only."
)
@click.option(
    "--disk",
    callback=parsed_by(bytes_of),
    metavar="SIZE",
    help="Disk space for files; the oldest are removed.",
)
@option(
    "--flush",
    "flush_s",
    group=CAPTURE,
    callback=parsed_by(seconds_of),
    default="5s",
    metavar="TIME",
    help="Flush rows to disk this often: at most this is lost on a crash.  [default: 5s]",
)
@options.making
@click.option(
    "--metrics",
    callback=parsed_by(address_of),
    metavar="[ADDRESS]:PORT",
    help="Serve Prometheus metrics there; default address: loopback.",
)
@options.user
@topic_names
@workers_option
@click.option(
    "--max-cpu",
    type=click.FloatRange(1),
    metavar="PERCENT",
    help="Shed load above this share of one processor. First records, then bodies, then "
    "partitions.",
)
@option(
    "--metrics-labels",
    "labels",
    group=CAPTURE,
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Clients and topics named in metrics; later ones are `other`.",
)
@click.option(
    "--max-memory",
    callback=parsed_by(bytes_of),
    metavar="SIZE",
    help="Shed load above this memory. Without --max, its limits are derived from it.",
)
@click.option(
    "--duration",
    "duration_s",
    callback=parsed_by(seconds_of),
    metavar="TIME",
    help="Stop after this time, like 30s, 10m or 1h.",
)
@click.option(
    "--every",
    "every_s",
    callback=parsed_by(seconds_of),
    default="5s",
    metavar="TIME",
    help="Interval of the printed lines.  [default: 5s]",
)
@option(
    "--findings",
    "findings_s",
    group=CAPTURE,
    callback=parsed_by(window_of),
    metavar="TIME",
    help="Report findings over a sliding window of that time, like 5m: when they begin, get worse, "
    "and are over.",
)
@option(
    "--otlp",
    group=CAPTURE,
    metavar="URL",
    help="Push metrics there, to an OTLP receiver over HTTP, like http://localhost:4318.",
)
@option(
    "--webhook",
    group=CAPTURE,
    metavar="URL",
    help="Send events of --findings there as JSON, by POST; to this machine only.",
)
@option(
    "--webhook-allow",
    group=CAPTURE,
    multiple=True,
    metavar="HOST",
    help="Another host that --webhook may send to; repeatable.",
)
@click.option("--json", "is_json", is_flag=True, help="Print lines as JSON, also with -o.")
@options.decoding
def command(
    asked: Any,
    settings: options.Settings,
    tables: list[str] | None,
    payload: bool,
    rotation: Rotation,
    metrics: Address | None,
    user: str | None,
    log_directories: tuple[Path, ...],
    otlp: str | None,
    webhook: str | None,
    webhook_allow: tuple[str, ...],
    workers: int,
    **rest: Any,
) -> int:
    """Capture on interfaces (-i), or read SOURCE: a pipe (`-`), a capture, or with --follow one
    that is still being written.

    Nothing is ever sent. Without -o, status lines are printed. SIGINT (Ctrl-C) and SIGTERM stop it
    cleanly, SIGHUP rotates files and rereads key logs. Docs: live.md.
    """
    if rest["directory"] is None:
        of_files = {name: rest[name] for name in ("keep", "disk")}
        refuse({"payload": payload, "rotate": rotation != Rotation(), "tables": tables, **of_files})
    target = hook_of(webhook, webhook_allow, rest["findings_s"])
    refuse_workers(workers, asked, settings)
    if otlp is not None:
        otlp = endpoint_of(otlp)
        require_extra("--otlp", "otel", "opentelemetry.sdk.metrics")
        require_extra("--otlp", "otel", "opentelemetry.exporter.otlp.proto.http")
    counting = "--metrics" if metrics is not None else "--otlp"
    has_metrics = metrics is not None or otlp is not None
    if has_metrics:
        require_extra(counting, "live", "prometheus_client")
    if not asked.sources and not asked.interfaces:
        from kdissect.cli.live.interfaces import show_interfaces
        from kdissect.sources.network_namespaces import inside

        with inside(asked.netns):
            show_interfaces(settings)
        return ANSWERED
    from kdissect.cli.live.plan import Plan, share_of
    from kdissect.cli.live.start import Needs, opened
    from kdissect.dissection.options import Options

    chosen = DEFAULT_TABLES if tables is None else tables
    made = Options(tables=chosen, payload=payload, **settings)
    if rotation == Rotation():
        rotation = Rotation(every_s=60)
    plan = Plan(asked=asked, options=made, rotation=rotation, webhook=target, otlp=otlp, **rest)
    share = share_of(plan, workers)
    modules = ["kdissect.cli.live.run"] if workers == 1 else ["kdissect.cli.live.worker"]
    leading = [] if workers == 1 else ["kdissect.cli.live.leader"]
    if metrics is not None:
        leading.append("kdissect.live.metrics_server")
    if has_metrics:
        modules.append("kdissect.live.counting.metrics")
    judging = modules if workers == 1 else leading
    if rest["findings_s"] is not None:
        judging += ["kdissect.api.live_findings", "kdissect.rules.planned"]
    if rest["findings_s"] is not None and workers > 1:
        modules.append("kdissect.api.shared_window")
        leading.append("kdissect.api.shared_window")
    if otlp is not None:
        judging.append("kdissect.live.otlp")
    if target is not None:
        judging.append("kdissect.live.webhook")
    needs = Needs(
        asked, made, tuple(modules), rest["directory"], metrics, user, log_directories,
        workers=workers, leading=tuple(leading),
    )  # fmt: skip
    with opened(needs) as had:
        if had.seat is not None:
            from kdissect.cli.live.worker import work

            return work(share, had, has_metrics, workers)
        if had.workers:
            from kdissect.cli.live.leader import lead

            return lead(plan, had)
        from kdissect.cli.live.run import run

        return run(plan, had)


def hook_of(url: str | None, allowed: tuple[str, ...], findings_s: float | None) -> Any:
    """The target of events, None without one; raises InvalidArgument."""
    if url is None:
        return None
    if findings_s is None:
        raise InvalidArgument("--webhook sends the events of --findings; give --findings 5m, too")
    from kdissect.live.webhook import target_of

    return target_of(url, allowed)


def refuse(of_files: dict[str, Any]) -> None:
    """Reject file options where no files are written."""
    for name, value in of_files.items():
        if value:
            raise click.UsageError(f"--{name} is about files: name their directory, -o DIR")
