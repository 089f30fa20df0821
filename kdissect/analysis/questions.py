"""All analyses, in the order of --help and of docs/analysis.md."""

from typing import Final

from kdissect.analysis import end_to_end, lag, latency, rebalances, slowest
from kdissect.analysis.question import Question

QUESTIONS: Final[dict[str, Question]] = {
    module.QUESTION.name: module.QUESTION
    for module in (latency, slowest, rebalances, lag, end_to_end)
}
