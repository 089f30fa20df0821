"""The page about a comparison: each change with its interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.compare.comparison import CHANGED, COLUMNS
from kdissect.report.document import CHANGES, page
from kdissect.report.tables import COUNT, TEXT, Shown, table
from kdissect.tables.schemas import INT64
from kdissect.tables.schemas import TEXT as OF_TEXT

if TYPE_CHECKING:
    import pyarrow as pa

    from kdissect.api.comparison import Comparison

RATIO: Final = "ratio"  # a number of three digits
UNIT: Final = "unit"  # how a number is shown: in the unit of its row
IN_UNIT: Final = ("before", "after", "difference", "low", "high")


def changes_page(
    found: "Comparison", titles: Sequence[str], rows: "pa.Table | None" = None
) -> bytes:
    """The HTML page about a comparison of sides with these titles; `rows` are those to show."""
    shown = found.table if rows is None else rows
    sides = zip(("before", "after"), titles, (found.before, found.after), strict=True)
    known = {column.name for column in COLUMNS}
    content = {
        "sides": [{"name": name, "title": title, **side._asdict()} for name, title, side in sides],
        "verdicts": found.verdicts,
        "changed": list(CHANGED),
        "by": [name for name in shown.column_names if name not in known],
        "tables": [table("changes", "Comparisons", columns_of(shown), shown.to_pylist())],
        "folded": [
            "Intervals are those of the difference, with 95 % confidence; q is the probability of "
            "such a difference by chance, corrected for the number of comparisons.",
            "The reason of a difference is not known: another load or hour is one, too.",
        ],
    }
    return page(" → ".join(titles), content, CHANGES).html


def columns_of(rows: "pa.Table") -> list[Shown]:
    """The columns of an answer, with its words."""
    known = {column.name: column for column in COLUMNS}
    found = []
    for name in rows.column_names:
        title = name.replace("_", " ")
        if name not in known:
            found.append(Shown(title, name, TEXT, f"{title} that both sides are grouped by"))
            continue
        found.append(Shown(title, name, kind_of(name), known[name].meaning))
    return found


def kind_of(name: str) -> str:
    """How the values of a column are shown."""
    if name in IN_UNIT:
        return UNIT
    column = next(one for one in COLUMNS if one.name == name)
    if column.type == INT64:
        return COUNT
    return TEXT if column.type == OF_TEXT else RATIO
