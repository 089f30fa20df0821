"""A session a person would recognise: a small shop's orders through one broker.

Topics, every codec from four client libraries, acks 0, 1 and all, a transaction of each outcome, a
consumer group that rebalances twice, errors of several kinds, and a broker that hangs for a while.
"""

from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

BROKER_PROPERTIES = SMALL_SINGLE_BROKER
ADMIN = "admin-java"
WORKERS = "order-workers"
PAUSE_SECONDS = 1.2
PRODUCTS = ("espresso", "flat white", "cold brew", "croissant", "oat milk", "cinnamon roll")
CITIES = ("Lisbon", "Kyiv", "Oslo", "Nairobi", "Quito", "Hanoi", "Reykjavík")

TOPICS: list[dict[str, Any]] = [
    {"name": "orders", "partitions": 4},
    {"name": "payments", "partitions": 2},
    {"name": "clicks", "partitions": 1, "configs": {"retention.ms": "3600000"}},
    {"name": "tiny", "partitions": 1, "configs": {"max.message.bytes": "1000"}},
    {"name": "doomed", "partitions": 1},
]


def play(stage: Stage) -> None:
    """Play the whole session."""
    create(stage)
    produce_with_every_codec(stage)
    consume_in_a_group(stage)
    consume_alone(stage)
    transact(stage)
    fail(stage)
    hang(stage)
    describe(stage)
    stage.call("java", "close", ADMIN)
    stage.call("librdkafka", "close", "admin-rd")
    stage.call("kafka_python", "close", "admin-kp")


def order(number: int, partitions: int, topic: str = "orders") -> dict[str, Any]:
    """The number-th order as a record: a JSON value like many others, keyed by the customer."""
    product, city = PRODUCTS[number % len(PRODUCTS)], CITIES[number % len(CITIES)]
    value = (
        f'{{"order": {number}, "customer": "c-{number * 37 % 101:03d}", "city": "{city}", '
        f'"items": [{{"product": "{product}", "count": {number % 3 + 1}}}], '
        f'"note": "{"please " * (number % 5)}thank you"}}'
    )
    return {
        "topic": topic,
        "partition": number % partitions,
        "key": None if number % 10 == 9 else f"c-{number * 37 % 101:03d}",
        "value": None if number % 25 == 20 else value,
        "headers": [["source", "shop"], ["trace", f"{number:08x}"]] if number % 4 == 0 else [],
    }


def orders(first: int, count: int, partitions: int = 4, topic: str = "orders") -> list[Any]:
    """Consecutive orders, spread over the partitions."""
    return [order(number, partitions, topic) for number in range(first, first + count)]


def create(stage: Stage) -> None:
    """Make the topics, and fail to make two more."""
    stage.call("java", "describe_cluster", ADMIN)
    stage.create_topics(ADMIN, TOPICS)
    stage.create_topics(ADMIN, [{"name": "orders", "partitions": 4}])
    stage.create_topics(ADMIN, [{"name": "wide", "partitions": 1, "replication": 3}])
    stage.call("java", "describe_topics", ADMIN, topics=["orders", "payments"])
    stage.call("java", "describe_topic_configs", ADMIN, topic="clicks")
    stage.call("librdkafka", "list_topics", "admin-rd")
    stage.call("kafka_python", "describe_cluster", "admin-kp")


def produce_with_every_codec(stage: Stage) -> None:
    """A producer a codec and library; then acks 1 and acks 0."""
    plan: list[tuple[str, str, dict[str, Any]]] = [
        ("java", "java-none", {"codec": "none"}),
        ("java", "java-zstd", {"codec": "zstd"}),
        ("java", "java-gzip", {"codec": "gzip", "acks": "1", "idempotent": False}),
        ("librdkafka", "rd-lz4", {"codec": "lz4", "idempotent": True}),
        ("librdkafka", "rd-snappy", {"codec": "snappy"}),
        ("kafka_python", "kp-gzip", {"codec": "gzip", "idempotent": True}),
        ("kafka_python", "kp-lz4", {"codec": "lz4", "acks": "1"}),
        ("aiokafka", "aio-snappy", {"codec": "snappy"}),
        ("aiokafka", "aio-zstd", {"codec": "zstd", "idempotent": True}),
    ]
    for place, (library, client, settings) in enumerate(plan):
        stage.call(library, "open_producer", client, **settings)
        stage.call(library, "produce", client, records=orders(place * 24, 24))
        stage.call(library, "close", client)
    for library, client in (("librdkafka", "rd-acks0"), ("aiokafka", "aio-acks0")):
        stage.call(library, "open_producer", client, acks="0")
        stage.call(library, "produce", client, records=orders(300, 10, 1, "clicks"), each=True)
        stage.call(library, "close", client)


def consume_in_a_group(stage: Stage) -> None:
    """One member, then two, then one: a Java and a librdkafka consumer share a group."""
    timing = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "500"}
    membership = {"group": WORKERS, "topics": ["orders"], "settings": timing}
    stage.call("java", "open_consumer", "worker-java", **membership)
    stage.call("java", "poll", "worker-java", seconds=10, records=216)
    stage.call("java", "commit", "worker-java")
    stage.call("librdkafka", "open_consumer", "worker-rd", **membership)
    poll_together(stage, 3.0)
    stage.call("java", "open_producer", "java-late", codec="lz4")
    stage.call("java", "produce", "java-late", records=orders(400, 16))
    poll_together(stage, 1.0)
    stage.call("java", "commit", "worker-java")
    stage.call("librdkafka", "commit", "worker-rd")
    stage.call("java", "describe_group", ADMIN, group=WORKERS)
    stage.call("librdkafka", "close", "worker-rd")
    stage.call("java", "poll", "worker-java", seconds=2.0)
    stage.call("java", "produce", "java-late", records=orders(420, 8))
    stage.call("java", "poll", "worker-java", seconds=3.0, records=8)
    stage.call("java", "commit", "worker-java")
    stage.call("java", "close", "worker-java")
    stage.call("java", "close", "java-late")


