"""The law of splits for fetch sessions that go on over other connections, as Java clients do."""

import random
from itertools import count
from pathlib import Path

import pytest

from tests.capture.writers import Captured
from tests.checkpoint.law import carried_on, interleaved, together, whole
from tests.checkpoint.mutations import written
from tests.conversation import CLIENT_PORT, conversation
from tests.seeds import SEED
from tests.test_fetch_sessions import fetch, fetched

SOURCE_PORT, TARGET_PORT = slice(34, 36), slice(36, 38)  # in Ethernet frames with IPv4


@pytest.mark.sweep(20)
@pytest.mark.parametrize("number", range(300))
def test_sessions_that_go_on_elsewhere_give_the_rows_of_the_whole(
    number: int, tmp_path: Path
) -> None:
    source = random.Random(f"{SEED} {number}")
    ports = count(CLIENT_PORT)
    clients = [session(source, 7 + client, ports) for client in range(source.choice((1, 1, 2, 3)))]
    packets = interleaved(source, clients)
    packets = packets[source.choice((0, 0, source.randrange(len(packets) // 3))) :]
    if source.random() < 0.3:
        del packets[source.randrange(len(packets))]
    path = written(packets, tmp_path / "sessions.pcap", link_type=1)
    expected = whole([path])
    for parts in (2, 3, 5):
        size = Path(path).stat().st_size // parts
        assert together([path], size)[0] == expected, f"{parts} pieces"
        assert carried_on([path], size, source)[0] == expected, f"{parts} pieces, resumed"


def session(source: random.Random, client: int, ports: "count[int]") -> list[Captured]:
    """Packets of a client on several connections, from one port or several.

    It mostly goes on with its session; else it begins another, with or without closing it, closes
    it, or goes back to one that it had before.
    """
    made: list[Captured] = []
    mentioned = [100 * client]
    number, epoch = mentioned[0], 0
    port = next(ports)
    is_steady = source.random() < 0.5
    for place in range(source.choice((2, 3, 4))):
        if place and source.random() < 0.7:
            port = next(ports)
        isn = 1_000 + 10_000_000 * place
        talk = conversation().port_reuse(isn, isn + 5_000_000)
        for request in range(1, source.randrange(3, 9)):
            kind = 1 if is_steady else source.random()
            offsets = {partition: source.randrange(1_000) for partition in range(4)}
            if epoch == 0 or kind < 0.1:
                closed = source.choice((0, number)) if epoch else 0
                asked = fetch(request, (closed, 0), offsets)
                number = answered = mentioned[-1] + 1
                mentioned.append(number)
                epoch = 1
            elif kind < 0.15:
                asked = fetch(request, (number, -1), offsets)
                answered = epoch = 0
            elif kind < 0.2:
                number = source.choice(mentioned)
                asked = fetch(request, (number, epoch))
                answered = source.choice((0, number))
                epoch += 1
            else:
                for partition in source.sample(range(4), source.randrange(5)):
                    del offsets[partition]
                asked = fetch(request, (number, epoch), offsets)
                answered = number
                epoch += 1
            found = source.sample(range(4), source.randrange(5))
            talk = talk.client(asked).broker(fetched(request, answered, *found))
        made += [moved(packet, port) for packet in talk.close().captured()]
    return made


def moved(packet: Captured, port: int) -> Captured:
    """The packet with another port of the client."""
    data = bytearray(packet.data)
    of_client = SOURCE_PORT if data[SOURCE_PORT] == CLIENT_PORT.to_bytes(2, "big") else TARGET_PORT
    data[of_client] = port.to_bytes(2, "big")
    return packet._replace(data=bytes(data))
