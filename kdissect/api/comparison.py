"""Comparison of two captures, or two parts of one, by `kdissect.analysis.compare`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.analysis.compare.comparison import CHANGED, CHOICES, QUESTION, changes
from kdissect.analysis.compare.window_counts import span_of
from kdissect.analysis.dimensions import SECOND_NS, check_names, tables_for
from kdissect.analysis.engines.chosen_rows import tables_beside
from kdissect.analysis.engines.ibis_tables import askable, files_of
from kdissect.analysis.engines.live_tables import asked_again, noticing
from kdissect.analysis.engines.stored_tables import Place
from kdissect.analysis.time_expressions import is_moment, is_range, moment_of, range_of
from kdissect.api.answers import Answer, as_asked, check_taps, places_of, with_names
from kdissect.api.engine_choice import DUCKDB, SPARK, Notice, opened, takes_spark
from kdissect.capture.files import Source
from kdissect.errors import DatasetError, InvalidArgument, KdissectError
from kdissect.sql.conditions import check_condition, refusal_of
from kdissect.tables.durations import NUMBERS, check_units

if TYPE_CHECKING:
    import pyarrow as pa

    from kdissect.analysis.execution import Engine
    from kdissect.api.engine_choice import Session

NAMES: Final = ("before", "after")


class NothingToCompare(KdissectError):
    """No request of a side meets the condition."""


class Side(NamedTuple):
    """One of the two sides: its exchanges, and its time range (ns since 1970)."""

    exchanges: int
    first_ns: int
    last_ns: int


class Choice(NamedTuple):
    """Selection of a source's exchanges as a side: by SQL, and by time range."""

    condition: str | None = None
    times: tuple[int, int] | None = None


@dataclass(frozen=True)
class Asked:
    """An engine and the tables that it opens."""

    engine: str
    session: "Session | str | None"
    names: tuple[str, ...]

    def at(
        self, places: list[Place], where: str | None, names: tuple[str, ...] = ()
    ) -> "AbstractContextManager[Engine]":
        """The tables of places, all requested ones or some."""
        return opened(self.engine, places, names or self.names, where, self.session)


class Comparison(Answer):
    """The changes, and the input compared. `verdicts` counts all rows, requested or not."""

    def __init__(
        self,
        table: "pa.Table",
        sides: tuple[Side, Side],
        verdicts: dict[str, int],
        units: str = NUMBERS,
    ) -> None:
        super().__init__(QUESTION, table, None, units)
        self.before, self.after = sides
        self.verdicts = verdicts


@asked_again
def compare(
    source: Source | Sequence[Source],
    other: Source | Sequence[Source] | None = None,
    *,
    at: str | None = None,
    before: str | None = None,
    after: str | None = None,
    where: str | None = None,
    jobs: int = 0,
    reading: dict[str, Any] | None = None,
    engine: str | None = None,
    session: "Session | None" = None,
    master: str | None = None,
    notice: Notice | None = None,
    units: str = NUMBERS,
    **options: Any,
) -> Comparison:
    """Changes from `source` to `other`: ``compare("old.pcap", "new.pcap", by=["client_id"])``.

    Or within `source`: `at` a moment ("14:05"), or from `before` to `after`, each a time range
    ("13:55..14:05") or an SQL condition over the columns of `exchanges`; one alone is compared with
    the rest. Sources, `where`, `reading` and engines are those of `analyse`, `options` those of
    docs/analysis.md#compare. Raises KdissectError for inputs that cannot be compared.
    """
    check_units(units)
    options = with_names(options)
    check_options(options)
    is_within = at is not None or before is not None or after is not None
    if is_within == (other is not None):
        raise InvalidArgument("compare needs two sources, or one with at, before or after")
    by = options.get("by", ())
    names = tuple({*QUESTION.tables, *tables_for(by)})
    if where:
        # Alone, not only in the parentheses of `both`.
        check_condition(where, "--where", askable(names))
    beside = {table for text in (where, before, after) for table in beside_of(text, names)}
    names = tuple({*names, *beside})
    with ExitStack() as stack:
        places = [
            stack.enter_context(places_of(one, files_of(names), jobs, reading or {}))[0]
            for one in ([source] if other is None else [source, other])
        ]
        every = [place for own in places for place in own]
        stack.enter_context(noticing(every))
        check_taps(by, every)
        is_spark = takes_spark(engine or (SPARK if session else DUCKDB), every, names, notice)
        asked = Asked(SPARK if is_spark else DUCKDB, session or master, names)
        wholes = [side_of(asked, own) for own in places]
        choices = (
            chosen(at, before, after, asked, places[0], wholes[0])
            if is_within
            else (Choice(), Choice())
        )
        sides, engines = [], []
        for number, (name, choice) in enumerate(zip(NAMES, choices, strict=True)):
            own = number if other is not None else 0
            sides.append(chosen_side(name, asked, places[own], choice, wholes[own], where))
            condition = both(choice.condition, where)
            engines.append(stack.enter_context(asked.at(places[own], condition)))
        times = [(side.first_ns, side.last_ns) for side in sides]
        is_all = options.pop("unchanged", False)
        table = as_asked(changes((engines[0], engines[1]), times, **options), QUESTION, by)
    return comparison_of(table, (sides[0], sides[1]), is_all, units)


