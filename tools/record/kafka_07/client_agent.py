"""Runs under Python 2.7: samsa and brod, clients of Kafka 0.7, say what they did as JSON lines.

    python2.7 client_agent.py PORT            with both libraries on PYTHONPATH

An offset is that of the message's first byte, as both libraries give it.
"""

import hashlib
import json
import sys
import time

import brod
from samsa.client import Client
from samsa.exceptions import ProtocolClientError
from samsa.handlers import ThreadingHandler

EARLIEST, LATEST = -2, -1
ORDERS = [b"order %d" % number for number in range(6)] + [b"", b"\x00\xff\xfe"]
AUDIT = [b"audit " * 40, b"short"]


def now():
    return int(time.time() * 1e9)


def tell(kind, **fields):
    sys.stdout.write(json.dumps(dict(fields, kind=kind), sort_keys=True) + "\n")


def tell_payload(kind, session, topic, partition, offset, payload):
    raw = bytes(payload)
    digest = hashlib.sha256(raw).hexdigest()
    tell(kind, session=session, topic=topic, partition=partition, offset=offset,
         value_size=len(raw), value_sha256=digest)  # fmt: skip


def operation(session, name, call, **arguments):
    start = now()
    error = None
    result = []
    try:
        result = list(call() or [])
    except ProtocolClientError as raised:
        error = raised.ERROR_CODE
    tell("operations", session=session, operation=name, start_ns=start, end_ns=now(),
         arguments=arguments, error=error)  # fmt: skip
    return result


def produced(session, topic, partition, payloads):
    for payload in payloads:
        tell_payload("produced", session, topic, partition, None, payload)


def run_samsa(port):
    client = Client("127.0.0.1", ThreadingHandler(), port=port)
    me = "samsa"

    def produce(topic, payloads, version):
        operation(me, "produce", lambda: client.produce(topic, 0, payloads, version=version),
                  topic=topic, partition=0, magic=version, count=len(payloads))  # fmt: skip
        produced(me, topic, 0, payloads)

    def fetch(topic, partition, offset, size):
        found = operation(me, "fetch", lambda: client.fetch(topic, partition, offset, size),
                          topic=topic, partition=partition, offset=offset, size=size)  # fmt: skip
        for message in found:
            tell_payload("consumed", me, topic, partition, message.offset, message.payload)

    def offsets(topic, when, count):
        found = operation(me, "offsets", lambda: client.offsets(topic, 0, when, count),
                          topic=topic, partition=0, time=when, count=count)  # fmt: skip
        tell("listed", session=me, topic=topic, partition=0, offsets=found)

    produce("orders", ORDERS[:4], 1)
    produce("old-orders", ORDERS[4:6], 0)
    pairs = [("orders", 0, ORDERS[4:]), ("audit", 1, AUDIT)]
    operation(me, "multiproduce", lambda: client.multiproduce(pairs, version=1), count=2)
    for topic, partition, payloads in pairs:
        produced(me, topic, partition, payloads)
    offsets("orders", EARLIEST, 1)
    offsets("orders", LATEST, 10)
    fetch("orders", 0, 0, 1000)
    fetch("orders", 0, 34, 50)  # the third message is cut off
    fetch("packed", 0, 0, 1000)
    fetch("nowhere", 0, 0, 1000)
    fetch("orders", 0, 1 << 40, 1000)
    fetch("orders", 9, 0, 1000)
    asked = [("orders", 0, 17, 40), ("audit", 1, 0, 1000), ("audit", 0, 0, 1000)]
    sets = operation(me, "multifetch", lambda: client.multifetch(asked), count=3)
    for (topic, partition, _, _), found in zip(asked, sets):  # noqa: B905 - Python 2.7
        for message in found:
            tell_payload("consumed", me, topic, partition, message.offset, message.payload)
    client.disconnect()


def run_brod(port):
    client = brod.Kafka("127.0.0.1", port)
    me = "brod"
    payloads = [b"brod %d" % number for number in range(3)]
    operation(me, "produce", lambda: client.produce("brods", payloads, 0),
              topic="brods", partition=0, magic=0, count=3)  # fmt: skip
    produced(me, "brods", 0, payloads)
    for when in (EARLIEST, LATEST):
        found = operation(me, "offsets", lambda when=when: client.offsets("brods", when, 2, 0),
                          topic="brods", partition=0, time=when, count=2)  # fmt: skip
        tell("listed", session=me, topic="brods", partition=0, offsets=found)
    found = operation(me, "fetch", lambda: client.fetch("brods", 0, 0, 4096),
                      topic="brods", partition=0, offset=0, size=4096)  # fmt: skip
    for offset, payload in found:
        tell_payload("consumed", me, "brods", 0, offset, payload)
    client._disconnect()


if __name__ == "__main__":
    run_samsa(int(sys.argv[1]))
    run_brod(int(sys.argv[1]))
