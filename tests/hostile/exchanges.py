"""Requests and responses whose ids, sizes and order make pairing them hard."""

import random
import struct
import uuid

from tests.exchange_builders import request as built
from tests.exchange_builders import response as answered
from tests.hostile.wire import Talk, Wire, request, segment_size, sized

HEARTBEAT = b"\0\1g\0\0\0\1\0\1m"
ROUND = 50  # requests sent in one go


def beat(number: int, client: bytes = b"c") -> bytes:
    return request(12, 0, number, client, HEARTBEAT)


def reply(number: int, body: bytes = b"\0\0") -> bytes:
    return sized(struct.pack(">i", number) + body)


def never_answered(source: random.Random, wire: Wire) -> None:
    """Requests that all wait, with ids of their own or one for all."""
    talk = Talk(wire, opened=True)
    step = source.choice((0, 1))
    number = 0
    while wire.has_room:
        number += ROUND
        talk.client(b"".join(beat(1 + (number + n) * step) for n in range(ROUND)))


def answers_to_nothing(source: random.Random, wire: Wire) -> None:
    """The maximum of waiting requests, and responses to none of them."""
    talk = Talk(wire, opened=True)
    number = 0
    while wire.has_room:
        number += ROUND
        talk.client(b"".join(beat(number + n) for n in range(ROUND)))
        talk.broker(b"".join(reply(-number - n) for n in range(ROUND)))
    del source


def answers_to_the_last(source: random.Random, wire: Wire) -> None:
    """Requests wait by the thousand, and the newest of a round is answered now and then."""
    talk = Talk(wire, opened=True)
    count = source.choice((10, 400))
    number = 0
    while wire.has_room:
        talk.client(b"".join(beat(number + n) for n in range(count)))
        number += count
        talk.broker(reply(-1) * count)
        talk.broker(reply(number - 1))


def one_id_for_all(source: random.Random, wire: Wire) -> None:
    """All requests have one id, and answers before these were lost."""
    talk = Talk(wire, opened=True)
    number = source.choice((0, 1, 1 << 20))
    talk.client(beat(number) * 100)
    talk.lose(False, 20)
    while wire.has_room:
        talk.client(beat(number) * ROUND)
        talk.broker(reply(number, source.choice((b"\x7f\0\0", b"\0\0"))) * ROUND)


def rounds_of_a_controller(source: random.Random, wire: Wire) -> None:
    """LeaderAndIsr v0 of many partitions with one id, answered about others, behind a loss."""
    talk = Talk(wire, opened=True)
    count = source.choice((1, 100))
    states = [
        {"topic_name": "t", "partition_index": n, "isr": [1], "replicas": [1]} for n in range(count)
    ]
    asked = built("LeaderAndIsr", 0, 5, ungrouped_partition_states=states)
    named = [{"topic_name": "other", "partition_index": n} for n in range(count)]
    other = answered("LeaderAndIsr", 0, 5, partition_errors=named)
    talk.client(asked)
    talk.lose(False, 20)
    times = 10 if count == 1 else 1
    while wire.has_room:
        talk.client(asked * times)
        talk.broker(other * times)


def answers_before_requests(source: random.Random, wire: Wire) -> None:
    """Large responses wait for requests behind a hole; ids match, and layouts do not."""
    talk = Talk(wire, opened=True)
    number = source.choice((1, 70_000))
    size = source.choice((8, 3_000))
    talk.client(beat(0))
    talk.broker(reply(0))
    while wire.has_room:
        talk.broker(reply(number, b"\x7f\xff" * size) * 20)
        talk.client(beat(number) * 20)


def many_answers_before(source: random.Random, wire: Wire) -> None:
    """Answers by the hundred wait for requests, and requests come that are not theirs."""
    talk = Talk(wire, opened=True)
    talk.client(beat(0))
    low = source.choice((0, 1 << 24))
    number = 1
    while wire.has_room:
        talk.broker(b"".join(reply(low + number + n) for n in range(ROUND)))
        talk.client(b"".join(beat(number + n) for n in range(ROUND)))
        number += ROUND


