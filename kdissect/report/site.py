"""A site: a page for each day of datasets and live captures, and a calendar of them.

Only pages of days whose rows have changed are made again. Each file is written aside and renamed, a
page before its entry in the state, so that an interruption costs at most a page made twice.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kdissect.analysis.engines.live_tables import asked_again
from kdissect.analysis.engines.stored_tables import Place
from kdissect.capture.files import Source
from kdissect.dataset.days import UNDATED, Day, days_of
from kdissect.dataset.locations import stored_places
from kdissect.errors import DatasetError, InvalidArgument, OutputExists, cannot_write
from kdissect.report.document import INDEX, page
from kdissect.report.tables import BYTES, COUNT, TEXT, Shown, table
from kdissect.report.writing import ANONYMOUS, Report, make_report
from kdissect.rules.finding import PROBLEM, WARNING
from kdissect.system import strict_json
from kdissect.system.confined import replacing
from kdissect.system.file_names import shortened
from kdissect.tables.pseudonyms import Pseudonyms
from kdissect.text.human import time

STATE: Final = "days.json"
INDEX_PAGE: Final = "index.html"
STATE_BYTES: Final = 64 << 20
VERSION: Final = 1
DAY: Final = re.compile(rf"\d{{4}}-\d\d-\d\d|{UNDATED}", re.ASCII)
DIGEST: Final = 8  # bytes, for each part of a day: of a million, two are alike once in 10^7 sites
PAGE: Final = "page"  # how a day is shown: as a link to its page
COLUMNS: Final = (
    Shown("day", "day", PAGE, "day of the capture's rotation or file, in UTC"),
    Shown("exchanges", "exchanges", COUNT, "requests with their responses, or either alone"),
    Shown("errors", "errors", COUNT, "exchanges with an error code other than 0"),
    Shown("bytes", "bytes", BYTES, "size fields of requests and responses"),
    Shown("problems", "problems", COUNT, "findings that are problems"),
    Shown("warnings", "warnings", COUNT, "findings that are warnings"),
    Shown("first", "first", TEXT, "time of the first packet"),
    Shown("last", "last", TEXT, "time of the last packet"),
    Shown("worst finding", "worst", TEXT, "the first finding of the page"),
)
NOTICE_OF_DAYS: Final = (
    "A page is of the captures that began on its day, or of the rotations of a live capture; "
    "days are UTC."
)


class Site(NamedTuple):
    """The days whose pages were made or kept; of those made, severities of findings and counts."""

    made: list[str]
    kept: list[str]
    severities: set[str]
    counts: Mapping[str, int]


@asked_again
def write_site(
    source: Source | Sequence[Source],
    directory: str | Path,
    *,
    title: str = "",
    files: Sequence[str] = (),
    words: Sequence[str] = (),
    asks_all: bool = False,
    pseudonyms: Pseudonyms | None = None,
    force: bool = False,
    told: Callable[[str], object] = str,
) -> Site:
    """Bring the pages of a site up to date with datasets and live captures.

    The directory is new, empty, or one that this function wrote; with `force` all pages are made
    again. `told` is called with each day whose page is made. Other options are those of
    `make_report`.
    """
    directory = Path(directory)
    days = days_of(growing(source))
    options = {"all": asks_all, "pseudonyms": pseudonyms.fingerprint if pseudonyms else ""}
    if pseudonyms is not None:
        title, files, words = ANONYMOUS, [ANONYMOUS], []
    state = state_of(directory, force)
    known = state["days"] if state["options"] == options and not force else {}
    made: list[str] = []
    severities: set[str] = set()
    counts = dict.fromkeys(("bytes", "exchanges", "findings"), 0)
    for day in days:
        names = sorted(map(digest, day.names))
        if not is_new(names, known.get(day.name)):
            continue
        told(day.name)
        report = make_report(
            source, title=f"{title} {day.name}", files=files, words=words, asks_all=asks_all,
            pseudonyms=pseudonyms, day=day, more={"index": INDEX_PAGE},
        )  # fmt: skip
        save(directory / f"{day.name}.html", report.html)
        known[day.name] = {"names": names, "row": row_of(day, report)}
        made.append(day.name)
        severities |= {one.severity for one in report.findings}
        counts = {name: counts[name] + value for name, value in report.counts.items()}
        save(directory / STATE, state_bytes(options, known))
    if made or not (directory / INDEX_PAGE).exists():
        save(directory / STATE, state_bytes(options, known))
        save(directory / INDEX_PAGE, index_page(title, known))
    return Site(made, sorted(known.keys() - set(made)), severities, counts)


def state_of_sources(source: Source | Sequence[Source]) -> list[tuple[str, int]]:
    """The files of datasets and live captures with their sizes: it changes when rows come."""
    files = [own for place in growing(source) for own in place.files.values()]
    return [(file.path, file.size) for own in files for file in own]


def growing(source: Source | Sequence[Source]) -> list[Place]:
    """Datasets and live captures; raises InvalidArgument for other sources."""
    places = stored_places(source)
    if not places or not all(place.is_dataset or place.is_live for place in places):
        raise InvalidArgument("--by and --every are for datasets and directories of live captures")
    return places


def is_new(names: Sequence[str], known: Mapping[str, Any] | None) -> bool:
    """Return whether a day has rows that its page has not; rows that are gone stay on it."""
    return known is None or not set(names) <= set(known["names"])


def row_of(day: Day, report: Report) -> dict[str, Any]:
    """The row of a day in the calendar."""
    totals, severities = report.summary.totals, [one.severity for one in report.findings]
    return {
        "day": day.name, "exchanges": totals.exchanges, "errors": totals.with_errors,
        "bytes": totals.request_bytes + totals.response_bytes,
        "problems": severities.count(PROBLEM), "warnings": severities.count(WARNING),
        "first": None if totals.first_time_ns is None else time(totals.first_time_ns),
        "last": None if totals.last_time_ns is None else time(totals.last_time_ns),
        "worst": report.findings[0].text if report.findings else None,
    }  # fmt: skip


def index_page(title: str, days: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The calendar: the newest day first in its table."""
    rows = [days[name]["row"] for name in sorted(days, reverse=True)]
    content = {"tables": [table("days", "Days", COLUMNS, rows)], "folded": [NOTICE_OF_DAYS]}
    return page(title, content, INDEX).html


