"""kdissect: reads captures of Kafka traffic and answers with tables. See docs/ for the rest."""

from typing import TYPE_CHECKING, Any

from kdissect.errors import (
    CaptureError,
    CapturePermissionError,
    CorruptRecords,
    DecodeError,
    InvalidValue,
    KdissectError,
    OutputError,
    Problem,
    SchemaError,
    Truncated,
    TruncatedCapture,
    UnknownApi,
    UnknownCaptureFormat,
)

if TYPE_CHECKING:
    from kdissect.dissected import DissectedExchange, dissect
    from kdissect.messages.bodies import decode
    from kdissect.messages.old_bodies import decode_old
    from kdissect.pipeline import Balance, Options, Reading, Run, read, write

__version__ = "0.1.0"

__all__ = [
    "Balance",
    "CaptureError",
    "CapturePermissionError",
    "CorruptRecords",
    "DecodeError",
    "DissectedExchange",
    "InvalidValue",
    "KdissectError",
    "Options",
    "OutputError",
    "Problem",
    "Reading",
    "Run",
    "SchemaError",
    "Truncated",
    "TruncatedCapture",
    "UnknownApi",
    "UnknownCaptureFormat",
    "decode",
    "decode_old",
    "dissect",
    "read",
    "write",
]

# Names that need Arrow or the schemas are imported when they are used first (PEP 562), so that
# `kdissect --help` and code that only wants the exceptions start at once.
_LAZY = {
    "Balance": "kdissect.pipeline",
    "DissectedExchange": "kdissect.dissected",
    "Options": "kdissect.pipeline",
    "Reading": "kdissect.pipeline",
    "Run": "kdissect.pipeline",
    "decode": "kdissect.messages.bodies",
    "decode_old": "kdissect.messages.old_bodies",
    "dissect": "kdissect.dissected",
    "read": "kdissect.pipeline",
    "write": "kdissect.pipeline",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kdissect' has no attribute {name!r}")
