"""docs/causes.md: the counts, and each capture's truth beside the first sentence of its page."""

from collections.abc import Sequence

from benchmarks.causes.score import FEW, Score, Totals, totals
from benchmarks.causes.table import DRAWN, HALVES, HELD_BACK, QUIET

HEAD = """# Causes

Real incidents of real Kafka clusters, staged one by one, and the first finding of each summary.
Printed by `python -m benchmarks.causes score DIR --docs docs/causes.md`; [how they are staged and
scored](../benchmarks/README.md#causes).

"""

# The score that counts is the one before the rules were tuned to the half.
FIRST_SCORES = {
    DRAWN: "Seed 526. First score, before any rule was changed because of it: cause first in 73 of "
    "75 (97.3%); in the first 3 in 74 (98.7%); captures with a false problem: 2.",
    HELD_BACK: "First score, before any rule was changed because of it: cause first in 64 of 75 "
    "(85.3%); in the first 3 in 67 (89.3%); captures with a false problem: 2.",
}


def sentence(all_of: Totals) -> str:
    """The counts of a half."""
    parts = [f"{all_of.captures} captures"]
    if all_of.with_cause:
        first = f"{all_of.first / all_of.with_cause:.1%}"
        three = f"{all_of.in_three / all_of.with_cause:.1%}"
        parts.append(f"cause first in {all_of.first} of {all_of.with_cause} ({first})")
        parts.append(f"in the first {FEW} in {all_of.in_three} ({three})")
    parts.append(f"captures with a false problem: {all_of.false_problems}")
    parts.append(f"with a false warning: {all_of.false_warnings}")
    return "; ".join(parts)


def page(scores: Sequence[Score]) -> str:
    """The whole page."""
    parts = [HEAD]
    for half in HALVES:
        those = [one for one in scores if one.truth.half == half]
        if those:
            parts.append(f"## {half.capitalize()}\n\n{sentence(totals(those))}.\n\n")
            if half in FIRST_SCORES:
                parts.append(f"{FIRST_SCORES[half]}\n\n")
            parts.append(_table(those, half == QUIET))
    return "".join(parts)


def _table(scores: Sequence[Score], is_quiet: bool) -> str:
    head = "| capture | Kafka | what happened | first sentence |" + ("" if is_quiet else " place |")
    lines = [head, "|---" * (4 if is_quiet else 5) + "|"]
    for one in scores:
        truth = one.truth
        said = one.page[0].text if one.page else "(no finding)"
        cells = [f"`{truth.name}`", truth.kafka, truth.cause, said]
        if not is_quiet:
            cells.append(str(one.rank or "not said") if one.has_cause else "cannot be seen")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n\n"
