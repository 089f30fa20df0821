"""User queries (``kdissect sql``): one SELECT over the given tables, checked before it is run.

As for conditions, DuckDB's own parser returns the syntax tree, which is checked against an
allowlist: beside what conditions may have, WITH (without RECURSIVE), joins, set operations, window
functions and GROUP BY. Table functions, files and other schemas as tables, parameters, samples and
statements other than SELECT are rejected, including those of later DuckDB versions.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from kdissect.errors import InvalidArgument
from kdissect.sql.conditions import (
    EXPRESSIONS,
    MOST_LEVELS,
    NAMES,
    QUERY_PARTS,
    TYPE_INFO,
    Node,
    first_line,
    has_levels,
    path_of,
    refused_call,
    refused_type,
    serialized,
)
from kdissect.sql.functions import FUNCTIONS, refused_function, words
from kdissect.text.suggestions import known_words

PARTS: Final = QUERY_PARTS | words("LIMIT_PERCENT_MODIFIER SELECT_NODE")
WINDOWS: Final = words(
    "cume_dist dense_rank first first_value lag last last_value lead nth_value ntile percent_rank "
    "rank rank_dense row_number"
)
LONGEST: Final = 100_000  # characters; the parser takes memory for each
PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
NOT_SELECT: Final = "only one SELECT statement is allowed"
DEPTH: Final = "max_expression_depth"  # the setting that the parser's message names
TOO_DEEP: Final = "the query is nested too deeply"
REFUSED: Final = NAMES | {
    "PIVOT": "PIVOT",
    "RECURSIVE_CTE_NODE": "WITH RECURSIVE",
    "SHOW_REF": "SHOW, DESCRIBE or SUMMARIZE (kdissect tables lists the columns)",
}


def tables_of(text: str, known: Collection[str]) -> list[str]:
    """The known tables that a query reads, in order; raises InvalidArgument for a refused query."""
    if len(text) > LONGEST:
        raise refused(text, f"it is longer than {LONGEST} characters")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise refused(text, "a query is UTF-8 without NUL")
    tree = tree_of(text)
    found: dict[str, None] = {}
    own = frozenset(defined_names(tree, text))
    for part in parts_of(tree):
        if (reason := refusal(part)) is not None:
            raise refused(text, reason)
        if part.get("type") == "BASE_TABLE":
            name = table_name(part, text)
            if name.lower() in own:
                continue
            if name not in known:
                raise refused(text, f"no table {name!r}; {known_words(name, known)}")
            found[name] = None
    return list(found)


def tree_of(text: str) -> Node:
    """The syntax tree of the only statement; raises InvalidArgument for anything else."""
    (content,) = serialized(text)
    try:
        tree: Node = json.loads(content)
    except RecursionError:
        raise refused(text, TOO_DEEP) from None
    if tree["error"]:
        is_syntax = tree["error_type"] == "parser"
        message = first_line(tree["error_message"])
        if DEPTH in message:
            raise refused(text, TOO_DEEP)
        raise refused(text, f"Parser Error: {message}" if is_syntax else NOT_SELECT)
    if len(tree["statements"]) != 1:
        raise refused(text, NOT_SELECT)
    if not has_levels(tree, MOST_LEVELS):
        raise refused(text, TOO_DEEP)
    statement: Node = tree["statements"][0]
    return statement


def refused(text: str, reason: str) -> InvalidArgument:
    """The error for a query."""
    return InvalidArgument(f"query {shortened(text)!r}: {reason}")


def shortened(text: str) -> str:
    """A query as quoted in an error: its beginning."""
    return text if len(text) <= 80 else f"{text[:77]}..."


def parts_of(tree: Node) -> Iterator[Node]:
    """All objects of a tree."""
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += reversed(part)
        elif isinstance(part, dict):
            yield part
            waiting += reversed(list(part.values()))


def defined_names(tree: Node, text: str) -> Iterator[str]:
    """Names that WITH defines, in lower case; raises InvalidArgument for one with other signs."""
    for part in parts_of(tree):
        for entry in part.get("map") or ():
            name = str(entry.get("key", ""))
            if PLAIN_NAME.fullmatch(name) is None:
                raise refused(text, f"the name {name!r} in WITH is not plain")
            yield name.lower()


def table_name(part: Node, text: str) -> str:
    """The name of a table without a schema; raises InvalidArgument."""
    names = path_of(part, "table_name")
    if part.get("at_clause"):
        raise refused(text, "AT is not allowed")
    if len(names) != 1:
        raise refused(text, f"no table {'.'.join(names)!r}: tables have no schema here")
    return names[0]


def refusal(part: Node) -> str | None:
    """Reason why a part of a tree is not allowed, None if it is."""
    kind = part.get("type")
    if part.get("sample"):
        return "TABLESAMPLE is not allowed"
    if "class" in part:
        return refused_expression(str(part["class"]), part)
    if kind == "TABLE_FUNCTION":
        return f"the table function {part['function']['function_name']} is not allowed"
    if isinstance(kind, str) and kind not in PARTS and not kind.endswith(TYPE_INFO):
        return f"{REFUSED.get(kind, kind)} is not allowed"
    return None


def refused_expression(kind: str, part: Node) -> str | None:
    """Reason why an expression of this class is not allowed, None if it is."""
    if kind == "WINDOW":
        name = str(part.get("function_name", "")).lower()
        is_known = (
            name in WINDOWS | FUNCTIONS and not part.get("schema") and not part.get("catalog")
        )
        return None if is_known else in_query(refused_function(name))
    if kind not in EXPRESSIONS:
        return f"{REFUSED.get(kind, kind)} is not allowed"
    if kind == "FUNCTION":
        reason = refused_call(part)
    else:
        reason = refused_type(part) if kind == "TYPE" else None
    return None if reason is None else in_query(reason)


def in_query(reason: str) -> str:
    """A reason of conditions, as one of queries."""
    return reason.replace(" in a condition", "")
