"""Recognizes other protocols on a connection by unmistakable first bytes.

Bytes come from either side, the first of its direction. A protocol is named only by bytes that no
Kafka message can have: most magics are impossible frame sizes, the rest would decode to nothing.
ZooKeeper and PostgreSQL send int32 sizes as Kafka does, so fields behind them are required too.

    tls         record of a handshake or an alert, SSL 3.0 to TLS 1.3
    http        HTTP/1 request line or status line
    http2       "PRI * HTTP/2.0", with which an HTTP/2 client begins (gRPC too)
    ssh         "SSH-"
    zookeeper   ConnectRequest or ConnectResponse (jute), or a four-letter word alone
    rmi         "JRMI": JMX and other RMI
    postgresql  SSLRequest, GSSENCRequest, CancelRequest, StartupMessage 3.x
    mysql       the server's HandshakeV10
    redis       an array of strings, inline PING, +PONG
    amqp        "AMQP" and a version, 0-8 to 1.0
    mqtt        CONNECT of MQTT 3.1 to 5
    dns         one question or its answer, over TCP
"""

import re
from collections.abc import Callable
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

TLS_HANDSHAKE: Final = 0x16
TLS_ALERT: Final = 0x15
# Bytes examined: more than a DNS name of 255 bytes and its surroundings, or anything else here.
# Messages that must be alone fill less.
LOOK: Final = 300

HTTP_METHODS: Final = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ",
                       b"CONNECT ", b"TRACE ")  # fmt: skip
FOUR_LETTER_WORDS: Final = frozenset(
    b"conf cons crst dump envi gtmk hash icfg imok isro lsnp mntr orst rqld ruok srst srvr stat "
    b"stmk wchc wchp wchs".split()
)
REDIS: Final = re.compile(rb"\*\d{1,7}\r\n\$\d{1,9}\r\n|PING\r\n|\+PONG\r\n")
# Length (3 bytes, little-endian), sequence number 0, protocol 10, version text.
MYSQL: Final = re.compile(rb"[\s\S]{2}\0\0\n\d{1,2}\.\d{1,3}[\x20-\x7e]*\0")
# Fixed header with a length of up to 4 bytes, then the protocol's name and level.
MQTT: Final = re.compile(rb"\x10[\x80-\xff]{0,3}[\0-\x7f]\0(?:\x04MQTT[\x04\x05]|\x06MQIsdp\x03)")
# A protocol header: id and version, of 0-8, 0-9, 0-9-1, or 1.0 (plain, TLS or SASL).
AMQP: Final = re.compile(
    rb"AMQP(?:[\0\x02\x03]\x01\0\0|\0\0\x09\x01|\x01\x01[\0\x08\x09][\0\x08-\x0a])"
)
POSTGRES_PARAMETER: Final = re.compile(
    rb"(?:user|database|application_name|client_encoding|options|replication)\0"
)
POSTGRES_STARTUP: Final = (b"\0\3\0\0", b"\0\3\0\2")
# Size and code of CancelRequest, SSLRequest and GSSENCRequest.
POSTGRES_CODES: Final = (
    bytes.fromhex("0000001004d2162e"), bytes.fromhex("0000000804d2162f"),
    bytes.fromhex("0000000804d21630"),
)  # fmt: skip
# Size of the password, without and with the read-only flag behind it.
ZOOKEEPER_PASSWORD: Final = 16
CONNECT_REQUEST: Final = (44, 45)
CONNECT_RESPONSE: Final = (36, 37)
SMALLEST_DNS: Final = 2 + 12 + 5  # size, header, a question about the root
MAX_ZOOKEEPER_TIMEOUT: Final = 100_000_000  # ms, a day and more; servers allow 40 s by default


def foreign_protocol(data: bytes, start: i64, end: i64) -> str:
    """Protocol of a direction's first bytes, ``data[start:end]``; "" for none of these."""
    if end - start < 4:
        return ""
    is_sized = data[start] == 0 and data[start + 1] == 0
    if is_sized and end - start >= 8 and not may_be_sized(data, start):
        return ""
    first = data[start : min(end, start + LOOK)]
    for name, is_spoken in SIZED_RECOGNISERS if is_sized else RECOGNISERS:
        if is_spoken(first):
            return name
    return ""


def may_be_sized(data: bytes, start: i64) -> bool:
    """Return whether one of `SIZED_RECOGNISERS` may know eight bytes that begin with two zeros.

    False is certain. Nearly all connections begin so, and asking each takes ten times as long.
    """
    size = i64(read_i32_be(data, start))
    code = i64(read_i32_be(data, start + 4))
    if size == 0 or (code == 0 and 36 <= size <= 45):
        return True  # MySQL, ZooKeeper
    return code in (0x30000, 0x30002) or 0x04D2162E <= code <= 0x04D21630  # PostgreSQL


