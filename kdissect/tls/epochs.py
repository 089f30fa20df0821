"""Keys and record numbers of a direction: one epoch of keys after the other.

Records are numbered from 0 for each key. The number is not sent but authenticated, so after a loss
it is found by trying. An epoch is the period between two key changes:

    TLS 1.0 to 1.2   one from each ChangeCipherSpec to the next
    TLS 1.3          (early data, then) handshake, then application data, then one more for each
                     KeyUpdate
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kdissect.tls.ciphers import Opener, make_opener
from kdissect.tls.derivation import TLS_1_3, keys_of_secret, next_secret
from kdissect.tls.records import HEADER_SIZE, Record
from kdissect.tls.suites import Suite

# Record numbers tried for one record at most: 16 MiB of lost full records, 5 ms of trying.
MAX_TRIES: Final = 1024
# The smallest record: its header, an explicit nonce or the inner type, and a tag.
SMALLEST_RECORD: Final = HEADER_SIZE + 1 + 16
# KeyUpdates that may have been lost, and records under the newest keys.
LOST_UPDATES: Final = 2
EARLY_EPOCH: Final = -1
HANDSHAKE_EPOCH: Final = 0
APPLICATION_EPOCH: Final = 1


class Opened(NamedTuple):
    """A decrypted record; `passed` is the count of skipped numbers, -1 if keys changed too."""

    kind: int
    content: bytes
    prefix: int
    passed: int


class Epochs:
    """Keys and numbers of one direction."""

    def __init__(self) -> None:
        self.sequence = 0
        # Maximum number of records that may have been lost in holes.
        self.unsure = 0

    @property
    def overhead(self) -> int:
        """See `Opener.overhead`; of the keys that were used last."""
        raise NotImplementedError

    def open(self, record: Record) -> Opened | None:
        """Decrypt the record and advance; None if no available key fits."""
        raise NotImplementedError

    def lose(self, length: int, count: int) -> None:
        """`length` bytes of records were lost; `count` of them, -1 if unknown."""
        if count >= 0:
            self.sequence += count
        else:
            self.unsure = min(MAX_TRIES, self.unsure + length // SMALLEST_RECORD + 1)

    def _pass_over(self) -> None:
        """Count a record not decrypted: it has a number, unless it was none after a hole."""
        if self.unsure:
            self.unsure = min(MAX_TRIES, self.unsure + 1)
        else:
            self.sequence += 1


class SessionKeys(Epochs):
    """One epoch of TLS 1.0 to 1.2."""

    def __init__(self, opener: Opener) -> None:
        super().__init__()
        self.opener = opener

    @property
    def overhead(self) -> int:
        return self.opener.overhead

    def open(self, record: Record) -> Opened | None:
        opener = self.opener
        for ahead in range(self.unsure + 1):
            number = self.sequence + ahead
            found = opener.open(record.kind, record.version, number, record.body)
            if found is not None:
                self.sequence = number + 1
                self.unsure = 0
                return Opened(found[0], found[1], opener.prefix, ahead)
        self._pass_over()
        opener.pass_over(record.body)
        return None

    def lose(self, length: int, count: int) -> None:
        super().lose(length, count)
        self.opener.pass_over(b"")


class TrafficKeys(Epochs):
    """The epochs of TLS 1.3; `secrets` are those of handshake and application data, or None.

    `early` is that of early data, which then is the first epoch. With `is_behind_early`,
    undecryptable early data precedes: until the first record is decrypted, failing ones have no
    number.
    """

    def __init__(
        self,
        suite: Suite,
        secrets: tuple[bytes | None, bytes | None],
        early: bytes | None = None,
        is_behind_early: bool = False,
    ) -> None:
        super().__init__()
        self.epoch = HANDSHAKE_EPOCH if early is None else EARLY_EPOCH
        self._suite = suite
        self._secrets = list(secrets)
        self._early = early
        self._is_behind_early = is_behind_early
        self._openers: dict[int, Opener | None] = {}

    @property
    def overhead(self) -> int:
        opener = self._opener(self.epoch)
        return -1 if opener is None else opener.overhead

    def advance(self) -> None:
        """Change the keys after the last decrypted record."""
        self._go(self.epoch + 1, 0)

    def open(self, record: Record) -> Opened | None:
        for epoch, number in self._numbers():
            opener = self._opener(epoch)
            if opener is None:
                continue
            found = opener.open(record.kind, record.version, number, record.body)
            if found is not None:
                passed = number - self.sequence if epoch == self.epoch else -1
                self._go(epoch, number + 1)
                self.unsure = 0
                self._is_behind_early = False
                return Opened(found[0], found[1], opener.prefix, passed)
        if not self._is_behind_early:
            self._pass_over()
        return None

    def _numbers(self) -> Iterator[tuple[int, int]]:
        """Epochs and numbers that the next record may have, the most likely first."""
        yield self.epoch, self.sequence
        for ahead in range(1, self.unsure + 1):
            yield self.epoch, self.sequence + ahead
        later = LOST_UPDATES if self.unsure else 1
        for epoch in range(self.epoch + 1, self.epoch + later + 1):
            for number in range(self.unsure + 1):
                yield epoch, number

    def _go(self, epoch: int, sequence: int) -> None:
        for old in [old for old in self._openers if old < epoch]:
            del self._openers[old]
        self.epoch = epoch
        self.sequence = sequence

    def _opener(self, epoch: int) -> Opener | None:
        if epoch not in self._openers:
            secret = self._secret(epoch)
            self._openers[epoch] = (
                None
                if secret is None
                else make_opener(TLS_1_3, self._suite, keys_of_secret(self._suite, secret))
            )
        return self._openers[epoch]

    def _secret(self, epoch: int) -> bytes | None:
        if epoch == EARLY_EPOCH:
            return self._early
        while len(self._secrets) <= epoch:
            last = self._secrets[-1]
            self._secrets.append(None if last is None else next_secret(self._suite, last))
        return self._secrets[epoch]
