"""Definition of an analysis: a question about the tables, its options, and its answer's columns.

Each is one module of this package with a `QUESTION`; `questions` lists them. The command line, the
library and docs/analysis.md are derived from these declarations. An answer is an Ibis expression
over the tables, so it runs on DuckDB and on Spark, independent of the engine.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.tables.schemas import Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Types of options, beside Python's: durations like 10s are nanoseconds, names a tuple.
DURATION: Final = "duration"
NAMES: Final = "names"
FLAG: Final = "flag"
NUMBER: Final = "number"
TEXT: Final = "text"

SHARE: Final = "share"  # type of a column: 0 to 1
RATE: Final = "rate"  # type of a column: any number that is not whole

# Tables, and the columns, as SQL, by whose hash their rows are divided into buckets.
BucketKeys = tuple[tuple[str, str], ...]
BY_TOPIC: Final[BucketKeys] = (("partitions", "COALESCE(topic, topic_id)"),)
BY_PARTITION: Final[BucketKeys] = tuple(
    (table, "COALESCE(topic, topic_id), partition") for table in ("partitions", "batches")
)
BY_CLIENT: Final[BucketKeys] = (("exchanges", "client_id"),)
BY_GROUP: Final[BucketKeys] = (("members", "group_id"),)

Tables = Mapping[str, "ir.Table"]
Answer = Callable[..., "ir.Table"]


class Option(NamedTuple):
    """An option: keyword argument in the library, ``--name`` on the command line."""

    name: str
    type: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()


class Turn(NamedTuple):
    """An option that selects another question, which receives its value as `becomes`."""

    option: Option
    question: str
    becomes: str


class Overview(NamedTuple):
    """Text before the rows of an answer: a sentence, and rows that summarize the others."""

    sentence: str
    rows: list[dict[str, Any]]


class Summing(NamedTuple):
    """The sentence that sums up the answer of a question.

    `total` is, with the question's options, a table of one number; `overview` takes the rows of the
    answer, that number and the options. `rows` names the rows of the overview in JSON.
    """

    total: Answer
    overview: Callable[..., Overview]
    rows: str


class Question(NamedTuple):
    """One analysis. `title` is the question in a sentence, `tables` its input.

    `columns` are those of the answer, without the `by` columns in front; `dimensions` are the
    question's own dimensions. `turns` are options that select another question. `derived` are
    columns of exchanges that the question works out for others, which a condition over exchanges
    would lose: it belongs to the answer. `bucketed_by` are columns of tables on whose equal values
    each row of the answer depends alone, so that the answer can be worked out bucket by bucket; a
    question with `by`: if that contains `bucketed_if_by`. `severities` has a column and the
    severity of its values, for --fail-on. `summing` makes an overview that precedes the rows.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    columns: tuple[Column, ...]
    answer: Answer
    options: tuple[Option, ...] = ()
    examples: tuple[str, ...] = ()
    dimensions: tuple[Column, ...] = ()
    turns: tuple[Turn, ...] = ()
    derived: tuple[str, ...] = ()
    bucketed_by: BucketKeys = ()
    bucketed_if_by: tuple[str, ...] = ()
    severities: "tuple[str, Mapping[str, str]] | None" = None
    summing: Summing | None = None
