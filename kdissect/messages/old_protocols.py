"""Wire formats of Kafka before 0.8, as data.

0.7         every release before 0.8 (0.6 wrote messages of magic 0, else the same)
proposal    the format that the project discussed in 2012, as in its document
trunk-2012  the format of unreleased builds between February and December 2012; no release used it

    frame           int32 size, then `size` bytes: 0.7 request = int16 type, fields;
                    0.7 response = int16 error code, fields; the other two have headers of their own
    string          int16 size, bytes

A 0.7 frame has neither a version nor an id: a response answers the oldest request that gets one.
"""

from typing import Final, NamedTuple

from kdissect.errors import UnknownApi, not_among

# Protocol of an exchange; 0 is that of 0.8 and later.
KAFKA: Final = 0
KAFKA_07: Final = 1
PROPOSAL: Final = 2
TRUNK_2012: Final = 3
# User-visible names, and protocol of a connection.
PROTOCOLS: Final = ("kafka", "0.7", "proposal", "trunk-2012")
CONNECTION_PROTOCOLS: Final = ("kafka", "kafka-0.7", "kafka-proposal", "kafka-trunk-2012")

PRODUCE: Final = 0
FETCH: Final = 1
MULTIFETCH: Final = 2
MULTIPRODUCE: Final = 3
OFFSETS: Final = 4

# Codes in a table cell beside those of today's Kafka: the protocol is above bit 16.
PROTOCOL_SHIFT: Final = 16
CODE_MASK: Final = 0xFFFF

MESSAGE_SET: Final = "message_set"
TO_THE_END: Final = "end"


class Field(NamedTuple):
    """One field: a primitive, a message set, or with `count_type` an array of those or of `fields`.

    `count_type` is that of an array's count, or TO_THE_END for elements up to the frame's end.
    `size` of a message set is the earlier field with its size in bytes, `size_ahead` of which lie
    before it; or TO_THE_END; or "" for no size on the wire.
    """

    name: str
    type: str = ""
    count_type: str = ""
    fields: tuple["Field", ...] = ()
    size: str = ""
    size_ahead: int = 0


class OldApi(NamedTuple):
    """One API; `response` is () if it never has one."""

    key: int
    name: str
    request: tuple[Field, ...]
    response: tuple[Field, ...]


def _set(size: str, ahead: int = 0) -> Field:
    return Field(MESSAGE_SET, MESSAGE_SET, size=size, size_ahead=ahead)


_TYPE: Final = Field("request_type", "int16")
_TOPIC: Final = Field("topic", "string")
_PARTITION: Final = Field("partition", "int32")
_ERROR: Final = Field("error_code", "int16")
_SIZE: Final = Field("message_set_size", "int32")
_PRODUCE: Final = (_TOPIC, _PARTITION, _SIZE, _set("message_set_size"))
_FETCH: Final = (_TOPIC, _PARTITION, Field("offset", "int64"), Field("max_size", "int32"))
_ONE_SET: Final = (Field("size", "int32"), _ERROR, _set("size", 2))  # the size includes the error

KAFKA_07_APIS: Final = (
    OldApi(PRODUCE, "Produce", (_TYPE, *_PRODUCE), ()),
    OldApi(FETCH, "Fetch", (_TYPE, *_FETCH), (_ERROR, _set(TO_THE_END))),
    OldApi(
        MULTIFETCH,
        "MultiFetch",
        (_TYPE, Field("fetches", count_type="int16", fields=_FETCH)),
        (_ERROR, Field("responses", count_type=TO_THE_END, fields=_ONE_SET)),
    ),
    OldApi(
        MULTIPRODUCE,
        "MultiProduce",
        (_TYPE, Field("produces", count_type="int16", fields=_PRODUCE)),
        (),
    ),
    OldApi(
        OFFSETS,
        "Offsets",
        (_TYPE, _TOPIC, _PARTITION, Field("time", "int64"), Field("max_offsets", "int32")),
        (_ERROR, Field("offsets", "int64", count_type="int32")),
    ),
)

_KEY: Final = Field("request_type_id", "int16")
_VERSION: Final = Field("version_id", "int16")
_CORRELATION: Final = Field("correlation_id", "int32")
# The listing of FetchRequest has version and correlation id in reverse order; the table of common
# fields, and all builds of it, have them in this order.
_HEADER: Final = (_KEY, _VERSION, _CORRELATION, Field("client_id", "string"))
_WAITS: Final = (
    Field("replica_id", "int32"), Field("max_wait", "int32"), Field("min_bytes", "int32"),
)  # fmt: skip

