"""Reports as files: one pass over captures or datasets, one page."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.analysis.summary.summary import Summary
from kdissect.api.reading import run_over
from kdissect.api.summary_pass import SummaryPage, tables_of
from kdissect.capture.files import Source
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.errors import OutputExists, cannot_write
from kdissect.pipeline import Options
from kdissect.report.asked import Asked
from kdissect.report.columns import KEPT
from kdissect.rules.context import Context
from kdissect.rules.finding import Finding
from kdissect.system.confined import replacing
from kdissect.tables.pseudonyms import Pseudonyms
from kdissect.tables.unused_memory import trim

if TYPE_CHECKING:
    from kdissect.dataset.days import Day, DayRun
    from kdissect.report.document import Page
    from kdissect.report.happenings import Happenings

NOTHING: Final = Asked()
ANONYMOUS: Final = "capture"  # in place of names of files


class Gathered(NamedTuple):
    """What a page is made of."""

    title: str
    content: dict[str, Any]
    summary: Summary
    findings: list[Finding]


class Report(NamedTuple):
    """A page, and what it is about."""

    page: "Page"
    summary: Summary
    findings: list[Finding]

    @property
    def html(self) -> bytes:
        """The page, UTF-8."""
        return self.page.html

    @property
    def counts(self) -> dict[str, int]:
        """Size of the page, and what it is about."""
        return {
            "bytes": self.page.size,
            "exchanges": self.summary.totals.exchanges,
            "findings": len(self.findings),
        }


def make_report(
    source: Source | Sequence[Source], *, more: Mapping[str, Any] | None = None, **options: Any
) -> Report:
    """The report about captures or datasets.

    `options` are those of `gather`; `more` is added to the page's data.
    """
    found = gather(source, **options)
    from kdissect.report.document import page

    made = page(found.title, {**found.content, **(more or {})})
    return Report(made, found.summary, found.findings)


def gather(
    source: Source | Sequence[Source],
    *,
    title: str = "",
    files: Sequence[str] = (),
    words: Sequence[str] = (),
    asks_all: bool = False,
    pseudonyms: Pseudonyms | None = None,
    jobs: int = 0,
    pool: WorkerPool | None = None,
    reading: dict[str, Any] | None = None,
    day: "Day | None" = None,
    sequences: Asked = NOTHING,
) -> Gathered:
    """The data of a page about captures or datasets, in one pass.

    `files` and `words`, options of reading, are those of the commands that the page shows.
    `asks_all` runs all queries; `pseudonyms` replace addresses and names; `reading` are keywords
    of `Options`. With `day` it is about that day of the source; `sequences` are drawn beside those
    that are drawn anyway.
    """
    if pseudonyms is not None:
        title, files, words = ANONYMOUS, [ANONYMOUS], []
    options = Options(**(reading or {}), tables=tables_of(has_findings=True), jobs=jobs)
    with SummaryPage(more=KEPT) as kept:
        with run_over(source, options, pool) if day is None else day_run(day, options) as run:
            kept.add_all(run if pseudonyms is None else pseudonyms.batches(run))
            summary = kept.summary(asdict(run.balance))
        del run  # the engine needs the room
        found, happened = kept.for_pages(summary, happenings, asks_all)
        trim()  # columns of queries
        # After the pass and the queries, which need the room: 0.5 MB.
        from kdissect.api.summary_data import summary_data
        from kdissect.report.build import page_data

        document = summary_data(summary, found, files, words)
        content = page_data(kept.kept, summary, found, document, happened, sequences)
        if kept.trouble:
            content["folded"].append(f"plots and exchanges are not complete: {kept.trouble}")
    return Gathered(title, content, summary, found)


def happenings(seen: Context) -> "Happenings":
    """What a page draws of the evidence; loaded after the pass, which needs the room."""
    from kdissect.report.axis import axis_of, span
    from kdissect.report.happenings import Happenings

    return Happenings(seen, axis_of(*span(seen.summary)))


def day_run(day: "Day", options: Options) -> AbstractContextManager["DayRun"]:
    """The rows of a day; pages of captures need no reader of Parquet."""
    from kdissect.dataset.days import DayRun

    return nullcontext(DayRun(day, options))


def write_report(
    source: Source | Sequence[Source], path: str | Path, *, force: bool = False, **options: Any
) -> Report:
    """Write the report about captures or datasets as one HTML file.

    `options` are those of `make_report`. Refuses to overwrite without `force`.
    """
    path = Path(path)
    if path.exists() and not force:
        raise OutputExists(f"{path} exists; force=True overwrites it")
    names = [str(one) for one in (source if isinstance(source, list | tuple) else [source])]
    options = {"title": title_of(names), "files": names, **options}
    report = make_report(source, **options)
    try:
        with replacing(path) as file:
            report.page.write(file)
    except OSError as error:
        raise cannot_write(path, error) from error
    return report


def title_of(names: Sequence[str]) -> str:
    """The heading of a page about these files.

    >>> title_of(["a/b.pcap"]), title_of(["a.pcap", "b.pcap", "c.pcap"])
    ('b.pcap', 'a.pcap and 2 more')
    """
    first = Path(names[0]).name or names[0]
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"
