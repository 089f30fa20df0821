"""Counters beside those of the summary that show which queries are useful."""

from typing import Final

import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers, is_set, text_groups

NO_ACKS_FIELD: Final = 9  # acks are -1, 0 or 1
ALL: Final = -1
FAILED: Final = "failed"  # sasl_outcome


class Indicators:
    """Counts the batches of a pass; constant memory, whatever the capture holds."""

    def __init__(self) -> None:
        self.members = 0  # rows of the table
        self.acks_all = 0  # requests
        self.throttled = 0  # exchanges
        self.transactional = 0  # exchanges
        self.furthest_behind = 0  # records between the end of a fetch and the partition's end
        self.produced_batches = 0
        self.produced_records = 0
        self.resets = 0  # connections
        self.silent = 0  # connections without an exchange
        self.failed_logins = 0  # connections
        self.brokers: set[tuple[str | None, int]] = set()

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

    def _add_exchanges(self, batch: pa.RecordBatch) -> None:
        self.acks_all += int((integers(batch, "acks", NO_ACKS_FIELD) == ALL).sum())
        self.throttled += int((integers(batch, "throttle_ms", 0) > 0).sum())
        self.transactional += int(is_set(batch, "transactional_id").sum())

    def _add_partitions(self, batch: pa.RecordBatch) -> None:
        fetched = is_set(batch, "fetch_offset")
        records = integers(batch, "record_count", 0)
        ends, starts = integers(batch, "high_watermark", -1), integers(batch, "fetch_offset", -1)
        behind = (ends - starts - records)[fetched & (ends >= 0) & (starts >= 0)]
        if len(behind):
            self.furthest_behind = max(self.furthest_behind, int(behind.max()))
        produced = ~fetched & (records > 0)
        self.produced_records += int(records[produced].sum())
        self.produced_batches += int(integers(batch, "batch_count", 0)[produced].sum())

    def _add_connections(self, batch: pa.RecordBatch) -> None:
        self.resets += int(is_set(batch, "rst_by").sum())
        self.silent += int((integers(batch, "exchanges", 0) == 0).sum())
        for outcome, rows in text_groups(batch, "sasl_outcome"):
            if outcome == FAILED:
                self.failed_logins += len(rows)
        ports = integers(batch, "broker_port", 0)
        for address, rows in text_groups(batch, "broker_ip"):
            if len(self.brokers) < 2:  # only used to tell one from several
                self.brokers.update((address, port) for port in set(ports[rows].tolist()))
