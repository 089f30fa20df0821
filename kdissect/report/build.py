"""The data of a page, from the rows that a summary pass has kept."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers
from kdissect.analysis.summary.counters import ExchangeColumns
from kdissect.analysis.summary.summary import Summary
from kdissect.report.asked import Asked
from kdissect.report.axis import MS, Axis, axis_of, span
from kdissect.report.columns import (
    CLIENTS,
    CONNECTION_NUMBERS,
    CONNECTION_TEXTS,
    ENDS,
    KEPT,
    LAG,
    OFFSETS,
    TOPICS,
)
from kdissect.report.connections import Connections
from kdissect.report.edges import Groups, Pairs
from kdissect.report.ends import Ends
from kdissect.report.evidence import EXAMINED, evidence_of
from kdissect.report.happenings import Happenings
from kdissect.report.heat import EVERY, HeatMap, part_values
from kdissect.report.lag import MOST_PLACES, Lag
from kdissect.report.losses import Losses
from kdissect.report.partitions import Partitions
from kdissect.report.rows import Exchanges, shown
from kdissect.report.sequences import (
    REBALANCES,
    Slowest,
    not_found,
    of_connections,
    of_findings,
    of_rebalances,
)
from kdissect.report.tables import (
    OF_EDGES,
    OF_GROUPS,
    OF_HAPPENINGS,
    OF_PARTITIONS,
    OF_SUMMARY,
    connection_columns,
    table,
)
from kdissect.report.timeline import Timeline
from kdissect.report.topics import topics_of_exchanges
from kdissect.rules.evidence_rows import ROWS
from kdissect.rules.finding import Finding
from kdissect.tables.spilled_tables import KeptTables
from kdissect.tables.unused_memory import trim
from kdissect.text.human import counted

HEAT_BINS: Final = 150
CONCERNED: Final = 50
MAPPED: Final = 10  # names of each dimension with a heat map of their own


class Scan:
    """Aggregates of the kept rows, in one scan of each table."""

    def __init__(self, kept: KeptTables, summary: Summary) -> None:
        self.kept = kept
        self.ends = Ends(kept.rows_of("connections", ENDS))
        self.topics = topics_of_exchanges(kept.rows_of("partitions", TOPICS))
        first, last = span(summary)
        self.axis = axis_of(first, last)
        self.timeline = Timeline(self.axis)
        self.losses = Losses(self.axis)
        self.connections = Connections()
        self.partitions = Partitions()
        self.lag = Lag(self.axis, kept.rows_of("connections", CLIENTS))
        self.heat = HeatMap(axis_of(first, last, HEAT_BINS), self._mapped(summary))
        self.pairs = {name: Pairs() for name in OF_EDGES}
        self.groups = Groups()

    def run(self, evidence: Sequence[Any]) -> None:
        """Scan all tables; `evidence` looks at each batch, too."""
        for batch in self.kept.rows_of("connections", KEPT["connections"]):
            self.connections.add(batch)
        for batch in self.kept.rows_of("problems"):
            self.losses.add(batch)
        for rows in self.exchanges():
            self._add(rows)
            for one in evidence:
                one.add(rows)
        for batch in self.kept.rows_of("partitions", KEPT["partitions"]):
            if batch.num_rows:
                self.partitions.add(batch)
        if self.lag.is_worth:
            for table, columns in OFFSETS.items():
                offsets = self.kept.rows_of(table, columns)
                self.lag.add_rows(table, offsets, self._exchanges_of_lag)

    def exchanges(self) -> Iterator[Exchanges]:
        """The kept exchanges, a batch at a time."""
        for batch in self.kept.rows_of("exchanges", KEPT["exchanges"]):
            if batch.num_rows:
                yield Exchanges(batch, self.ends)

    def _exchanges_of_lag(self) -> Iterator[pa.RecordBatch]:
        return self.kept.rows_of("exchanges", LAG)

    def _mapped(self, summary: Summary) -> dict[str, list[str]]:
        return {
            EVERY: [],
            "api": [row.api for row in summary.apis[:MAPPED] if row.api_key >= 0],
            "client": [row.client_id for row in summary.clients[:MAPPED]],
            "broker": self.ends.largest(MAPPED),
            "topic": [row.topic for row in summary.topics[:MAPPED]],
        }

    def _add(self, rows: Exchanges) -> None:
        self.timeline.add(rows.batch, rows.starts)
        self.partitions.add_exchanges(rows)
        self.lag.add_exchanges(rows.batch)
        self.losses.add_exchanges(rows)
        columns = ExchangeColumns(rows.batch)
        parts = part_values(rows.batch, columns.latency >= 0)
        self.heat.add(EVERY, np.zeros(len(rows.starts), np.int64), rows.starts, parts)
        for by, column in (("api", "api"), ("client", "client_id"), ("broker", "broker")):
            names, places = rows.names[column]
            self.heat.add(by, self.heat.numbers(by, names)[places], rows.starts, parts)
        size = integers(rows.batch, "request_size", 0) + integers(rows.batch, "response_size", 0)
        measures = columns.latency, columns.is_failed, size
        clients, brokers = rows.names["client_id"], rows.names["broker"]
        self.pairs["clients_brokers"].add(*clients, *brokers, *measures)
        groups = rows.names["group_id"]
        named = np.flatnonzero(np.array([bool(name) for name in groups[0]], bool)[groups[1]])
        if len(named):
            of_named = [measure[named] for measure in measures]
            self.groups.add(groups[0], groups[1][named], *of_named)
            self.pairs["clients_groups"].add(
                clients[0], clients[1][named], groups[0], groups[1][named], *of_named
            )
        self._add_topics(rows, parts, measures)

    def _add_topics(self, rows: Exchanges, parts: Sequence[Any], measures: Sequence[Any]) -> None:
        places, topics = self.topics.of(integers(rows.batch, "exchange_id", -1))
        if not len(places):
            return
        of_topic = self.heat.numbers("topic", self.topics.names)[topics]
        values = [part[places] for part in parts]
        self.heat.add("topic", of_topic, rows.starts[places], values)
        names, brokers = rows.names["broker"]
        self.pairs["brokers_topics"].add(
            names, brokers[places], self.topics.names, topics,
            *(measure[places] for measure in measures),
        )  # fmt: skip


def page_data(
    kept: KeptTables,
    summary: Summary,
    findings: Sequence[Finding],
    document: dict[str, Any],
    happened: Happenings,
    asked: Asked,
) -> dict[str, Any]:
    """The data of a page; `document` is that of --json about the same findings.

    `asked` are sequence diagrams to draw beside those that are drawn anyway.
    """
    scan = Scan(kept, summary)
    evidence, slowest = evidence_of(findings), Slowest(asked.packets)
    scan.run([*evidence, slowest])
    lag = scan.lag.lines()
    trim()  # columns of batches
    wanted = [*slowest.of_packets(), *of_connections(asked.connections)]
    diagrams = [
        *wanted, *of_findings(evidence), *of_rebalances(happened.longest[:REBALANCES]),
        *slowest.diagrams(),
    ]  # fmt: skip
    for rows in scan.exchanges() if diagrams else ():
        for one in diagrams:
            one.add(rows)
    sequences = [one.data() for one in diagrams]
    return {
        "findings": [
            {**one, "concerns": few(one["concerns"]), "next": finding.kind.next} for one, finding in
            zip(document["findings"], findings, strict=True)
        ],
        "totals": document["totals"],
        "network": document["network"],
        "balance": document["balance"],
        "time": {**axis_data(scan.axis), **scan.timeline.data(),
                 "problems": scan.losses.counts.tolist(), "silences": scan.losses.silences()},
        "bands": happened.bands,
        "lag": lag,
        "heat": {**axis_data(scan.heat.axis), "maps": scan.heat.data()},
        "evidence": [{"total": one.total, "rows": list(map(shown, one.rows))} for one in evidence],
        "sequences": [one for one in sequences if one["exchanges"]],
        "tables": tables_of(scan, document, happened),
        "folded": [
            *folded(scan, document, findings), *folded_lag(scan.lag), *not_drawn(happened),
            *not_found(asked, slowest, wanted),
        ],
    }  # fmt: skip


def few(concerns: dict[str, Any]) -> dict[str, Any]:
    """The entities of a finding: at most `CONCERNED` names of a kind, and the number of all.

    >>> few({"clients": ["a"] * 60, "api": "Fetch"})["clients_count"]
    60
    """
    found: dict[str, Any] = {}
    for name, value in concerns.items():
        found[name] = value
        if isinstance(value, list | tuple) and len(value) > CONCERNED:
            found[name] = value[:CONCERNED]
            found[f"{name}_count"] = concerns.get(f"{name}_count", len(value))
    return found


def axis_data(axis: Axis) -> dict[str, Any]:
    """An axis for the page, in ms since 1970."""
    return {"start_ms": axis.start_ns // MS, "width_ms": axis.width_ns // MS, "count": axis.count}


def tables_of(scan: Scan, document: dict[str, Any], happened: Happenings) -> list[dict[str, Any]]:
    """The tables of the page in their order."""
    found = [
        table(name, title, columns, document[name]) for name, (title, columns) in OF_SUMMARY.items()
    ]
    found += [
        table(name, title, columns, scan.pairs[name].rows())
        for name, (title, columns) in OF_EDGES.items()
    ]
    found.append(table("partitions", "Partitions", OF_PARTITIONS, scan.partitions.rows()))
    found.append(table("groups", "Groups", OF_GROUPS, scan.groups.rows(scan.lag.at_end)))
    found += [
        table(f"{kind}s", title, columns, happened.rows[kind])
        for kind, (title, columns) in OF_HAPPENINGS.items()
    ]
    columns = connection_columns(CONNECTION_NUMBERS, CONNECTION_TEXTS)
    return [*found, table("connections", "Connections", columns, scan.connections.rows)]


def folded(scan: Scan, document: dict[str, Any], findings: Sequence[Finding]) -> Iterator[str]:
    """Sentences about the data that the page folds or leaves out."""
    for name in ("clients", "topics"):
        if document[f"{name}_left_out"]:
            yield f"{document[f'{name}_left_out']} {name} with less traffic are in no row"
    for name, pairs in scan.pairs.items():
        if pairs.left_out:
            yield f"{counted(pairs.left_out, 'pair')} of {name.replace('_', ' and ')} left out"
    if scan.groups.left_out:
        yield f"{counted(scan.groups.left_out, 'group')} with fewer exchanges are in no row"
    more = scan.connections.total - len(scan.connections.rows)
    if more > 0:
        yield f"{counted(more, 'connection')} with fewer bytes are in no row"
    if len(findings) > EXAMINED:
        yield f"exchanges are listed for the first {EXAMINED} of {len(findings)} findings"
    if scan.partitions.left_out:
        yield f"{counted(scan.partitions.left_out, 'partition')} with fewer bytes are in no row"
    if scan.partitions.is_cut:
        yield "of some partitions, records count as fetched by the fetch offset of their rows only"
    if scan.topics.left_out:
        yield f"{counted(scan.topics.left_out, 'row')} of partitions are in no topic's heat map"


def folded_lag(lag: Lag) -> Iterator[str]:
    """Sentences about the lag that is not on the page."""
    if lag.groups_left_out:
        yield f"{counted(lag.groups_left_out, 'group')} with less lag are not drawn"
    if lag.shift:
        width = (lag.axis.width_ns << lag.shift) // MS
        yield f"lag is drawn in steps of {width} ms, as it is at the end of each"
    if lag.is_cut:
        yield f"lag is of the first {MOST_PLACES} partitions of groups only"
    if lag.rows_left_out:
        yield f"lag does not include {counted(lag.rows_left_out, 'row')} of partitions"


def not_drawn(happened: Happenings) -> Iterator[str]:
    """Sentences about rebalances and failovers that are not on the page."""
    for kind in happened.more:
        yield f"only the first {ROWS} {kind}s are in the table; the plots show the times of all"
    for reason in happened.trouble:
        yield f"not complete: {reason}"
