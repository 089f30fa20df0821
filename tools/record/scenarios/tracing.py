"""Records with the span in which they were sent: the header `traceparent` of W3C Trace Context."""

from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.basics import PARTITIONS, short_name

TOPIC = "traced"
# A trace each, one after the other; then all together, in batches of several traces.
ALONE = 3
TOGETHER = 6
CODECS = ("none", "gzip")


def play(stage: Stage) -> None:
    """A producer a library, and one without headers; then a reader of all of it."""
    libraries = stage.options.clients
    stage.create_topics("admin-java", [{"name": TOPIC, "partitions": PARTITIONS}])
    number = 0
    for library, codec in zip(libraries, CODECS, strict=True):
        client = f"{short_name(library)}-{codec}"
        more = {"idempotent": False, "acks": "all", "codec": codec}
        stage.call(library, "open_producer", client, **more)
        for _ in range(ALONE):
            stage.call(library, "produce", client, records=[order(number)])
            number += 1
        together = [order(number + place) for place in range(TOGETHER)]
        stage.call(library, "produce", client, records=together)
        number += TOGETHER
        stage.call(library, "produce", client, records=[{**order(number), "headers": []}])
        number += 1
        stage.call(library, "close", client)
    member = {"group": "traced-readers", "topics": [TOPIC]}
    reader = f"{short_name(libraries[0])}-reader"
    stage.call(libraries[0], "open_consumer", reader, **member)
    stage.call(libraries[0], "poll", reader, seconds=20, records=number)
    stage.call(libraries[0], "close", reader)


def order(number: int) -> dict[str, Any]:
    """A record with the context of a span: number is the end of trace id and span id."""
    return {
        "topic": TOPIC,
        "partition": number % PARTITIONS,
        "key": f"k{number}",
        "value": f"order {number}",
        "headers": [["shop", "north"], ["traceparent", traceparent(number)]],
    }


def traceparent(number: int) -> str:
    """Header of record `number`."""
    return f"00-0af7651916cd43dd8448eb211c80{number:04x}-b7ad6b716920{number:04x}-01"
