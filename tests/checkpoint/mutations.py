"""Captures with packets lost, doubled, reordered, cut and changed; the seed is drawn."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdissect.capture.pcap import NANOSECONDS
from tests.capture.writers import Captured, make_pcap
from tests.checkpoint.clocks import AMOUNTS, drawn_step, stepped
from tests.checkpoint.law import captured
from tests.recovery.cases import make_case
from tests.recovery.talks import packets_of

HEADERS = 54  # bytes of Ethernet, IPv4 and TCP headers


def fresh_seed() -> tuple[int, random.Random]:
    """A seed, set by KDISSECT_SEED, and its random generator."""
    seed = int(os.environ.get("KDISSECT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    return seed, random.Random(seed)


@contextmanager
def said(seed: int) -> Iterator[None]:
    """Failures inside tell the seed."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"KDISSECT_SEED={seed}")
        raise


def written(packets: list[Captured], path: Path, link_type: int) -> str:
    path.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=link_type))
    return str(path)


def drawn_packets(fault: str, source: random.Random) -> list[Captured]:
    """A faulty capture of a few packets at least."""
    while True:
        case = make_case(fault, source.randrange(10_000))
        packets = [captured(packet) for packet in packets_of(case.wires, case.broker_port)]
        if len(packets) > 10:
            return packets


def mutated(packets: list[Captured], source: random.Random) -> list[Captured]:
    """The packets; some are lost, duplicated, moved, truncated or changed, as often as drawn."""
    each = source.choice((30, 300, 3_000))
    snaplen = source.choice((0, 0, source.randrange(HEADERS, 300)))
    made: list[Captured] = []
    for packet in packets:
        kind = source.randrange(6 * each)
        kept = packet._replace(original_length=packet.wire_length)
        if snaplen:
            kept = kept._replace(data=kept.data[:snaplen])
        if kind == 0:
            continue
        if kind == 1:
            made.append(kept)
        elif kind == 2:
            kept = kept._replace(data=kept.data[: source.randrange(len(kept.data) + 1)])
        elif kind == 3 and kept.data:
            at = source.randrange(len(kept.data))
            changed = bytes([kept.data[at] ^ 1 << source.randrange(8)])
            kept = kept._replace(data=kept.data[:at] + changed + kept.data[at + 1 :])
        made.append(kept)
        if kind in (4, 5) and len(made) > 1:
            other = source.randrange(max(0, len(made) - 20), len(made))
            made[-1], made[other] = made[other], made[-1]
    return made


def with_steps(packets: list[Captured], source: random.Random) -> list[Captured]:
    """The packets, where the clock was set up to three times."""
    steps = [
        drawn_step(source, len(packets), source.choice(AMOUNTS), source.random() < 0.5)
        for _ in range(source.randrange(4))
    ]
    return stepped(packets, *steps)


def in_files(
    packets: list[Captured], directory: Path, link_type: int, source: random.Random
) -> list[str]:
    """The packets as a few rotated files, cut anywhere."""
    count = source.randrange(2, 6)
    cuts = sorted(source.sample(range(1, len(packets)), count - 1))
    paths = []
    for number, (first, end) in enumerate(zip([0, *cuts], [*cuts, len(packets)], strict=True)):
        path = directory / f"tap_{number + 1:05}_20260131235959.pcap"
        paths.append(written(packets[first:end], path, link_type))
    return paths
