"""Known words near a mistyped one, for errors."""

from collections.abc import Iterable
from typing import Final

# Share of letters in order that two words have in common, at least (difflib's ratio).
LEAST: Final = 0.6
LONGEST: Final = 64  # characters; nothing longer is a mistyped name


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to another, None where none is near.

    Case and punctuation between parts of a name are no difference.

    >>> nearest("Fecth", ["Fetch", "FetchSnapshot"]), nearest("xyz", ["Fetch"])
    ('Fetch', None)
    >>> nearest("latency-ns", ["latency_ns", "work_ns"]), nearest("apis", ["api", "acks"])
    ('latency_ns', 'api')
    """
    import difflib  # only where something is wrong

    if len(word) > LONGEST:
        return None
    plain = {_plain(one): one for one in reversed(list(known))}
    beginning = [name for name in plain if _plain(word) and name.startswith(_plain(word))]
    if beginning:
        return plain[min(reversed(beginning), key=len)]
    near = difflib.get_close_matches(_plain(word), plain, n=1, cutoff=LEAST)
    return plain[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'api'? `` as part of a sentence, "" where no known word is near."""
    near = nearest(word, known)
    return f"did you mean {near!r}? " if near is not None else ""


def known_words(word: str, known: Iterable[str]) -> str:
    """``did you mean 'api'? there are: api, acks`` as the end of an error."""
    names = list(known)
    return f"{did_you_mean(word, names)}there are: {', '.join(names)}"


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
