"""All analyses, in the order of --help and of docs/analysis.md."""

from typing import Final

from kdissect.analysis import clients, latency, slowest, topology
from kdissect.analysis.question import Question

QUESTIONS: Final[dict[str, Question]] = {
    module.QUESTION.name: module.QUESTION for module in (latency, slowest, clients, topology)
}
