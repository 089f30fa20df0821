"""What is said when one process is not enough."""

import pytest

from kdissect.cli.live.advice import WorkersAdvice
from kdissect.sources.packet_source import Counts
from tests.live.made_rows import status


def said(cores: int, received: int, dropped: int, cpu: float, seconds: int = 30) -> list[str]:
    """What is said with so many packets, and so much CPU time, each second."""
    texts: list[str] = []
    advice = WorkersAdvice(texts.append, cores)
    for second in range(seconds):
        counts = Counts(received * second, dropped * second)
        advice.tick(status(second, packet_source=counts, cpu_seconds=cpu * second))
    return texts


@pytest.mark.parametrize(
    ("cores", "received", "dropped", "workers"),
    [(4, 300_000, 1_000, "2,"), (8, 300_000, 600_000, "4,"), (2, 100_000, 300_000, "2, of 5 that")],
)
def test_drops_at_a_busy_core_say_how_many_workers_are_needed(
    cores: int, received: int, dropped: int, workers: str
) -> None:
    (text,) = said(cores, received, dropped, 0.97)
    assert f"with --workers {workers}" in text


def test_one_core_cannot_be_shared() -> None:
    (text,) = said(1, 300_000, 1_000, 0.97)
    assert "--sample" in text
    assert "--workers" not in text


@pytest.mark.parametrize(
    ("dropped", "cpu", "seconds"), [(0, 0.99, 30), (1_000, 0.3, 30), (1_000, 0.99, 9)]
)
def test_other_reasons_say_nothing(dropped: int, cpu: float, seconds: int) -> None:
    assert said(4, 300_000, dropped, cpu, seconds) == []
