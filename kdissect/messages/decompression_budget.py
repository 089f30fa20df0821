"""Limits on decompressed records: of one message, and of all messages of a capture.

    one message    16 MiB + ratio * its records, and never more than 100 MiB + 16 * its records
    all            256 MiB + ratio in all * captured bytes

Both ratios and the 100 MiB are user limits. The 16 MiB are room for the largest usual batches (1
MiB) at any compression ratio, the 256 MiB for a capture with little else. Of the smallest records,
seven bytes each, these are 38 million: 7 seconds.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.limits import UNPACKED_RATIO, UNPACKED_RATIO_IN_ALL
from kdissect.messages.batches import Budget
from kdissect.messages.compression import DECOMPRESSED_LIMIT
from kdissect.messages.records import make_budget, shown_budget

FLOOR_IN_ALL: Final = 1 << 28


class Unpacking:
    """Assigns each message its budget, and charges its use to the total.

    `captured` are the bytes captured so far, counted by the owner; `limit` is that of one batch.
    """

    def __init__(
        self,
        limit: i64 = DECOMPRESSED_LIMIT,
        ratio: i64 = UNPACKED_RATIO,
        ratio_in_all: i64 = UNPACKED_RATIO_IN_ALL,
    ) -> None:
        self.limit = limit
        self.ratio = ratio
        self.ratio_in_all = ratio_in_all
        self.captured: i64 = 0
        self.unpacked: i64 = 0

    def budget(self, record_bytes: i64) -> Budget:
        """Budget of a message with so many bytes of records; to be settled."""
        return self._given(make_budget(record_bytes, self.limit, self.ratio))

    def shown_budget(self, size: i64) -> Budget:
        """Like `budget`, for a body of `size` bytes that is decoded in full."""
        return self._given(shown_budget(size, self.limit, self.ratio))

    def _given(self, budget: Budget) -> Budget:
        left = FLOOR_IN_ALL + self.ratio_in_all * self.captured - self.unpacked
        if budget.size > left:
            budget.size = max(left, 0)
            budget.is_of_all = True
        budget.given = budget.size
        return budget

    def settle(self, budget: Budget) -> None:
        """Charge the bytes that a message has used so far."""
        self.unpacked += budget.given - max(budget.size, 0)
        budget.given = max(budget.size, 0)