def state_of(directory: Path, force: bool) -> dict[str, Any]:
    """What is known of a site; raises OutputExists for a directory that is another's."""
    path = directory / STATE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(directory.iterdir()) and not force:
                raise OutputExists(f"{directory} is not empty; --force writes into it")
            return {"options": {}, "days": {}}
        with path.open("rb") as file:
            content = file.read(STATE_BYTES)
    except OSError as error:
        raise cannot_write(directory, error) from error
    return checked_state(strict_json.parsed(content, str(path)), str(path))


def checked_state(value: Any, where: str) -> dict[str, Any]:
    """A state with the types that it should have; DatasetError for another."""
    state = strict_json.mapping(value, where)
    strict_json.number(state.get("version"), f"{where}: version", VERSION)
    strict_json.mapping(state.get("options"), f"{where}: options")
    for name, day in strict_json.mapping(state.get("days"), f"{where}: days").items():
        own = strict_json.mapping(day, f"{where}: {name}")
        for one in strict_json.items(own.get("names"), f"{where}: {name}: names"):
            strict_json.text(one, f"{where}: {name}: names")
        row = strict_json.mapping(own.get("row"), f"{where}: {name}: row")
        if row.keys() != {column.path for column in COLUMNS} or row["day"] != name:
            raise DatasetError(f"{where}: {shortened(name)}: no row of a day")
        if not DAY.fullmatch(name):
            raise DatasetError(f"{where}: {shortened(name)}: no day")
    return state


def state_bytes(options: Mapping[str, Any], days: Mapping[str, Any]) -> bytes:
    """The state of a site as JSON."""
    return json.dumps({"version": VERSION, "options": options, "days": days}).encode()


def save(path: Path, content: bytes) -> None:
    """Write a file aside and rename it."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise cannot_write(path, error) from error


def digest(name: str) -> str:
    """A part of a day, shortened: live captures have one for each minute."""
    return hashlib.blake2b(name.encode(), digest_size=DIGEST).hexdigest()
