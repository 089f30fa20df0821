"""Committed captures as a capture program leaves them that keeps the first bytes of each packet."""

from collections.abc import Iterator, Sequence
from functools import cache

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from tests.exchange_builders import Found, Row
from tests.recovery.columns import Wrong, brief, wrong_connection, wrong_in, wrong_problems
from tests.recovery.relations import DETAILS, Pair
from tests.recovery.talks import CAPTURES, dissect

EVERY = tuple(sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcapng")))


def packets_in(name: str) -> list[Packet]:
    """All packets of a committed capture."""
    return [packet for packets in open_captures(str(CAPTURES / name)) for packet in packets]


def snapped(packets: Sequence[Packet], size: int) -> list[Packet]:
    """The packets with their first `size` bytes."""
    return [
        Packet(
            packet.number, packet.time_ns, packet.link_type, packet.data, packet.start,
            min(packet.end, packet.start + size), packet.original_length, packet.ordinal,
            packet.capture,
        )
        for packet in packets
    ]  # fmt: skip


@cache
def whole(name: str) -> Found:
    """Result for a committed capture as it is."""
    return dissect(packets_in(name))


def wrong_at(name: str, size: int) -> Iterator[Wrong]:
    """Differences of a committed capture when cut at this snaplen."""
    return wrong_in_capture(dissect(snapped(packets_in(name), size)), whole(name))


def wrong_in_capture(found: Found, truth: Found, is_prefix: bool = False) -> Iterator[Wrong]:
    """Values of a capture that the whole does not have.

    It has the same packets, less of each of them; with `is_prefix` only the first of them.
    """
    known = {row["exchange_id"]: row for row in truth.rows}
    by_response = {answer_of(row): row for row in truth.rows}
    details, true_details = details_of(found), details_of(truth)
    for row in found.rows:
        is_orphan = row["outcome"] == "orphan"
        true = by_response.get(answer_of(row)) if is_orphan else known.get(row["exchange_id"])
        if true is None or known.pop(true["exchange_id"], None) is None:
            yield Wrong("exchanges", "(row)", row["exchange_id"], None, brief(row))
            continue
        yield from wrong_in(
            Pair(
                row,
                true,
                details.get(row["exchange_id"], {}),
                true_details.get(true["exchange_id"], {}),
                # A response that is cut off still has a packet; behind a prefix it may come.
                may_be_unanswered=is_prefix,
            )
        )
    connections = {row["connection_id"]: row for row in truth.tables["connections"]}
    for row in found.tables["connections"]:
        yield from wrong_connection(row, connections[row["connection_id"]])
    yield from wrong_problems(found.tables["problems"], truth.tables["problems"])


def answer_of(row: Row) -> tuple[object, ...]:
    """Identity of a response: its packet, its size and its correlation id."""
    return row["response_packet"], row["response_size"], row["correlation_id"]


def details_of(found: Found) -> dict[int, dict[str, list[Row]]]:
    """The rows of other tables by exchange."""
    made: dict[int, dict[str, list[Row]]] = {}
    for table in DETAILS:
        for row in found.tables[table]:
            made.setdefault(row["exchange_id"], {}).setdefault(table, []).append(row)
    return made
