"""librdkafka's producer and consumer, once, for `tools.record_client_twins`; settings on stdin."""

import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

VALUES = (b"small", b"v" * 1000)
TIMESTAMP_MS = 1_700_000_000_000
TIMEOUT_S = 20.0
SETTLE_S = 1.5  # until a fetch of the paused partition has been answered
CONSUMER = {"group.id": "twins", "enable.auto.commit": False}


def main() -> None:
    asked = json.load(sys.stdin)
    settings, topic = asked["settings"], asked["topic"]
    producer = Producer(settings | {"linger.ms": 0})
    for value in VALUES:
        producer.produce(topic, value, b"k", partition=0, timestamp=TIMESTAMP_MS)
        assert not producer.flush(TIMEOUT_S)
    consumer = Consumer(settings | CONSUMER)
    partition = TopicPartition(topic, 0, 0)
    consumer.assign([partition])
    for value in VALUES:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == value
    consumer.pause([partition])
    time.sleep(SETTLE_S)
    consumer.close()


if __name__ == "__main__":
    main()
