"""Summary of a capture: record batches of the tables in, one `Summary` out.

Reads every batch once and keeps counters only, so memory does not grow with the capture: values of
unbounded number (clients, topics, troubled connections) are kept for the `KEPT` largest, the rest
is counted together. Longer than other modules: `Summary` lists every counter of the page.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.brokers import PEER
from kdissect.analysis.grouping import RECORD_ERRORS
from kdissect.analysis.summary.arrow_columns import (
    groups,
    has_text,
    integers,
    is_set,
    names_and_places,
    text_groups,
    texts,
    times,
)
from kdissect.analysis.summary.counters import (
    ApiRow,
    ClientRow,
    ErrorCount,
    ErrorRow,
    ExchangeColumns,
    Spoken,
    TopicRow,
    client_row,
    topic_row,
)
from kdissect.analysis.summary.first_packets import FirstPackets
from kdissect.analysis.summary.largest import Largest, Weights
from kdissect.analysis.summary.moved_records import MovedRecords
from kdissect.analysis.summary.network import (
    KAFKA,
    Network,
    NetworkCounters,
    TroubledConnection,
    both_ways,
)
from kdissect.analysis.tally import Tally

# A client holds 16 bytes for each distinct bin of its latencies, of which there are 7 296.
KEPT: Final = 512
TABLES: Final = ("connections", "exchanges", "partitions", "errors", "problems")


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the whole capture; times in ns since 1970, None without packets."""

    first_time_ns: int | None
    last_time_ns: int | None
    connections: int
    exchanges: int
    outcomes: dict[str, int]
    with_errors: int
    request_bytes: int
    response_bytes: int


