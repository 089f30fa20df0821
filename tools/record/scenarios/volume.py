"""Sessions for benchmarks: large batches (`bulk`), batches of short records (`records`), many
small exchanges (`small`), fetches of many partitions (`wide`).

Too large to commit; their side-cars hold no row per record.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

BROKER_PROPERTIES = SMALL_SINGLE_BROKER | {"log.segment.bytes": "67108864"}
ADMIN = "admin-java"
PARTITIONS = 3
SEED = 20
TEXT = """
    checkout cart session expired retry upstream timeout payment accepted declined warehouse
    shelf picked packed shipped courier delivered returned refund coupon banner search filter
    wishlist stock low restock supplier invoice paid overdue ledger audit login logout token
"""
WORDS = TEXT.split()

# (library, client, codec, batch size, topic, megabytes of values)
BULK_PRODUCERS = (
    ("java", "bulk-java-none", "none", 500_000, "page-views", 10),
    ("java", "bulk-java-zstd", "zstd", 262_144, "telemetry", 10),
    ("librdkafka", "bulk-rd-lz4", "lz4", 131_072, "invoices", 10),
    ("librdkafka", "bulk-rd-none", "none", 65_536, "audit", 9),
    ("kafka_python", "bulk-kp-zstd", "zstd", 200_000, "inventory", 8),
    ("aiokafka", "bulk-aio-lz4", "lz4", 16_384, "logs", 6),
)
# The same of short records.
RECORD_PRODUCERS = (
    ("java", "records-java-none", "none", 131_072, "clicks", 5),
    ("librdkafka", "records-rd-lz4", "lz4", 131_072, "moves", 5),
    ("java", "records-java-zstd", "zstd", 131_072, "sales", 5),
)
# (topic, producing library, records, consuming library, its settings)
SMALL_PAIRS: tuple[tuple[str, str, int, str, dict[str, Any]], ...] = (
    ("chat", "java", 5000, "aiokafka", {"heartbeat_interval_ms": 50}),
    ("bids", "kafka_python", 4000, "java", {"heartbeat.interval.ms": "50"}),
    ("moves", "librdkafka", 4000, "kafka_python", {"heartbeat_interval_ms": 50}),
    ("pings", "aiokafka", 2000, "librdkafka", {"heartbeat.interval.ms": 50}),
)
METADATA_REQUESTS = 1000
WIDE_TOPICS, WIDE_PARTITIONS = 100, 12
WIDE_ROUNDS = 12  # a record for every partition each
WIDE_READERS = ("librdkafka", "java", "aiokafka")
WIDE_FETCH_SIZE = 400  # bytes of a partition in one response


def play_bulk(stage: Stage) -> None:
    """Large batches of every codec in, and out again in large fetches."""
    _play_batches(stage, BULK_PRODUCERS, ("java", "librdkafka", "aiokafka") * 2, _document)


def play_records(stage: Stage) -> None:
    """Batches of many records of about 100 bytes, in and out again."""
    _play_batches(stage, RECORD_PRODUCERS, ("java", "librdkafka", "java"), _event)


def _play_batches(
    stage: Stage,
    plans: tuple[tuple[str, str, str, int, str, int], ...],
    readers: tuple[str, ...],
    make_document: Callable[[random.Random, int], dict[str, Any]],
) -> None:
    topics = [plan[4] for plan in plans]
    stage.create_topics(ADMIN, [{"name": name, "partitions": PARTITIONS} for name in topics])
    counts = {}
    for seed, (library, client, codec, batch_size, topic, megabytes) in enumerate(plans):
        file = stage.directory / f"{client}.jsonl"
        counts[topic] = write_records(file, topic, seed, megabytes * 1_000_000, make_document)
        settings = {"codec": codec, "batch_size": batch_size, "linger_ms": 50}
        stage.call(library, "open_producer", client, **settings)
        stage.call(library, "produce", client, records_file=str(file), journal=False)
        stage.call(library, "close", client)
    for library, topic in zip(readers, topics, strict=True):
        client = f"reader-{topic}"
        places = [(topic, partition, 0) for partition in range(PARTITIONS)]
        stage.call(library, "open_consumer", client, assign=places, fetch_size=500_000)
        stage.call(library, "poll", client, seconds=60, records=counts[topic], journal=False)
        stage.call(library, "close", client)
    stage.call("java", "close", ADMIN)


def play_small(stage: Stage) -> None:
    """One record a request, a consumer at its heels, commits, heartbeats, metadata."""
    topics = [{"name": pair[0], "partitions": 1} for pair in SMALL_PAIRS]
    stage.create_topics(ADMIN, topics)
    for seed, (topic, library, count, reading, settings) in enumerate(SMALL_PAIRS):
        file = stage.directory / f"{topic}.jsonl"
        write_small_records(file, topic, seed, count)
        producer, consumer = f"{topic}-producer", f"{topic}-consumer"
        stage.call(library, "open_producer", producer, linger_ms=0)
        stage.call(
            reading, "open_consumer", consumer, group=topic, topics=[topic], settings=settings
        )
        stage.send(
            reading, "poll", consumer, seconds=100, records=count, journal=False, commit_each=True
        )
        stage.call(library, "produce", producer, records_file=str(file), each=True, journal=False)
        stage.receive(reading)
        stage.call(library, "close", producer)
        stage.call(reading, "close", consumer)
    stage.call("java", "list_topics", ADMIN, repeat=METADATA_REQUESTS)
    stage.call("java", "close", ADMIN)


def play_wide(stage: Stage) -> None:
    """All partitions of many topics filled in rounds, then read a little of each at a time."""
    names = [f"wide-{number:03d}" for number in range(WIDE_TOPICS)]
    topics = [{"name": name, "partitions": WIDE_PARTITIONS} for name in names]
    stage.create_topics(ADMIN, topics)
    places = [(name, partition) for name in names for partition in range(WIDE_PARTITIONS)]
    stage.call("java", "open_producer", "wide-producer", linger_ms=20)
    for round_number in range(WIDE_ROUNDS):
        file = stage.directory / f"wide-{round_number}.jsonl"
        write_wide_records(file, places, round_number)
        stage.call("java", "produce", "wide-producer", records_file=str(file), journal=False)
    stage.call("java", "close", "wide-producer")
    starts = [(*place, 0) for place in places]
    for library in WIDE_READERS:
        client = f"wide-{library}"
        stage.call(library, "open_consumer", client, assign=starts, fetch_size=WIDE_FETCH_SIZE)
        count = WIDE_ROUNDS * len(places)
        stage.call(library, "poll", client, seconds=60, records=count, journal=False)
        stage.call(library, "close", client)
    stage.call("java", "close", ADMIN)


def write_wide_records(file: Path, places: list[tuple[str, int]], round_number: int) -> None:
    """Write a record of 20 to 200 bytes for each partition."""
    randomness = random.Random(SEED + round_number)  # noqa: S311 - filler
    with file.open("w", encoding="utf-8") as lines:
        for topic, partition in places:
            value = f"{round_number} {' '.join(_words(randomness, randomness.randrange(2, 24)))}"
            record = {"topic": topic, "partition": partition, "value": value}
            lines.write(json.dumps(record) + "\n")


def write_records(
    file: Path,
    topic: str,
    seed: int,
    size: int,
    make_document: Callable[[random.Random, int], dict[str, Any]],
) -> int:
    """Write JSON records of so many value bytes; how many records that were."""
    randomness = random.Random(SEED + seed)  # noqa: S311 - filler
    count = written = 0
    with file.open("w", encoding="utf-8") as lines:
        while written < size:
            value = json.dumps(make_document(randomness, count))
            record = {"topic": topic, "partition": count // 50 % PARTITIONS, "value": value}
            lines.write(json.dumps(record | {"key": f"{randomness.randrange(5000):05d}"}) + "\n")
            count += 1
            written += len(value)
    return count


def write_small_records(file: Path, topic: str, seed: int, count: int) -> None:
    """Write so many records of 20 to 200 bytes."""
    randomness = random.Random(SEED + seed)  # noqa: S311 - filler
    with file.open("w", encoding="utf-8") as lines:
        for number in range(count):
            value = f"{number} {' '.join(_words(randomness, randomness.randrange(2, 24)))}"
            lines.write(json.dumps({"topic": topic, "partition": 0, "value": value}) + "\n")


def _document(randomness: random.Random, number: int) -> dict[str, Any]:
    """A semi-compressible document: repeated names, random ids and numbers, some text."""
    return {
        "id": f"{randomness.getrandbits(128):032x}",
        "sequence": number,
        "time": 1_795_000_000_000 + number * 7,
        "user": {"id": randomness.randrange(10**7), "plan": randomness.choice(WORDS)},
        "measures": [round(randomness.gauss(50, 20), 4) for _ in range(randomness.randrange(30))],
        "tags": list(_words(randomness, randomness.randrange(8))),
        "message": " ".join(_words(randomness, randomness.randrange(10, 120))),
    }


def _event(randomness: random.Random, number: int) -> dict[str, Any]:
    """A short document: user, action, time and count."""
    return {
        "sequence": number,
        "time": 1_795_000_000_000 + number * 7,
        "user": randomness.randrange(10**7),
        "did": randomness.choice(WORDS),
        "count": randomness.randrange(100),
    }


def _words(randomness: random.Random, count: int) -> Iterator[str]:
    """So many words."""
    return (randomness.choice(WORDS) for _ in range(count))
