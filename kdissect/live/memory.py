"""Memory of a long-running process: limits that fit into its memory budget."""

from typing import Final

from kdissect.errors import KdissectError
from kdissect.limits import MIB, Limits

# Python, Arrow and the packages of the screen and the metrics.
PROCESS_BYTES: Final = 160 * MIB
# Rows before they are handed on (`row_sink.ROWS_LIMIT`): packed, taken, as columns and as Arrow
# data.
ROWS_BYTES: Final = 64 * MIB
# A connection with its receivers, and a fetch session of a few partitions.
CONNECTION_BYTES: Final = 4096
# Other bounded memory that does not scale: texts, topic names, comparisons, see docs/memory.md.
CONSTANT_BYTES: Final = 32 * MIB
# A message cut from its stream, and its decompressed form: both exist for a moment.
COPIES: Final = 2
# Representations of a message: request and response, merged, as rows, as columns; or as values,
# also in JSON form, as text, and as a column.
DECODED_COPIES: Final = 6
# Files may hold an eighth of the memory for data on its way to the disk.
FILES_SHARE: Final = 8

# With less, even small requests would not fit together.
LEAST_SCALE: Final = 1 / 32
BYTES_IN_ALL: Final = (
    "reassembly_bytes_in_all",
    "frame_bytes_in_all",
    "search_bytes_in_all",
    "name_wait_bytes",
    "fragment_bytes",
    "waiting_bytes_in_all",
    "tls_bytes_in_all",
    "pending_bytes_in_all",
)
# Bounds of one connection or message, which are not larger than the totals.
BYTES_EACH: Final = ("reassembly_bytes", "unpacked_bytes", "tls_bytes", "decoded_bytes")


def limits_for(
    max_memory: int, ring_bytes: int = 0, limits: Limits | None = None, files_bytes: int = 0
) -> Limits:
    """Limits with which a process stays below `max_memory` bytes, with any traffic.

    `ring_bytes` is the size of the capture buffer, `files_bytes` that of data waiting for the disk.
    All bounds of `limits` shrink by one scale, and none grows. Raises KdissectError if the process
    itself does not fit.
    """
    limits = limits or Limits()
    fixed = fixed_bytes(ring_bytes, files_bytes)
    scale = (max_memory - fixed) / scaled_bytes(limits)
    if scale < LEAST_SCALE:
        least = fixed + int(scaled_bytes(limits) * LEAST_SCALE) + MIB
        raise KdissectError(
            f"{max_memory // MIB} MiB of memory are too few: the process and its buffer of "
            f"{ring_bytes // MIB} MiB need {least // MIB} MiB at least"
        )
    names = ("connections", "active_connections", *BYTES_IN_ALL, *BYTES_EACH)
    found = {name: int(getattr(limits, name) * min(1.0, scale)) for name in names}
    return limits._replace(**found)


def fixed_bytes(ring_bytes: int, files_bytes: int = 0) -> int:
    """Memory of a process that is independent of the limits."""
    return PROCESS_BYTES + ROWS_BYTES + CONSTANT_BYTES + ring_bytes + files_bytes


def files_bytes_for(max_memory: int) -> int:
    """Share of the memory for files, see `RotatedTables`."""
    return max_memory // FILES_SHARE


def scaled_bytes(limits: Limits) -> int:
    """Additional memory that traffic can make a process hold with these limits."""
    in_all = sum(int(getattr(limits, name)) for name in BYTES_IN_ALL)
    # A complete frame is joined from its buffered segments.
    one = limits.frame_bytes_in_all + COPIES * limits.unpacked_bytes
    one += DECODED_COPIES * limits.decoded_bytes
    return in_all + one + limits.unparked_connections * CONNECTION_BYTES
