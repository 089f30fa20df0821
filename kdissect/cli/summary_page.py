"""A `Summary` as a page for a terminal, and as JSON.

Longer than other modules: sections of the page in their order.
"""

import json
from collections.abc import Sequence
from typing import IO, Final, NamedTuple

from rich.cells import cell_len

from kdissect.analysis.summary.counters import ApiRow, ErrorRow, Quantiles
from kdissect.analysis.summary.summary import ProblemRow, ProtocolRow, Summary
from kdissect.api.summary_data import summary_data
from kdissect.cli.documents import head
from kdissect.cli.findings_page import finding_lines
from kdissect.cli.summary_lines import balance_lines, network_lines
from kdissect.cli.terminal import UNLIMITED, height, styled, width, write_page
from kdissect.rules.finding import Finding
from kdissect.rules.finding_data import command_line
from kdissect.text.escape import escaped, json_safe
from kdissect.text.grid import Column, Grid, folded
from kdissect.text.human import count, counted, cut, duration, share, size, time

BUSIEST: Final = 5  # APIs of the page without --full
FEWEST: Final = 3  # findings of the page without --full, at any height
FULL: Final = "--full"
# Latencies from here on are warm and hot, as on the screen of `top`; not of APIs that wait by
# design: they are answered when there is data, or when the time they ask for is over.
WARM_NS: Final = 100_000_000
HOT_NS: Final = 1_000_000_000
LONG_POLLS: Final = frozenset({"Fetch", "ShareFetch", "JoinGroup", "SyncGroup"})


class Asked(NamedTuple):
    """Selection of a summary for the page: rows of long tables, and the rest with `is_full`.

    `options` are those of reading, which the commands of findings repeat.
    """

    files: Sequence[str]
    options: Sequence[str] = ()
    top: int = 10
    is_full: bool = False


def print_json(
    summary: Summary, found: Sequence[Finding], is_interrupted: bool, file: IO[str], asked: Asked
) -> None:
    """Print findings and summary as one JSON object; times are ISO 8601."""
    content = {**head("summary"), **summary_data(summary, found, asked.files, asked.options)}
    content["is_interrupted"] = is_interrupted
    file.write(json_safe(json.dumps(content, indent=2, ensure_ascii=False)))
    file.write("\n")


def print_page(
    summary: Summary,
    asked: Asked,
    interruption: str = "",
    findings: Sequence[Finding] = (),
    left_out: int = 0,
) -> None:
    """Print the page on stdout: the findings, then the tables; a screen of it, or all.

    `interruption` says what is missing.
    """
    page_width = width()
    head = _folded(_title(summary, asked.files), page_width)
    if interruption:
        head.append(styled(f"interrupted: {interruption}", "bold"))
    rest = _folded(_heading(summary), page_width)
    rest += _full(summary, asked, page_width) if asked.is_full else _short(summary, page_width)
    paragraphs = [finding_lines(one, asked.files, asked.options, page_width) for one in findings]
    if asked.is_full:
        shown = paragraphs
    else:
        more = _more(summary)
        rest += ["", *_pointing(more, _again(asked, FULL), page_width)] if more else []
        # Title and blank lines of the findings, the line about others, and the shell's prompt.
        shown = _fitting(paragraphs, height() - len(head) - len(rest) - 5)
    left_out += len(paragraphs) - len(shown)
    lines = [*head, *_findings(shown, left_out, asked, page_width), *rest]
    write_page(lines)


def _findings(
    paragraphs: Sequence[Sequence[str]], left_out: int, asked: Asked, page_width: int
) -> list[str]:
    if not paragraphs:
        return [""]
    lines = ["", styled("Findings", "bold"), *[line for one in paragraphs for line in one]]
    if left_out:
        hidden = counted(left_out, "more finding")
        lines += _pointing(hidden, _again(asked, "--findings all", FULL), page_width)
    return [*lines, ""]


def _fitting(paragraphs: Sequence[list[str]], room: int) -> list[list[str]]:
    """As many findings as fit, and the worst few in any case."""
    shown: list[list[str]] = []
    for one in paragraphs:
        room -= len(one)
        if room < 0 and len(shown) >= FEWEST:
            break
        shown.append(one)
    return shown


def _again(asked: Asked, *options: str) -> str:
    """The command of the page with further options."""
    if len(asked.files) > 1:
        return " ".join(options)
    return escaped(" ".join([command_line("kdissect", asked.files, asked.options), *options]))


def _short(summary: Summary, page_width: int) -> list[str]:
    """The busiest APIs, and bytes that do not add up."""
    grid = _apis(summary.apis[:BUSIEST])
    if not grid.rows:
        return []
    return ["", styled(_titled("APIs", len(summary.apis), BUSIEST), "bold"),
            *grid.lines(page_width, styled)]  # fmt: skip


