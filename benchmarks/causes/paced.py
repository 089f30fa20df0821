"""Clients of libraries that do not work in threads of their own: one agent and one thread each."""

import threading
from collections import Counter
from typing import Any

from tools.record.recording import Stage
from tools.record.scenarios.basics import settings_of

POLL_SECONDS = 0.5
VALUE = "a line of an order, long enough to be one: "


class Paced(threading.Thread):
    """A producer that writes a record `every_ms`, or a consumer that polls and commits."""

    def __init__(self, stage: Stage, library: str, client: str, work: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._stage, self._library, self._client, self._work = stage, library, client, work
        self._is_over = threading.Event()
        self.counts: Counter[str] = Counter()

    def open(self) -> None:
        """Make the client and begin."""
        name = self._library.partition("#")[0]
        told = settings_of(name, self._stage.options.release)
        settings = told | self._work.get("settings", {})
        if "group" in self._work:
            member = {"group": self._work["group"], "topics": self._work["topics"]}
            self._stage.call(
                self._library, "open_consumer", self._client, **member, settings=settings
            )
        else:
            how = {"acks": "all", "idempotent": False}
            self._stage.call(self._library, "open_producer", self._client, **how, settings=settings)
        self.start()

    def run(self) -> None:
        """Work until the end."""
        work = self._poll if "group" in self._work else self._produce
        while not self._is_over.is_set():
            work()

    def stop(self) -> dict[str, int]:
        """End the work and the client; return the counts."""
        self._is_over.set()
        self.join()
        self._stage.call(self._library, "close", self._client)
        return dict(self.counts)

    def _produce(self) -> None:
        topics, number = self._work["topics"], self.counts["sent"]
        record = {"topic": topics[number % len(topics)], "key": f"key-{number}", "partition": 0}
        record["value"] = f"{VALUE}{number}"
        self._stage.call(self._library, "produce", self._client, records=[record])
        self.counts["sent"] += 1
        self._is_over.wait(self._work.get("every_ms", 20) / 1000)

    def _poll(self) -> None:
        told = self._stage.call(self._library, "poll", self._client, seconds=POLL_SECONDS)
        self.counts["read"] += told.result["records"]
        self._stage.call(self._library, "commit", self._client)
