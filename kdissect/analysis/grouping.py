"""Null-safe joins of grouped rows, and lists of names as one text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.messages.old_protocols import CONNECTION_PROTOCOLS

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Protocols of connections that may be Kafka's; on `UNUSED` ones nothing was sent.
UNUSED: Final = "none"
CONCERNED: Final = (*CONNECTION_PROTOCOLS, "tls", UNUSED)
# APIs that carry records to a broker, and from it.
PRODUCING: Final = ("Produce", "MultiProduce")
CONSUMING: Final = ("Fetch", "MultiFetch", "ShareFetch")
# What fits on a line; the full list is in the tables.
MOST_LISTED: Final = 20
# In `decode_status`: nothing of the direction with the responses was captured.
RESPONSE_NOT_CAPTURED: Final = "response-not-captured"
# In `path`: the code of a single record, which repeats the code of its partition.
RECORD_ERRORS: Final = "record_errors"


def beside(left: "ir.Table", right: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """The rows of `left` with the columns of `right`, with null equal to null."""
    if not by:
        return left.cross_join(right)
    joined = left.left_join(right, [left[name].identical_to(right[name]) for name in by])
    return joined.drop(*[f"{name}_right" for name in by])


def is_failed(rows: "ir.Table") -> "ir.BooleanValue":
    """Return whether a response has an error; the count is null where it was not fully captured."""
    return (rows.error_count > 0) | (rows.error_code != 0)


def is_unanswered(rows: "ir.Table") -> "ir.BooleanValue":
    """Return whether a request got no response though responses of its connection were captured."""
    is_captured = ~rows.decode_status.contains(RESPONSE_NOT_CAPTURED)
    return (rows.outcome == "unanswered") & is_captured.coalesce(True)


def listed(texts: "ir.StringColumn", where: "ir.BooleanValue | None" = None) -> "ir.StringValue":
    """Distinct texts in order, joined: ``a, b``; null when empty."""
    return texts.collect(distinct=True, where=where).sort().join(", ")


def shortly_listed(texts: "ir.StringColumn") -> "ir.StringValue":
    """The same, shortened: ``a, b and 7 more``."""
    import ibis

    names = texts.collect(distinct=True).sort()
    more = names.length() - MOST_LISTED
    tail = ibis.cases((more > 0, " and " + more.cast("string") + " more"), else_="")
    return names[:MOST_LISTED].join(", ") + tail