def undecided(source: random.Random, wire: Wire) -> None:
    """Ambiguous frames on a connection whose sides are unknown."""
    talk = Talk(wire, 7777, opened=source.random() < 0.5)
    unit = source.choice((sized(b""), sized(bytes(12)), sized(b"\0\0\0\7" + bytes(9))))
    size = segment_size(source)
    while wire.has_room:
        talk.client(unit * 200, size)
        talk.broker(unit * 200, size)


def empty_tokens(source: random.Random, wire: Wire) -> None:
    """SaslHandshake v0, then raw tokens without a byte, or of one."""
    talk = Talk(wire, opened=True)
    talk.client(request(17, 0, 1, b"c", b"\0\5PLAIN"))
    talk.broker(reply(1, b"\0\0" + b"\0\0\0\1\0\5PLAIN"))
    unit = sized(source.choice((b"", b"x", b"\0u\0p")))
    while wire.has_room:
        talk.client(unit * 300)
        talk.broker(sized(b"") * 300)


def kafka_0_7(source: random.Random, wire: Wire) -> None:
    """Fetches of 0.7 and possible responses, from the start or after losses."""
    talk = Talk(wire, opened=source.random() < 0.5)
    ask = sized(struct.pack(">hh", 1, 1) + b"t" + struct.pack(">iqi", 0, 5, 1 << 20))
    answer = sized(source.choice((b"\0\0", b"\0\1", b"\0\0" + bytes(9))))
    loses = source.random() < 0.7
    talk.client(ask * 3)
    while wire.has_room:
        talk.client(ask * ROUND)
        if loses:
            talk.lose(False, 3)
            talk.lose(True, 3)
        talk.broker(answer * ROUND)


def kafka_0_7_unanswered(source: random.Random, wire: Wire) -> None:
    """Requests of 0.7 that wait by the thousand, and after a loss answers that fit none."""
    talk = Talk(wire, opened=True)
    ask = sized(struct.pack(">hh", 1, 1) + b"t" + struct.pack(">iqi", 0, 5, 1 << 20))
    other = sized(b"\0\0" + b"\xff" * source.choice((1, 50)))
    talk.client(ask * 10)
    talk.broker(sized(b"\0\1"))
    talk.lose(False, 3)
    talk.broker(sized(b"\0\1"))
    while wire.has_room:
        talk.client(ask * ROUND)
        talk.broker(other * 10)


def drafts_of_2012(source: random.Random, wire: Wire) -> None:
    """Thousands of waiting requests of a draft, and responses to none of them or the last."""
    talk = Talk(wire, opened=True)
    number = 0
    step = source.choice((0, 1))
    while wire.has_room:
        for _ in range(ROUND):
            number += step
            talk.client(sized(struct.pack(">hhih", 1, 1, number, 1) + b"c" + bytes(16)))
        for _ in range(ROUND):
            talk.broker(sized(struct.pack(">hii", 1, -number, -number) + bytes(4)))


# Fetch sessions and names


def fetch(number: int, session: int, epoch: int, partitions: list[int], topic: str = "t") -> bytes:
    named = [{"partition": one, "fetch_offset": 5} for one in partitions]
    topics = [{"topic": topic, "partitions": named}] if named else []
    return built("Fetch", 7, number, session_id=session, session_epoch=epoch, topics=topics)


def fetched(number: int, session: int, partitions: list[int], topic: str = "t") -> bytes:
    rows = [{"partition_index": one, "high_watermark": 9} for one in partitions]
    responses = [{"topic": topic, "partitions": rows}] if rows else []
    return answered("Fetch", 7, number, session_id=session, responses=responses)