def is_tls(first: bytes) -> bool:
    """Content type, then version 3.0 to 3.4."""
    return first[0] in (TLS_HANDSHAKE, TLS_ALERT) and first[1] == 3 and first[2] <= 4


def is_http(first: bytes) -> bool:
    """A method and a space, or the start of a status line."""
    return first.startswith((*HTTP_METHODS, b"HTTP/1."))


def is_http2(first: bytes) -> bool:
    """The connection preface (RFC 9113, 3.4)."""
    return first.startswith(b"PRI * HTTP/2")


def is_ssh(first: bytes) -> bool:
    """An identification string (RFC 4253, 4.2)."""
    return first.startswith(b"SSH-")


def is_zookeeper(first: bytes) -> bool:
    """The first message of either side, or an administrator's four-letter word.

        ConnectRequest   int32 size, int32 version 0, int64 last zxid, int32 timeout (ms),
                         int64 session, int32 16, 16 bytes [, bool read-only]
        ConnectResponse  int32 size, int32 version 0, int32 timeout (ms), int64 session, int32 16,
                         16 bytes [, bool read-only]

    A request would be Produce v0 with the upper half of the session as the number of topics: 0, or
    of ids that servers give out (time in the middle bits), at least 65 536.
    """
    if first.rstrip(b"\r\n") in FOUR_LETTER_WORDS:
        return True
    size = int.from_bytes(first[:4], "big")
    if size in CONNECT_REQUEST:
        before_session, session_at = 16, 20
    elif size in CONNECT_RESPONSE:
        before_session, session_at = 8, 12
    else:
        return False
    if len(first) != size + 4 or first[4:8] != bytes(4):
        return False
    session = int.from_bytes(first[session_at : session_at + 8], "big")
    timeout = int.from_bytes(first[before_session : before_session + 4], "big")
    password_size = int.from_bytes(first[session_at + 8 : session_at + 12], "big")
    if password_size != ZOOKEEPER_PASSWORD or not 0 < timeout < MAX_ZOOKEEPER_TIMEOUT:
        return False
    is_given_out = session >> 48 > 0
    return is_given_out or (session == 0 and size in CONNECT_REQUEST)


def is_rmi(first: bytes) -> bool:
    """Java's remote calls: magic and version 2, as JMX clients send it."""
    return first.startswith(b"JRMI\0\2")


def is_postgresql(first: bytes) -> bool:
    """A client's first messages; a StartupMessage would be Metadata v0 but for its names."""
    if first[:8] in POSTGRES_CODES:
        return True
    return first[4:8] in POSTGRES_STARTUP and POSTGRES_PARAMETER.match(first, 8) is not None


def is_mysql(first: bytes) -> bool:
    """The greeting of MySQL and MariaDB."""
    return MYSQL.match(first) is not None


def is_redis(first: bytes) -> bool:
    """RESP, as far as it is unmistakable."""
    return REDIS.match(first) is not None


def is_amqp(first: bytes) -> bool:
    """A protocol header, which both sides may send."""
    return AMQP.match(first) is not None


def is_mqtt(first: bytes) -> bool:
    """A client's CONNECT."""
    return MQTT.match(first) is not None


def is_dns(first: bytes) -> bool:
    """One message and nothing else: uint16 size, id, flags, four counts, a question (RFC 1035).

    As a Kafka frame it would have 1 MB or more.
    """
    size = len(first)
    if not SMALLEST_DNS <= size < LOOK or int.from_bytes(first[:2], "big") != size - 2:
        return False
    is_query = first[4] & 0xF8 == 0 and first[6:12] == b"\0\1\0\0\0\0"
    is_answer = first[4] & 0xF8 == 0x80 and first[6:8] == b"\0\1"
    if not (is_query or is_answer):
        return False
    at = 14
    while at < len(first) and 0 < first[at] < 64:
        at += 1 + first[at]
    # The root, a type, and class IN, CH or ANY.
    return first[at : at + 1] == b"\0" and first[at + 3 : at + 5] in (b"\0\1", b"\0\3", b"\0\xff")


RECOGNISERS: Final[tuple[tuple[str, Callable[[bytes], bool]], ...]] = (
    ("tls", is_tls), ("http", is_http), ("http2", is_http2), ("ssh", is_ssh),
    ("zookeeper", is_zookeeper), ("rmi", is_rmi), ("postgresql", is_postgresql),
    ("mysql", is_mysql), ("redis", is_redis), ("amqp", is_amqp), ("mqtt", is_mqtt), ("dns", is_dns),
)  # fmt: skip
# Those that may begin with the size of a Kafka message of less than 64 KB, as nearly all begin.
SIZED_RECOGNISERS: Final = tuple(
    (name, is_spoken)
    for name, is_spoken in RECOGNISERS
    if name in ("zookeeper", "postgresql", "mysql")
)
