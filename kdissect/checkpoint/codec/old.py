"""Values of connections that use a protocol from before 0.8."""

from collections.abc import Sequence
from typing import Final

from kdissect.checkpoint.codec.exchanges import ERRORS, EXCHANGE, PARTITION, STATE
from kdissect.checkpoint.codec.streams import FRAME, PROBLEMS
from kdissect.encoding.classes import Fields, Inline, declare
from kdissect.encoding.kinds import INT_PAIR as PROTOCOL_AND_KEY
from kdissect.encoding.kinds import INTS, TEXT, Converted, Many
from kdissect.errors import EncodingError
from kdissect.exchanges.memory_budget import MemoryBudget
from kdissect.exchanges.old_conversations import OldConversation
from kdissect.exchanges.old_waiting import Asked, OldWaiting
from kdissect.messages.extracted import FieldSink
from kdissect.messages.interner import Interner
from kdissect.messages.old_extracted import OldFields
from kdissect.messages.old_protocols import OLD_APIS, OldApi, old_api

# Set by `OldConversation.move_to`.
NO_SINK: Final = FieldSink(Interner(), {})
NO_MEMORY_BUDGET: Final = MemoryBudget()


def split_api(api: OldApi) -> Sequence[int]:
    """The protocol and the key of an API."""
    for protocol in OLD_APIS:
        if old_api(protocol, api.key) == api:
            return protocol, api.key
    raise EncodingError(f"{api.name} is of no protocol")


def made_api(fields: Sequence[int]) -> OldApi:
    """API of a protocol and a key; raise EncodingError if it does not exist."""
    protocol, key = fields
    api = old_api(protocol, key) if protocol in OLD_APIS else None
    if api is None:
        raise EncodingError(f"protocol {protocol} has no API {key}")
    return api


def made_waiting(asked: Sequence[Asked]) -> OldWaiting:
    """Queue of these requests, in their order."""
    waiting = OldWaiting()
    for one in asked:
        waiting.add(one)
    return waiting


OLD_FACTS: Final = Fields(
    OldFields,
    ints="record_count record_bytes acks max_wait_ms min_bytes error_code missing room "
    "unkept_batches",
    rows=Many(Inline(PARTITION)),
    errors=ERRORS,
    corrupt_records=TEXT,
    left_out={"sink": NO_SINK},
)
ASKED: Final = Fields(
    Asked,
    api=Converted(PROTOCOL_AND_KEY, split_api, made_api),
    exchange=EXCHANGE,
    facts=Inline(OLD_FACTS),
)
OLD_CONVERSATION: Final = Fields(
    OldConversation,
    ints="protocol _pending_limit _last_end _last_steps _gaps",
    bools="_keeps_frames",
    problems=PROBLEMS,
    _state=STATE,
    _waiting=Converted(Many(Inline(ASKED)), OldWaiting.rest, made_waiting),
    _early=Many(FRAME),
    _tries=INTS,
    left_out={"_sink": NO_SINK, "_memory_budget": NO_MEMORY_BUDGET},
)
OLD_VALUES: Final[tuple[Fields, ...]] = (OLD_FACTS, ASKED, OLD_CONVERSATION)
declare(11, OLD_CONVERSATION)
