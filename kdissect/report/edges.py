"""Traffic between clients, brokers, topics and groups: one row for each pair, or group."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from kdissect.analysis.summary.counters import Counted
from kdissect.analysis.summary.largest import Largest
from kdissect.tables.matrices import Ints

# Of more pairs, those with the most exchanges are kept.
KEPT: Final = 512
BETWEEN: Final = ":"  # the length of the first name, and both names


class Pairs:
    """Exchanges, errors, bytes and latency of each pair of names."""

    def __init__(self) -> None:
        self._largest = Largest(KEPT)

    def add(
        self, left: Sequence[str], left_places: Ints, right: Sequence[str], right_places: Ints,
        latency: Ints, failed: Ints, size: Ints,
    ) -> None:  # fmt: skip
        """Count rows by the names at their places in `left` and `right`."""
        pairs, places = np.unique(left_places * len(right) + right_places, return_inverse=True)
        names = [
            key_of(left[pair // len(right)], right[pair % len(right)]) for pair in pairs.tolist()
        ]
        self._largest.add(names, places.reshape(-1), latency, failed, size)

    def rows(self) -> list[dict[str, Any]]:
        """The pairs, those with the most exchanges first."""
        return [
            dict(zip(("from", "to"), pair_of(one.name), strict=True)) | measured(one)
            for one in self._largest.rows()
        ]

    @property
    def left_out(self) -> int:
        """Pairs that were dropped."""
        return self._largest.left_out


class Groups:
    """Exchanges, errors, bytes and latency of each consumer group."""

    def __init__(self) -> None:
        self._largest = Largest(KEPT)

    def add(
        self, names: Sequence[str], places: Ints, latency: Ints, failed: Ints, size: Ints
    ) -> None:
        """Count rows by the names at their places in `names`."""
        self._largest.add(names, places, latency, failed, size)

    def rows(self, lag: Mapping[str, int]) -> list[dict[str, Any]]:
        """The groups, those with the most exchanges first; `lag` is theirs where it is known."""
        return [
            {"group": one.name, **measured(one), "lag": lag.get(one.name)}
            for one in self._largest.rows()
        ]

    @property
    def left_out(self) -> int:
        """Groups that were dropped."""
        return self._largest.left_out


def measured(one: Counted) -> dict[str, Any]:
    """The columns of a row with these counts."""
    return {
        "exchanges": one.rows, "errors": int(one.sums[0]), "bytes": int(one.sums[1]),
        "p50_ns": one.quantiles.p50_ns, "p99_ns": one.quantiles.p99_ns,
        "max_ns": one.quantiles.max_ns,
    }  # fmt: skip


def key_of(left: str, right: str) -> str:
    """Two names as one text.

    >>> key_of("a:b", "c"), pair_of("3:a:bc")
    ('3:a:bc', ('a:b', 'c'))
    """
    return f"{len(left)}{BETWEEN}{left}{right}"


def pair_of(key: str) -> tuple[str, str]:
    """The names of a key."""
    size, _, names = key.partition(BETWEEN)
    return names[: int(size)], names[int(size) :]
