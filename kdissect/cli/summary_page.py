"""A `Summary` as a page for a terminal, and as JSON."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Final

import click

from kdissect.analysis.summary.counters import ApiRow, ErrorRow, Quantiles
from kdissect.analysis.summary.summary import ProblemRow, ProtocolRow, Summary
from kdissect.cli.documents import head
from kdissect.cli.findings_page import finding_data, finding_lines
from kdissect.cli.summary_lines import balance_lines, network_lines
from kdissect.exchanges.connection_state import EXCHANGES_PER_PACKET
from kdissect.rules.finding import PROBLEM, Finding
from kdissect.text.escape import escaped, json_safe
from kdissect.text.grid import HEADER_LINES, PAGE_WIDTH, Column, Grid, folded
from kdissect.text.human import count, cut, cut_all, duration, share, size, time


def print_json(
    summary: Summary, found: Sequence[Finding], is_interrupted: bool, file: IO[str]
) -> None:
    """Print findings and summary as one JSON object; times are ISO 8601."""
    content = {
        **head("summary"),
        "findings": [finding_data(one) for one in found],
        **cut_all(asdict(summary)),
    }
    totals = content["totals"]
    for name in ("first_time", "last_time"):
        ns = totals.pop(f"{name}_ns")
        totals[name] = None if ns is None else time(ns).replace(" ", "T")
    content["is_interrupted"] = is_interrupted
    file.write(json_safe(json.dumps(content, indent=2, ensure_ascii=False)))
    file.write("\n")


def print_page(
    summary: Summary,
    files: Sequence[str],
    top: int,
    is_interrupted: bool = False,
    findings: Sequence[Finding] = (),
    left_out: int = 0,
) -> None:
    """Print the page on stdout, as wide as the terminal: the findings, then the tables."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PAGE_WIDTH
    _print_lines(_title(summary, files), width)
    if is_interrupted:
        _print("interrupted: this is what had been read", bold=True)
    if findings:
        _print("")
        _print("Findings", bold=True)
        _print_findings(finding_lines(findings, left_out, files, width))
        _print("")
    _print_lines(_heading(summary), width)
    sections = (
        ("APIs", _apis(summary.apis)),
        (_titled("Clients", len(summary.clients), top), _clients(summary, top)),
        (_titled("Topics", len(summary.topics), top), _topics(summary, top)),
        ("Errors", _errors(summary.errors)),
        ("Connections that are not Kafka", _others(summary.others)),
        (_degraded_title(summary), _degraded(summary)),
        ("Problems", _problems(summary.problems)),
    )
    for title, grid in sections:
        if grid.rows:
            _print("")
            _print(title, bold=True)
            for number, line in enumerate(grid.lines(width)):
                _print(line, dim=number < HEADER_LINES)
    _print("")
    _print_lines(balance_lines(summary.balance), width)


def _print_lines(lines: Sequence[str], width: int) -> None:
    for line in lines:
        for piece in folded(line, width):
            _print(piece)