def large_sessions(source: random.Random, wire: Wire) -> None:
    """A session of many partitions, named in any order, then fetched without a name."""
    talk = Talk(wire, opened=True)
    count = min(source.choice((100, 2_000)), wire.limit // 600)  # there is room for more fetches
    order = list(range(count))
    source.shuffle(order)
    number, session = 1, 77
    talk.client(fetch(1, 0, 0, order[: count // 2]))
    talk.broker(fetched(1, session, order[: count // 2]))
    while wire.has_room:
        number += 1
        some = source.sample(order, 3)
        talk.client(fetch(number, session, number - 1, some))
        talk.broker(fetched(number, session, source.sample(order, 2)))


def many_sessions(source: random.Random, wire: Wire) -> None:
    """A new session with every exchange."""
    talk = Talk(wire, opened=True)
    number = 0
    anew = source.random() < 0.5
    while wire.has_room:
        number += 1
        talk.client(fetch(number, 0 if anew else number + 7, 0 if anew else 1, [number % 5]))
        talk.broker(fetched(number, number + 100, [number % 5]))


def partitions_out_of_order(source: random.Random, wire: Wire) -> None:
    """Responses with the requested partitions, all of them in reverse order.

    Several fit, whatever the size: a part of a round at the end has fewer rows.
    """
    talk = Talk(wire, opened=True)
    count = min(source.choice((10, 3_000)), wire.limit // 600)
    there = list(range(count))
    number = 0
    topic = source.choice(("t", "u"))
    while wire.has_room:
        number += 1
        talk.client(fetch(number, 0, -1, there))
        talk.broker(fetched(number, 0, there[::-1], topic))


def one_partition_over_and_over(source: random.Random, wire: Wire) -> None:
    """The same partition thousands of times in a message."""
    talk = Talk(wire, opened=True)
    number = 0
    while wire.has_room:
        number += 1
        count = max(1, min(wire.limit // 120, 20_000))
        talk.client(fetch(number, 0, 0, [7] * count))
        talk.broker(fetched(number, 5, [7, *range(count)][:count]))
    del source


def names_never_learnt(source: random.Random, wire: Wire) -> None:
    """Topic ids without names, many or one, with records or without."""
    talk = Talk(wire, opened=True)
    number = 0
    records = source.choice((None, bytes(61)))
    few = source.random() < 0.5
    while wire.has_room:
        number += 1
        topic = uuid.UUID(int=1 + (number % 3 if few else number))
        rows = [{"partition_index": n, "records": records} for n in range(4)]
        talk.client(built("Fetch", 13, number, topics=[{"topic_id": topic, "partitions": []}]))
        answer = [{"topic_id": topic, "partitions": rows}]
        talk.broker(answered("Fetch", 13, number, responses=answer))


def names_learnt_late(source: random.Random, wire: Wire) -> None:
    """A large answer in which one topic id has no name, then many more answers."""
    talk = Talk(wire, opened=True)
    known, unknown = uuid.UUID(int=5), uuid.UUID(int=6)
    talk.client(built("Metadata", 12, 1))
    named = [{"topic_id": known, "name": "t"}]
    talk.broker(answered("Metadata", 12, 1, topics=named))
    rows = [{"partition_index": n, "records": bytes(1)} for n in range(wire.limit // 200)]
    last = [{"partition_index": 0, "records": bytes(1)}]
    answer = [{"topic_id": known, "partitions": rows}, {"topic_id": unknown, "partitions": last}]
    talk.client(built("Fetch", 13, 2))
    talk.broker(answered("Fetch", 13, 2, responses=answer))
    number = 2
    while wire.has_room:
        number += 1
        talk.client(beat(number))
        talk.broker(reply(number))
    del source


EXCHANGES = (
    never_answered, answers_to_nothing, answers_to_the_last, one_id_for_all,
    rounds_of_a_controller, answers_before_requests, many_answers_before, undecided, empty_tokens,
    kafka_0_7, kafka_0_7_unanswered, drafts_of_2012, large_sessions, many_sessions,
    partitions_out_of_order, one_partition_over_and_over, names_never_learnt, names_learnt_late,
)  # fmt: skip
