"""``kdissect top``: a live screen of client activity and latency."""

from pathlib import Path
from typing import Any, Final

import click

from kdissect.cli import options
from kdissect.cli.environment import require_extra
from kdissect.cli.help import CAPTURE, Command, option
from kdissect.cli.live.options import (
    capturing,
    parsed_by,
    refuse_workers,
    seconds_of,
    topic_names,
    window_of,
    workers_option,
)
from kdissect.cli.program import ANSWERED

# The first bytes of a recorded session.
SESSION: Final = b'{"schema_version"'


@click.command(
    "top",
    cls=Command,
    short_help="A live screen of client activity and latency.",
    epilog=options.examples(
        "kdissect top                                         the interfaces of this host",
        "kdissect top -i eth0",
        "kdissect top -i any --port 9192 --interval 2s --window 5m",
        "ssh broker tcpdump -U -w - port 9092 | kdissect top -",
        "kdissect top broker.pcapng --window 1h",
        "kdissect top -i eth0 --findings 5m --record night.jsonl",
        "kdissect top night.jsonl",
        "kdissect top -i eth0 --once --window 10s | mail -s kafka ops@example.com",
    ),
)
@capturing
@click.option(
    "--interval",
    "interval_s",
    callback=parsed_by(lambda text: at_least(0.1, seconds_of(text))),
    default="1s",
    metavar="TIME",
    help="Refresh interval.  [default: 1s]",
)
@click.option(
    "--window",
    "window_s",
    callback=parsed_by(lambda text: at_least(1.0, seconds_of(text))),
    default="60s",
    metavar="TIME",
    help="Time window of the numbers.  [default: 60s]",
)
@click.option("--once", is_flag=True, help="Capture for one window, print plain tables, and exit.")
@click.option(
    "--json",
    "is_json",
    is_flag=True,
    help="Print snapshots as JSON, without a screen. One with --once, else one each interval.",
)
@option(
    "--record",
    group=CAPTURE,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record the session to that new file, a snapshot each interval; SOURCE replays it.",
)
@option(
    "--findings",
    "findings_s",
    group=CAPTURE,
    callback=parsed_by(window_of),
    metavar="TIME",
    help="Show findings over a sliding window of that time, like 5m, while they happen.",
)
@workers_option
@options.user
@topic_names
@options.decoding
def command(
    asked: Any,
    settings: options.Settings,
    interval_s: float,
    window_s: float,
    once: bool,
    is_json: bool,
    record: Path | None,
    findings_s: float | None,
    workers: int,
    user: str | None,
    log_directories: tuple[Path, ...],
) -> int:
    """Show the traffic on interfaces (-i), or in SOURCE: a pipe (`-`), a capture, a session that
    was recorded, or with --follow a capture that is still being written.

    Nothing is ever sent. `?` shows the keys, `q` quits. Where stdout is no terminal, a line is
    printed each interval instead. Docs: top.md.
    """
    if not asked.sources and not asked.interfaces:
        from kdissect.cli.live.interfaces import show_interfaces
        from kdissect.sources.network_namespaces import inside

        with inside(asked.netns):
            show_interfaces(settings)
        click.echo("  kdissect top -i IFACE")
        return ANSWERED
    refuse_workers(workers, asked, settings)
    from kdissect.cli.top.terminal import has_screen
    from kdissect.dissection.options import Options

    made = Options(**settings)
    given = (asked, made, interval_s, window_s, once, is_json, record, findings_s)
    is_shown = not once and not is_json and has_screen()
    if is_shown:
        require_extra("kdissect top", "live", "textual")
    if is_session(asked):
        from kdissect.cli.top.replay import replay
        from kdissect.cli.top.run import Plan

        return replay(Plan(*given))
    modules = ["kdissect.cli.top.run", "kdissect.cli.top.page"]
    if is_shown:
        modules.append("kdissect.screen.app")
    if record is not None:
        modules.append("kdissect.live.recorded_sessions")
    if findings_s is not None:
        modules += ["kdissect.api.live_findings", "kdissect.rules.planned"]
    from kdissect.cli.live.start import Needs, opened

    if workers > 1:
        return shared(given, Needs(
            asked, made, worker_modules(findings_s), None, None, user, log_directories,
            has_screen=is_shown, workers=workers, leading=leading_modules(modules, findings_s),
        ))  # fmt: skip
    needs = Needs(
        asked,
        made,
        tuple(modules),
        user=user,
        log_directories=log_directories,
        has_screen=is_shown,
    )
    with opened(needs) as had:
        from kdissect.cli.top.run import Plan, run

        return run(Plan(*given), had)


def is_session(asked: Any) -> bool:
    """Return whether the source is a recorded session."""
    if len(asked.sources) != 1 or asked.follow or asked.sources[0] == "-":
        return False
    path = Path(asked.sources[0])
    try:
        # A pipe with a name would block, and lose what is read here.
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(SESSION)) == SESSION
    except OSError:
        return False  # said when it is opened as a capture


def worker_modules(findings_s: float | None) -> tuple[str, ...]:
    """What each worker imports."""
    more = () if findings_s is None else ("kdissect.api.shared_window",)
    return ("kdissect.cli.live.worker", *more)


def leading_modules(modules: list[str], findings_s: float | None) -> tuple[str, ...]:
    """What the first process imports."""
    more = () if findings_s is None else ("kdissect.api.shared_window",)
    return (*modules, "kdissect.cli.top.leader", *more)


def shared(given: Any, needs: Any) -> int:
    """Run with several workers; returns the exit code of this process, which may be one of them."""
    from kdissect.cli.live.plan import Plan as LivePlan
    from kdissect.cli.live.plan import share_of
    from kdissect.cli.live.start import opened

    asked, made, _, window_s, once, _, _, findings_s = given
    plan = LivePlan(
        asked=asked, options=made, duration_s=window_s if once else None, is_json=True,
        findings_s=findings_s,
    )  # fmt: skip
    share = share_of(plan, needs.workers)
    with opened(needs) as had:
        if had.seat is not None:
            from kdissect.cli.live.worker import work

            return work(share, had, has_metrics=False, workers=needs.workers)
        from kdissect.cli.top.run import Plan, lead

        return lead(Plan(*given), plan, had)


def at_least(least: float, seconds: float) -> float:
    """The duration; raises ValueError if too short."""
    if seconds < least:
        raise ValueError(f"{seconds:g} s is too short; {least:g} s is the least")
    return seconds