def beside_of(text: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """The tables beside `exchanges` that a condition needs; none for a range of time."""
    if text is None or is_range(text) or refusal_of(text, tuple(askable(names))) is not None:
        return ()
    return tables_beside(text)


def comparison_of(
    table: "pa.Table", sides: tuple[Side, Side], is_all: bool, units: str = NUMBERS
) -> Comparison:
    """The requested rows, with the number of rows of each verdict."""
    found = table["verdict"].value_counts().to_pylist()
    verdicts = {one["values"]: one["counts"] for one in found}
    changed = sum(verdicts.get(verdict, 0) for verdict in CHANGED)  # these come first
    return Comparison(table if is_all else table.slice(0, changed), sides, verdicts, units)


def check_options(options: dict[str, Any]) -> None:
    """Raise KdissectError for an unknown option or dimension."""
    known = [option.name for option in QUESTION.options]
    if unknown := options.keys() - set(known):
        raise InvalidArgument(f"compare has no option {min(unknown)!r}; it has {', '.join(known)}")
    check_names(options.get("by", ()), CHOICES)


def chosen(
    at: str | None,
    before: str | None,
    after: str | None,
    asked: Asked,
    places: list[Place],
    whole: Side,
) -> tuple[Choice, Choice]:
    """Both sides of one source. Ranges exclude their end; one alone is compared with the rest."""
    ends = whole.first_ns, whole.last_ns
    if at is not None:
        if before is not None or after is not None:
            raise InvalidArgument("at divides the source: before and after do not go with it")
        moment = moment_of(at, *ends)
        return time_choice(whole.first_ns, moment), time_choice(moment, whole.last_ns + 1)
    first = choice_of("before", before, asked, places, whole)
    second = choice_of("after", after, asked, places, whole)
    return first or rest_of(second, whole, 0), second or rest_of(first, whole, 1)


def choice_of(
    name: str, text: str | None, asked: Asked, places: list[Place], whole: Side
) -> Choice | None:
    """A side given by a time range or a condition."""
    if text is None:
        return None
    if is_range(text):
        return time_choice(*range_of(text, whole.first_ns, whole.last_ns))
    if is_moment(text.strip()):
        raise InvalidArgument(f"{name} {text!r} is a moment: use at, or a range like {text}..")
    try:
        side_of(asked, places, text)
    except KdissectError as error:
        raise type(error)(str(error).replace("--where", name, 1)) from error
    return Choice(text)


def rest_of(other: Choice | None, whole: Side, number: int) -> Choice:
    """The side (0 before, 1 after) that is not given: the rest of the source."""
    assert other is not None  # noqa: S101  # the caller gives one of them
    if other.times is None:
        return Choice(f"NOT coalesce((\n{other.condition}\n), false)")
    start, end = other.times
    return time_choice(end, whole.last_ns + 1) if number else time_choice(whole.first_ns, start)


def time_choice(start_ns: int, end_ns: int) -> Choice:
    """Requests from a time up to, excluding, another."""
    sql = f"request_start_ns >= {start_ns} AND request_start_ns < {end_ns}"
    return Choice(sql, (start_ns, end_ns))


def chosen_side(
    name: str,
    asked: Asked,
    places: list[Place],
    choice: Choice,
    whole: Side,
    where: str | None,
) -> Side:
    """The side with its exchanges counted; those excluded by `where` do not shorten it."""
    own = side_of(asked, places, choice.condition) if choice.condition else whole
    count = (
        side_of(asked, places, both(choice.condition, where)).exchanges if where else own.exchanges
    )
    if not whole.exchanges:
        raise NothingToCompare(f"there is nothing {name}: the source has no requests")
    if not count and own.exchanges:
        raise NothingToCompare(f"there is nothing {name}: no request meets {where!r}")
    if not count:
        there = f"{written(whole.first_ns)} to {written(whole.last_ns)}"
        raise InvalidArgument(f"there is nothing {name}: the source is from {there}")
    if choice.times is None:
        return own._replace(exchanges=count)
    start, end = choice.times
    return Side(count, max(start, whole.first_ns), min(end - 1, whole.last_ns))


def side_of(asked: Asked, places: list[Place], condition: str | None = None) -> Side:
    """Number of requests that meet a condition, and the times of the first and last."""
    with asked.at(places, condition, ("exchanges",)) as tables:
        (row,) = tables.rows(span_of(tables.tables)).to_pylist()
    times = [row["first_ns"] or 0, row["last_ns"] or 0]
    if not all(isinstance(one, int) for one in times):  # files that others wrote
        raise DatasetError("exchanges: times are no integers in nanoseconds")
    return Side(row["exchanges"], *times)


def both(condition: str | None, where: str | None) -> str | None:
    """Conjunction of two conditions, on separate lines."""
    conditions = [text for text in (condition, where) if text]
    return " AND ".join(f"(\n{text}\n)" for text in conditions) if conditions else None


def written(time_ns: int) -> str:
    """A time in UTC, to the second."""
    return f"{datetime.fromtimestamp(time_ns // SECOND_NS, UTC):%Y-%m-%d %H:%M:%SZ}"
