"""`IncrementalCapture`: packets of one capture that is fed incrementally.

In: the bytes as they are stored, in pieces of any size, compressed if it is compressed. Out: its
packets. Independent of files and of how they are read.
"""

from kdissect.capture.blocks import Secrets
from kdissect.capture.capture_file import CHUNK_SIZE, SHORTEST_MAGIC
from kdissect.capture.compressed import CompressedReader, find_decoder
from kdissect.capture.formats import MAGIC_SIZE, make_scanner
from kdissect.capture.packet import Packet
from kdissect.capture.pcapng import PcapngScanner
from kdissect.capture.scanner import Scanner
from kdissect.errors import CaptureError, Problem, TruncatedCapture


class IncrementalCapture:
    """Feed it bytes and take packets, those of file `capture` after `first_ordinal` others.

    `size` bytes were fed. If `has_more`, some of them are not decompressed yet: call ``feed(b"")``
    to continue. When all are fed, call `finish` until it `is_over`. Raises the same `CaptureError`s
    as `CaptureFile`, with the `name`.
    """

    def __init__(self, name: str, capture: int = 0, first_ordinal: int = 0) -> None:
        self.name = name
        self.capture = capture
        self.size = 0
        self.has_more = False
        self.is_over = False
        self._first_ordinal = first_ordinal
        # Stored bytes that were not examined yet.
        self._stored = b""
        # Plain bytes that are too few to detect the format.
        self._first = b""
        self._is_recognised = False
        self._compressed: CompressedReader | None = None
        self._scanner: Scanner | None = None
        self._problems: list[Problem] = []

    @property
    def ordinal(self) -> int:
        """Ordinal of the last packet returned."""
        return self._first_ordinal + (self._scanner.number if self._scanner is not None else 0)

    def feed(self, data: bytes) -> list[Packet]:
        """Packets that these bytes complete."""
        self.size += len(data)
        self._stored = self._stored + data if self._stored else data
        return self._named(is_end=False)

    def finish(self) -> list[Packet]:
        """Packets of the last bytes at the end; a truncated packet becomes a `Problem`."""
        return self._named(is_end=True)

    def finish_all(self) -> list[Packet]:
        """All packets of the last bytes at once."""
        packets: list[Packet] = []
        while not self.is_over:
            packets += self.finish()
        return packets

    def take_problems(self) -> list[Problem]:
        """The problems since the last call."""
        taken, self._problems = self._problems, []
        for source in (self._scanner, self._compressed):
            if source is not None and source.problems:
                taken += source.problems
                source.problems = []
        return [problem._replace(capture=self.capture) for problem in taken]

    def take_secrets(self) -> list[Secrets]:
        """Contents of Decryption Secrets blocks since the last call."""
        if not isinstance(self._scanner, PcapngScanner):
            return []
        taken = list(self._scanner.secrets)
        self._scanner.secrets.clear()
        return taken

    def _named(self, is_end: bool) -> list[Packet]:
        try:
            return self._take(is_end)
        except CaptureError as error:
            raise type(error)(f"{self.name}: {error}") from error

    def _take(self, is_end: bool) -> list[Packet]:
        if not self._is_recognised and not self._recognise(is_end):
            return []
        plain = self._plain(is_end)
        self.has_more = bool(plain) and self._compressed is not None
        if plain:
            return self._scan(plain)
        if not is_end:
            return []
        self.is_over = True
        if self._scanner is None and self._compressed is not None and self._compressed.problems:
            raise TruncatedCapture(self._compressed.problems[0].message)
        return self._scanner_of(self._first).finish()

    def _recognise(self, is_end: bool) -> bool:
        """Return whether the compression, if any, is known by now."""
        if len(self._stored) < SHORTEST_MAGIC and not is_end:
            return False
        self._is_recognised = True
        decoder = find_decoder(self._stored)
        if decoder is not None:
            first, self._stored = self._stored, b""
            self._compressed = CompressedReader(self._take_stored, first, decoder)
        return True

    def _plain(self, is_end: bool) -> bytes:
        """The next decompressed bytes, none if not available yet."""
        if self._compressed is None:
            return self._take_stored(len(self._stored))
        self._compressed.is_growing = not is_end
        return self._compressed.read(CHUNK_SIZE)

    def _take_stored(self, _: int) -> bytes:
        taken, self._stored = self._stored, b""
        return taken

    def _scan(self, plain: bytes) -> list[Packet]:
        if self._scanner is None:
            self._first += plain
            if len(self._first) < MAGIC_SIZE:
                return []
            plain, self._first = self._first, b""
        return self._scanner_of(plain).feed(plain)

    def _scanner_of(self, first: bytes) -> Scanner:
        if self._scanner is None:
            self._scanner = make_scanner(first, self.capture, self._first_ordinal)
        return self._scanner
