"""Messages that are not bodies of an API, by name: embedded messages, and Kafka's own records."""

from functools import cache

from kdissect.errors import UnknownApi
from kdissect.messages import layout_choice
from kdissect.messages.layout_choice import LAYOUT, Body
from kdissect.messages.redaction import redacted, withholding
from kdissect.protocol.notation import read_index


def decode_message(name: str, version: int, data: bytes) -> Body:
    """Decode a message of `message_names` from all of `data`. Raises DecodeError.

    These include headers (RequestHeader, ResponseHeader), messages between group members
    (ConsumerProtocolSubscription), control records (EndTxnMarker) and the records of Kafka's own
    topics (TopicRecord). Their type and version on the wire are not part of them: the two bytes in
    front of coordinators' keys and values, the three numbers in front of KRaft records. The value
    is as returned by `kdissect.decode`, credentials redacted.

    >>> decode_message("ControlRecordKey", 0, bytes([0, 0, 0, 1]))
    {'version': 0, 'type': 1}
    """
    known = _files().get(name)
    if known is None:
        raise UnknownApi(f"unknown message {name!r}", data=data)
    file, newest_name = known
    with withholding(newest_name, LAYOUT):
        values = layout_choice.decode_message(file, newest_name, version, data)
    return redacted(newest_name, LAYOUT, values)


def message_names() -> tuple[str, ...]:
    """Names that `decode_message` accepts, without former ones."""
    return tuple(row[0] for row in read_index("messages"))


@cache
def _files() -> dict[str, tuple[str, str]]:
    """File and newest name of each message by its current and former names."""
    rows = list(read_index("messages"))
    former = {name: (row[1], row[0]) for row in rows if row[6] for name in row[6].split(",")}
    return former | {row[0]: (row[1], row[0]) for row in rows}
