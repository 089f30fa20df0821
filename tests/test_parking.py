"""Parked connections: all rows, in all columns, are those of a capture without parking.

As few connections are at hand as 1 to 4, so nearly every segment wakes one and parks another.
"""

import random
from collections import Counter
from collections.abc import Callable
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


def rows_of(path: str, limits: Limits) -> Rows:
    """Rows of all tables, and the balance."""
    run = Run([path], Options(tables=tuple(TABLES), limits=limits))
    return Rows(sorted_rows(run), run.balance)


def test_connections_are_parked_and_woken() -> None:
    limits = UNPARKED._replace(active_connections=2)
    run = Run([str(CAPTURES / "quickstart.pcapng")], Options(tables=(), limits=limits))
    parking, counts = run.dissector.streams.parking, Counter[str]()
    for name in ("park", "wake"):
        setattr(parking, name, counted(getattr(parking, name), counts, name))
    assert not list(run)
    assert run.balance.connections == 58
    assert len(parking) == 0
    assert counts["park"] > counts["wake"] > 58


def counted(
    method: Callable[..., object], counts: Counter[str], name: str
) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        counts[name] += 1
        return method(*arguments)

    return call


@pytest.mark.sweep
@pytest.mark.parametrize("name", ALL)
def test_parking_changes_no_row(name: str) -> None:
    path = str(CAPTURES / name)
    active = random.Random(f"{SEED} {name}").randint(1, 4)
    expected = rows_of(path, UNPARKED)
    found = rows_of(path, UNPARKED._replace(active_connections=active))
    assert found == expected, f"{active} connections at hand"


@pytest.mark.sweep(4)
@pytest.mark.parametrize("fault", sorted(CLASSES))
def test_parking_changes_no_row_of_a_faulty_capture(fault: str, tmp_path: Path) -> None:
    source = random.Random(f"{SEED} {fault}")
    with said(SEED):
        packets = with_steps(mutated(drawn_packets(fault, source), source), source)
        path = written(packets, tmp_path / "drawn.pcap", ETHERNET)
        active = source.randint(1, 3)
        expected = rows_of(path, UNPARKED)
        found = rows_of(path, UNPARKED._replace(active_connections=active))
        assert found == expected, f"{active} connections at hand"