def _print(line: str, bold: bool = False, dim: bool = False) -> None:
    """Print a line; on a terminal with styles, in its style."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    if bold or dim:
        line = click.style(line, bold=bold or None, dim=dim or None)
    click.echo(line, color=False if is_plain else None)


def _print_findings(lines: Sequence[str]) -> None:
    for line in lines:
        _print(line, bold=line.startswith(PROBLEM))


def _title(summary: Summary, files: Sequence[str]) -> list[str]:
    totals = summary.totals
    names = ", ".join(escaped(file) for file in files[:3])
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    lines = [f"{names}{more}"]
    if totals.first_time_ns is not None and totals.last_time_ns is not None:
        span = duration(totals.last_time_ns - totals.first_time_ns)
        lines.append(f"{time(totals.first_time_ns)} to {time(totals.last_time_ns)} ({span})")
    return lines


def _heading(summary: Summary) -> list[str]:
    totals, balance = summary.totals, summary.balance
    span = 0.0
    if totals.first_time_ns is not None and totals.last_time_ns is not None:
        span = (totals.last_time_ns - totals.first_time_ns) / 1e9
    protocols = ", ".join(
        f"{count(number)} {escaped(cut(name))}" for name, number in summary.protocols.items()
    )
    lines = [
        f"{count(balance.get('packets', 0))} packets, {size(balance.get('captured_bytes', 0))}; "
        f"{count(totals.connections)} connections" + (f": {protocols}" if protocols else "")
    ]
    lines += _exchange_lines(summary, span)
    if summary.software:
        clients = (
            f"{escaped(cut(name))} ({count(number)})" for name, number in summary.software.items()
        )
        lines.append(f"client software: {', '.join(list(clients)[:6])}")
    return lines + network_lines(summary.network)


def _exchange_lines(summary: Summary, span: float) -> list[str]:
    totals = summary.totals
    outcomes = ", ".join(
        f"{count(number)} {name.replace('_', ' ')}" for name, number in totals.outcomes.items()
    )
    rate = f" ({totals.exchanges / span:,.1f}/s)" if span else ""
    line = f"{count(totals.exchanges)} exchanges{rate}" + (f": {outcomes}" if outcomes else "")
    sizes = f"requests {size(totals.request_bytes)}, responses {size(totals.response_bytes)}"
    return [line, f"{count(totals.with_errors)} with errors; {sizes}"]


_LATENCY: Final = (Column("p50"), Column("p95", drop=4), Column("p99"), Column("max", drop=3))
_SIZES: Final = (Column("requests", drop=2), Column("responses", drop=2))


def _latencies(latency: Quantiles) -> list[str]:
    return [duration(ns) for ns in (latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.max_ns)]


def _apis(rows: list[ApiRow]) -> Grid:
    grid = Grid(
        Column("API", is_text=True), Column("versions", is_text=True, drop=1), Column("count"),
        Column("errors"), *_LATENCY, Column("long poll", drop=5), *_SIZES,
    )  # fmt: skip
    for row in rows:
        grid.add(
            row.api, _ranges(row.versions), count(row.exchanges), count(row.with_errors),
            *_latencies(row.latency), share(row.waited, 1) if row.waited else "",
            size(row.request_bytes), size(row.response_bytes),
        )  # fmt: skip
    return grid


def _clients(summary: Summary, top: int) -> Grid:
    grid = Grid(
        Column("client id", is_text=True), Column("count"), Column("errors"), *_LATENCY, *_SIZES
    )
    for row in summary.clients[:top]:
        grid.add(
            row.client_id or "(none)", count(row.exchanges), count(row.with_errors),
            *_latencies(row.latency), size(row.request_bytes), size(row.response_bytes),
        )  # fmt: skip
    return grid


def _topics(summary: Summary, top: int) -> Grid:
    grid = Grid(
        Column("topic", is_text=True), Column("produced"), Column("records"), Column("fetched"),
        Column("records"), Column("errors"),
    )  # fmt: skip
    for row in summary.topics[:top]:
        grid.add(
            row.topic or "(unknown)", size(row.produced_bytes), count(row.produced_records),
            size(row.fetched_bytes), count(row.fetched_records), count(row.with_errors),
        )  # fmt: skip
    return grid


def _errors(rows: list[ErrorRow]) -> Grid:
    grid = Grid(
        Column("error", is_text=True), Column("count"), Column("first packet"),
        Column("example", is_text=True), Column("in", is_text=True, drop=1),
    )  # fmt: skip
    for row in rows:
        packet = row.first_exchange_id // EXCHANGES_PER_PACKET
        grid.add(f"{row.name} ({row.code})", count(row.count), packet, row.concerns, row.path)
    return grid


def _others(rows: list[ProtocolRow]) -> Grid:
    grid = Grid(Column("protocol", is_text=True), Column("connections"), Column("payload"))
    for row in rows:
        grid.add(row.protocol, count(row.connections), size(row.payload_bytes))
    return grid


def _degraded(summary: Summary) -> Grid:
    grid = Grid(
        Column("client", is_text=True), Column("broker", is_text=True), Column("payload", drop=2),
        Column("rtt", drop=3), Column("retransmits"), Column("missing"), Column("dropped", drop=4),
        Column("skipped"), Column("0-window", drop=1), Column("reset by", is_text=True),
    )  # fmt: skip
    for row in summary.troubled:
        grid.add(
            row.client, row.broker, size(row.payload_bytes), duration(row.round_trip_ns),
            count(row.retransmitted_segments), size(row.missing_bytes),
            size(row.capture_lost_bytes), size(row.skipped_bytes), count(row.zero_windows),
            row.rst_by,
        )  # fmt: skip
    return grid


def _problems(rows: list[ProblemRow]) -> Grid:
    grid = Grid(
        Column("problem", is_text=True), Column("count"), Column("bytes", drop=1),
        Column("packet"), Column("first message", is_text=True),
    )  # fmt: skip
    for row in rows:
        packet = "" if row.packet_number is None else row.packet_number
        name = f"{row.stage}: {row.kind}"
        grid.add(name, count(row.count), size(row.bytes), packet, row.message)
    return grid


def _titled(title: str, found: int, top: int) -> str:
    return f"{title} (top {top} of {count(found)})" if found > top else title


def _degraded_title(summary: Summary) -> str:
    shown, found = len(summary.troubled), summary.troubled_count
    top = f", the worst {shown} shown" if shown < found else ""
    return f"Degraded connections ({count(found)} of {count(summary.totals.connections)}{top})"


def _ranges(versions: Sequence[int]) -> str:
    """Numbers as ranges: 0-3,5."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and runs[-1][1] == version - 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
