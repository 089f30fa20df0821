"""Parked connections: all rows, in all columns, are those of a capture without parking.

As few connections are at hand as 1 to 4, so nearly every segment wakes one and parks another.
"""

import random
from pathlib import Path

import pytest

from kdissect.limits import Limits
from kdissect.pipeline import Options, Run
from kdissect.tables.schemas import TABLES
from tests.checkpoint.law import CAPTURES, Rows, sorted_rows
from tests.checkpoint.mutations import drawn_packets, mutated, said, with_steps, written
from tests.recovery.faults import CLASSES
from tests.seeds import SEED

ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.glob("**/*.pcap*"))
ETHERNET = 1
UNPARKED = Limits(connections=1_000_000, active_connections=1_000_000)


def rows_of(path: str, limits: Limits) -> tuple[Rows, int]:
    """Rows of all tables, and the number of connections that were parked, again and again."""
    run = Run([path], Options(tables=tuple(TABLES), limits=limits))
    parking = run.dissector.streams.parking
    count = 0
    park = parking.park

    def counted(opener: object) -> None:
        nonlocal count
        count += 1
        park(opener)

    parking.park = counted
    return Rows(sorted_rows(run), run.balance), count


@pytest.mark.sweep
@pytest.mark.parametrize("name", ALL)
def test_parking_changes_no_row(name: str) -> None:
    path = str(CAPTURES / name)
    active = random.Random(f"{SEED} {name}").randint(1, 4)
    expected, _ = rows_of(path, UNPARKED)
    found, _ = rows_of(path, UNPARKED._replace(active_connections=active))
    assert found == expected, f"{active} connections at hand"


@pytest.mark.sweep(4)
@pytest.mark.parametrize("fault", sorted(CLASSES))
def test_parking_changes_no_row_of_a_faulty_capture(fault: str, tmp_path: Path) -> None:
    source = random.Random(f"{SEED} {fault}")
    with said(SEED):
        packets = with_steps(mutated(drawn_packets(fault, source), source), source)
        path = written(packets, tmp_path / "drawn.pcap", ETHERNET)
        active = source.randint(1, 3)
        expected, _ = rows_of(path, UNPARKED)
        found, _ = rows_of(path, UNPARKED._replace(active_connections=active))
        assert found == expected, f"{active} connections at hand"
