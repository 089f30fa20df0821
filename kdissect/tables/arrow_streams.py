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
