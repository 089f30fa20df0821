"""`Turns`: the keys of a mapping, some at a time, in turn."""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Generic, TypeVar

Key = TypeVar("Key")


class Turns(Generic[Key]):
    """Gives `size` keys at each call of `next`, from all of `keys`, which may change meanwhile.

    A key that is removed before its turn may still be given.
    """

    def __init__(self, keys: Collection[Key], size: int) -> None:
        self._keys = keys
        self._size = size
        self._left: Iterator[Key] = iter(())

    def next(self) -> list[Key]:
        """The next keys, each once; all of them if they are that few."""
        turn = list(islice(self._left, self._size))
        if len(turn) < self._size:
            self._left = iter(list(self._keys))
            turn += islice(self._left, self._size - len(turn))
        return list(dict.fromkeys(turn))
