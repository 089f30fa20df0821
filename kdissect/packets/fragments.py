"""IP fragments → whole packets: reassembled payload, in bounded memory.

    whole packet   0 ──────────── 1480 ─────── 2960 ── total
    fragments      [first, more]   [more]       [last]        in any order, each perhaps twice

Cases of a fragment, in the order of the code: contradiction / of a completed packet / too many
overlaps / new bytes / overlap / limit reached. Of overlapping bytes the first copy is kept, and a
`Problem` is reported if the other differs. A packet is given up if its fragments do not arrive
within WAIT_NS or the limits are reached; its contiguous data from the start is returned anyway.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.capture.packet import Packet
from kdissect.errors import Problem

# Fragments of a packet follow each other. A capture filter on ports drops all but the first, so the
# time is shorter than what `streams` waits before it takes a hole as final (20 ms).
WAIT_NS: Final = 15_000_000
# Packets of 2 to 45 fragments, from one sender after the other: a few are open at a time.
MAXIMUM_PACKETS: Final = 256
MAXIMUM_BYTES: Final = 4 << 20  # 64 of the largest packets
FRAGMENT_COST: Final = 128  # bytes a fragment takes beside its payload, so tiny ones count too
LARGEST_PACKET: Final = 65_535
# Fragments that one may overlap: a packet resent in fragments of other sizes has another
# identification. A truncated fragment can claim in a few bytes to overlap thousands of others.
MAXIMUM_OVERLAPS: Final = 64
NEVER: Final = (1 << 63) - 1
# Problems reported individually before they are only counted.
MAXIMUM_PROBLEMS: Final = 16


@mypyc_attr(acyclic=True)
class Piece:
    """`length` bytes from `start` on; `data` is shorter if the capture truncated them."""

    __slots__ = ("start", "length", "data")

    def __init__(self, start: i64, length: i64, data: bytes) -> None:
        self.start = start
        self.length = length
        self.data = data


@mypyc_attr(acyclic=True)
class Whole:
    """An IP packet being reassembled, or completed: then its pieces are dropped.

    `addresses`, `protocol` and `ip_id` are of its IP headers, `layers` is its depth in tunnels. The
    first `joined` pieces are contiguous from the start, up to `joined_end`.
    """

    __slots__ = (
        "key", "addresses", "protocol", "ip_id", "layers", "packet", "first_ns", "total", "pieces",
        "cost", "is_done", "ordinals", "joined", "joined_end",
    )  # fmt: skip

    def __init__(
        self, key: bytes, addresses: bytes, protocol: i64, ip_id: i64, layers: i64, packet: Packet
    ) -> None:
        self.key = key
        self.addresses = addresses
        self.protocol = protocol
        self.ip_id = ip_id
        self.layers = layers
        # Number and time of the first fragment, or of the first that arrived.
        self.packet = packet
        self.first_ns: i64 = packet.time_ns
        self.total: i64 = -1
        self.pieces: list[Piece] = []
        self.joined: i64 = 0
        self.joined_end: i64 = 0
        self.cost: i64 = 0
        self.is_done: bool = False
        # Of the packets with the fragments, see `PacketDecoder.fragments_of`.
        self.ordinals: list[int] = []

    def is_complete(self) -> bool:
        """Return whether every byte was captured, or on the wire."""
        return self.total >= 0 and self.declared_size() == self.total

    def declared_size(self) -> i64:
        """Number of contiguous bytes from the start, including truncated ones."""
        pieces = self.pieces
        while self.joined < len(pieces) and pieces[self.joined].start == self.joined_end:
            self.joined_end += pieces[self.joined].length
            self.joined += 1
        return self.joined_end

    def captured(self) -> bytes:
        """Contiguous captured bytes from the start."""
        parts: list[bytes] = []
        end: i64 = 0
        for piece in self.pieces:
            if piece.start != end:
                break
            parts.append(piece.data)
            if len(piece.data) < piece.length:
                break
            end += piece.length
        return b"".join(parts)


class Fragments:
    """Packets that wait for fragments. `problems` is drained by the caller.

    `due_ns` is the time when the first of them is given up; `NEVER` while none waits.
    """

    __slots__ = (
        "problems", "due_ns", "_wholes", "_cost", "_told", "_maximum_packets", "_maximum_bytes",
    )  # fmt: skip

    def __init__(
        self, maximum_packets: i64 = MAXIMUM_PACKETS, maximum_bytes: i64 = MAXIMUM_BYTES
    ) -> None:
        self.problems: list[Problem] = []
        self.due_ns: i64 = NEVER
        self._wholes: dict[bytes, Whole] = {}
        self._cost: i64 = 0
        self._told: i64 = 0
        self._maximum_packets = maximum_packets
        self._maximum_bytes = maximum_bytes

    def captures(self) -> list[int]:
        """Numbers of the captures that waiting packets, and problems not taken yet, refer to."""
        found = [int(whole.packet.capture) for whole in self._wholes.values()]
        return found + [int(problem.capture) for problem in self.problems]

    @property
    def cost(self) -> int:
        """Memory of waiting fragments, in bytes."""
        return self._cost

    def find(
        self, key: bytes, addresses: bytes, protocol: i64, ip_id: i64, layers: i64, packet: Packet
    ) -> Whole:
        """Packet that a fragment belongs to, possibly a new one; `key` is its identity."""
        whole = self._wholes.get(key)
        if whole is None:
            # The packet is remembered without its data.
            stub = without_data(packet, b"", 0)
            whole = Whole(key, addresses, protocol, ip_id, layers, stub)
            self._wholes[key] = whole
            self.due_ns = min(self.due_ns, packet.time_ns + WAIT_NS)
        return whole

    def add(
        self, whole: Whole, start: i64, length: i64, data: bytes, has_more: bool, packet: Packet
    ) -> bool:
        """Add `length` bytes from `start` on, `data` of them captured; whether it is complete.

        A fragment that contradicts others or itself is discarded.
        """
        end = start + length
        # contradiction
        if end > LARGEST_PACKET or (has_more and length & 7):
            return False
        if whole.total >= 0 and (end > whole.total or (not has_more and end != whole.total)):
            return False
        # of a packet that is done
        if whole.is_done:
            return False
        # too many overlaps
        first = first_behind(whole.pieces, start)
        if first_behind(whole.pieces, end) - first > MAXIMUM_OVERLAPS:
            text = f"an IP fragment overlaps more than {MAXIMUM_OVERLAPS} others: it is left out"
            self.report("fragment-overlap", text, packet, len(data))
            return False
        if not has_more:
            whole.total = end
        if start == 0 and not (whole.pieces and whole.pieces[0].start == 0):
            whole.packet = without_data(packet, b"", 0)
        self._insert(whole, first, start, end, data, packet)
        if not whole.is_complete():
            return False
        whole.is_done = True
        return True

    def free(self, whole: Whole) -> None:
        """Release the bytes of a packet; the packet itself is remembered."""
        self._cost -= whole.cost
        whole.cost = 0
        whole.pieces = []
        whole.joined = 0
        whole.joined_end = 0

    def take_overdue(self, now: i64) -> list[Whole]:
        """Forget packets that are too old or too many; return incomplete ones, with bytes."""
        overdue: list[Whole] = []
        for whole in list(self._wholes.values()):
            is_waiting = now < whole.first_ns + WAIT_NS
            # limit reached
            is_within = len(self._wholes) <= self._maximum_packets
            if is_waiting and is_within and self._cost <= self._maximum_bytes:
                break
            del self._wholes[whole.key]
            self._cost -= whole.cost
            if not whole.is_done:
                overdue.append(whole)
        self.due_ns = NEVER
        for whole in self._wholes.values():
            self.due_ns = whole.first_ns + WAIT_NS
            break
        return overdue

    def is_full(self) -> bool:
        """Return whether a limit is reached, so that `take_overdue` has work to do."""
        return len(self._wholes) > self._maximum_packets or self._cost > self._maximum_bytes

    def report(self, kind: str, message: str, packet: Packet, size: i64) -> None:
        """Report a problem, up to the limit."""
        self._told += 1
        if self._told <= MAXIMUM_PROBLEMS:
            self.problems.append(
                Problem("packets", kind, message, packet.time_ns, packet.number, size,
                        capture=packet.capture)
            )  # fmt: skip

    def _insert(
        self, whole: Whole, index: i64, start: i64, end: i64, data: bytes, packet: Packet
    ) -> None:
        """Keep the new bytes, in order of position; ``pieces[index:]`` end after it."""
        pieces = whole.pieces
        at = start
        differs = False
        while at < end:
            stop = end
            if index < len(pieces):
                piece = pieces[index]
                if piece.start <= at:
                    # overlap
                    differs = differs or disagrees(piece, start, data)
                    at = max(at, piece.start + piece.length)
                    index += 1
                    continue
                stop = min(stop, piece.start)
            # new bytes
            new = Piece(at, stop - at, data[at - start : stop - start])
            pieces.insert(index, new)
            whole.cost += FRAGMENT_COST + len(new.data)
            self._cost += FRAGMENT_COST + len(new.data)
            at = stop
            index += 1
        if differs:
            text = "an IP fragment has other bytes than the one it overlaps, which is kept"
            self.report("fragment-overlap", text, packet, len(data))


def first_behind(pieces: list[Piece], place: i64) -> i64:
    """Index of the first piece that ends after a position."""
    low: i64 = 0
    high: i64 = len(pieces)
    while low < high:
        middle = (low + high) // 2
        if pieces[middle].start + pieces[middle].length > place:
            high = middle
        else:
            low = middle + 1
    return low


def disagrees(piece: Piece, start: i64, data: bytes) -> bool:
    """Return whether bytes from `start` on differ from a piece that they overlap."""
    low = max(piece.start, start)
    high = min(piece.start + len(piece.data), start + len(data))
    if low >= high:
        return False
    mine = piece.data[low - piece.start : high - piece.start]
    return mine != data[low - start : high - start]


def without_data(packet: Packet, data: bytes, original_length: i64) -> Packet:
    """Packet of the same number and time with other data, at index 0."""
    return Packet(
        packet.number, packet.time_ns, packet.link_type, data, 0, len(data), original_length,
        packet.ordinal, packet.capture,
    )  # fmt: skip
