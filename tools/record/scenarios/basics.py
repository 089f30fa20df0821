"""Basic client traffic: produce with each codec, consume in a group, commit.

The clients are those of the recording; old brokers also get their own Scala tools.
"""

from typing import Any

from tools.record.agents import parse_library
from tools.record.recording import Stage
from tools.record.releases import Release, version_number

PARTITIONS = 2
RECORDS = 6
WORDS = ("espresso", "ristretto", "lungo", "cortado", "macchiato", "americano")
# The first release of which brokers take a codec, and the libraries that do not write it here.
CODECS: tuple[tuple[str, tuple[int, ...], tuple[str, ...]], ...] = (
    ("none", (0, 8), ()),
    ("gzip", (0, 8), ()),
    ("snappy", (0, 8), ()),
    ("lz4", (0, 8, 2), ("kafkajs",)),
    ("zstd", (2, 1), ("kafkajs", "kafka_python@1.4.7")),
)
FIRST_WITH_GROUPS = {"sarama": (0, 10, 2), "librdkafka": (0, 9), "franz": (0, 9)}
FIRST_WITHOUT_SCALA_CLIENTS = (0, 11)


def play(stage: Stage) -> None:
    """Every client of the recording, one after the other."""
    clients = stage.options.clients
    topics = [{"name": topic_of(library), "partitions": PARTITIONS} for library in clients]
    stage.create_topics("admin-java", topics)
    for library in clients:
        produce(stage, library)
        consume(stage, library)
    if stage.options.release.number < FIRST_WITHOUT_SCALA_CLIENTS:
        use_scala_tools(stage, topic_of(clients[0]))


def topic_of(library: str) -> str:
    """A library's own topic."""
    return f"coffee-{short_name(library)}"


def short_name(library: str) -> str:
    """A library as part of a client id: java-2.4.1."""
    return library.replace("@", "-").replace("_", "-")


def settings_of(library: str, release: Release) -> dict[str, Any]:
    """Options that a library needs for a release, where it does not negotiate versions."""
    name = parse_library(library).name
    if name == "sarama":
        return {"version": release.version}
    if name == "librdkafka" and release.number < (0, 10):
        return {"api.version.request": False, "broker.version.fallback": release.version}
    if name == "franz" and release.number < (0, 10):
        return {"max_version": "v" + ".".join(map(str, release.number[:3]))}
    return {}


def codecs_of(library: str, release: Release) -> list[str]:
    """The codecs that library and release have in common."""
    parsed = parse_library(library)
    is_old = parsed.name == "java" and parsed.version is not None
    client = version_number(parsed.version) if is_old and parsed.version else release.number
    oldest = min(client, release.number)
    if parsed.name == "sarama" and oldest < (0, 10):
        oldest = (0, 8)  # it knows no lz4 as wrong as theirs
    return [
        codec
        for codec, first, without in CODECS
        if oldest >= first and parsed.name not in without and library not in without
    ]


def coffees(topic: str, first: int, has_headers: bool) -> list[dict[str, Any]]:
    """Records with what records may have: null keys and values, headers, repeated text."""
    return [
        {
            "topic": topic,
            "partition": number % PARTITIONS,
            "key": None if number % 6 == 4 else f"k{number}",
            "value": None if number % 6 == 5 else f"{WORDS[number % 6]} {'very ' * 9}hot {number}",
            "headers": [["cup", "small"]] if has_headers and number % 3 == 0 else [],
        }
        for number in range(first, first + RECORDS)
    ]


def produce(stage: Stage, library: str) -> None:
    """One producer a codec."""
    release = stage.options.release
    settings = settings_of(library, release)
    for place, codec in enumerate(codecs_of(library, release)):
        client = f"{short_name(library)}-{codec}"
        acks = ("all", "1", "all", "1", "all")[place]
        more = {"idempotent": False, "settings": settings}
        stage.call(library, "open_producer", client, codec=codec, acks=acks, **more)
        records = coffees(topic_of(library), place * RECORDS, release.number >= (0, 11))
        stage.call(library, "produce", client, records=records)
        stage.call(library, "close", client)


def consume(stage: Stage, library: str) -> None:
    """A group of one reads it all and commits; where there are no groups, just reads."""
    release = stage.options.release
    client, topic = f"{short_name(library)}-reader", topic_of(library)
    has_groups = release.number >= FIRST_WITH_GROUPS.get(parse_library(library).name, (0,))
    membership: dict[str, Any] = {"group": f"{short_name(library)}-group", "topics": [topic]}
    if not has_groups:
        membership = {"assign": [(topic, partition, 0) for partition in range(PARTITIONS)]}
    settings = settings_of(library, release)
    if parse_library(library).name == "librdkafka":
        settings |= {"session.timeout.ms": 10000}  # 0.9 takes no more than 30 s
    stage.call(library, "open_consumer", client, **membership, settings=settings)
    wanted = len(codecs_of(library, release)) * RECORDS
    stage.call(library, "poll", client, seconds=20, records=wanted)
    if has_groups:
        stage.call(library, "commit", client)
    stage.call(library, "close", client)


def use_scala_tools(stage: Stage, topic: str) -> None:
    """The Scala clients of the broker's own release: producer, simple and group consumer."""
    cluster = stage.cluster
    lines = "".join(f"{word}\n" for word in WORDS)
    brokers = ("--broker-list", cluster.address)
    is_first = stage.options.release.number < (0, 9)
    old = () if is_first else ("--old-producer",)
    cluster.run("kafka.tools.ConsoleProducer", *brokers, "--topic", topic, *old, given=lines)
    place = ("--topic", topic, "--partition", "0")
    cluster.run("kafka.tools.SimpleConsumerShell", *brokers, *place, "--no-wait-at-logend")
    cluster.run("kafka.tools.GetOffsetShell", *brokers, "--topic", topic, "--time", "-1")
    cluster.run(
        *("kafka.tools.ConsoleConsumer", "--zookeeper", cluster.zookeeper_address),
        *("--topic", topic, "--from-beginning", "--max-messages", "20"),
    )
