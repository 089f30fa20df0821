"""What an analysis is: a question about the tables, its options, and the columns of its answer.

Each is one module of this package with a `QUESTION`; `questions` lists them. The command line, the
library and docs/analysis.md are made of what is declared there. An answer is an Ibis expression
over the tables, so it runs on DuckDB and on Spark; here nobody knows which.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.tables.schemas import Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Types of options, beside those of Python: durations like 10s are nanoseconds, names a tuple.
DURATION: Final = "duration"
NAMES: Final = "names"
FLAG: Final = "flag"
NUMBER: Final = "number"
TEXT: Final = "text"

SHARE: Final = "share"  # type of a column: 0 to 1
RATE: Final = "rate"  # type of a column: any number that is not whole

Tables = Mapping[str, "ir.Table"]
Answer = Callable[..., "ir.Table"]


class Option(NamedTuple):
    """One option: a keyword of the answer, ``--name`` of the command."""

    name: str
    type: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()


class Turn(NamedTuple):
    """An option with which another question is asked, that takes its value as `becomes`."""

    option: Option
    question: str
    becomes: str


class Question(NamedTuple):
    """One analysis. `asks` is the question in a sentence, `tables` those that are read.

    `columns` are those of the answer, without those that `by` puts in front; `dimensions` those of
    the latter that are the question's own. `turns` are options that ask something else.
    """

    name: str
    asks: str
    tables: tuple[str, ...]
    columns: tuple[Column, ...]
    answer: Answer
    options: tuple[Option, ...] = ()
    examples: tuple[str, ...] = ()
    dimensions: tuple[Column, ...] = ()
    turns: tuple[Turn, ...] = ()
