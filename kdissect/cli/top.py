"""``kdissect top``: a live screen of client activity and latency."""

from pathlib import Path
from typing import Any

import click

from kdissect.cli import options
from kdissect.cli.environment import require_extra
from kdissect.cli.help import Command
from kdissect.cli.live_options import capturing, parsed_by, seconds_of, topic_names
from kdissect.cli.program import ANSWERED


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
    user: str | None,
    log_directories: tuple[Path, ...],
) -> int:
    """Show the traffic on interfaces (-i), or in SOURCE: a pipe (`-`), a capture, or with
    --follow one that is still being written.

    Nothing is ever sent. `?` shows the keys, `q` quits. Where stdout is no terminal, a line is
    printed each interval instead. Docs: top.md.
    """
    if not asked.sources and not asked.interfaces:
        from kdissect.cli.live_interfaces import show_interfaces
        from kdissect.sources.network_namespaces import inside

        with inside(asked.netns):
            show_interfaces()
        click.echo("  kdissect top -i IFACE")
        return ANSWERED
    from kdissect.cli.top_terminal import has_screen

    modules = ["kdissect.cli.top_run", "kdissect.cli.top_page"]
    is_shown = not once and not is_json and has_screen()
    if is_shown:
        require_extra("kdissect top", "live", "textual")
        modules.append("kdissect.screen.app")
    from kdissect.cli.live_start import Needs, opened
    from kdissect.dissection.options import Options

    made = Options(**settings)
    needs = Needs(
        asked,
        made,
        tuple(modules),
        user=user,
        log_directories=log_directories,
        has_screen=is_shown,
    )
    with opened(needs) as had:
        from kdissect.cli.top_run import Plan, run

        return run(Plan(asked, made, interval_s, window_s, once, is_json), had)


def at_least(least: float, seconds: float) -> float:
    """The duration; raises ValueError if too short."""
    if seconds < least:
        raise ValueError(f"{seconds:g} s is too short; {least:g} s is the least")
    return seconds
