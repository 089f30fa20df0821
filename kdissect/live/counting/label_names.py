"""Label values of Prometheus: escaped names, as many as their budget, reused when idle."""

from typing import Final

from kdissect.live.counting.columns import NAME_SIZE, OTHER, Names
from kdissect.text.escape import escaped_within

OTHER_LABEL: Final = "other"
NO_LABEL: Final = "none"
# A name that has not been in a row for so long makes room for a new one.
IDLE_NS: Final = 15 * 60 * 1_000_000_000


class LabelNames(Names):
    """Names as label values: escaped, and no longer than NAME_SIZE.

    Texts with the same label value have the same code, so no series occurs twice. When all `limit`
    codes are taken, a new name gets the code of an idle one, which is in `released` until the owner
    has set its counts to 0.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit, OTHER_LABEL, NO_LABEL)
        self.released: list[int] = []
        self._used_ns: dict[int, int] = {}
        self._used: set[int] = set()  # since the last tick
        self._now_ns = 0
        self._is_full = False  # no name is idle now

    def tick(self, now_ns: int) -> None:
        """Note that the names of the rows since the last tick were used now."""
        self._now_ns = max(self._now_ns, now_ns)
        self._used_ns |= dict.fromkeys(self._used, self._now_ns)
        self._used.clear()
        self._is_full = False

    def code(self, text: str) -> int:
        known = self._codes.get(text)
        if known is None:
            known = self._code_of(label_value(text))
        self._used.add(known)
        return known

    def _code_of(self, value: str) -> int:
        code = super().code(value)
        if code != OTHER or value == OTHER_LABEL:
            return code
        idle = self._idle()
        if idle == OTHER:
            return OTHER
        del self._codes[self.texts[idle]]
        self.texts[idle] = value
        self._codes[value] = idle
        self._left_out.discard(hash(value))
        self.released.append(idle)
        return idle

    def _idle(self) -> int:
        """The least recently used code, if idle for long enough; else OTHER."""
        if self._is_full or self.limit == 0:
            return OTHER
        unused = set(range(OTHER + 1, len(self.texts))) - self._used
        code = min(unused, key=lambda one: self._used_ns[one], default=OTHER)
        if code != OTHER and self._now_ns - self._used_ns[code] >= IDLE_NS:
            return code
        self._is_full = True
        return OTHER


def label_value(text: str) -> str:
    r"""Escape a text for display in a dashboard or shell.

    >>> label_value("a\u202eb")
    'a\\u202eb'
    """
    return escaped_within(text, NAME_SIZE)