@dataclass(frozen=True, slots=True)
class ProtocolRow:
    """The connections of one non-Kafka protocol, and their captured payload in bytes."""

    protocol: str
    connections: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """One kind of problem, with the message of the first one."""

    stage: str
    kind: str
    count: int
    bytes: int
    packet_number: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Output of `kdissect summary`. Rows are ordered largest first."""

    totals: Totals
    protocols: dict[str, int]
    others: list[ProtocolRow]
    software: dict[str, int]
    apis: list[ApiRow]
    clients: list[ClientRow]
    clients_left_out: int
    topics: list[TopicRow]
    topics_left_out: int
    errors: list[ErrorRow]
    network: Network
    troubled: list[TroubledConnection]
    troubled_count: int
    problems: list[ProblemRow]
    balance: dict[str, Any]
    has_replication: bool = False


def summarise(
    batches: Iterable[tuple[str, pa.RecordBatch]], balance: Mapping[str, Any] | None = None
) -> Summary:
    """Summarise (table name, record batch) pairs; `balance` may be filled while they are read."""
    summariser = Summariser()
    for name, batch in batches:
        summariser.add(name, batch)
    return summariser.finish(balance or {})


class Summariser:
    """The counters behind `summarise`, for callers that read intermediate results."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._last: int | None = None
        self._outcomes: dict[str, int] = {}
        # By name: keys and codes differ in Kafka 0.7.
        self._spoken: dict[str, Spoken] = {}
        self._apis = Largest(KEPT)
        self._work = Largest(KEPT)
        self._clients = Largest(KEPT)
        self._topics = Largest(KEPT, bytes_and_partitions)
        self._moved = MovedRecords(self._topics)
        self._errors: dict[str, ErrorCount] = {}
        self._packets = FirstPackets()
        self._has_peers = False
        self._connections = 0
        self._protocols: dict[str, int] = {}
        self._others: dict[str, ProtocolRow] = {}
        self._software = Largest(KEPT)
        self._network = NetworkCounters()
        self._problems: dict[tuple[str, str], ProblemRow] = {}

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Count one batch of the table `table`; unknown tables are ignored."""
        if table == "exchanges":
            self._add_exchanges(batch)
        elif table == "connections":
            self._add_connections(batch)
        elif table == "partitions":
            self._add_partitions(batch)
        elif table == "errors":
            self._add_errors(batch)
        elif table == "problems":
            self._add_problems(batch)

    def finish(self, balance: Mapping[str, Any]) -> Summary:
        """The counts so far."""
        work = {api.name: api.quantiles for api in self._work.rows()}
        apis = [self._spoken[api.name].row(api, work[api.name]) for api in self._apis.rows()]
        apis.sort(key=lambda api: (-api.exchanges, api.api_key))
        first_packets = self._packets.first_by_name()
        self._moved.join()
        errors = sorted(self._errors.values(), key=lambda error: (-error.count, error.code))
        problems = sorted(self._problems.values(), key=lambda row: (-row.count, row.kind))
        return Summary(
            totals=Totals(
                first_time_ns=self._first,
                last_time_ns=self._last,
                connections=self._connections,
                exchanges=sum(self._outcomes.values()),
                outcomes=dict(sorted(self._outcomes.items(), key=lambda item: -item[1])),
                with_errors=sum(api.with_errors for api in apis),
                request_bytes=sum(api.request_bytes for api in apis),
                response_bytes=sum(api.response_bytes for api in apis),
            ),
            protocols=dict(sorted(self._protocols.items(), key=lambda item: -item[1])),
            others=sorted(self._others.values(), key=lambda row: (-row.connections, row.protocol)),
            software={software.name: software.rows for software in self._software.rows()},
            apis=apis,
            clients=[client_row(client) for client in self._clients.rows()],
            clients_left_out=self._clients.left_out,
            topics=[topic_row(topic) for topic in self._topics.rows()],
            topics_left_out=self._topics.left_out,
            has_replication=self._has_peers,
            errors=[error.row(first_packets.get(error.name)) for error in errors],
            network=self._network.network(),
            troubled=self._network.troubled,
            troubled_count=self._network.troubled_count,
            problems=problems,
            balance=dict(balance),
        )

    def _add_exchanges(self, batch: pa.RecordBatch) -> None:
        self._add_times(times(batch, "request_start"), times(batch, "response_end"))
        for outcome, rows in text_groups(batch, "outcome"):
            word = outcome or "unknown"
            self._outcomes[word] = self._outcomes.get(word, 0) + len(rows)
        columns = ExchangeColumns(batch)
        names, places = names_and_places(batch, "api")
        keys, versions = integers(batch, "api_key", -1), integers(batch, "api_version", -1)
        # Not by np.unique, which imports numpy.ma.
        for place, rows in groups(places):
            spoken = self._spoken.setdefault(names[place], Spoken())
            spoken.key = int(keys[rows[0]])
            spoken.versions.update(version for version, _ in groups(versions[rows]))
        self._apis.add(names, places, columns.latency, *columns.measures)
        self._work.add(names, places, columns.work)
        names, places = names_and_places(batch, "client_id")
        self._clients.add(names, places, columns.latency, *columns.measures)
        failed = np.flatnonzero(columns.is_failed)
        packets = integers(batch, "response_packet", -1)
        self._packets.add_exchanges(integers(batch, "exchange_id", -1)[failed], packets[failed])
        self._has_peers = self._has_peers or has_peers(batch, names)
        self._moved.add_exchanges(batch)

    def _add_connections(self, batch: pa.RecordBatch) -> None:
        self._connections += batch.num_rows
        self._add_times(times(batch, "first_time"), times(batch, "last_time"))
        size = both_ways(batch, "payload_bytes")
        for protocol, some in text_groups(batch, "protocol"):
            word = protocol or "unknown"
            self._protocols[word] = self._protocols.get(word, 0) + len(some)
            if not word.startswith(KAFKA):
                row = self._others.get(word) or ProtocolRow(word, 0, 0)
                self._others[word] = replace(
                    row,
                    connections=row.connections + len(some),
                    payload_bytes=row.payload_bytes + int(size[some].sum()),
                )
        versions = texts(batch, "client_software_version")
        for name, rows in text_groups(batch, "client_software_name"):
            for version, some in groups(versions[rows]):
                if name:
                    called = f"{name} {version or ''}".strip()
                    self._software.add([called], np.zeros_like(some), np.full(len(some), -1))
        self._network.add(batch)

    def _add_times(self, first: Any, last: Any) -> None:
        if len(first):
            earliest = int(first.min())
            self._first = earliest if self._first is None else min(earliest, self._first)
        if len(last):
            latest = int(last.max())
            self._last = latest if self._last is None else max(latest, self._last)

    def _add_partitions(self, batch: pa.RecordBatch) -> None:
        self._moved.add_rows(batch, *topics_and_places(batch))

    def _add_errors(self, batch: pa.RecordBatch) -> None:
        # As `kdissect errors`: codes of single records repeat the code of their partition.
        is_counted = ~has_text(batch, "path", RECORD_ERRORS)
        # Not by `batch.filter`, which imports pyarrow.compute.
        named = np.flatnonzero(is_counted & (is_set(batch, "topic") | is_set(batch, "topic_id")))
        names, places = topics_and_places(batch)
        zeros = np.zeros(len(named), np.int64)
        self._topics.add(names, places[named], zeros - 1, zeros, zeros, zeros, zeros, zeros + 1)
        paths, codes = texts(batch, "path"), integers(batch, "code", 0)
        exchanges = integers(batch, "exchange_id", -1)
        for name, all_rows in text_groups(batch, "name"):
            rows = all_rows[is_counted[all_rows]]
            if not len(rows):
                continue
            error = self._errors.get(name or "")
            if error is None:
                concerns = _concerns(batch.slice(int(rows[0]), 1).to_pylist()[0])
                error = ErrorCount(int(codes[rows[0]]), name or "", concerns)
                error.first_exchange_id = int(exchanges[rows[0]])
                self._errors[name or ""] = error
            error.count += len(rows)
            self._packets.add_errors(error.name, exchanges[rows])
            for path, some in groups(paths[rows]):
                error.paths[path or ""] = error.paths.get(path or "", 0) + len(some)

    def _add_problems(self, batch: pa.RecordBatch) -> None:
        size = integers(batch, "bytes", 0)
        kinds, numbers = texts(batch, "kind"), integers(batch, "packet_number", -1)
        messages = texts(batch, "message")
        for stage, rows in text_groups(batch, "stage"):
            for kind, some in groups(kinds[rows]):
                here = rows[some]
                number, message = int(numbers[here[0]]), str(messages[here[0]] or "")
                key = (stage or "", kind or "")
                row = self._problems.get(key) or ProblemRow(
                    *key, 0, 0, number if number >= 0 else None, message
                )
                self._problems[key] = replace(
                    row, count=row.count + len(here), bytes=row.bytes + int(size[here].sum())
                )


def topics_and_places(batch: pa.RecordBatch) -> tuple[list[str], Any]:
    """Topics of rows, or the ids of those whose names are not known, and each row's place."""
    names, places = names_and_places(batch, "topic")
    if "" in names:
        ids, of_id = names_and_places(batch, "topic_id")
        places = np.where(places == names.index(""), len(names) + of_id, places)
        names += [f"<{topic_id}>" if topic_id else "" for topic_id in ids]
    return names, places


_PEER: Final = re.compile(PEER)


def has_peers(batch: pa.RecordBatch, client_ids: Iterable[str]) -> bool:
    """Return whether exchanges are of brokers: `kdissect traffic` has their fetches apart."""
    return bool(is_set(batch, "replica_id").any()) or any(map(_PEER.search, client_ids))


def bytes_and_partitions(topics: Tally) -> Weights:
    return topics.sums[0] + topics.sums[2], topics.rows


def _concerns(row: dict[str, Any]) -> str:
    topic, partition = row.get("topic") or row.get("topic_id"), row.get("partition")
    if topic:
        return f"{topic}-{partition}" if partition is not None else str(topic)
    return str(row.get("group_id") or row.get("resource") or row.get("message") or "")
