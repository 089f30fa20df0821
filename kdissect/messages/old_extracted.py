"""Extracts the fields that tables need from bodies of the protocols before 0.8."""

from typing import Any, Final

from kdissect.messages.batch_counts import BatchCounts
from kdissect.messages.batches import Batch
from kdissect.messages.extracted import BATCH_BYTES, BATCHES_AT_ONCE, ErrorFact, FieldSink
from kdissect.messages.layout_choice import Body
from kdissect.messages.message_sets import scan_set
from kdissect.messages.old_bodies import OldRead, SetSpan
from kdissect.messages.old_protocols import MESSAGE_SET, PROPOSAL
from kdissect.messages.partitions import NO_ID, Partition
from kdissect.protocol.readers import NULL

NO_ERROR_HERE: Final = -1  # in the errors of a produce response of the proposal


class OldFields:
    """Fields of a request and then its response; `rows` are in the order of the request's entries.

    `sink` defines which fields are kept; nothing is added to it. `missing` bytes at the end of the
    frame being read are absent. A set that they would end is counted with them; its messages, of
    which the last may continue in the missing bytes, are not reported.
    """

    def __init__(self, sink: FieldSink) -> None:
        self.sink = sink
        self.rows: list[Partition] = []
        self.errors: list[ErrorFact] = []
        self.record_count: int = NULL
        self.record_bytes: int = NULL
        self.acks: int = NULL
        self.max_wait_ms: int = NULL
        self.min_bytes: int = NULL
        self.error_code: int = NULL
        self.corrupt_records = ""
        self.missing = 0
        # Remaining bytes for batches; and the number that had no room.
        self.room = int(sink.limit)
        self.unkept_batches = 0

    def read_request(self, read: OldRead, data: bytes) -> None:
        """Extract from a request, as far as it could be read."""
        body = read.body
        self.acks = body.get("required_acks", NULL)
        self.max_wait_ms = body.get("max_wait", NULL)
        self.min_bytes = body.get("min_bytes", NULL)
        entries: list[Body] = [body] if "topic" in body else []
        entries += body.get("fetches", []) + body.get("produces", [])
        for entry in entries:
            self._entry(entry, entry, data)
        for topic in body.get("data", []):
            for entry in topic.get("partition_data", []):
                self._entry(topic, entry, data)
        for topic in body.get("topic_offsets", []):
            offsets = topic.get("offsets", [])
            for place, partition in enumerate(topic.get("partitions", [])):
                row = self._row(topic, partition)
                row.fetch_offset = offsets[place] if place < len(offsets) else NULL

    def read_response(self, protocol: int, read: OldRead, data: bytes) -> None:
        """Extract from a response to the request that was read before."""
        body = read.body
        self.error_code = body.get("error_code", NULL)
        only = self.rows[0] if len(self.rows) == 1 else None
        self._error("error_code", self.error_code, only)
        if only is not None:
            only.error_code = self.error_code
        if MESSAGE_SET in body and only is not None:
            self._records(only, body[MESSAGE_SET], data)
        if "responses" in body:
            self._several(body["responses"], data)
        elif "errors" in body:
            self._produced(protocol, body)
        elif "data" in body:
            self._fetched(body["data"], data)
        elif body.get("offsets") and only is not None:
            only.base_offset = body["offsets"][0]

    def _entry(self, topic: Body, entry: Body, data: bytes) -> None:
        if "partition" not in entry:
            return
        row = self._row(topic, entry["partition"])
        row.fetch_offset = entry.get("offset", NULL)
        if MESSAGE_SET in entry:
            self._records(row, entry[MESSAGE_SET], data)

    def _row(self, topic: Body, partition: int) -> Partition:
        row = Partition(topic.get("topic") or "", NO_ID, partition)
        self.rows.append(row)
        return row

    def _several(self, responses: list[Body], data: bytes) -> None:
        """Extract from a MULTIFETCH response: a set for each entry that its request names."""
        for row, entry in zip(self.rows, responses, strict=False):
            row.error_code = entry.get("error_code", NULL)
            self._error("responses[].error_code", row.error_code, row)
            if MESSAGE_SET in entry:
                self._records(row, entry[MESSAGE_SET], data)

    def _produced(self, protocol: int, body: Body) -> None:
        """Errors and offsets in the order of the request's message sets."""
        for row, code in zip(self.rows, body["errors"], strict=False):
            # The proposal writes -1 for none, the builds 0.
            row.error_code = 0 if protocol == PROPOSAL and code == NO_ERROR_HERE else code
            self._error("errors[]", row.error_code, row)
        for row, offset in zip(self.rows, body.get("offsets", []), strict=False):
            row.base_offset = offset

    def _fetched(self, topics: list[Body], data: bytes) -> None:
        """Extract from a Fetch response of 2012, which names its partitions itself."""
        asked = {(row.topic, row.partition): row for row in self.rows}
        for topic in topics:
            for entry in topic.get("partition_data", []):
                if "partition" not in entry:
                    continue
                name = topic.get("topic") or ""
                row = asked.get((name, entry["partition"])) or self._row(topic, entry["partition"])
                row.error_code = entry.get("error_code", NULL)
                self._error("data[].partition_data[].error_code", row.error_code, row)
                if MESSAGE_SET in entry:
                    self._records(row, entry[MESSAGE_SET], data, entry.get("initial_offset"))

    def _error(self, path: str, code: int, row: Partition | None) -> None:
        if code in (NULL, 0):
            return
        fact = ErrorFact(path, code)
        if row is not None:
            fact.topic = row.topic
            fact.partition = row.partition
        self.errors.append(fact)

    def _records(
        self, row: Partition, span: SetSpan, data: bytes, position: Any | None = None
    ) -> None:
        """Count the messages of a set, without decompression."""
        if self.missing and span.end == len(data):
            if span.ends_frame:
                row.record_bytes = span.end - span.start + self.missing
            return
        if position is None:
            position = row.fetch_offset
        counts = BatchCounts()
        kept: list[Batch] = []
        start = span.start
        while start != NULL:
            most = max(self.room // BATCH_BYTES, 0) if start == span.start else BATCHES_AT_ONCE
            scan = scan_set(data, start, span.end, max(position, 0) + start - span.start, most)
            counts.add(scan.batches)
            if scan.error is not None and not self.corrupt_records:
                self.corrupt_records = f"partition {row.partition}: {scan.error}"
            if start == span.start:
                kept = scan.batches
                self.room -= BATCH_BYTES * len(kept)
            else:
                self.unkept_batches += len(scan.batches)
            start = int(scan.next_start)
        row.record_count = int(counts.records)
        row.control_count = int(counts.controls)
        row.record_bytes = span.end - span.start
        row.batch_count = int(counts.batches)
        row.codec = int(counts.codec)
        self.record_count = max(self.record_count, 0) + row.record_count
        self.record_bytes = max(self.record_bytes, 0) + row.record_bytes
        if self.sink.keeps_batches:
            row.batches = kept
        if self.sink.keeps_records and row.record_bytes:
            row.records = data
