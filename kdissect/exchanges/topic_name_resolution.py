"""Holds exchanges until topic names are known, so that bodies do not depend on packet order.

Records of Kafka's own topics are decoded by the topic's name, and newer messages have only its id.
The name may come later in the capture: until then an exchange with such records waits, and all
behind it, so that their order is kept. The size of the queue is limited.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.exchanges.connection_state import NO_EXCHANGE
from kdissect.exchanges.exchange import Exchange
from kdissect.messages.extracted import ROW_BYTES
from kdissect.messages.internal_topics import is_opened
from kdissect.messages.partitions import AT_RECORD_BYTES, NO_ID, WIDTH

# Bytes of waiting frames. A client requests names every 5 minutes (metadata.max.age.ms) at least.
WAITING_LIMIT: Final = 32 << 20
EXCHANGE_SIZE: Final = 2_048  # approximate bytes that an exchange takes beside its frames
GIVEN_UP_LIMIT: Final = 10_000  # topic ids


class NameWait:
    """A queue of exchanges: feed all, take those that no longer wait.

    `names` are topic names by id, learnt elsewhere. `given_up` counts by topic id the exchanges
    that were released without a name because of the limit.
    """

    def __init__(self, names: dict[bytes, str], limit: i64 = WAITING_LIMIT) -> None:
        self.names = names
        self.limit = limit
        self.size: i64 = 0
        self.queue: list[Exchange] = []
        # Released entries at the queue's head; row of the next entry where the check resumes.
        self._gone: i64 = 0
        self._looked: i64 = 0
        self.given_up: dict[bytes, int] = {}

    def feed(self, exchange: Exchange) -> list[Exchange]:
        """Return the exchanges that no longer wait, in the order in which they were fed."""
        if not self.queue:
            self._looked = 0
            if not self._unnamed(exchange):
                return [exchange]
        self.queue.append(exchange)
        self.size += held_size(exchange)
        # Nearly always the first one continues to wait.
        start = self._gone
        while self._gone < len(self.queue):
            first = self.queue[self._gone]
            topic_id = self._unnamed(first)
            if topic_id:
                if self.size <= self.limit:
                    break
                self.give_up(topic_id)
            self.size -= held_size(first)
            self._gone += 1
            self._looked = 0
        done = self.queue[start : self._gone]
        if self._gone * 2 >= len(self.queue):
            del self.queue[: self._gone]
            self._gone = 0
            return done
        while start < self._gone:
            # They are not held any longer.
            self.queue[start] = NO_EXCHANGE
            start += 1
        return done

    def finish(self) -> list[Exchange]:
        """Return all waiting exchanges; no name will come."""
        left = self.waiting()
        self.queue = []
        self._gone = 0
        self.size = 0
        return left

    def waiting(self) -> list[Exchange]:
        """All waiting exchanges, in order."""
        return self.queue[self._gone :]

    def give_up(self, topic_id: bytes) -> None:
        """Count an exchange that was released without the name."""
        if topic_id in self.given_up or len(self.given_up) < GIVEN_UP_LIMIT:
            self.given_up[topic_id] = self.given_up.get(topic_id, 0) + 1

    def late_names(self) -> list[Problem]:
        """Problems for records of Kafka's own topics whose name came too late to open them."""
        problems: list[Problem] = []
        for topic_id, count in self.given_up.items():
            name = self.names.get(topic_id, "")
            if is_opened(name):
                text = f"records of {name} in {count} exchanges not opened: its name came too late"
                problems.append(Problem("messages", "late-topic-name", text))
        return problems

    def _unnamed(self, exchange: Exchange) -> bytes:
        """Id of the first topic with records and without a name; b"" for none.

        Rows before `_looked` have names, and a name is never removed.
        """
        partitions = exchange.partitions
        if partitions is None:
            return b""
        if "" not in partitions.topics:
            return b""
        cells = partitions.cells
        at = self._looked
        while at < len(cells):
            topic = cells[at]
            if cells[at + AT_RECORD_BYTES] > 0 and not partitions.topics[topic]:
                topic_id = partitions.topic_ids[topic]
                if topic_id != NO_ID and topic_id not in self.names:
                    self._looked = at
                    return topic_id
            at += WIDTH
        return b""


def held_size(exchange: Exchange) -> i64:
    """Approximate bytes that an exchange holds."""
    size: i64 = EXCHANGE_SIZE
    partitions = exchange.partitions
    if partitions is not None:
        size += partitions.count * ROW_BYTES + partitions.spent
    request, response = exchange.request_frame, exchange.response_frame
    if request is not None:
        size += len(request.data)
    if response is not None:
        size += len(response.data)
    return size
