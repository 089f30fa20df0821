"""`Masters`: master secrets for resumption of TLS 1.2 sessions."""

from itertools import islice
from typing import Final


class Masters:
    """Master secrets of TLS 1.2 sessions that may be resumed, by session id or ticket."""

    LIMIT: Final = 10_000  # a ticket has some 200 bytes
    FORGOTTEN: Final = LIMIT // 16  # the oldest go first: a dict is slow to find its first key

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def find(self, name: bytes) -> bytes | None:
        return self._known.get(name) if name else None

    def add(self, name: bytes, master: bytes) -> None:
        if name:
            self._known[name] = master
            if len(self._known) > self.LIMIT:
                for oldest in list(islice(self._known, self.FORGOTTEN)):
                    del self._known[oldest]