_PROPOSED_ANSWER: Final = (_CORRELATION, _VERSION, Field("error_code", "int16"))
_PROPOSED_DATA: Final = Field(
    "data",
    count_type="int16",
    fields=(
        _TOPIC,
        Field("partition_data", count_type="int16", fields=(_PARTITION, _set(""))),
    ),
)
PROPOSAL_APIS: Final = (
    OldApi(
        PRODUCE,
        "Produce",
        (
            *_HEADER,
            Field("required_acks", "int8"),
            Field("ack_timeout", "int32"),
            _PROPOSED_DATA,
        ),
        (
            *_PROPOSED_ANSWER,
            Field("errors", "int16", count_type="int16"),
            Field("offsets", "int64", count_type="int16"),
        ),
    ),
    OldApi(
        FETCH,
        "Fetch",
        (
            *_HEADER,
            *_WAITS,
            Field(
                "topic_offsets",
                count_type="int16",
                fields=(
                    _TOPIC,
                    Field("partitions", "int32", count_type="int16"),
                    Field("offsets", "int32", count_type="int16"),
                ),
            ),
        ),
        (*_PROPOSED_ANSWER, _PROPOSED_DATA),
    ),
)

_TRUNK_ANSWER: Final = (Field("error_code", "int16"), _VERSION, _CORRELATION)
TRUNK_2012_APIS: Final = (
    OldApi(
        PRODUCE,
        "Produce",
        (
            *_HEADER,
            Field("required_acks", "int16"),
            Field("ack_timeout", "int32"),
            Field(
                "data",
                count_type="int32",
                fields=(
                    _TOPIC,
                    Field(
                        "partition_data",
                        count_type="int32",
                        fields=(_PARTITION, _SIZE, _set("message_set_size")),
                    ),
                ),
            ),
        ),
        (
            *_TRUNK_ANSWER,
            Field("errors", "int16", count_type="int32"),
            Field("offsets", "int64", count_type="int32"),
        ),
    ),
    OldApi(
        FETCH,
        "Fetch",
        (
            *_HEADER,
            *_WAITS,
            Field(
                "topic_offsets",
                count_type="int32",
                fields=(
                    _TOPIC,
                    Field("partitions", "int32", count_type="int32"),
                    Field("offsets", "int64", count_type="int32"),
                    Field("fetch_sizes", "int32", count_type="int32"),
                ),
            ),
        ),
        (
            *_TRUNK_ANSWER,
            Field(
                "data",
                count_type="int32",
                fields=(
                    _TOPIC,
                    Field(
                        "partition_data",
                        count_type="int32",
                        fields=(
                            _PARTITION,
                            Field("error_code", "int32"),
                            Field("initial_offset", "int64"),
                            _SIZE,
                            _set("message_set_size"),
                        ),
                    ),
                ),
            ),
        ),
    ),
)

OLD_APIS: Final[dict[int, dict[int, OldApi]]] = {
    KAFKA_07: {api.key: api for api in KAFKA_07_APIS},
    PROPOSAL: {api.key: api for api in PROPOSAL_APIS},
    TRUNK_2012: {api.key: api for api in TRUNK_2012_APIS},
}
# The terms of 0.7's own list of errors; the builds of 2012 kept them.
OLD_ERRORS: Final = {
    -1: "Unknown",
    1: "OffsetOutOfRange",
    2: "InvalidMessage",
    3: "WrongPartition",
    4: "InvalidFetchSize",
}


def find_protocol(name: str) -> int:
    """Number of an old protocol by its name; raises UnknownApi.

    >>> find_protocol("0.7"), find_protocol("trunk-2012")
    (1, 3)
    """
    if name not in PROTOCOLS[1:]:
        raise UnknownApi(not_among(f"no protocol {name!r}", PROTOCOLS[1:]))
    return PROTOCOLS.index(name)


def find_old_api(protocol: int, name_or_key: str | int) -> OldApi:
    """API by its key or a name in any case; raises UnknownApi.

    >>> find_old_api(KAFKA_07, "multifetch").key, find_old_api(KAFKA_07, 4).name
    (2, 'Offsets')
    """
    for api in OLD_APIS[protocol].values():
        if name_or_key == api.key or str(name_or_key).lower() == api.name.lower():
            return api
    raise UnknownApi(f"unknown API {name_or_key!r} of protocol {PROTOCOLS[protocol]}")


def old_api(protocol: int, key: int) -> OldApi | None:
    """API by its key; in the drafts of 2012, which have one header for all, any key has one."""
    api = OLD_APIS[protocol].get(key)
    if api is None and protocol != KAFKA_07:
        api = OldApi(key, f"api-{key}", OLD_APIS[protocol][PRODUCE].request[:4], ())
    return api


def old_api_name(protocol: int, key: int) -> str:
    """Name of a key, or the key itself in words.

    >>> old_api_name(KAFKA_07, 2), old_api_name(PROPOSAL, 9)
    ('MultiFetch', 'api-9')
    """
    api = OLD_APIS[protocol].get(key)
    return api.name if api is not None else f"api-{key}"


def old_error_name(code: int) -> str:
    """Name of an error code, or the code itself in words.

    >>> old_error_name(3), old_error_name(9)
    ('WrongPartition', 'error-9')
    """
    return OLD_ERRORS.get(code, f"error-{code}")
