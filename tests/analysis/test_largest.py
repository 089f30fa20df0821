from kdissect.analysis.summary.counters import Count
from kdissect.analysis.summary.largest import Largest


def counted(names: str, limit: int) -> Largest[Count]:
    largest = Largest(limit, Count)
    for name in names:
        largest.at(name).weight += 1
    return largest


def rows(largest: Largest[Count]) -> list[tuple[str, int]]:
    return [(name, count.weight) for name, count in largest.rows()]


def test_the_heaviest_come_first() -> None:
    assert rows(counted("abbccc", 2)) == [("c", 3), ("b", 2), ("a", 1)]


def test_the_lighter_half_is_dropped_when_there_are_twice_as_many() -> None:
    largest = counted("aaabbcde", 2)
    assert rows(largest) == [("a", 3), ("b", 2), ("e", 1)]
    assert (largest.left_out, largest.others.weight) == (2, 2)


def test_there_are_never_more_than_twice_the_limit() -> None:
    largest = Largest(10, Count)
    for number in range(1000):
        largest.at(str(number)).weight += 1
        assert len(rows(largest)) <= 20
