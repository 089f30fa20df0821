"""The exceptions of kdissect, and `Problem`, the value that an exception becomes at a stage's edge.

KdissectError ├── CaptureError                  the file or interface │   ├── UnknownCaptureFormat
not a capture, or of a kind that is not read │   ├── TruncatedCapture          ends where a header
was due │   └── CapturePermissionError    may not be opened ├── DecodeError                   bytes
disagree with the protocol; has offset, path, data │   ├── Truncated                 a length says
more than is left │   ├── InvalidValue              a value that the protocol does not allow │   ├──
UnknownApi                no layout for this API key and version │   └── CorruptRecords            a
record batch or message set that does not hold together │       └── DecompressionLimit    one that
unpacks to more than the limit ├── DatasetError                  files of a dataset or a directory
of tables are not what they say ├── EncodingError                 bytes of a state, a boundary state
or an answer of a task are no such ├── OutputError                   the destination exists, is
full, or is not writable ├── StoreError                    an object store or HDFS failed; it may
not the next time └── SchemaError                   kdissect's own data files are wrong
"""

from typing import NamedTuple

HEXDUMP_ROW = 16


class KdissectError(Exception):
    """Whatever kdissect raises on purpose."""


class CaptureError(KdissectError):
    """The capture file or interface cannot be read."""


class UnknownCaptureFormat(CaptureError):
    """Not a capture file, or one of a kind that is not read; the text says what it looks like."""


class TruncatedCapture(CaptureError):
    """The file ends inside its own header, so not one packet can be read."""


class CapturePermissionError(CaptureError):
    """The file or interface may not be opened by this user."""


class DecodeError(KdissectError):
    """Bytes disagree with the protocol.

    `offset` counts from the start of `data`; `path` is the field, like
    ``responses[0].partitions[3].records``, and grows at its left end while the error unwinds. Where
    credentials or payload may be in the message, `data` is empty; `size` is that of the message.
    `needed` is the least size of a message in which it would be no error, -1 where none would.
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
        """Put `step` (a field name or ``[3]``) in front of the path; gives the error itself."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{step}{joint}{self.path}"
        return self

    def withhold(self) -> None:
        """Forget the bytes, which nobody should see."""
        self.data = b""

    def __str__(self) -> str:
        place = f" at {self.path}" if self.path else ""
        if self.offset < 0:
            return f"{self.message}{place}"
        return f"{self.message}{place}, byte {self.offset} of {self.size}"

    def hexdump(self) -> str:
        """The bytes around the offset, the culprit underlined; "" when there are none to show."""
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
    """A length or count says more than the bytes that are left."""


class InvalidValue(DecodeError):
    """A value that the protocol does not allow at this place."""


class UnknownApi(DecodeError):
    """There is no layout for this API key and version."""


class CorruptRecords(DecodeError):
    """A record batch or message set does not hold together."""


class DecompressionLimit(CorruptRecords):
    """Compressed records unpack to more than the limit; reading stopped there."""


class DatasetError(KdissectError):
    """A dataset or a directory of tables holds what kdissect does not write there."""


class EncodingError(KdissectError):
    """Bytes are no document of the declared kind: see `kdissect.encoding`."""


class OutputError(KdissectError):
    """The destination exists already, is full, or cannot be written."""


class StoreError(KdissectError):
    """A store did not do what it was asked for: it may well do it the next time."""


class SchemaError(KdissectError):
    """A data file of kdissect's own is wrong."""


class Problem(NamedTuple):
    """Something that did not go right, as a value: one row of the `problems` table.

    `stage` is the package that met it (capture, packets, streams, frames, messages, exchanges,
    tables, live), `kind` a fixed word with hyphens, `bytes` how many bytes it concerns (0 when
    none),
    `connection_id`, `exchange_id` and `packet_number` are -1 where there is none.
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
