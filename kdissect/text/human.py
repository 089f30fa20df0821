"""Human-readable numbers; each fits ten columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

# Number of characters shown of a name from the wire on a page, in a sentence or a finding. Kafka's
# own names (topics up to 249, most far shorter) usually differ at their beginnings.
NAME_LENGTH = 120
TEXT_LENGTH = 500  # and of a broker's message

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
# Between thousands, for people; `grouped_by` sets it for programs that parse the output.
_between_thousands = ["\N{NARROW NO-BREAK SPACE}"]
DURATION_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def count(number: int) -> str:
    """Format a number with a narrow space between thousands.

    >>> count(1234567).replace(chr(0x202F), "_")
    '1_234_567'
    """
    return f"{number:,}".replace(",", _between_thousands[-1])


@contextmanager
def grouped_by(between: str) -> Iterator[None]:
    """Meanwhile, put `between` thousands."""
    _between_thousands.append(between)
    try:
        yield
    finally:
        _between_thousands.pop()


def cut(text: str, most: int = NAME_LENGTH) -> str:
    """At most the first `most` characters of a text from the wire, and the number of others.

    >>> cut("orders"), cut("a" * 30_000, 3).replace(chr(0x202F), "_")
    ('orders', 'aaa… (29_997 more characters)')
    """
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({counted(len(text) - most, 'more character')})"


def cut_all(value: Any, most: int = TEXT_LENGTH) -> Any:
    """A value of dicts and lists with all texts in it truncated."""
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, dict):
        return {cut_all(name, most): cut_all(one, most) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [cut_all(one, most) for one in value]
    return value


def counted(number: int, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "segment"), counted(0, "segment"), counted(2, "batch")
    ('1 segment', '0 segments', '2 batches')
    """
    return f"{count(number)} {noun if number == 1 else plural(noun)}"


def counted_of(part: int, whole: int, noun: str) -> str:
    """A count out of another one; the noun agrees with the second.

    >>> counted_of(1, 5, "packet"), counted_of(1, 1, "packet")
    ('1 of 5 packets', '1 of 1 packet')
    """
    return f"{count(part)} of {counted(whole, noun)}"


def plural(noun: str) -> str:
    """The plural of an English noun; of "kind of problem" that of its first word.

    >>> plural("topic"), plural("address"), plural("retry"), plural("key"), plural("kind of error")
    ('topics', 'addresses', 'retries', 'keys', 'kinds of error')
    """
    first, of, rest = noun.partition(" of ")
    if first.endswith(("s", "x", "ch", "sh")):
        return f"{first}es{of}{rest}"
    if first.endswith("y") and first[-2:-1] not in "aeiou":
        return f"{first[:-1]}ies{of}{rest}"
    return f"{first}s{of}{rest}"


def byte_count(number: int) -> str:
    """An exact size, without a space between thousands.

    >>> byte_count(1), byte_count(4096)
    ('1 byte', '4096 bytes')
    """
    return f"{number} {agreeing(number, 'byte', 'bytes')}"


def agreeing(number: int, one: str, several: str) -> str:
    """The form of a verb or pronoun that agrees with a count.

    >>> agreeing(1, "was", "were"), agreeing(0, "was", "were")
    ('was', 'were')
    """
    return one if number == 1 else several


def size(number: float) -> str:
    """Bytes, in powers of 1000.

    >>> size(999), size(1500), size(1234567890)
    ('999 B', '1.5 kB', '1.23 GB')
    """
    unit = 0
    while abs(number) >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.3g} {_BYTE_UNITS[unit]}"


def rate(number: float) -> str:
    """Format a rate per second.

    >>> rate(0), rate(0.0333), rate(12.34), rate(12345.6).replace(chr(0x202F), "_")
    ('0', '0.0333', '12.3', '12_346')
    """
    if 0 < number < 0.001:
        return "<0.001"
    return f"{number:.3g}" if number < 999.5 else count(round(number))


def duration(ns: float | None) -> str:
    """Nanoseconds; "-" for None.

    >>> duration(950), duration(1_234_567), duration(75_000_000_000), duration(7_500_000_000_000)
    ('950 ns', '1.23 ms', '1 m 15 s', '2 h 05 m')
    """
    if ns is None:
        return "-"
    seconds = int(ns / 1e9 + 0.5)
    if seconds >= 172_800:
        return f"{seconds // 86_400} d {seconds % 86_400 // 3600:02} h"
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02} m"
    if seconds >= 60:
        return f"{seconds // 60} m {seconds % 60:02} s"
    for unit, name in DURATION_UNITS:
        if ns >= unit:
            return f"{ns / unit:.3g} {name}"
    return f"{ns:.0f} ns"


def time(ns: int) -> str:
    """UTC time with nanoseconds.

    >>> time(1_700_000_000_123_456_789)
    '2023-11-14 22:13:20.123456789Z'
    """
    return f"{datetime.fromtimestamp(ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}.{ns % 10**9:09}Z"


def share(part: float, whole: float) -> str:
    """Format a percentage; "-" if the whole is 0.

    >>> share(1, 3), share(0, 5), share(1, 1_000_000)
    ('33.3 %', '0 %', '<0.1 %')
    """
    if not whole:
        return "-"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1 %"
    return f"{percent:.3g} %"
