"""All analyses, in the order of --help and of docs/analysis.md."""

from typing import Final

from kdissect.analysis import (
    commits,
    delivery,
    errors,
    failovers,
    latency,
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
)
QUESTIONS: Final[dict[str, Question]] = {
    module.QUESTION.name: module.QUESTION for module in MODULES
}
