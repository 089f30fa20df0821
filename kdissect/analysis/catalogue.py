"""All analyses, in the order of --help and of docs/analysis.md."""

from typing import Final

from kdissect.analysis.question import Question
from kdissect.analysis.questions import (
    acks,
    clients,
    commits,
    delivery,
    end_to_end,
    errors,
    failovers,
    health,
    lag,
    latency,
    rebalances,
    retries,
    sequences,
    slowest,
    topology,
    traffic,
    transactions,
    upgrade,
)

MODULES: Final = (
    latency,
    slowest,
    acks,
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
    clients,
    topology,
    upgrade,
    traffic,
    health,
)
QUESTIONS: Final[dict[str, Question]] = {
    module.QUESTION.name: module.QUESTION for module in MODULES
}
