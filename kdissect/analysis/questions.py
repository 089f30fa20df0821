"""All analyses, in the order of --help and of docs/analysis.md."""

from typing import Final

from kdissect.analysis import (
    commits,
    delivery,
    end_to_end,
    errors,
    failovers,
    lag,
    latency,
    rebalances,
    retries,
    sequences,
    slowest,
    transactions,
)
from kdissect.analysis.question import Question

MODULES: Final = (
    latency,
    slowest,
    errors,
    retries,
    failovers,
    delivery,
    sequences,
    transactions,
    commits,
    rebalances,
    lag,
    end_to_end,
)
QUESTIONS: Final[dict[str, Question]] = {
    module.QUESTION.name: module.QUESTION for module in MODULES
}
