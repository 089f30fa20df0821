"""One short session on a network that is not the plain loopback."""

from tools.record.configuration import Layout
from tools.record.networks import bridged, loopback_6, vxlan
from tools.record.recording import Stage
from tools.record.scenarios.basics import PARTITIONS, coffees, short_name

TOPIC = "routed"
ROUNDS = 4
IPV6_LAYOUT = Layout(network=loopback_6())
BRIDGED_LAYOUT = Layout(network=bridged())
VXLAN_LAYOUT = Layout(network=vxlan())
CODECS = ("none", "lz4")


def play(stage: Stage) -> None:
    """Producers that stay while the late taps begin, then a reader a library."""
    libraries = stage.options.clients
    stage.create_topics("admin-java", [{"name": TOPIC, "partitions": PARTITIONS}])
    for library, codec in zip(libraries, CODECS, strict=True):
        more = {"idempotent": False, "acks": "all", "codec": codec}
        stage.call(library, "open_producer", producer_of(library), **more)
    number = 0
    for turn in range(ROUNDS):
        if turn == ROUNDS // 2:
            stage.start_late_taps()
        for library in libraries:
            records = coffees(TOPIC, number, has_headers=True)
            stage.call(library, "produce", producer_of(library), records=records)
            number += len(records)
    for library in libraries:
        stage.call(library, "close", producer_of(library))
        client = f"{short_name(library)}-reader"
        member = {"group": f"{client}s", "topics": [TOPIC]}
        stage.call(library, "open_consumer", client, **member)
        stage.call(library, "poll", client, seconds=20, records=number)
        stage.call(library, "commit", client)
        stage.call(library, "close", client)


def producer_of(library: str) -> str:
    """Its client id."""
    return f"{short_name(library)}-producer"
