"""Split a capture without reading all of it: boundaries are guessed, and confirmed later.

Near evenly spaced places, a record start is searched for as after corruption; it counts when valid
records follow it for as far as is checked. Reading the split before it either arrives at that place
or shows that the guess was wrong (`SplitReader.reached`); then the file is split from there on by
reading it (`splits.plan_from`).

The number of packets before a speculative split is unknown. So packets are numbered as if each
split had NUMBERS of them, which preserves their order; see `Split.is_counted`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.capture.capture_file import CHUNK_SIZE, CaptureFile, capture_error, is_regular
from kdissect.capture.format_context import Layout, PcapLayout
from kdissect.capture.splits import AnyScanner, Split, first_layout, resumed

# A record has at least 16 bytes, so a split of a GiB has fewer. An exchange's id is 100 000 times
# as large: 1.3 million splits are possible before an id exceeds 64 bits.
NUMBERS: Final = 1 << 26
LARGEST: Final = 1 << 30
# Bytes examined at the beginning and after each place.
LOOK: Final = 256 << 10
# No record begins with so many zeros: the next one is searched after them.
NO_RECORD: Final = bytes(24)
# Offset of a packet's bytes from the start of its record, in a pcapng block.
ENHANCED_START: Final = 28
SURE: Final = 3  # packets
SAMPLES: Final = 4
TRIES: Final = 4  # per place


class Look(NamedTuple):
    """Properties estimated from the beginning of a file and from samples.

    In `seen` bytes were so many `packets`.
    """

    layout: Layout
    time_ns: int
    seen: int
    packets: int
    size: int

    @property
    def packet_size(self) -> int:
        """Average number of bytes of a record."""
        return max(1, self.seen // self.packets)


def look_at(path: str) -> Look | None:
    """Examine the beginning of a file; None if it cannot be split. Raises `CaptureError`."""
    if not is_regular(path):
        return None
    file = CaptureFile(path, path, CHUNK_SIZE)
    try:
        file.open()
        scanner = file.scanner
        if file.size is None or not file.is_plain or not isinstance(scanner, AnyScanner):
            return None
        scanner.counts_only = True
        while file.bytes_done < LOOK and file.read() is not None:
            continue
        if scanner.number == 0 or file.problems:
            return None
        look = Look(
            scanner.layout, scanner.last_time_ns, file.bytes_done, scanner.number, file.size
        )
    finally:
        file.close()
    return with_samples(path, look)


def with_samples(path: str, look: Look) -> Look:
    """Add samples from places in the file: its beginning may not be typical."""
    if look.seen >= look.size:
        return look
    places = [look.size * sample // SAMPLES for sample in range(1, SAMPLES)]
    with Path(path).open("rb", buffering=0) as file:
        for place in places:
            file.seek(place)
            data = file.read(LOOK)
            start = find_record(data, look.layout, place, look.time_ns)
            if start >= 0:
                scanner = at_place(look.layout, place + start, look.time_ns)
                scanner.counts_only = True
                scanner.feed(data[start:])
                look = look._replace(
                    seen=look.seen + len(data) - start, packets=look.packets + int(scanner.number)
                )
    return look


def guess_splits(path: str, look: Look, places: Iterable[int]) -> list[Split]:
    """Splits that start near the `places`, in bytes and in order; fewer if no record is found."""
    starts = find_starts(path, look, places)
    splits = []
    for number, (start, end) in enumerate(zip([0, *starts], [*starts, look.size], strict=True)):
        first = number * NUMBERS + 1
        splits.append(
            Split(
                path, 0, start, end, end == look.size, first, first, 0,
                layout=look.layout if start else first_layout(look.layout),
                is_counted=False,
            )
        )  # fmt: skip
    return splits


def find_starts(path: str, look: Look, places: Iterable[int]) -> Sequence[int]:
    """Find where a record starts after each of the places."""
    starts: list[int] = []
    time_ns = look.time_ns
    try:
        with Path(path).open("rb", buffering=0) as file:
            for place in places:
                if place - (starts[-1] if starts else 0) < LOOK:
                    continue
                for tried in range(place, min(place + TRIES * LOOK, look.size), LOOK):
                    file.seek(tried)
                    data = file.read(LOOK)
                    start = find_record(data, look.layout, tried, time_ns)
                    last_ns = confirmed(data, start, look.layout, tried)
                    if last_ns >= 0:
                        starts.append(tried + start)
                        time_ns = last_ns
                        break
    except OSError as error:
        raise capture_error(path, error) from error
    return starts


def find_record(data: bytes, layout: Layout, offset: int, time_ns: int) -> int:
    """Index of a plausible record, after one of about that time; -1 for none.

    `offset` is that of the data in the file, after its header.
    """
    if offset < len(NO_RECORD):  # a scanner's places are in a file, and so not negative
        return -1
    scanner = at_place(layout, offset - len(NO_RECORD), time_ns)
    scanner.feed(NO_RECORD)
    scanner.feed(data)
    # The scanner would wait for more before it reports anything.
    scanner.finish()
    if not scanner.problems:
        return -1
    return scanner.problems[0].bytes - len(NO_RECORD)


def confirmed(data: bytes, start: int, layout: Layout, offset: int) -> int:
    """Time of the last packet if consecutive packets are found, the first at `start`; else -1.

    `offset` is that of the data in the file.
    """
    if start < 0:
        return -1
    scanner = at_place(layout, offset + start, -1)
    packets = scanner.feed(data[start:])
    if len(packets) < SURE or scanner.problems or scanner.record_start < 0:
        return -1
    # A packet without a timestamp has that of the one before, which is not known.
    before = layout.record_header_size if isinstance(layout, PcapLayout) else ENHANCED_START
    return scanner.last_time_ns if packets[0].start == before else -1


def at_place(layout: Layout, offset: int, time_ns: int) -> AnyScanner:
    """A scanner in the middle of a file."""
    scanner = resumed(layout)
    scanner.start_at(offset, 1, 1, time_ns)
    return scanner
