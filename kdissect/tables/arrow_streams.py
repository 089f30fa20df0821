"""Record batches as bytes of an Arrow IPC stream."""

from collections.abc import Iterable

import pyarrow as pa


def stream_bytes(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], compression: str | None = None
) -> bytes:
    """Batches of one schema as an Arrow IPC stream; `compression` is ``lz4`` or ``zstd``."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory of their own, with their dictionaries."""
    (own,) = pa.ipc.open_stream(stream_bytes(batch.schema, [batch]))
    return own
