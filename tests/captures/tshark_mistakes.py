"""Errors of tshark 4.0 within its own table of versions, with reasons.

A test shows each of them on a message that kio wrote: tshark shows other values than were written.
Beside these, tshark

- reads two bytes of length for keys and values of old messages (magic 0 and 1, see BYTES), so only
  the first message of a set, up to its codec, is compared;
- shows the times of batches wrong, since it counts their milliseconds in 32 bits: the bytes that it
  says they are in are compared;
- shows the producer's times of records where the broker has set the time (timestamp type 1), which
  is then that of the whole batch (KIP-32): these times are not compared;
- takes raw SASL tokens for requests, and of requests with the same correlation id on a connection
  (re-authentication has few) the first for that of a response: such messages are left out.
"""

from typing import Final, NamedTuple

REQUEST, RESPONSE = False, True


class Mistake(NamedTuple):
    """From the first of its `fields` on, tshark's values of these messages are wrong.

    None: the whole body.
    """

    key: int
    is_response: bool
    versions: range
    fields: tuple[str, ...]
    reason: str


BYTES: Final = (
    "reads two bytes of length where `bytes` has an int32 (BYTES in Kafka's protocol guide), and "
    "mostly says itself that the message does not end where its size says"
)
OFFLINE: Final = (
    "reads offline replicas behind the replicas, which UpdateMetadataRequest has from v4 on"
)
BROKERS_AS_ARRAYS: Final = (
    "reads an assignment's broker ids as lengths of further arrays: of the broker 2147483647 it "
    "says that it is an invalid array length"
)
NULL_CONFIG: Final = (
    "ends at a config without value, and shows neither the configs behind it nor topics"
)
NO_THROTTLE: Final = (
    "reads no throttle time before v3, DeleteTopicsResponse has it from v1 on; what it takes for "
    "the count of topics is that"
)
THROTTLE: Final = (
    "reads a throttle time, which WriteTxnMarkersResponse never has; it shows the count of markers"
)
COMPACT_COUNT: Final = (
    "reads the count of results as a varint before the flexible versions: of an int32 the first "
    "byte, so none; it says itself that bytes are left over"
)
COUNT_AS_BROKER: Final = (
    "reads the count of an assignment's brokers as a broker: of -2147483648 and 2147483647 it "
    "shows 2"
)
NAME_AS_PARTITION: Final = (
    "reads a topic's name as partitions: the end of y日xa, 97 a5 78 61, is shown as -1750763423"
)

NO_TOPICS: Final = (
    "loses its place behind the timeout of reassignment requests: it shows no topics, or empty "
    "names and partition 1667457891, which are the letters cccc of a name"
)
# APIs whose requests tshark loses, so that it reports their responses as missing: it stops inside
# them (see MISTAKES; for Produce, inside old messages).
LOST_REQUESTS: Final = frozenset({0, 6, 19, 37, 43, 45, 46})

MISTAKES: Final = (
    Mistake(6, REQUEST, range(4), ("zk_version",), OFFLINE),
    Mistake(11, REQUEST, range(6), ("protocol_metadata",), BYTES),
    Mistake(11, RESPONSE, range(6), ("member_metadata",), BYTES),
    Mistake(14, REQUEST, range(4), ("member_assignment",), BYTES),
    Mistake(14, RESPONSE, range(4), ("member_assignment",), BYTES),
    Mistake(15, RESPONSE, range(5), ("member_metadata",), BYTES),
    Mistake(19, REQUEST, range(6), ("partition_id",), BROKERS_AS_ARRAYS),
    Mistake(19, REQUEST, range(6), ("config_value",), NULL_CONFIG),
    Mistake(20, RESPONSE, range(1, 3), (), NO_THROTTLE),
    Mistake(27, RESPONSE, range(1), (), THROTTLE),
    Mistake(31, RESPONSE, range(2), ("error",), COMPACT_COUNT),
    Mistake(36, REQUEST, range(2), ("sasl_authentication",), BYTES),
    Mistake(36, RESPONSE, range(2), ("sasl_authentication",), BYTES),
    Mistake(37, REQUEST, range(3), ("node_id",), COUNT_AS_BROKER),
    Mistake(38, RESPONSE, range(2), ("token_hmac",), BYTES),
    Mistake(39, REQUEST, range(2), ("token_hmac",), BYTES),
    Mistake(40, REQUEST, range(2), ("token_hmac",), BYTES),
    Mistake(41, RESPONSE, range(2), ("token_hmac",), BYTES),
    Mistake(43, REQUEST, range(3), ("topic_name", "partition_id"), NAME_AS_PARTITION),
    Mistake(45, REQUEST, range(1), ("topic_name",), NO_TOPICS),
    Mistake(46, REQUEST, range(1), ("topic_name",), NO_TOPICS),
)


def mistakes_in(key: int, version: int, is_response: bool) -> list[Mistake]:
    """Error of tshark in a layout."""
    return [
        mistake
        for mistake in MISTAKES
        if (key, is_response) == (mistake.key, mistake.is_response) and version in mistake.versions
    ]
