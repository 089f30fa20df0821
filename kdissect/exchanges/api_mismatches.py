"""Exchanges that do not fit their API, which may be another one than the header says.

One wrong byte in a header makes a login a Heartbeat: its token then appears as a group. Such an
exchange nearly never decodes to the last byte on both sides. So an exchange that does is trusted,
and one whose request does not decode, but whose response does. For all others

    DOUBTFUL   no text is kept that has control characters, is not UTF-8 or has a ``=``, as tokens
               of SASL, keys, and configs of JAAS do
    HOPELESS   neither side fits: no text of the bodies is kept

Numbers, errors and the row stay. A client id of a request that does not decode is a name without
control characters, or its length is wrong and it is part of the body: the first byte of a body is a
control character, or not UTF-8, in all versions with credentials. What follows it may decode all
the same, so in requests of these APIs no such client id is kept, and nothing of the bodies is.
"""

import re
from typing import Any, Final

from mypy_extensions import i64

from kdissect.exchanges.exchange import (
    ANSWERED,
    INCOMPLETE,
    LEFTOVER,
    MISFIT,
    PENDING,
    REQUEST_FAILED,
    RESPONSE_FAILED,
    UNANSWERED,
    Exchange,
)
from kdissect.messages.opened_records import RECORD_FIELDS
from kdissect.messages.partitions import NO_ID, Partitions
from kdissect.messages.redaction import listed
from kdissect.messages.request_fields import FIELDS
from kdissect.protocol.apis import find_api

BELIEVED: Final = 0
DOUBTFUL: Final = 1
HOPELESS: Final = 2

# The interner writes bytes that are not UTF-8 with backslashes.
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ufffd\ud800-\udfff]")
NOT_PLAIN: Final = re.compile(r"[=\x00-\x1f\x7f-\x9f\\\ufffd\ud800-\udfff]")
MARK: Final = "<withheld,"
# In place of a client id that may reach into a body with credentials.
NO_NAME: Final = "\ufffd"
WITH_CREDENTIALS: Final = frozenset(
    find_api(name).key for name, side in listed() if side == "request" and name != "Produce"
)
TEXT_FIELDS: Final = tuple(field.name for field in FIELDS if field.is_text)


def doubt_of(exchange: Exchange) -> i64:
    """Rate how doubtful the API of an exchange is."""
    if is_overlong(exchange):
        return HOPELESS
    status = exchange.status
    misfit = status & MISFIT
    if misfit == REQUEST_FAILED and exchange.outcome == ANSWERED:
        return BELIEVED
    if misfit & REQUEST_FAILED or misfit == RESPONSE_FAILED | LEFTOVER:
        return HOPELESS
    if misfit or status & INCOMPLETE or exchange.outcome in (UNANSWERED, PENDING):
        return DOUBTFUL
    return BELIEVED


def is_overlong(exchange: Exchange) -> bool:
    """Return whether the client id of a request with credentials may reach into its body."""
    if exchange.api_key not in WITH_CREDENTIALS or exchange.client_id is None:
        return False
    return CONTROL.search(exchange.client_id) is not None


def withhold(exchange: Exchange) -> None:
    """Remove the texts of an exchange that may be something else."""
    doubt = doubt_of(exchange)
    if exchange.client_id is not None and CONTROL.search(exchange.client_id):
        # Where all of it decodes, nothing else tells later that it is doubtful.
        is_odd = exchange.status & MISFIT == 0 and is_overlong(exchange)
        exchange.client_id = NO_NAME if is_odd else None
    if doubt == BELIEVED:
        return
    for name in TEXT_FIELDS:
        if text := getattr(exchange.asked, name):
            setattr(exchange.asked, name, kept(text, doubt))
    if exchange.partitions is not None:
        withhold_topics(exchange.partitions, doubt)
    for error in exchange.errors or ():
        error.message = kept(error.message, doubt)
        error.topic = kept(error.topic, doubt)
        error.group = kept(error.group, doubt)
        error.resource = kept(error.resource, doubt)
        if doubt == HOPELESS:
            error.topic_id = NO_ID


def withhold_topics(partitions: Partitions, doubt: i64) -> None:
    """Remove topic names; the lists are new ones, as other exchanges may share the old."""
    partitions.topics = [kept(topic, doubt) for topic in partitions.topics]
    if doubt == HOPELESS:
        partitions.topic_ids = [NO_ID] * len(partitions.topics)
    else:
        partitions.topic_ids = list(partitions.topic_ids)
    partitions.owns_topics = True


def kept(text: str, doubt: i64) -> str:
    """The text, or "" if it must not be kept."""
    if not text:
        return text
    return "" if doubt == HOPELESS or NOT_PLAIN.search(text) else text


def guarded(body: Any, doubt: i64) -> Any:
    """Return a decoded body with sizes in place of possible credentials; records are unchanged."""
    if doubt == BELIEVED:
        return body
    if isinstance(body, dict):
        if body.keys() >= RECORD_FIELDS:
            return body
        return {name: guarded(field, doubt) for name, field in body.items()}
    if isinstance(body, list):
        return [guarded(item, doubt) for item in body]
    if isinstance(body, bytes) and body:
        return mark(len(body))
    if isinstance(body, str) and body and not kept(body, doubt):
        return mark(len(body.encode("utf-8", "backslashreplace")))
    return body


def blanked(body: Any) -> Any:
    """Return a guarded body with empty texts in place of hidden values."""
    if isinstance(body, dict):
        return {name: blanked(field) for name, field in body.items()}
    if isinstance(body, list):
        return [blanked(item) for item in body]
    return "" if isinstance(body, str) and body.startswith(MARK) else body


def mark(size: int) -> str:
    """Placeholder for a text or bytes."""
    return f"{MARK} {size} bytes>"
