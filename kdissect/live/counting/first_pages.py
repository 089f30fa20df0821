"""New series appear with 0, so that Prometheus sees their first increase.

`increase()` compares samples of one series: a counter that is born at 7 has not increased. So each
scraper gets a new series with 0 first, and with its value from the next page on.
"""

from collections import OrderedDict
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

# Scrapers that are tracked separately, the latest ones: Prometheus often runs twice.
SCRAPERS: Final = 8
# A scraper's first page has series with 0 only so soon after the start: what a process has counted
# for hours is no increase of the last interval.
YOUNG_S: Final = 300.0

Key = tuple[str, tuple[str, ...]]
Scraper = tuple[str, str]  # its address and user agent
# Whose page is made in this thread; None where the metrics are collected without one.
SCRAPER: Final[ContextVar[Scraper | None]] = ContextVar("SCRAPER", default=None)


class FirstPages:
    """Series that each scraper has had on a page; times are monotonic, in seconds."""

    def __init__(self, begun_s: float) -> None:
        self._begun_s = begun_s
        self._pages: OrderedDict[Scraper, set[Key]] = OrderedDict()

    def new_on(self, keys: Iterable[Key], scraper: Scraper, now_s: float) -> set[Key]:
        """The series of a page that are to be 0 on it; the others have been on the page before."""
        there = set(keys)
        before = self._pages.get(scraper)
        if before is None and now_s - self._begun_s > YOUNG_S:
            before = there
        self._pages[scraper] = there
        self._pages.move_to_end(scraper)
        if len(self._pages) > SCRAPERS:
            self._pages.popitem(last=False)
        return there - (before or set())
