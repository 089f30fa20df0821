"""For each limit, a capture that reaches it when small, and the results with and without it.

The default leaves all of it whole. A new field of `Limits` needs a case here.
"""

import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from tests.capture.writers import Captured, make_pcap
from tests.conversation import Conversation, conversation
from tests.exchange_builders import ORDERS, request, response
from tests.messages.record_builders import GZIP, make_batch, make_record
from tests.packets.builders import make_ethernet, make_ipv4

SECOND = 1_000_000_000
MIB = 1 << 20
ODD = b"\0\1\2"  # no body of anything


class Case(NamedTuple):
    """Outcomes of the exchanges, in the order of their packets: by default, and with the limit.

    `kinds` are those of all problems reported with the limit.
    """

    capture: Callable[[], bytes]
    limit: int
    roomy: Sequence[str | None]
    small: Sequence[str | None]
    kinds: list[str]


def heartbeat(number: int, group_id: str = "workers") -> bytes:
    return request("Heartbeat", 0, number, group_id=group_id, member_id="m")


def beaten(number: int) -> bytes:
    return response("Heartbeat", 0, number)


def asked(*numbers: int) -> Conversation:
    talk = conversation()
    for number in numbers:
        talk = talk.client(heartbeat(number)).broker(beaten(number))
    return talk


def with_large(group_id_size: int) -> Conversation:
    """Three exchanges; the second request has a long group id."""
    talk = asked(1).client(heartbeat(2, "x" * group_id_size)).broker(beaten(2))
    return talk.client(heartbeat(3)).broker(beaten(3))


def holed(count: int) -> Conversation:
    """Requests around one that was lost, with nothing acknowledged."""
    talk = conversation(has_acks=False)
    for number in range(1, 2 + count):
        talk = talk.client(heartbeat(number))
    return talk.lose(5).broker(beaten(1))


def of_client(port: int, talk: Conversation, later_ns: int) -> list[Captured]:
    """A conversation of a client's port other than 50000, and later."""
    moved = []
    for one in talk.captured():
        at = 34 if one.data[36:38] == b"\x23\x84" else 36  # behind Ethernet and IPv4
        data = one.data[:at] + struct.pack(">H", port) + one.data[at + 2 :]
        moved.append(one._replace(data=data, time_ns=one.time_ns + later_ns))
    return moved


def pcap(packets: Iterable[Captured]) -> bytes:
    return make_pcap(sorted(packets, key=lambda one: one.time_ns), magic=0xA1B23C4D)


def four_connections() -> bytes:
    """In turn; then the first continues."""
    talk = asked(1, 2)
    half = len(talk.packets_sent) - 4
    first = talk.captured()
    later = [one._replace(time_ns=one.time_ns + 4 * SECOND) for one in first[half:]]
    others = [of_client(50_000 + n, asked(1), n * SECOND) for n in (1, 2, 3)]
    return pcap([*first[:half], *later, *others[0], *others[1], *others[2]])


def from_the_middle() -> bytes:
    """From the middle on: a request that shows itself when it was seen whole, and another."""
    talk = with_large(5000).start_late(3 + 4)
    return talk.pcap()


def produced_packed() -> bytes:
    log = make_batch([make_record(None, bytes(4000))], codec=GZIP)
    topic = {"name": "orders", "partition_data": [{"index": 3, "records": log}]}
    talk = conversation().client(request("Produce", 7, 1, acks=1, topic_data=[topic]))
    return talk.broker(response("Produce", 7, 1)).pcap()


def produced_zeros(size: int, times: int, plain: int = 0) -> bytes:
    """Requests with one record of zeros each, behind one of `plain` bytes: gzip packs 1000 to 1."""
    logs = [make_batch([make_record(None, bytes(plain))])]
    logs += [make_batch([make_record(None, bytes(size))], codec=GZIP)] * times
    talk = conversation()
    for number, log in enumerate(logs):
        topic = {"name": "orders", "partition_data": [{"index": 3, "records": log}]}
        talk = talk.client(request("Produce", 7, number, acks=1, topic_data=[topic]))
        talk = talk.broker(response("Produce", 7, number))
    return talk.pcap()


