"""Compare: changes between two captures or two time ranges, beyond random variation.

Both sides are cut into time windows. Shares, rates and quantiles of each group are compared by
their variation between windows (`significance`), so one slow second that hits hundreds of
exchanges counts as one.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.analysis.compare.window_counts import Span
from kdissect.analysis.dimensions import (
    DIMENSIONS,
    SECOND_NS,
    check_names,
    group_option,
    short_name,
)
from kdissect.analysis.execution import schema_of
from kdissect.analysis.question import DURATION, FLAG, NAMES, NUMBER, RATE, Option, Question
from kdissect.analysis.questions.latency import MEASURES
from kdissect.errors import InvalidArgument
from kdissect.tables.schemas import INT64, TEXT, Column
from kdissect.text.suggestions import known_words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from kdissect.analysis.compare.paired_counts import Part
    from kdissect.analysis.execution import Engine

WINDOWS: Final = 20  # of the shorter side
LONGEST: Final = 50  # times the shorter side: windows have one width, which makes 1 000
SAME_TIME: Final = 0.8  # sides that share this much of their time are concurrent
DEFAULT_OF: Final = ("latency", "work")

CHANGED: Final = ("slower", "faster", "new", "gone", "more", "less")
VERDICTS: Final = (*CHANGED, "small", "unclear", "same", "too few")
ORDER: Final = (*MEASURES, "error", "version", "software", "traffic")

COLUMNS: Final = (
    Column("measure", TEXT, "", "latency or a part of it, error, version, software, traffic"),
    Column("what", TEXT, "", "percentile, error, API with version, library, or kind of amount"),
    Column("verdict", TEXT, "", f"{', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}"),
    Column("before", RATE, "", "value before, in `unit`"),
    Column("after", RATE, "", "value after"),
    Column("ratio", RATE, "", "after / before; null when there was nothing before"),
    Column("difference", RATE, "", "after - before"),
    Column("low", RATE, "", "lower bound of the difference, with 95 % confidence; null: not known"),
    Column("high", RATE, "", "upper bound of the difference; null: not known"),
    Column("q_value", RATE, "", "p, corrected for the number of rows (Benjamini-Hochberg)"),
    Column("p_value", RATE, "", "probability of such a difference by chance; null: too few"),
    Column("exchanges_before", INT64, "", "exchanges before; null for traffic"),
    Column("exchanges_after", INT64, "", "exchanges after"),
    Column("windows_before", INT64, "", "windows with exchanges before"),
    Column("windows_after", INT64, "", "windows with exchanges after"),
    Column("unit", TEXT, "",
        "unit of before, after, difference, low, high: ns, share, 1/s, bytes/s"),
)  # fmt: skip
# The two sides share no windows, connections or files.
CHOICES: Final = tuple(
    name for name in DIMENSIONS if name not in ("window", "connection", "capture")
)
BY: Final = group_option(("api",), CHOICES)
OF: Final = Option(
    "of", NAMES, DEFAULT_OF, f"Measures to compare: {', '.join(MEASURES)}.", MEASURES
)
OPTIONS: Final = (
    BY,
    OF,
    Option(
        "window",
        DURATION,
        None,
        "Width of the time windows.  [default: a 20th of the shorter side]",
    ),
    Option("least", NUMBER, 10, "Ignore differences below this percentage of before."),
    Option("least_time", DURATION, 100_000, "Ignore differences of times below this."),
    Option("chance", NUMBER, 5, "False discovery rate, in percent."),
    Option("unchanged", FLAG, False, "Also show unchanged and inconclusive comparisons."),
)


class Settings(NamedTuple):
    """The options for verdicts, as numbers."""

    least: float = 0.1
    least_time_ns: int = 100_000
    chance: float = 0.05


def changes(
    engines: "tuple[Engine, Engine]",
    times: Sequence[tuple[int, int]],
    by: Sequence[str] = ("api",),
    of: Sequence[str] = DEFAULT_OF,
    window: int | None = None,
    least: int = 10,
    least_time: int = 100_000,
    chance: int = 5,
) -> "pa.Table":
    """Differences between the tables of two engines; `times` are their first and last ns.

    All rows, changed ones first; latencies before errors, versions and traffic, the largest
    ratio first.
    """
    check_names(by, CHOICES)
    for name in of:
        if name not in MEASURES:
            raise InvalidArgument(f"cannot compare {name!r}; {known_words(name, MEASURES)}")
    from kdissect.analysis.compare.paired_counts import Sides

    sides = Sides(engines, spans_of(times, window), tuple(map(short_name, by)))
    settings = Settings(least / 100, least_time, chance / 100)
    rows = judged(list(parts_of(sides, of)), settings)
    rows.sort(key=place_of)
    return table_of(rows, [short_name(name) for name in by])


def spans_of(times: Sequence[tuple[int, int]], window: int | None) -> tuple[Span, Span]:
    """Both sides in windows of one width; concurrent sides share one span."""
    first, last = min(times[0][0], times[1][0]), max(times[0][1], times[1][1])
    in_common = min(times[0][1], times[1][1]) - max(times[0][0], times[1][0])
    if in_common >= SAME_TIME * (last - first):
        times = [(first, last)] * 2
    lengths = [max(1, last - first) for first, last in times]
    if max(lengths) > LONGEST * min(lengths):
        longer, shorter = (length / SECOND_NS for length in (max(lengths), min(lengths)))
        raise InvalidArgument(
            f"one side is {longer:.3g} s long, the other {shorter:.3g} s: choose a part of the "
            f"longer one, at most {LONGEST} times as long"
        )
    width = window or max(1, min(lengths) // WINDOWS)
    if max(lengths) > LONGEST * WINDOWS * width:
        raise InvalidArgument(f"windows of {width / SECOND_NS:.3g} s are too many: take wider ones")
    before, after = (Span(first, last, width) for first, last in times)
    return before, after


def parts_of(sides: Any, of: Sequence[str]) -> "Iterator[Part]":
    """All parts that are compared."""
    from kdissect.analysis.compare import paired_counts, quantiles

    # Its query takes most memory, and all counts of the others are kept.
    libraries = list(paired_counts.libraries(sides))
    yield from quantiles.times(sides, of)
    yield from paired_counts.amounts(sides)
    yield from libraries


def judged(parts: "list[Part]", settings: Settings) -> list[dict[str, Any]]:
    """The rows of all parts with their verdicts; the correction covers every test made."""
    import numpy as np

    from kdissect.analysis.compare.significance import false_discovery, p_values

    is_tested = np.concatenate([part.is_enough for part in parts])
    x, n = (np.vstack([part.counts[place] for part in parts])[is_tested] for place in (0, 1))
    p, q = np.full(len(is_tested), np.nan), np.full(len(is_tested), np.nan)
    p[is_tested] = p_values(parts[0].counts._replace(x=x, n=n))
    q[is_tested] = false_discovery(p[is_tested])
    rows, at = [], 0
    for part in parts:
        upto = at + len(part.groups)
        rows += rows_of(part, p[at:upto], q[at:upto], settings)
        at = upto
    return rows


def rows_of(
    part: "Part",
    p: "npt.NDArray[np.float64]",
    q: "npt.NDArray[np.float64]",
    settings: Settings,
) -> list[dict[str, Any]]:
    """The rows of one part."""
    import numpy as np

    from kdissect.analysis.compare.significance import difference_bounds

    low, high = difference_bounds(
        (part.values[0], *part.bounds[0]), (part.values[1], *part.bounds[1])
    )
    numbers = {
        "before": part.values[0], "after": part.values[1],
        "difference": part.values[1] - part.values[0], "low": low, "high": high,
        "p_value": p, "q_value": q,
    }  # fmt: skip
    is_counted = part.measure != "traffic"
    for side, name in enumerate(("before", "after")):
        own, of = part.counts.side(side)
        numbers[f"exchanges_{name}"] = of.sum(1) if is_counted else np.full(len(of), np.nan)
        numbers[f"windows_{name}"] = ((of if is_counted else own) > 0).sum(1)
    columns = {name: values.tolist() for name, values in numbers.items()}
    rows = []
    for place, (group, what) in enumerate(zip(part.groups, part.whats, strict=True)):
        row: dict[str, Any] = {name: number(values[place]) for name, values in columns.items()}
        row |= {"group": group, "measure": part.measure, "what": what, "unit": part.unit}
        row["ratio"] = row["after"] / row["before"] if row["before"] else None
        rows.append(row | {"verdict": verdict(row, part.is_fact, settings)})
    return rows


def number(value: float) -> float | None:
    """A number, None when unknown."""
    return None if value != value else value


def verdict(row: dict[str, Any], is_fact: bool, settings: Settings) -> str:
    """The verdict of a row, in one word; docs/analysis.md defines them."""
    before, after, difference = row["before"], row["after"], row["difference"]
    if is_fact and (before == 0 or after == 0 or before == after):
        return "same" if before == after else "gone" if before else "new"
    if row["q_value"] is None:
        return "too few"
    floor = settings.least_time_ns if row["unit"] == "ns" else 0
    least = max(settings.least * before, floor)
    if row["q_value"] <= settings.chance and difference:
        return word(row) if abs(difference) >= least else "small"
    is_known = row["low"] is not None and row["high"] is not None
    return "same" if is_known and -least <= row["low"] and row["high"] <= least else "unclear"


def word(row: dict[str, Any]) -> str:
    """The word for a change."""
    if row["unit"] == "ns":
        return "slower" if row["difference"] > 0 else "faster"
    if row["before"] == 0:
        return "new"
    if row["after"] == 0:
        return "gone"
    return "more" if row["difference"] > 0 else "less"


def place_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Sort key: changes first, then by measure, then the largest change, then by name."""
    rank = 0 if row["verdict"] in CHANGED else VERDICTS.index(row["verdict"])
    ratio = row["ratio"] or 0.0
    factor = max(ratio, 1 / ratio) if ratio else float("inf")
    names = [(name is not None, str(name)) for name in row["group"]]
    return rank, ORDER.index(row["measure"]), -factor, names, row["what"]


def table_of(rows: list[dict[str, Any]], by: Sequence[str]) -> "pa.Table":
    """The rows as declared."""
    import pyarrow as pa

    for row in rows:
        row |= dict(zip(by, row["group"], strict=True))
    names = [*by, *[column.name for column in COLUMNS]]
    schema = schema_of(QUESTION, names)
    return pa.table({name: [row[name] for row in rows] for name in names}, schema=schema)


QUESTION: Final = Question(
    "compare",
    "What changed significantly between two captures or times?",
    ("connections", "exchanges", "all_exchanges"),
    COLUMNS,
    changes,
    OPTIONS,
    (
        "kdissect compare monday.pcap tuesday.pcap",
        "kdissect compare monday.pcap tuesday.pcap -o diff.html",
        "kdissect compare broker.pcap --at 14:05 --by api,client_id",
        "kdissect compare broker.pcap --before 13:55..14:05 --after 14:10..14:20 --unchanged",
        "kdissect compare broker.pcap --after \"client_id = 'svc-7'\" --where \"api = 'Produce'\"",
        "kdissect compare 'old-*.pcap' 'new-*.pcap' --by topic --of work",
    ),
)
