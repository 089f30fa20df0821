"""A session with the mock brokers of librdkafka: producers, groups, transactions, errors."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tools.live_law.relay import Relay

BROKERS = 3
RECORDS = 20
TIMEOUT_SECONDS = 20.0
GROUP_SECONDS = 11.0  # two rebalances: each takes up to 5 s, whatever else runs
ATTEMPTS = 6
REFUSED_SECONDS = 2.0
QUIETLY = {"log_level": 0}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP_TOPICS = ("coffee-none", "coffee-lz4")


def play() -> None:
    """Run all clients in a few seconds; raise if a client got a wrong response."""
    with mock_cluster() as addresses:
        for codec in CODECS:
            produce(addresses, codec)
        with Relay("::1", addresses.split(",")[0]) as relay:
            produce(relay.address, "none", "over-ipv6")
        transact(addresses)
        consume(addresses)
        leave(addresses)
        fail(addresses)


@contextlib.contextmanager
def mock_cluster() -> Iterator[str]:
    """The brokers' addresses; they live as long as the producer that has them."""
    owner = Producer({"test.mock.num.brokers": BROKERS, "client.id": "owner", **QUIETLY})
    brokers = owner.list_topics(timeout=TIMEOUT_SECONDS).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(TIMEOUT_SECONDS)


def produce(addresses: str, codec: str, topic: str = "") -> None:
    """Records of all sizes, with headers."""
    settings = {"compression.type": codec, "client.id": f"producer-{codec}", "linger.ms": 5}
    producer = Producer({"bootstrap.servers": addresses, **QUIETLY, **settings})
    for number in range(RECORDS):
        value = f"{codec} {number} ".encode() * (1 + number * 20)
        producer.produce(
            topic or f"coffee-{codec}", value, f"key-{number % 5}", headers={"number": str(number)}
        )
    if producer.flush(TIMEOUT_SECONDS):
        raise RuntimeError(f"records with {codec} were not delivered")


def transact(addresses: str) -> None:
    """Two transactions, one of them aborted."""
    settings = {"transactional.id": "till", "client.id": "producer-till"}
    producer = Producer({"bootstrap.servers": addresses, **QUIETLY, **settings})
    producer.init_transactions(TIMEOUT_SECONDS)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("tills", b"a coffee")
        producer.flush(TIMEOUT_SECONDS)
        end(TIMEOUT_SECONDS)


def consume(addresses: str) -> None:
    """Groups, until the two members of one come to rest.

    The mock brokers complete a rebalance when the leader's SyncGroup arrives before the other
    member's, which they refuse. The leader is the member whose group.instance.id comes first, and
    responses are sent in the order of joining: so the second member is the leader here.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with contextlib.suppress(TimeoutError):
            return rebalance(addresses, f"readers-{attempt}")
    raise RuntimeError(f"no group of {ATTEMPTS} came to rest")


def rebalance(addresses: str, group: str) -> None:
    """A group of static members whose second one joins later."""
    first, second = (
        consumer(addresses, group, name, {"group.instance.id": instance})
        for name, instance in (("one", "till-2"), ("two", "till-1"))
    )
    with contextlib.closing(first), contextlib.closing(second):
        first.subscribe(list(GROUP_TOPICS))
        take(first, RECORDS)
        first.commit(asynchronous=False)
        second.subscribe(list(GROUP_TOPICS))
        poll_until(lambda: bool(second.assignment()), first, second)
        poll_until(lambda: bool(first.assignment()), first, second)


def leave(addresses: str) -> None:
    """A dynamic member, which leaves its group when it is closed."""
    with contextlib.closing(consumer(addresses, "visitors", "three", {})) as member:
        member.subscribe(list(GROUP_TOPICS))
        take(member, RECORDS)


def poll_until(is_so: Callable[[], bool], *readers: Consumer) -> None:
    """Poll the members of a group until a condition holds; raises when it never does."""
    deadline = time.monotonic() + GROUP_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError
        for reader in readers:
            reader.poll(0.1)


def consumer(addresses: str, group: str, name: str, membership: Mapping[str, str]) -> Consumer:
    """One that reads from the beginning, and beats often."""
    settings = {
        "bootstrap.servers": addresses,
        "group.id": group,
        "client.id": f"consumer-{name}",
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 6000,
        "enable.auto.commit": False,
        **membership,
        **QUIETLY,
    }
    return Consumer(settings)


def take(reader: Consumer, count: int) -> None:
    """Poll until there were so many records."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while count and time.monotonic() < deadline:
        message = reader.poll(0.1)
        count -= message is not None and message.error() is None
    if count:
        raise RuntimeError(f"{count} records did not come")


def fail(addresses: str) -> None:
    """Requests that brokers refuse: a commit of a non-member, and a topic that does not exist."""
    with contextlib.closing(consumer(addresses, "strangers", "stranger", {})) as stranger:
        with contextlib.suppress(KafkaException):
            stranger.commit(offsets=[TopicPartition("nowhere", 900, 5)], asynchronous=False)
        stranger.assign([TopicPartition("coffee-none", 900, 0)])
        deadline = time.monotonic() + REFUSED_SECONDS
        while time.monotonic() < deadline:
            message = stranger.poll(0.1)
            if message is not None and message.error() is not None:
                break
