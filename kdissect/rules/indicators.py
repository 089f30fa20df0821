"""Counters beside those of the summary that show which queries are useful."""

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kdissect.analysis.dimensions import MS, SECOND_NS
from kdissect.analysis.summary.arrow_columns import (
    has_text,
    has_word,
    integers,
    is_set,
    names_and_places,
    reduced,
    text_groups,
    texts,
)
from kdissect.rules.coordinators import Coordinators
from kdissect.rules.ends_and_commits import EndsAndCommits, Offsets
from kdissect.rules.expelled import Expelled
from kdissect.rules.producers import Producers
from kdissect.rules.rejoins import Rejoins

NO_ACKS_FIELD: Final = 9  # acks are -1, 0 or 1
ALL: Final = -1
FAILED: Final = "failed"  # sasl_outcome
UNANSWERED: Final = "unanswered"  # outcome
CAPTURE_ENDED: Final = "capture-end"  # closed_by
# Before the capture's end: so young a request is in flight, and no client gives it up.
IN_FLIGHT_NS: Final = SECOND_NS
MOST_IN_FLIGHT: Final = 10_000
MOST_PARTITIONS: Final = 10_000
BY_BROKER: Final = "broker"  # ended_by
# Kinds of problems → a client with TLS at a broker without, and a client without at one with TLS.
TLS_MISMATCHES: Final = ("tls-refused", "plain-client")
# A response that takes so long to come in, from its first byte to the last, fills a link.
LONG_DOWNLOAD_NS: Final = 50 * MS
# What clients send before they know where to write or read.
LOOKING: Final = (
    "ApiVersions", "Metadata", "FindCoordinator", "SaslHandshake", "SaslAuthenticate",
    "GetTelemetrySubscriptions", "InitProducerId",
)  # fmt: skip
MOST_LOOKERS: Final = 1_000  # clients; with more, those without work are not reported
MOST_MISMATCHES: Final = 10_000  # connections of each kind