def poll_together(stage: Stage, seconds: float) -> None:
    """Both members of the group poll at the same time."""
    stage.send("java", "poll", "worker-java", seconds=seconds)
    stage.send("librdkafka", "poll", "worker-rd", seconds=seconds)
    stage.receive("java")
    stage.receive("librdkafka")


def consume_alone(stage: Stage) -> None:
    """Groups of one by the other libraries, and a consumer without a group."""
    for library, client, group in (
        ("kafka_python", "auditor-kp", "auditors"),
        ("aiokafka", "mailer-aio", "mailers"),
    ):
        stage.call(library, "open_consumer", client, group=group, topics=["orders"])
        stage.call(library, "poll", client, seconds=15, records=240)
        stage.call(library, "commit", client)
        stage.call(library, "close", client)
    stage.call("librdkafka", "open_consumer", "clicks-rd", assign=[("clicks", 0, 0)])
    stage.call("librdkafka", "poll", "clicks-rd", seconds=10, records=20)
    stage.call("librdkafka", "close", "clicks-rd")


def transact(stage: Stage) -> None:
    """One transaction commits, one aborts; a reader of committed records sees the first."""
    producer = {"codec": "zstd", "transactional_id": "payments-tx"}
    stage.call("java", "open_producer", "tx-java", **producer)
    for outcome, first in (("committed", 500), ("aborted", 520), ("committed", 540)):
        stage.call("java", "begin", "tx-java", transaction=outcome)
        stage.call("java", "produce", "tx-java", records=orders(first, 6, 2, "payments"))
        stage.call("java", "end", "tx-java")
    stage.call("java", "close", "tx-java")
    places = [("payments", 0, 0), ("payments", 1, 0)]
    stage.call("java", "open_consumer", "payments-java", assign=places)
    stage.call("java", "poll", "payments-java", seconds=10, records=12)
    stage.call("java", "close", "payments-java")


def fail(stage: Stage) -> None:
    """Errors a broker answers: too large, unknown topic, deleted topic, offset out of range."""
    large = {"topic": "tiny", "partition": 0, "key": "large", "value": "0123456789" * 300}
    small = {"topic": "tiny", "partition": 0, "key": "small", "value": "fits"}
    stage.call("kafka_python", "open_producer", "tiny-kp")
    stage.call("kafka_python", "produce", "tiny-kp", records=[small, large], each=True)
    stage.call("kafka_python", "close", "tiny-kp")
    stage.call("librdkafka", "list_topics", "admin-rd", topic="no-such-topic")
    impatient = {"delivery.timeout.ms": "1500", "request.timeout.ms": "1000"}
    stage.call("java", "open_producer", "doomed-java", settings=impatient)
    before = {"topic": "doomed", "partition": 0, "key": "k", "value": "before"}
    stage.call("java", "produce", "doomed-java", records=[before])
    stage.call("java", "delete_topics", ADMIN, topics=["doomed", "no-such-topic"])
    after = {"topic": "doomed", "partition": 0, "key": "k", "value": "after"}
    stage.call("java", "produce", "doomed-java", records=[after])
    stage.call("java", "close", "doomed-java")
    stage.call("java", "delete_records", ADMIN, place=("clicks", 0, 5))
    nowhere = {"auto.offset.reset": "none"}
    stage.call("java", "open_consumer", "lost-java", assign=[("clicks", 0, 2)], settings=nowhere)
    stage.call("java", "poll", "lost-java", seconds=5)
    stage.call("java", "close", "lost-java")


def hang(stage: Stage) -> None:
    """The broker's process is stopped while records are on their way to it."""
    stage.call("librdkafka", "open_producer", "slow-rd", linger_ms=0)
    stage.call("librdkafka", "produce", "slow-rd", records=orders(600, 4), each=True)
    stage.cluster.pause(
        PAUSE_SECONDS,
        lambda: stage.send("librdkafka", "produce", "slow-rd", records=orders(604, 1)),
    )
    stage.receive("librdkafka")
    stage.call("librdkafka", "produce", "slow-rd", records=orders(605, 4), each=True)
    stage.call("librdkafka", "close", "slow-rd")


def describe(stage: Stage) -> None:
    """Operator's queries at the end."""
    places = [("orders", partition) for partition in range(4)]
    stage.call("librdkafka", "list_offsets", "admin-rd", places=places, at="latest")
    stage.call("java", "list_offsets", ADMIN, places=[("clicks", 0)], at="earliest")
    stage.call("kafka_python", "list_groups", "admin-kp")
    stage.call("java", "list_groups", ADMIN)
    stage.call("java", "group_offsets", ADMIN, group=WORKERS)
    stage.call("librdkafka", "describe_group", "admin-rd", group="auditors")
    stage.call("java", "create_partitions", ADMIN, topic="payments", partitions=3)
    stage.call("java", "delete_group", ADMIN, group="mailers")
    stage.call("java", "delete_group", ADMIN, group="no-such-group")
