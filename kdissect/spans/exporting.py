"""Captures → spans, in bounded memory: one batch of spans at a time."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from kdissect.api.dissected import DissectedExchange, Dissection
from kdissect.capture.files import Source
from kdissect.pipeline import Balance
from kdissect.spans.contexts import TraceContext, contexts_of
from kdissect.spans.describing import describe
from kdissect.spans.sending import SpanMaker, Target

# Maximum of the SDK's own batches; with 128 links each 7 MB.
BATCH: Final = 512


class Spans:
    """The exchanges of captures as spans of the SDK; a single-use iterable.

    `count` is the number of exchanges so far; `balance` accounts for the bytes.
    """

    def __init__(
        self,
        source: Source | Sequence[Source],
        where: str | None = None,
        *,
        has_links: bool = True,
        has_parts: bool = False,
        **options: Any,
    ) -> None:
        self.count = 0
        self._maker = SpanMaker(has_parts)
        self._has_links = has_links
        self._dissection = Dissection(source, where, keeps_records=has_links, **options)

    @property
    def balance(self) -> Balance:
        return self._dissection.balance

    def __iter__(self) -> Iterator[Any]:
        for exchange in self._dissection:
            self.count += 1
            yield from self._maker.spans(describe(exchange, self._contexts(exchange)))

    def _contexts(self, exchange: DissectedExchange) -> tuple[TraceContext, ...]:
        if not self._has_links or exchange.dialect or not exchange.record_bytes:
            return ()
        unpacking = self._dissection.unpacking
        budget = unpacking.budget(exchange.record_bytes)
        found = contexts_of(exchange.partitions, budget, int(unpacking.limit))
        unpacking.settle(budget)
        return found


def send_spans(spans: Spans, target: Target) -> None:
    """Send all spans in batches; raises OutputError for the first that is rejected."""
    rest = iter(spans)
    while batch := list(islice(rest, BATCH)):
        target.send(batch)


def write_spans(
    source: Source | Sequence[Source], target: Target, where: str | None = None, **options: Any
) -> int:
    """Send the exchanges of captures as spans; return the number of exchanges.

    `target` is a `FileTarget` or an `EndpointTarget`, `where` an SQL condition over the columns of
    `exchanges`; `has_links=False` skips records, `has_parts=True` adds spans of the parts;
    other keywords are those of `Options`.
    """
    spans = Spans(source, where, **options)
    send_spans(spans, target)
    return spans.count
