"""Topics that keep messages of magic 0 and 1: converted up and down by the broker.

New clients write magic 2 into them and get it back down-converted or as stored; old clients write
magic 0 and 1 into all of them and read magic 2 converted down.
"""

from tools.record.recording import Stage
from tools.record.releases import Release
from tools.record.scenarios.basics import PARTITIONS, coffees, settings_of, short_name
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

FORMATS = {"magic-0": "0.9.0", "magic-1": "0.10.0", "magic-2": "0.11.0"}
CODECS = ("none", "gzip", "lz4")
# How kafka-python 1.4 is made to speak as if to an older broker.
SPOKEN = ((0, 9), (0, 10), None)


def properties_of(release: Release, _: str) -> dict[str, str]:
    """The broker's properties: 3.x heeds message.format.version only below an old protocol."""
    is_new = release.number >= (3, 0)
    return SMALL_SINGLE_BROKER | ({"inter.broker.protocol.version": "2.8"} if is_new else {})


def play(stage: Stage) -> None:
    """Both clients write to and read from a topic of each format."""
    release = stage.options.release
    formats = {
        name: version
        for name, version in FORMATS.items()
        if release.number >= tuple(int(part) for part in version.split("."))
    }
    topics = [
        {"name": name, "partitions": PARTITIONS, "configs": {"message.format.version": version}}
        for name, version in formats.items()
    ]
    stage.create_topics("admin-java", topics)
    new, old = stage.options.clients
    for place, topic in enumerate(formats):
        write(stage, new, topic, place * 100)
        write(stage, old, topic, place * 100 + 50)
    for topic in formats:
        read(stage, new, topic)
        read(stage, old, topic)


def write(stage: Stage, library: str, topic: str, first: int) -> None:
    """A producer a codec."""
    settings = settings_of(library, stage.options.release)
    for number, codec in enumerate(CODECS):
        client = f"{short_name(library)}-{topic}-{codec}"
        more = {} if library.startswith("java") else {"api_version": SPOKEN[number % 2]}
        stage.call(
            *(library, "open_producer", client),
            codec=codec,
            acks="1",
            idempotent=False,
            settings=settings | more,
        )
        records = coffees(topic, first + number * 10, has_headers=False)
        stage.call(library, "produce", client, records=records)
        stage.call(library, "close", client)


def read(stage: Stage, library: str, topic: str) -> None:
    """A reader of each version that the library can be made to speak."""
    spoken = (None,) if library.startswith("java") else ((0, 9), (0, 10))
    for version in spoken:
        client = f"{short_name(library)}-{topic}-reader"
        if version is not None:
            client += f"-{version[0]}.{version[1]}"
        settings = settings_of(library, stage.options.release)
        settings |= {} if version is None else {"api_version": version}
        places = [(topic, partition, 0) for partition in range(PARTITIONS)]
        stage.call(library, "open_consumer", client, assign=places, settings=settings)
        stage.call(library, "poll", client, seconds=10, records=36)
        stage.call(library, "close", client)
