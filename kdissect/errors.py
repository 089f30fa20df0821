"""The exceptions of kdissect, and `Problem`, an exception reported as a value by a stage.

KdissectError
├── CaptureError                  the file or interface
│   ├── UnknownCaptureFormat      not a capture, or an unsupported format
│   ├── TruncatedCapture          ends inside its header
│   └── CapturePermissionError    may not be opened
├── DecodeError                   bytes disagree with the protocol; has offset, path, data
│   ├── Truncated                 a length exceeds the bytes that are left
│   ├── InvalidValue              a value that the protocol does not allow
│   ├── UnknownApi                no layout for this API key and version
│   └── CorruptRecords            an inconsistent record batch or message set
│       └── DecompressionLimit    decompresses to more than the limit
├── InvalidArgument               an unknown name, an invalid condition, options that contradict
│   └── MissingExtra              a feature whose optional packages are not installed
├── DatasetError                  unexpected files in a dataset or a directory of tables
├── EncodingError                 invalid bytes of a state, a boundary state or a task's answer
├── OutputError                   the destination is full or not writable
│   └── OutputExists              the destination exists and may not be overwritten
├── StoreError                    an object store or HDFS failed; a retry may succeed
└── SchemaError                   kdissect's own data files are wrong
"""

from collections.abc import Iterable
from typing import NamedTuple

HEXDUMP_ROW = 16
NO_MORE_MEMORY = "the system gives this process no more memory (ulimit -v)"


class KdissectError(Exception):
    """Base class of all exceptions that kdissect raises deliberately."""


class InvalidArgument(KdissectError):
    """An argument that cannot be: an unknown name, an invalid condition, contradicting options."""


class CaptureError(KdissectError):
    """The capture file or interface cannot be read."""


class UnknownCaptureFormat(CaptureError):
    """Not a capture file, or an unsupported format; the text describes the content."""


class TruncatedCapture(CaptureError):
    """The file ends inside its own header, so no packet can be read."""


class CapturePermissionError(CaptureError):
    """The file or interface may not be opened by this user."""


class DecodeError(KdissectError):
    """Bytes disagree with the protocol.

    `offset` counts from the start of `data`; `path` is the field, like
    ``responses[0].partitions[3].records``, and grows at its left end while the error unwinds. Where
    credentials or payload may be in the message, `data` is empty; `size` is that of the message.
    `needed` is the smallest message size at which it would not be an error, -1 if none is.
    """

    def __init__(
        self,
        message: str,
        *,
        offset: int = -1,
        path: str = "",
        data: bytes = b"",
        length: int = 1,
        needed: int = -1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.path = path
        self.data = data
        self.size = len(data)
        self.length = length
        self.needed = needed

    def within(self, step: str) -> "DecodeError":
        """Prepend `step` (a field name or ``[3]``) to the path; return the error itself."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{step}{joint}{self.path}"
        return self

    def withhold(self) -> None:
        """Drop the bytes, which must not be shown."""
        self.data = b""

    def __str__(self) -> str:
        place = f" at {self.path}" if self.path else ""
        if self.offset < 0:
            return f"{self.message}{place}"
        return f"{self.message}{place}, byte {self.offset} of {self.size}"

    def hexdump(self) -> str:
        """Hex dump around the offset, the offending byte underlined; "" if there are no bytes."""
        if self.offset < 0 or not self.data:
            return ""
        first = max(0, self.offset // HEXDUMP_ROW * HEXDUMP_ROW)
        row = self.data[first : first + HEXDUMP_ROW]
        left, right = row[:8].hex(" "), row[8:].hex(" ")
        at = self.offset - first
        column = 10 + at * 3 + (at >= 8)
        width = max(2, min(self.length, HEXDUMP_ROW - at) * 3 - 1)
        return f"{first:08x}  {left}  {right}\n{' ' * column}{'^' * width} {self.message}"


class Truncated(DecodeError):
    """A length or count exceeds the bytes that are left."""


class InvalidValue(DecodeError):
    """A value that the protocol does not allow at this place."""


class UnknownApi(DecodeError):
    """No layout exists for this API key and version."""


class CorruptRecords(DecodeError):
    """A record batch or message set is inconsistent."""


class DecompressionLimit(CorruptRecords):
    """Compressed records decompress to more than the limit; reading stopped there."""


class DatasetError(KdissectError):
    """A dataset or a directory of tables has content that kdissect does not write."""


class EncodingError(KdissectError):
    """Bytes are not a document of the declared kind: see `kdissect.encoding`."""


class OutputError(KdissectError):
    """The destination exists already, is full, or cannot be written."""


def cannot_write(destination: object, error: OSError) -> OutputError:
    """The error of a destination that the system refused."""
    return OutputError(f"cannot write {destination}: {error.strerror or error}")


def no_such_file(path: object) -> str:
    """Text of an error about a path that does not exist."""
    return f"{path}: no such file"


def not_among(asked: str, choices: Iterable[str]) -> str:
    """Text of an error about a name that is none of the choices."""
    return f"{asked}; there are: {', '.join(choices)}"


def no_layout(message: str, version: int, data: bytes = b"") -> UnknownApi:
    """The error of a message without a layout in this version."""
    return UnknownApi(f"no layout for {message} v{version}", data=data)


def left_over(end: int, data: bytes) -> InvalidValue:
    """The error of bytes after the last field, which ends at `end`."""
    left = len(data) - end
    return InvalidValue(f"{left} bytes left over", offset=end, data=data, length=left)


class OutputExists(OutputError):
    """The destination exists, and may not be overwritten."""


class StoreError(KdissectError):
    """A request to a store failed; a retry may succeed."""


class SchemaError(KdissectError):
    """One of kdissect's own data files is invalid."""


class Problem(NamedTuple):
    """A reported problem as a value: one row of the `problems` table.

    `stage` is the package that reported it (capture, packets, streams, frames, messages, exchanges,
    tables, live), `kind` a fixed word with hyphens, `bytes` the number of bytes affected (0 when
    none), `connection_id`, `exchange_id` and `packet_number` are -1 where they do not apply.
    """

    stage: str
    kind: str
    message: str
    time_ns: int = -1
    packet_number: int = -1
    bytes: int = 0
    connection_id: int = -1
    exchange_id: int = -1
    capture: int = 0