def _more(summary: Summary) -> str:
    """Contents of the page with --full."""
    counts = {
        "more API": len(summary.apis) - BUSIEST, "client": len(summary.clients),
        "topic": len(summary.topics), "error": len(summary.errors),
        "degraded connection": summary.troubled_count,
        "kind of problem": len(summary.problems),
    }  # fmt: skip
    parts = [counted(number, noun) for noun, number in counts.items() if number > 0]
    return ", ".join(parts)


def _full(summary: Summary, asked: Asked, page_width: int) -> list[str]:
    """All tables, and the account of the bytes."""
    sections = (
        ("APIs", _apis(summary.apis)),
        (_titled("Clients", len(summary.clients), asked.top), _clients(summary, asked.top)),
        (_topics_title(summary, asked.top), _topics(summary, asked.top)),
        ("Errors", _errors(summary.errors)),
        ("Connections that are not Kafka", _others(summary.others)),
        (_degraded_title(summary), _degraded(summary)),
        ("Problems", _problems(summary.problems)),
    )
    lines: list[str] = []
    for title, grid in sections:
        if grid.rows:
            lines += ["", styled(title, "bold"), *grid.lines(page_width, styled)]
    return [*lines, "", *_folded(balance_lines(summary.balance), page_width)]


def _pointing(text: str, command: str, page_width: int) -> list[str]:
    """A text and the command for it; where both do not fit, the command is a line of its own.

    Like those of findings it is one line, however long, so that it can be pasted.
    """
    whole = f"{text}: {command}"
    if page_width == UNLIMITED or cell_len(whole) <= page_width:
        return [whole]
    return [*_folded([f"{text}:"], page_width), command]


def _folded(lines: Sequence[str], page_width: int) -> list[str]:
    if page_width == UNLIMITED:
        return list(lines)
    return [piece for line in lines for piece in folded(line, page_width)]


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
        f"{counted(balance.get('packets', 0), 'packet')}, "
        f"{size(balance.get('captured_bytes', 0))}; "
        f"{counted(totals.connections, 'connection')}" + (f": {protocols}" if protocols else "")
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
    line = f"{counted(totals.exchanges, 'exchange')}{rate}" + (f": {outcomes}" if outcomes else "")
    sizes = f"requests {size(totals.request_bytes)}, responses {size(totals.response_bytes)}"
    return [line, f"{count(totals.with_errors)} with errors; {sizes}"]


_LATENCY: Final = (Column("p50"), Column("p95", drop=4), Column("p99"), Column("max", drop=3))
_ANSWERED: Final = Column("answered", drop=2)
_SIZES: Final = (Column("requests", drop=2), Column("responses", drop=2))


def _times(latency: Quantiles) -> list[int | None]:
    return [latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.max_ns]


def _latencies(latency: Quantiles) -> list[str]:
    return [duration(ns) for ns in _times(latency)]


def _heats(latency: Quantiles) -> list[str]:
    return [
        "hot" if (ns or 0) >= HOT_NS else "warm" if (ns or 0) >= WARM_NS else ""
        for ns in _times(latency)
    ]


def _hot(number: int) -> str:
    return "hot" if number else ""


def _apis(rows: list[ApiRow]) -> Grid:
    grid = Grid(
        Column("API", is_text=True), Column("versions", is_text=True, drop=1), Column("count"),
        _ANSWERED, Column("errors"), *_LATENCY, Column("long poll", drop=5), *_SIZES,
    )  # fmt: skip
    for row in rows:
        heats = [""] * 4 if row.api in LONG_POLLS else _heats(row.latency)
        grid.add(
            row.api, _ranges(row.versions), count(row.exchanges), count(row.answered),
            count(row.with_errors), *_latencies(row.latency),
            share(row.waited, 1) if row.waited else "", size(row.request_bytes),
            size(row.response_bytes),
            styles=["", "", "", "", _hot(row.with_errors), *heats, "", "", ""],
        )  # fmt: skip
    return grid


def _clients(summary: Summary, top: int) -> Grid:
    grid = Grid(
        Column("client id", is_text=True), Column("count"), _ANSWERED, Column("errors"),
        *_LATENCY, *_SIZES,
    )  # fmt: skip
    for row in summary.clients[:top]:
        grid.add(
            row.client_id or "(none)", count(row.exchanges), count(row.answered),
            count(row.with_errors), *_latencies(row.latency), size(row.request_bytes),
            size(row.response_bytes), styles=["", "", "", _hot(row.with_errors), *[""] * 6],
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
            styles=[*[""] * 5, _hot(row.with_errors)],
        )  # fmt: skip
    return grid


def _errors(rows: list[ErrorRow]) -> Grid:
    grid = Grid(
        Column("error", is_text=True), Column("count"), Column("first packet"),
        Column("example", is_text=True), Column("in", is_text=True, drop=1),
    )  # fmt: skip
    for row in rows:
        packet = "" if row.first_packet is None else row.first_packet
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


def _topics_title(summary: Summary, top: int) -> str:
    title = _titled("Topics", len(summary.topics), top)
    return f"{title}; fetched with replication, see traffic" if summary.has_replication else title


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
