"""A capture for each kind of finding that no committed capture has.

Where a finding is about clients, one client id is at two addresses that differ.
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from tests.analysis.taps import Talk, Tap
from tests.exchange_builders import request
from tests.messages.record_builders import make_batch, make_record

Values = dict[str, Any]
HELLO: Final = bytes.fromhex("160301002d010000290303") + bytes(32) + bytes.fromhex("00000213010100")
ALERT: Final = bytes.fromhex("15030300020246")  # fatal, protocol_version
DENIED: Final = 29  # TOPIC_AUTHORIZATION_FAILED
FAR_MS: Final = 80
INCIDENTS: dict[str, Callable[[Tap], None]] = {}


def of(*ids: str) -> Callable[[Callable[[Tap], None]], Callable[[Tap], None]]:
    """Registers the packets of kinds of findings."""

    def known(function: Callable[[Tap], None]) -> Callable[[Tap], None]:
        INCIDENTS.update(dict.fromkeys(ids, function))
        return function

    return known


def two(tap: Tap, client: str, **how: Any) -> tuple[Talk, Talk]:
    """Connections of one client id from two addresses."""
    return Talk(tap, client, 1, **how), Talk(tap, client, 2, **how)


def written(topic: str, partition: int = 0, records: int = 1, size: int = 5) -> Values:
    batch = make_batch([make_record(b"v" * size) for _ in range(records)])
    part = {"index": partition, "records": batch}
    return {"acks": 1, "topic_data": [{"name": topic, "partition_data": [part]}]}


def stored(topic: str, offset: int, partition: int = 0, **more: Any) -> Values:
    part = {"index": partition, "base_offset": offset} | more
    return {"responses": [{"name": topic, "partition_responses": [part]}]}


def write(talk: Talk, at_ms: float, offset: int, took_ms: float = 2, records: int = 1) -> None:
    told = stored("orders", offset)
    talk.call(at_ms, took_ms, "Produce", 8, written("orders", records=records), told)


def fetched(offset: int, high: int, records: bytes = b"", **told: Any) -> tuple[Values, Values]:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
    asked = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1_000_000,
             "topics": [{"topic": "orders", "partitions": [part]}]}  # fmt: skip
    told = {"partition_index": 0, "high_watermark": high, "records": records} | told
    return asked, {"responses": [{"topic": "orders", "partitions": [told]}]}


@of("tls-on-plaintext-port")
def tls_refused(tap: Tap) -> None:
    for number in range(3):
        talk = Talk(tap, "", number, at_ms=100 * number + 10)
        talk.say(100 * number + 11, True, HELLO)
        talk.end(100 * number + 12, is_client=False)


@of("plaintext-on-tls-port")
def plain_refused(tap: Tap) -> None:
    for number in range(3):
        talk = Talk(tap, "till", number, at_ms=100 * number)
        talk.ask(100 * number + 1, "ApiVersions", 3)
        talk.say(100 * number + 2, False, ALERT)
        talk.end(100 * number + 3, is_client=False)


@of("authorization-fails")
def denied(tap: Tap) -> None:
    for times, talk in zip((4, 3), two(tap, "till"), strict=True):
        for number in range(times):
            told = stored("orders", -1, error_code=DENIED)
            talk.call(100 + 50 * number, 2, "Produce", 8, written("orders"), told)


@of("metadata-storm")
def storm(tap: Tap) -> None:
    for times, talk in zip((150, 120), two(tap, "till"), strict=True):
        write(talk, 20, times)
        for number in range(times):
            talk.call(100 + 40 * number, 1, "Metadata", 8, {"topics": [{"name": "orders"}]})


@of("advertised-listener-unreachable")
def lost(tap: Tap) -> None:
    for times, talk in zip((11, 12), two(tap, "till"), strict=True):
        for number in range(times):
            talk.call(100 + 200 * number, 1, "Metadata", 8, {"topics": [{"name": "orders"}]})


@of("client-fills-link")
def filled(tap: Tap) -> None:
    batch = make_batch([make_record(b"v" * 900) for _ in range(40)])
    for times, talk in zip((20, 15), two(tap, "backfill"), strict=True):
        for number in range(times):
            at_ms = 100.0 + 200 * number
            asked, told = fetched(40 * number, 10_000, batch)
            correlation = talk.ask(at_ms, "Fetch", 6, **asked)
            talk.answer_slowly(at_ms + 2, 100, "Fetch", 6, correlation, **told)


@of("round-trip-makes-latency")
def far(tap: Tap) -> None:
    for trip_ms, number in ((40, 1), (50, 2)):
        talk = Talk(tap, "till", number, trip_ms=trip_ms)
        for at in range(120):
            write(talk, 200 + 100 * at, 120 * number + at, took_ms=trip_ms + 1)


@of("broker-slow")
def far_and_slow(tap: Tap) -> None:
    for number in (1, 2):
        talk = Talk(tap, "till", number, trip_ms=FAR_MS)
        for at in range(120):
            write(talk, 200 + 400 * at, 120 * number + at, took_ms=FAR_MS + 100 + 60 * number)


@of("consumer-lag-grows")
def lagging(tap: Tap) -> None:
    behind(tap, 2_000, 500)


@of("consumer-behind")
def far_behind(tap: Tap) -> None:
    behind(tap, 15_000, 12_000)


def behind(tap: Tap, last: int, first: int) -> None:
    """A group that commits every 4 s, and is so many records behind at the start and the end."""
    reader = Talk(tap, "reader", 1)
    for number in range(6):
        at_ms, offset = 100 + 4_000 * number, 50 * number
        high = offset + first + (last - first) * number // 5
        reader.call(at_ms, 2, "Fetch", 6, *fetched(offset, high))
        part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
        asked = {"group_id": "crew", "generation_id_or_member_epoch": 1, "member_id": "m",
                 "topics": [{"name": "orders", "partitions": [part]}]}  # fmt: skip
        told = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]}
        reader.call(at_ms + 10, 2, "OffsetCommit", 7, asked, told)


@of("connection-churn")
def churning(tap: Tap) -> None:
    for address, life_ms in ((1, 40), (2, 120)):
        for number in range(25):
            at_ms = 400.0 * number + address
            talk = Talk(tap, "till", address + 250 * number, at_ms=at_ms)
            write(talk, at_ms + 5, 100 * address + number)
            talk.end(at_ms + life_ms, is_client=True)


@of("transactions-abort")
def aborting(tap: Tap) -> None:
    talk = Talk(tap, "till", 1)
    own = {"transactional_id": "pay", "producer_id": 7, "producer_epoch": 0}
    for number in range(6):
        at_ms = 100.0 + 500 * number
        places = {f"v3_and_below_{name}": value for name, value in own.items()}
        topics = {"v3_and_below_topics": [{"name": "orders", "partitions": [0]}]}
        talk.call(at_ms, 2, "AddPartitionsToTxn", 1, places | topics)
        talk.call(at_ms + 100, 2, "EndTxn", 1, own | {"committed": False})


@of("coordinator-moved")
def moved(tap: Tap) -> None:
    own = {"group_id": "crew", "generation_id": 1, "member_id": "m"}
    for broker, first_ms, last_ms in ((1, 100, 6_000), (2, 14_000, 20_000)):
        talk = Talk(tap, "reader", 1, broker=broker, at_ms=first_ms - 50)
        for at_ms in range(first_ms, last_ms, 1_000):
            talk.call(at_ms, 2, "Heartbeat", 3, own)


@of("session-timeout")
def expelled(tap: Tap) -> None:
    talk = Talk(tap, "reader", 1)
    own = {"group_id": "crew", "generation_id": 1, "member_id": "m"}
    for at_ms, error in ((100, 0), (3_100, 0), (11_350, 25)):
        talk.call(at_ms, 2, "Heartbeat", 3, own, {"error_code": error})


@of("rebalance-stops-group")
def waiting(tap: Tap) -> None:
    rejoin(tap, 2_400)


def rejoin(tap: Tap, waits_ms: float, protocol: str = "range", told: int = 27) -> None:
    """A member is told of a rebalance, joins again and waits for the others."""
    talk = Talk(tap, "reader", 1)
    own = {"group_id": "crew", "member_id": "m"}
    talk.call(50, 1, "Heartbeat", 3, own | {"generation_id": 2}, {"error_code": told})
    join = own | {"protocol_type": "consumer", "protocols": [{"name": protocol, "metadata": b""}]}
    led = {"generation_id": 3, "leader": "n", "member_id": "m", "protocol_name": protocol}
    talk.call(100, waits_ms - 2, "JoinGroup", 4, join, led)
    talk.call(100 + waits_ms, 5, "SyncGroup", 2, own | {"generation_id": 3})


@of("member-fenced")
def fenced(tap: Tap) -> None:
    rejoin_newly(tap, 2_400)


def rejoin_newly(
    tap: Tap, waits_ms: float, refused: int = 110, api: str = "ConsumerGroupHeartbeat",
    is_assigned: bool = False,
) -> None:  # fmt: skip
    """A member of a new protocol is refused, joins with epoch 0 and waits for an assignment."""
    talk = Talk(tap, "reader", 1)
    own = {"group_id": "crew", "member_id": "m"}
    some = {"topic_partitions": [{"topic_id": UUID(int=7), "partitions": [0, 2]}]}
    none: Values = {"topic_partitions": []}
    beats = (
        (50, {"member_epoch": 4}, {"error_code": refused}),
        (100, {"member_epoch": 0}, {"assignment": some if is_assigned else none}),
        (100 + waits_ms, {"member_epoch": 6}, {"assignment": some}),
    )
    for at_ms, asked, told in beats:
        talk.call(at_ms, 2, api, 0, own | asked, {"member_id": "m", "member_epoch": 6} | told)


@of("messages-undecoded")
def garbled(tap: Tap) -> None:
    talk = Talk(tap, "till", 1)
    for number in range(10):
        write(talk, 100 + 50 * number, number)
    talk.say(700, True, bytes(range(128, 228)) * 3)
    for number in range(10, 20):
        write(talk, 300 + 50 * number, number)


@of("idle-connections-closed")
def idle(tap: Tap) -> None:
    for address, idle_ms in ((1, 2_000), (2, 2_200)):
        for number in range(4):
            at_ms = 5_000.0 * number + address
            talk = Talk(tap, "till", address + 250 * number, at_ms=at_ms)
            write(talk, at_ms + 5, 10 * address + number)
            talk.end(at_ms + 7 + idle_ms, is_client=False)


@of("single-record-batches")
def lonely(tap: Tap) -> None:
    for place, talk in enumerate(two(tap, "till")):
        for number in range(200):
            has_more = number % 10 < place
            write(talk, 100 + 20 * number, 200 * place + number, records=1 + has_more)


@of("empty-polls")
def polling(tap: Tap) -> None:
    batch = make_batch([make_record(b"value")], base_offset=5)
    for place, talk in enumerate(two(tap, "reader")):
        for number in range(150):
            is_full = place and number % 15 == 0
            asked, told = fetched(5, 6 if is_full else 5, batch if is_full else b"")
            talk.call(100 + 30 * number, 1, "Fetch", 6, asked, told)


@of("partition-skew")
def skewed(tap: Tap) -> None:
    talk = Talk(tap, "till", 1)
    for number in range(60):
        partition = 2 if number % 4 else number % 3
        asked = written("orders", partition, 1, 25_000)
        talk.call(100 + 20 * number, 2, "Produce", 8, asked, stored("orders", number, partition))


@of("throttled-by-quota")
def throttled(tap: Tap) -> None:
    for place, talk in enumerate(two(tap, "till")):
        for number in range(5 + place):
            told = stored("orders", number) | {"throttle_time_ms": 300 + 100 * place}
            talk.call(100 + 500 * number, 2, "Produce", 8, written("orders"), told)


@of("requests-unanswered")
def unanswered(tap: Tap) -> None:
    for place, talk in enumerate(two(tap, "till")):
        for number in range(12):
            write(talk, 100 + 20 * number, 12 * place + number)
        for number in range(3 + place):
            talk.ask(500 + 10 * number, "Metadata", 8, topics=[{"name": "orders"}])
        talk.end(1_000, is_client=True)
    late = Talk(tap, "till", 3, at_ms=5_000)
    write(late, 5_010, 99)
    late.ask(5_900, "Metadata", 8, topics=[{"name": "orders"}])


@of("broker-refuses-connections")
def refused(tap: Tap) -> None:
    for number in range(5):
        talk = Talk(tap, "till", number % 2 + 1 + 250 * number, at_ms=100.0 * number)
        talk.end(100.0 * number + 1, is_client=False, is_reset=True)


@of("broker-unreachable")
def unreachable(tap: Tap) -> None:
    """The second address waits longer."""
    for place, talk in enumerate(two(tap, "till")):
        for number in range(12):
            write(talk, 100 + 20 * number, 12 * place + number)
        at_ms = [1_000, 1_200, 1_600, 2_400, 4_000, 7_200][: 5 + place]
        asked = request("Produce", 8, 90, "till", **written("orders"))
        talk.say_again(True, asked, *at_ms)


@of("connections-reset")
def reset(tap: Tap) -> None:
    for number in range(5):
        talk = Talk(tap, "till", number % 2 + 1 + 250 * number, at_ms=100.0 * number)
        write(talk, 100.0 * number + 2, number)
        talk.end(100.0 * number + 20, is_client=False, is_reset=True)


@of("network-makes-p99")
def lossy(tap: Tap) -> None:
    """The second address loses more, and waits longer."""
    for place, talk in enumerate(two(tap, "till")):
        for number in range(200):
            if number % 20 > place:
                write(talk, 100 + 500 * number, 200 * place + number)
            else:
                at_ms, again_ms = 100.0 + 500 * number, 300.0 + 500 * number + 100 * place
                asked = talk.ask_twice(at_ms, again_ms, "Produce", 8, **written("orders"))
                talk.answer(again_ms + 2, "Produce", 8, asked, **stored("orders", number))
