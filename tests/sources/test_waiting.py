"""A waiting reader leaves the sender alone for as long as the buffer allows."""

import select
import time

import pytest

from kdissect.capture.packet import Packet
from kdissect.sources.interface_source import InterfaceSource, pause_for, wait_for


class Quiet(InterfaceSource):
    """Nothing comes."""

    needs_polling = False

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    def fileno(self) -> int:
        return 0

    def take(self) -> list[Packet]:
        return []

    def close(self) -> None:
        pass


class Poll:
    """Records the ms that it is asked to wait."""

    def __init__(self, done: list[tuple[str, float]]) -> None:
        self.done = done

    def register(self, number: int, events: int) -> None:
        pass

    def poll(self, wait_ms: int) -> list[tuple[int, int]]:
        self.done.append(("poll", wait_ms))
        return []


@pytest.mark.parametrize(
    ("pauses", "wait_s", "done"),
    [
        ([0.01], 0.1, [("sleep", 0.01), ("poll", 90)]),
        ([0.01, 0.004], 0.1, [("sleep", 0.004), ("poll", 96)]),
        ([0.01], 0.002, [("sleep", 0.002), ("poll", 0)]),
    ],
)
def test_it_sleeps_before_it_lets_itself_be_woken(
    pauses: list[float],
    wait_s: float,
    done: list[tuple[str, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[tuple[str, float]] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: found.append(("sleep", seconds)))
    monkeypatch.setattr(select, "poll", lambda: Poll(found))
    wait_for([Quiet(pause_s) for pause_s in pauses], wait_s)
    assert found == done


@pytest.mark.parametrize("size", [1 << 18, 1 << 20, 64 << 20, 1 << 30])
def test_in_a_pause_an_eighth_of_the_buffer_is_filled_at_most(size: int) -> None:
    assert 0 < pause_for(size) <= 0.01
    assert pause_for(size) * 1e9 <= size / 8
