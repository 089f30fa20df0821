"""Durations, moments and time ranges as written by users, relative to the capture.

moment  HH:MM[:SS[.fraction]]  time of day (UTC) while the capture ran
        YYYY-MM-DD[THH:MM:SS]  a date, UTC unless it has another offset
        +30s                   that long after the first request
range   moment..moment  moment..  ..moment      from the first on, up to before the second
"""

import re
from datetime import UTC, datetime, time
from typing import Final

from kdissect.errors import InvalidArgument

UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
SECOND_NS: Final = UNITS["s"]
DAY_NS: Final = UNITS["d"]
DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d)")
TIME_OF_DAY: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?Z?")
DATE: Final = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
MEANT: Final = "write moments like 14:05, 14:05:30, 2026-01-31T14:05 (all UTC) or +30s"


def is_moment(text: str) -> bool:
    """Return whether a text has the form of a moment."""
    return bool(
        TIME_OF_DAY.fullmatch(text)
        or DATE.fullmatch(text)
        or (text.startswith("+") and DURATION.fullmatch(text[1:]))
    )


def is_range(text: str) -> bool:
    """Return whether a text has the form of a range; others may be SQL."""
    ends = [end.strip() for end in text.split("..")]
    return len(ends) == 2 and any(ends) and all(not end or is_moment(end) for end in ends)


def range_of(text: str, first_ns: int, last_ns: int) -> tuple[int, int]:
    """The range as ns since 1970, end exclusive; an open end is that of the capture."""
    start, end = [part.strip() for part in text.split("..")]
    from_ns = moment_of(start, first_ns, last_ns) if start else first_ns
    to_ns = moment_of(end, first_ns, last_ns) if end else last_ns + 1
    if from_ns >= to_ns:
        raise InvalidArgument(f"{text!r} ends before it begins")
    return from_ns, to_ns


def moment_of(text: str, first_ns: int, last_ns: int) -> int:
    """A moment as ns since 1970; `first_ns` and `last_ns` are the ends of the capture.

    >>> moment_of("+1.5s", 1_000_000_000, 9_000_000_000)
    2500000000
    >>> moment_of("00:10", 86_000_000_000_000, 88_000_000_000_000)  # the second day
    87000000000000
    """
    text = text.strip()
    if text.startswith("+") and (found := DURATION.fullmatch(text[1:])):
        return first_ns + round(float(found[1]) * UNITS[found[2]])
    try:
        if TIME_OF_DAY.fullmatch(text):
            return on_the_day(text.removesuffix("Z"), first_ns, last_ns)
        if DATE.fullmatch(text):
            return date_ns(text)
    except ValueError:
        pass  # like 14:75, or the 31st of February
    raise InvalidArgument(f"{text!r} is no moment: {MEANT}")


def on_the_day(text: str, first_ns: int, last_ns: int) -> int:
    """A time of day on the first day that was captured at that time, else on the first day."""
    whole, _, fraction = text.partition(".")
    clock = time.fromisoformat(whole)
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
    found = first_ns - first_ns % DAY_NS + seconds * SECOND_NS + int(fraction.ljust(9, "0"))
    is_tomorrow = found < first_ns and found + DAY_NS <= last_ns
    return found + DAY_NS if is_tomorrow else found


def date_ns(text: str) -> int:
    """An ISO 8601 date and time; UTC without an offset."""
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * SECOND_NS + since.microseconds * 1_000