def many_partitions(count: int) -> bytes:
    """A request that names many partitions of a topic."""
    partitions = [{"partition_index": number} for number in range(count)]
    topics = [{"name": "orders", "partitions": partitions}]
    asks = request("OffsetCommit", 2, 1, group_id="workers", member_id="m", topics=topics)
    return conversation().client(asks).broker(response("OffsetCommit", 2, 1)).pcap()


def named_late() -> bytes:
    """Offsets that a broker fetches by the topic's id, and then its name."""
    key = b"\0\1" + b"\0\7workers" + b"\0\6orders" + b"\0\0\0\3"
    log = make_batch([make_record(key, bytes(14))])
    topic_id: uuid.UUID = ORDERS
    fetched = {"topic_id": topic_id, "partitions": [{"partition_index": 0, "records": log}]}
    named = [{"topic_id": topic_id, "name": "__consumer_offsets"}]
    talk = conversation().client(request("Fetch", 13, 1))
    talk = talk.broker(response("Fetch", 13, 1, responses=[fetched]))
    talk = talk.client(request("Metadata", 12, 2))
    return talk.broker(response("Metadata", 12, 2, topics=named)).pcap()


def interleaved_fragments() -> bytes:
    """Requests in two fragments each: all first ones, then all second ones."""
    talk = conversation(has_acks=False)
    for number in (1, 2, 3):
        talk = talk.client(heartbeat(number, "x" * 1000))
    for number in (1, 2, 3):
        talk = talk.broker(beaten(number))
    packets = talk.captured()
    fragments: list[list[Captured]] = [[], []]
    for ip_id, one in enumerate(packets[3:6], 1):
        tcp = one.data[34:]
        for at, field in ((0, 0x2000), (512, 512 // 8)):
            content = tcp[at : at + 512] if at == 0 else tcp[at:]
            frame = make_ethernet(make_ipv4(content, fragment=field, identification=ip_id))
            fragments[at > 0].append(Captured(frame, one.time_ns))
    rest = [one._replace(time_ns=one.time_ns + SECOND) for one in packets[6:]]
    return make_pcap([*packets[:3], *fragments[0], *fragments[1], *rest], magic=0xA1B23C4D)


def answered_early() -> bytes:
    """Responses before their requests, which wait behind a hole."""
    talk = conversation(has_acks=False)
    for number in range(1, 6):
        talk = talk.client(heartbeat(number))
    for number in range(1, 6):
        talk = talk.broker(beaten(number))
    return talk.lose(4).pcap()


def undecided() -> bytes:
    """Requests that could be of others: answers prove them, or one with a client id."""
    talk = conversation()
    for number in range(3):
        asking = request("Metadata", 9, number, "", body=ODD)
        talk = talk.client(asking).broker(response("Metadata", 9, number))
    return talk.client(heartbeat(3)).broker(beaten(3)).pcap()


def slow_broker() -> bytes:
    talk = conversation()
    for number in range(1, 6):
        talk = talk.client(heartbeat(number))
    for number in range(4, 6):
        talk = talk.broker(beaten(number))
    return talk.pcap()


def slow_brokers() -> bytes:
    """Two connections with two requests each; the second one is answered."""
    talk = conversation().client(heartbeat(1)).client(heartbeat(2)).broker(beaten(2), gap_ns=SECOND)
    return pcap([*talk.captured(), *of_client(50_001, talk, SECOND // 2)])


def silent() -> bytes:
    return asked(1).client(heartbeat(2), gap_ns=61 * SECOND).broker(beaten(2)).pcap()


HELLO = bytes.fromhex("160301002d010000290303") + bytes(32) + bytes.fromhex("00000213010100")
TLS_RECORD = b"\x17\x03\x03\x01\x00" + bytes(256)


def waiting_tls() -> bytes:
    """A ClientHello, and records that wait for a ServerHello which does not come."""
    return conversation().client(HELLO, *[TLS_RECORD] * 20).pcap()


ANSWERED = ["answered"]
UNANSWERED = ["unanswered"]
UNKNOWN: list[str | None] = [None]
ORPHAN = ["orphan"]
BEHIND_HOLE = ANSWERED + UNANSWERED * 19
SOME_EARLY = UNKNOWN * 2 + ANSWERED * 2 + ORPHAN * 3
CASES = {
    "connections": Case(
        four_connections, 2, ANSWERED * 5, ANSWERED * 5, ["connection-limit"] * 3
    ),
    "active_connections": Case(four_connections, 2, ANSWERED * 5, ANSWERED * 5, []),
    "idle_seconds": Case(silent, 60, ANSWERED * 2, ANSWERED * 2, []),
    "reassembly_bytes": Case(
        holed(20).pcap, 1000, BEHIND_HOLE, BEHIND_HOLE, ["held-limit", "resync"]
    ),
    "reassembly_bytes_in_all": Case(
        holed(20).pcap, 1000, BEHIND_HOLE, BEHIND_HOLE, ["held-limit", "resync"]
    ),
    "frame_bytes": Case(
        with_large(3000).pcap, 2000, ANSWERED * 3, ANSWERED + ORPHAN + ANSWERED,
        ["bad-frame-size", "resync"],
    ),
    "frame_bytes_in_all": Case(
        with_large(9000).pcap, 3000, ANSWERED * 3, ANSWERED * 3, ["frame-held-limit"]
    ),
    "search_bytes_in_all": Case(
        from_the_middle, 1000, ANSWERED * 2, ANSWERED, ["search-limit", "mid-stream", "mid-stream"]
    ),
    "pending_requests": Case(
        slow_broker, 2, UNANSWERED * 3 + ANSWERED * 2, UNANSWERED * 3 + ANSWERED * 2,
        ["pending-limit"],
    ),
    "unpacked_bytes": Case(produced_packed, 1000, ANSWERED, ANSWERED, ["corrupt-records"]),
    "name_wait_bytes": Case(named_late, 100, ANSWERED * 2, ANSWERED * 2, ["late-topic-name"]),
    "fragment_bytes": Case(
        interleaved_fragments, 1400, ANSWERED * 3, ANSWERED * 3, ["ip-fragment"] * 6
    ),
    "fragmented_packets": Case(
        interleaved_fragments, 2, ANSWERED * 3, ANSWERED * 3, ["ip-fragment"] * 6
    ),
    "early_responses": Case(
        answered_early, 2, ANSWERED * 4 + ORPHAN, SOME_EARLY, ["early-limit"]
    ),
    "undecided_frames": Case(
        undecided, 2, ANSWERED * 4, ANSWERED * 2, ["undecided-limit", "undecodable-request"]
    ),
    "waiting_bytes_in_all": Case(
        answered_early, 600, ANSWERED * 4 + ORPHAN, SOME_EARLY, ["early-limit"]
    ),
    "tls_bytes": Case(waiting_tls, 4000, [], [], ["tls-held-limit"]),
    "tls_bytes_in_all": Case(waiting_tls, 4000, [], [], ["tls-held-limit"]),
    "pending_bytes_in_all": Case(
        slow_brokers, 3000, (UNANSWERED + ANSWERED) * 2, UNANSWERED * 3 + ANSWERED + ORPHAN,
        ["pending-limit"] * 2,
    ),
    "decoded_bytes": Case(
        partial(many_partitions, 200), 4000, ANSWERED, ANSWERED, ["decoded-limit"] * 2
    ),
    # 16 MiB are always allowed, and 256 MiB of all messages; tables of batches and records unpack
    # each for itself.
    "unpacked_ratio": Case(
        partial(produced_zeros, 17 * MIB, 1), 10, ANSWERED * 2, ANSWERED * 2, ["corrupt-records"]
    ),
    "unpacked_ratio_in_all": Case(
        partial(produced_zeros, 17 * MIB, 9, 4 * MIB), 1, ANSWERED * 10, ANSWERED * 10,
        ["unpacked-limit"] * 2,
    ),
}  # fmt: skip
