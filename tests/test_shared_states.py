"""Shared values are looked at after each test (conftest.py): the look finds any change."""

import pytest

from tests.shared_states import LISTS, OBJECTS, are_unchanged, values


@pytest.mark.parametrize("place", range(len(LISTS)))
def test_an_addition_to_a_shared_list_is_found(place: int) -> None:
    LISTS[place].append(None)
    assert not are_unchanged()
    LISTS[place].clear()
    assert are_unchanged()


INTEGERS = [
    (place, name)
    for place, state in enumerate(OBJECTS)
    for name, value in sorted(values(state).items())
    if isinstance(value, int)
]


@pytest.mark.parametrize(("place", "name"), INTEGERS)
def test_a_change_of_a_shared_object_is_found(place: int, name: str) -> None:
    before = getattr(OBJECTS[place], name)
    setattr(OBJECTS[place], name, not before if isinstance(before, bool) else before + 1)
    assert not are_unchanged()
    setattr(OBJECTS[place], name, before)
    assert are_unchanged()
