"""Records fields → JSON text of their batches, without values in between.

As `opened_records` shows them without payload: a record is its offset, its time and its sizes.
"""

from librt.strings import BytesWriter
from mypy_extensions import i64

from kdissect.messages.batches import Batch, Budget
from kdissect.messages.compression import CODECS
from kdissect.messages.records import (
    SHOWN_BATCH_BYTES,
    check_read_crc,
    read_shown,
    scan_batches,
    shown_cost,
)
from kdissect.protocol.json_writers import BRACE_END, BRACKET, BRACKET_END, write_integer
from kdissect.protocol.readers import NULL, ValueBudget


def write_batches(
    text: BytesWriter,
    data: bytes,
    start: i64,
    end: i64,
    limit: i64,
    budget: Budget,
    value_budget: ValueBudget,
) -> bool:
    """Append the batches of ``data[start:end]``; false where one is not regular.

    Irregular is what is damaged, a control batch, or too large for a budget. Budgets are
    charged as by `decode_records`; `value_budget` is the open one.
    """
    scan = scan_batches(data, start, end, max(value_budget.left // SHOWN_BATCH_BYTES, 0))
    if scan.error is not None or scan.next_start != NULL:
        return False
    value_budget.left -= SHOWN_BATCH_BYTES * len(scan.batches)
    text.append(BRACKET)
    is_first = True
    for batch in scan.batches:
        if not is_first:
            text.write(b", ")
        is_first = False
        if batch.is_control or not write_batch(text, data, batch, limit, budget, value_budget):
            return False
    if scan.partial_size:
        text.write(b'{"partial_size": ' if is_first else b', {"partial_size": ')
        write_integer(text, scan.partial_size)
        text.append(BRACE_END)
    text.append(BRACKET_END)
    return True


def write_batch(
    text: BytesWriter,
    data: bytes,
    batch: Batch,
    limit: i64,
    budget: Budget,
    value_budget: ValueBudget,
) -> bool:
    """Append one batch with its records."""
    scan = read_shown(data, batch, budget, limit)
    if scan.error is not None:
        return False
    text.write(b'{"magic": ')
    write_integer(text, batch.magic)
    if batch.codec < len(CODECS):
        text.write(b', "codec": "')
        text.write(CODECS[batch.codec].encode())
        text.write(b'", "size": ')
    else:
        text.write(b', "codec": ')
        write_integer(text, batch.codec)
        text.write(b', "size": ')
    write_integer(text, batch.size)
    text.write(b', "compressed_size": ')
    write_integer(text, batch.compressed_size)
    text.write(b', "uncompressed_size": ')
    write_integer(text, batch.uncompressed_size)
    text.write(b', "base_offset": ')
    write_integer(text, batch.base_offset)
    text.write(b', "last_offset": ')
    write_integer(text, batch.last_offset)
    text.write(b', "record_count": ')
    write_integer(text, batch.record_count)
    text.write(b', "base_time_ms": ')
    write_integer(text, batch.base_time_ms)
    text.write(b', "max_time_ms": ')
    write_integer(text, batch.max_time_ms)
    text.write(b', "timestamp_type": ')
    write_integer(text, batch.timestamp_type)
    text.write(b', "crc": ')
    write_integer(text, batch.crc)
    text.write(b', "crc_ok": true' if check_read_crc(data, batch, scan) else b', "crc_ok": false')
    if batch.magic == 2:
        text.write(b', "attributes": ')
        write_integer(text, batch.attributes)
        text.write(b', "leader_epoch": ')
        write_integer(text, batch.leader_epoch)
        text.write(b', "producer_id": ')
        write_integer(text, batch.producer_id)
        text.write(b', "producer_epoch": ')
        write_integer(text, batch.producer_epoch)
        text.write(b', "base_sequence": ')
        write_integer(text, batch.base_sequence)
        text.write(b', "is_transactional": ')
        text.write(b"true" if batch.is_transactional else b"false")
        text.write(b', "is_control": false, "has_delete_horizon": ')
        text.write(b"true" if batch.has_delete_horizon else b"false")
    text.write(b', "records": [')
    is_first = True
    for record in scan.records:
        cost = shown_cost(batch, record)
        if not budget.take(1 + record.header_count) or cost > value_budget.left:
            return False
        value_budget.left -= cost
        text.write(b'{"offset": ' if is_first else b', {"offset": ')
        is_first = False
        write_integer(text, record.offset)
        text.write(b', "time_ms": ')
        write_integer(text, record.time_ms)
        text.write(b', "key_size": ')
        write_size(text, record.key_size)
        text.write(b', "value_size": ')
        write_size(text, record.value_size)
        text.write(b', "header_count": ')
        write_integer(text, record.header_count)
        text.append(BRACE_END)
    text.append(BRACKET_END)
    text.append(BRACE_END)
    return True


def write_size(text: BytesWriter, size: i64) -> None:
    """Append a size; null for a negative one."""
    if size < 0:
        text.write(b"null")
    else:
        write_integer(text, size)
