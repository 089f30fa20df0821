"""All analyses, in the order of --help and of docs/analysis.md."""

from typing import Final

from kdissect.analysis import acks, clients, health, latency, slowest, topology, traffic, upgrade
from kdissect.analysis.question import Question

MODULES: Final = (latency, slowest, clients, topology, upgrade, traffic, health, acks)
QUESTIONS: Final[dict[str, Question]] = {
    module.QUESTION.name: module.QUESTION for module in MODULES
}
