"""kdissect: dissects captures of Kafka traffic into tables. See docs/ for the rest."""

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
from kdissect.system.version import __version__ as __version__

if TYPE_CHECKING:
    from kdissect.api.answers import Answer, analyse
    from kdissect.api.comparison import Comparison, compare
    from kdissect.api.dissected import DissectedExchange, dissect
    from kdissect.api.reading import Reading, read
    from kdissect.api.summary_pass import findings
    from kdissect.api.writing import write
    from kdissect.limits import Limits
    from kdissect.live.watched import Watched, watch
    from kdissect.messages.bodies import decode, decode_request, decode_response
    from kdissect.messages.named_messages import decode_message
    from kdissect.messages.old_bodies import decode_old
    from kdissect.messages.records import decode_records
    from kdissect.pipeline import Balance, Options, Run
    from kdissect.rules.finding import Finding
    from kdissect.slicing.slices import write_slice

__all__ = [
    "Answer",
    "Balance",
    "CaptureError",
    "CapturePermissionError",
    "Comparison",
    "CorruptRecords",
    "DecodeError",
    "DissectedExchange",
    "Finding",
    "InvalidValue",
    "KdissectError",
    "Limits",
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
    "Watched",
    "analyse",
    "compare",
    "decode",
    "decode_message",
    "decode_old",
    "decode_records",
    "decode_request",
    "decode_response",
    "dissect",
    "findings",
    "read",
    "watch",
    "write",
    "write_slice",
]

# Names that need Arrow or the schemas are imported on first use (PEP 562), so that `kdissect
# --help` and code that only uses the exceptions start at once.
_LAZY = {
    "Answer": "kdissect.api.answers",
    "analyse": "kdissect.api.answers",
    "Balance": "kdissect.pipeline",
    "Comparison": "kdissect.api.comparison",
    "compare": "kdissect.api.comparison",
    "DissectedExchange": "kdissect.api.dissected",
    "Finding": "kdissect.rules.finding",
    "Limits": "kdissect.limits",
    "Options": "kdissect.pipeline",
    "Reading": "kdissect.api.reading",
    "Run": "kdissect.pipeline",
    "decode": "kdissect.messages.bodies",
    "decode_message": "kdissect.messages.named_messages",
    "decode_records": "kdissect.messages.records",
    "decode_request": "kdissect.messages.bodies",
    "decode_response": "kdissect.messages.bodies",
    "decode_old": "kdissect.messages.old_bodies",
    "dissect": "kdissect.api.dissected",
    "findings": "kdissect.api.summary_pass",
    "read": "kdissect.api.reading",
    "Watched": "kdissect.live.watched",
    "watch": "kdissect.live.watched",
    "write": "kdissect.api.writing",
    "write_slice": "kdissect.slicing.slices",
}


def __dir__() -> list[str]:
    """List the names of the library, also those that are imported on first use."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kdissect' has no attribute {name!r}")