class Indicators:
    """Counts the batches of a pass; constant memory for any capture."""

    def __init__(self) -> None:
        self.members = 0  # rows of the table
        self.acks_all = 0  # requests
        self.throttled = 0  # exchanges
        self.transactional = 0  # exchanges
        self.furthest_behind = 0  # records between the end of a fetch and the partition's end
        self.single_batches = 0  # produced, at the most
        self.redelivered = 0  # records, to share groups
        self._offsets = EndsAndCommits()
        self.resets = 0  # connections
        self.silent = 0  # connections without an exchange
        self.failed_logins = 0  # connections
        self.packets_to_broker = 0
        self.packets_to_client = 0
        self.closed_by_broker = 0  # connections with exchanges
        # Kind of TLS mismatch → ids of connections; and candidates for them, by id.
        self._mismatched: dict[str, set[int]] = {kind: set() for kind in TLS_MISMATCHES}
        self._hung_up: dict[int, tuple[str, str]] = {}
        # Produced bytes by topic and partition, and codecs of batches.
        self._produced: dict[tuple[str, int], int] = {}
        self.codecs: set[str] = set()
        self.brokers: set[tuple[str | None, int]] = set()
        # Client id → its answered Metadata requests, until it does anything but look for brokers.
        self._looking: dict[str, int] = {}
        self._at_work: set[str] = set()
        # Client id → time of long downloads in ns, and their bytes.
        self.downloads: dict[str, tuple[int, int]] = {}
        # Unanswered requests of the last second so far: time, connection and API.
        self._young: list[tuple[int, int, str]] = []
        self._open: set[int] = set()  # connections at the end of the capture
        self.coordinators = Coordinators()
        self.expelled = Expelled()
        self.rejoins = Rejoins()
        self.producers = Producers()

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        if table == "exchanges":
            self._add_exchanges(batch)
        elif table == "partitions":
            self._add_partitions(batch)
        elif table == "connections":
            self._add_connections(batch)
        elif table == "members":
            self.members += batch.num_rows
            self.rejoins.add(batch)
            self.expelled.add_members(batch)
        elif table == "problems":
            self._add_problems(batch)
        elif table == "batches":
            self.codecs.update(codec for codec, _ in text_groups(batch, "codec") if codec)

    def in_flight(self, end_ns: int) -> Counter[str]:
        """API → requests that the end of the capture left without a response."""
        return Counter(
            api
            for time_ns, connection, api in self._young
            if time_ns > end_ns - IN_FLIGHT_NS and connection in self._open
        )

    @property
    def lookers(self) -> dict[str, int]:
        """Clients that requested metadata and coordinators and nothing else: Metadata requests."""
        return {name: times for name, times in self._looking.items() if times}

    @property
    def is_one_way(self) -> bool:
        """Return whether packets of one direction alone were captured."""
        return (self.packets_to_broker == 0) != (self.packets_to_client == 0)

    def mismatched(self, kind: str) -> list[tuple[str, str]]:
        """Client address and broker of each connection with such a TLS mismatch, ended by both."""
        ids = self._mismatched[kind]
        return [self._hung_up[one] for one in sorted(ids) if one in self._hung_up]

    def skewed_topics(self, least_bytes: int, least_partitions: int, least_share: float) -> int:
        """Topics with a partition that has a large share of the bytes that were produced."""
        sizes: dict[str, list[int]] = {}
        for (topic, _), size in self._produced.items():
            sizes.setdefault(topic, []).append(size)
        return sum(
            len(of) >= least_partitions
            and sum(of) >= least_bytes
            and max(of) >= least_share * sum(of)
            for of in sizes.values()
        )

    def _add_problems(self, batch: pa.RecordBatch) -> None:
        for kind, rows in text_groups(batch, "kind"):
            found = self._mismatched.get(kind or "")
            if found is not None and len(found) < MOST_MISMATCHES:
                found.update(integers(batch, "connection_id", -1)[rows].tolist())

    def _add_hung_up(self, batch: pa.RecordBatch) -> None:
        """Keep the endpoints of connections that brokers ended before a second exchange."""
        by_broker = has_text(batch, "ended_by", BY_BROKER)
        used = integers(batch, "exchanges", 0)
        self.closed_by_broker += int((by_broker & (used > 0)).sum())
        rows = (by_broker & (used <= 1)).nonzero()[0]
        if not len(rows) or len(self._hung_up) >= 2 * MOST_MISMATCHES:
            return
        addresses = zip(
            texts(batch, "client_ip")[rows], texts(batch, "broker_ip")[rows],
            integers(batch, "broker_port", 0)[rows].tolist(), strict=True,
        )  # fmt: skip
        for id_, (client, broker, port) in zip(
            integers(batch, "connection_id", -1)[rows].tolist(), addresses, strict=True
        ):
            self._hung_up[id_] = (str(client), f"{broker}:{port}")

    def _add_exchanges(self, batch: pa.RecordBatch) -> None:
        self.coordinators.add_exchanges(batch)
        self.expelled.add(batch)
        self.rejoins.add_exchanges(batch)
        self.producers.add_exchanges(batch)
        self._add_young(batch)
        if len(self._at_work) < MOST_LOOKERS:
            self._add_lookers(batch)
        self._add_downloads(batch)
        self.acks_all += int((integers(batch, "acks", NO_ACKS_FIELD) == ALL).sum())
        self.throttled += int((integers(batch, "throttle_ms", 0) > 0).sum())
        self.transactional += int(is_set(batch, "transactional_id").sum())

    def _add_lookers(self, batch: pa.RecordBatch) -> None:
        looks = has_word(batch, "api", LOOKING)
        asks = has_word(batch, "api", ("Metadata",))
        for name, rows in text_groups(batch, "client_id"):
            client = name or ""
            if client in self._at_work:
                continue
            if not looks[rows].all():
                self._looking.pop(client, None)
                if len(self._at_work) < MOST_LOOKERS:
                    self._at_work.add(client)
            elif client in self._looking or len(self._looking) < MOST_LOOKERS:
                self._looking[client] = self._looking.get(client, 0) + int(asks[rows].sum())

    def _add_downloads(self, batch: pa.RecordBatch) -> None:
        times = integers(batch, "download_ns", 0)
        rows = (times >= LONG_DOWNLOAD_NS).nonzero()[0]
        if not len(rows):
            return
        sizes = integers(batch, "response_size", 0)[rows].tolist()
        found = zip(texts(batch, "client_id")[rows], times[rows].tolist(), sizes, strict=True)
        for name, time_ns, size in found:
            client = name or ""
            if client in self.downloads or len(self.downloads) < MOST_LOOKERS:
                all_ns, all_bytes = self.downloads.get(client, (0, 0))
                self.downloads[client] = (all_ns + time_ns, all_bytes + size)

    def _add_young(self, batch: pa.RecordBatch) -> None:
        left = has_text(batch, "outcome", UNANSWERED)
        if not left.any():
            return
        sent, connections = integers(batch, "request_end", 0), integers(batch, "connection_id", -1)
        names = texts(batch, "api")
        young = zip(sent[left].tolist(), connections[left].tolist(), names[left], strict=True)
        self._young += [(time_ns, connection, api or "") for time_ns, connection, api in young]
        if len(self._young) > MOST_IN_FLIGHT:
            latest = max(self._young)[0]
            self._young = [one for one in self._young if one[0] > latest - IN_FLIGHT_NS]
            del self._young[MOST_IN_FLIGHT:]

    def _add_partitions(self, batch: pa.RecordBatch) -> None:
        fetched = is_set(batch, "fetch_offset")
        records = integers(batch, "record_count", 0)
        ends, starts = integers(batch, "high_watermark", -1), integers(batch, "fetch_offset", -1)
        behind = (ends - starts - records)[fetched & (ends >= 0) & (starts >= 0)]
        if len(behind):
            self.furthest_behind = max(self.furthest_behind, int(behind.max()))
        self.redelivered += int(integers(batch, "redelivered_count", 0).sum())
        batches = integers(batch, "batch_count", 0)
        has_single = ~fetched & (records > 0) & (records < 2 * batches)
        self.single_batches += int(batches[has_single].sum())
        self._add_produced(batch, fetched, integers(batch, "record_bytes", 0))
        # The response has the offset of the first produced record.
        written = ~fetched & (integers(batch, "record_bytes", 0) > 0)
        ends = np.maximum(ends, np.where(written, integers(batch, "base_offset", -1), -1))
        self._offsets.add(batch, ends)

    def _add_produced(
        self, batch: pa.RecordBatch, fetched: npt.NDArray[np.bool_], sizes: Offsets
    ) -> None:
        written = ~fetched & (sizes > 0)
        if not written.any():
            return
        partitions = integers(batch, "partition", -1)
        topics, places = names_and_places(batch, "topic")
        rows = written.nonzero()[0]
        found = reduced(np.add, sizes[rows], places[rows], partitions[rows])
        for (place, partition), size in zip(*found, strict=True):
            key = (topics[place], partition)
            if key in self._produced or len(self._produced) < MOST_PARTITIONS:
                self._produced[key] = self._produced.get(key, 0) + size

    @property
    def most_behind(self) -> int:
        """Records between all ends and commits, at the most; more where not known.

        What one group is behind is the sum over its partitions.
        """
        return max(self.furthest_behind, self._offsets.behind())

    def _add_connections(self, batch: pa.RecordBatch) -> None:
        self.coordinators.add_connections(batch)
        self.producers.add_connections(batch)
        self.resets += int(is_set(batch, "rst_by").sum())
        self.silent += int((integers(batch, "exchanges", 0) == 0).sum())
        self._add_hung_up(batch)
        self.packets_to_broker += int(integers(batch, "packets_to_broker", 0).sum())
        self.packets_to_client += int(integers(batch, "packets_to_client", 0).sum())
        for outcome, rows in text_groups(batch, "sasl_outcome"):
            if outcome == FAILED:
                self.failed_logins += len(rows)
        ids = integers(batch, "connection_id", -1)
        for reason, rows in text_groups(batch, "closed_by"):
            if reason == CAPTURE_ENDED and len(self._open) < MOST_IN_FLIGHT:
                self._open.update(ids[rows].tolist())
        ports = integers(batch, "broker_port", 0)
        for address, rows in text_groups(batch, "broker_ip"):
            if len(self.brokers) < 2:  # only used to tell one from several
                self.brokers.update((address, port) for port in set(ports[rows].tolist()))
