"""Result of a run on Spark: text on stderr, or a line of JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from kdissect.cli.documents import print_document
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.program import ANSWERED, FAILED
from kdissect.text import human
from kdissect.text.escape import escaped

if TYPE_CHECKING:
    from kdissect.dataset.entries import Contents
    from kdissect.spark.pipeline import Outcome

# Limit of unreadable captures shown; all are in the dataset.
SHOWN: Final = 10
DISSECT: Final = "spark dissect"
STREAM: Final = "spark stream"


def show(outcome: "Outcome", is_json: bool) -> int:
    """Show the work done and the dataset's contents; return the exit code."""
    complain(outcome)
    rows = rows_of(outcome.contents)
    if is_json:
        print_document(outcome_data(outcome), DISSECT)
    else:
        click.echo(line(outcome), err=True)
        width = max((len(name) for name in rows), default=0)
        for name, count in rows.items():
            noun = human.agreeing(count, "row", "rows")
            click.echo(f"{name:{width}}  {human.count(count):>12} {noun}", err=True)
    if outcome.failed:
        return FAILED
    tell_empty(outcome.contents)
    return ANSWERED


def show_batch(number: int, outcome: "Outcome", is_json: bool) -> None:
    """Show the work done by a batch of a stream."""
    complain(outcome)
    if is_json:
        # In a thread of Spark, where Click knows no command.
        print_document({"batch": number, **outcome_data(outcome)}, STREAM)
    else:
        click.echo(f"batch {number}: {line(outcome)}", err=True)


def tell_empty(contents: "Contents") -> None:
    """Print a message when the dataset has no exchanges."""
    balance = balance_of(tap.balance for tap in contents.taps)
    if not balance["exchanges"]:
        explain_empty(f"{NO_EXCHANGES} in the dataset", balance)


def complain(outcome: "Outcome") -> None:
    """Print on stderr unreadable captures, and taps that could not be continued."""
    messages = [one.message for one in outcome.broken[:SHOWN]]
    more = len(outcome.broken) - len(messages)
    if more:
        messages.append(f"{human.counted(more, 'more capture')} that cannot be read")
    messages += [f"tap {one.tap}: {one.message}" for one in outcome.failed]
    for message in messages:
        # The omitted part is the first bytes, useful for one capture, not for a thousand.
        click.echo(f"kdissect: {escaped(message.partition(chr(10))[0])}", err=True)


def line(outcome: "Outcome") -> str:
    """The work done, in one line."""
    if not outcome.captures:
        return "no new captures"
    size = human.size(outcome.capture_bytes)
    return (
        f"{human.counted(outcome.captures, 'new capture')}, {size}, in "
        f"{human.counted(outcome.splits, 'split')}"
    )


def outcome_data(outcome: "Outcome") -> dict[str, Any]:
    """The work done, and the current contents of the dataset."""
    return {
        "captures": outcome.captures,
        "capture_bytes": outcome.capture_bytes,
        "splits": outcome.splits,
        "boundary_bytes": outcome.boundary_bytes,
        "broken": [one.path for one in outcome.broken],
        "failed": {one.tap: one.message for one in outcome.failed},
        "rows": {tap.name: tap.rows for tap in outcome.contents.taps},
    }


def rows_of(contents: "Contents") -> dict[str, int]:
    """Row count of each table."""
    counts: Counter[str] = Counter()
    for tap in contents.taps:
        counts.update(tap.rows)
    return dict(sorted(counts.items()))


def balance_of(balances: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum of the taps' balances."""
    numbers: Counter[str] = Counter({"packets": 0, "exchanges": 0})
    by_kind: dict[str, Counter[str]] = {}
    for balance in balances:
        for name, value in balance.items():
            if isinstance(value, Mapping):
                by_kind.setdefault(name, Counter()).update(value)
            else:
                numbers[name] += value
    return {**numbers, **by_kind}
