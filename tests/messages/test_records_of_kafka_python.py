"""kafka-python's writers as an oracle: batches of every magic and codec that others made."""

from itertools import product

import pytest
from kafka.record import MemoryRecordsBuilder

from kdissect.messages.records import check_crc, read_records, scan_batches

TIME = 1_600_000_000_000
CODECS = {0: (0, 1, 2), 1: (0, 1, 2, 3), 2: (0, 1, 2, 3, 4)}
CONTENTS = [(b"key-%d" % n if n % 3 else None, b"value" * n if n % 4 else None) for n in range(40)]


@pytest.mark.parametrize(
    ("magic", "codec"), [pair for magic in CODECS for pair in product((magic,), CODECS[magic])]
)
def test_records_of_kafka_python_are_read_back(magic: int, codec: int) -> None:
    headers = [("trace", b"\x01\x02"), ("empty", None)] if magic == 2 else []
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20)
    for n, (key, value) in enumerate(CONTENTS):
        builder.append(TIME + n, key, value, headers)
    builder.close()
    data = builder.buffer()

    scan = scan_batches(data, 0, len(data))
    (batch,) = scan.batches
    assert (batch.magic, batch.codec, batch.size, scan.error) == (magic, codec, len(data), None)
    assert check_crc(data, batch)
    read = read_records(data, batch)
    assert (batch.record_count, read.lost_count, read.error) == (len(CONTENTS), 0, None)
    assert [
        (record.offset, record.time_ms, record.key(), record.value(), record.headers())
        for record in read.records
    ] == [
        (n, -1 if magic == 0 else TIME + n, key, value, [(k.encode(), v) for k, v in headers])
        for n, (key, value) in enumerate(CONTENTS)
    ]


def test_the_producers_state_is_in_the_header() -> None:
    builder = MemoryRecordsBuilder(
        2, 0, 1 << 20, transactional=True, producer_id=99, producer_epoch=4,
        base_sequence=1000,
    )  # fmt: skip
    builder.append(TIME, b"k", b"v", [])
    builder.close()
    (batch,) = scan_batches(builder.buffer(), 0, len(builder.buffer())).batches
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (99, 4, 1000)
    assert (batch.is_transactional, batch.is_control) == (True, False)
