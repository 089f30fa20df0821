"""User conditions (``--where``, ``--having``): one SQL expression, checked before it is run.

DuckDB's own parser returns the syntax tree, which is checked against an allowlist: columns,
constants, operators, casts to `functions.TYPES`, the functions of `functions.FUNCTIONS`, and
subqueries of tables that the caller names. Everything else is rejected, including features of later
DuckDB versions.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from kdissect.errors import InvalidArgument
from kdissect.sql.connections import locked_connection
from kdissect.sql.failures import engine_failures, reason_of
from kdissect.sql.functions import FUNCTIONS, TYPES, refused_function, words

Node = Mapping[str, Any]

# Expression classes in DuckDB's trees. STAR is also COLUMNS(...), TYPE that of a cast.
EXPRESSIONS: Final = words(
    "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA "
    "LAMBDA_REF OPERATOR STAR SUBQUERY TYPE"
)
REFUSED_OPERATORS: Final = {"GROUPING_FUNCTION": "GROUPING", "OPERATOR_UNPACK": "UNPACK"}
# Types of query nodes other than expressions.
QUERY_PARTS: Final = words(
    "ASCENDING BASE_TABLE DESCENDING DISTINCT_MODIFIER EMPTY EXPRESSION_LIST JOIN LIMIT_MODIFIER "
    "ORDER_DEFAULT ORDER_MODIFIER SELECT_NODE SET_OPERATION_NODE SUBQUERY"
)
TYPE_INFO: Final = "_TYPE_INFO"  # type parameters, like those of DECIMAL(10, 2)
NAMES: Final = {
    "DEFAULT": "DEFAULT",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a column by its position",
    "WINDOW": "a window function",
    "SHOW_REF": "SHOW",
}
MAIN: Final = "main"  # the schema that DuckDB 1 puts before list_value
ONE: Final = "a condition is one SQL expression"
TOO_DEEP: Final = "the condition is nested too deeply"
# Levels of lists and objects in a tree. The JSON reader's own limit differs between Pythons: below
# 1000 in 3.11, 10 000 in 3.13.
MOST_LEVELS: Final = 800
# Parts of a SELECT that an expression alone leaves empty.
REST: Final = (
    "where_clause", "group_expressions", "group_sets", "having", "sample", "qualify", "modifiers",
)  # fmt: skip
PLACES: Final = re.compile(r'"query_location(?:_length)?":\d+,?')
ALONE: Final = "SELECT \n{}\n"
ENCLOSED: Final = "SELECT (\n{}\n)"


def check_condition(text: str, option: str, tables: Collection[str] = ()) -> None:
    """Raise KdissectError unless `text` is one expression with allowed content only.

    `option` is its name in errors, like ``--where``; `tables` are those that subqueries may use.
    Columns are not checked: DuckDB checks them, with the types.
    """
    if (reason := refusal_of(text, tuple(tables))) is not None:
        raise InvalidArgument(f"{option} {text!r}: {reason}")


@lru_cache(maxsize=64)
def refusal_of(text: str, tables: tuple[str, ...]) -> str | None:
    """Reason why the text is not an allowed condition, None if it is."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return "a condition is UTF-8 without NUL"
    # Also in the parentheses used for it; "1) OR (1" and "1," are invalid alone or in parentheses.
    alone, enclosed = serialized(ALONE.format(text), ENCLOSED.format(text))
    try:
        tree = json.loads(alone)
    except RecursionError:
        return TOO_DEEP
    if tree["error"]:
        # DuckDB parses other statements too, but returns trees of queries only.
        is_syntax = tree["error_type"] == "parser"
        return f"Parser Error: {first_line(tree['error_message'])}" if is_syntax else ONE
    if not has_levels(tree, MOST_LEVELS):
        return TOO_DEEP
    if not is_expression(tree["statements"]) or PLACES.sub("", alone) != PLACES.sub("", enclosed):
        return ONE
    return next(refusals(tree["statements"][0]["node"]["select_list"], tables), None)


def columns_in(text: str) -> frozenset[str]:
    """Names of columns in an allowed condition, in lower case; those of subqueries too."""
    (content,) = serialized(ENCLOSED.format(text))
    waiting: list[Any] = [json.loads(content)]
    names = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("class") == "COLUMN_REF":
                names.add(part["column_names"][-1].lower())
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return frozenset(names)


def has_levels(tree: Node, most: int) -> bool:
    """Return whether a tree has `most` levels or fewer."""
    level: list[Any] = [tree]
    for _ in range(most):
        inner = [part.values() if isinstance(part, dict) else part for part in level]
        level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
        if not level:
            return True
    return False


def is_expression(statements: list[Node]) -> bool:
    """Return whether the only statement is ``SELECT expression``, without an alias."""
    if len(statements) != 1:
        return False
    node = statements[0]["node"]
    return bool(
        node["type"] == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and not node["select_list"][0]["alias"]
        and node["from_table"]["type"] == "EMPTY"
        and not any(node.get(part) for part in REST)
    )


def refusals(expressions: list[Node], tables: Collection[str]) -> Iterator[str]:
    """Disallowed parts of expressions, as error texts."""
    waiting: list[Any] = list(expressions)
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if (reason := refusal(part, tables)) is not None:
                yield reason
            waiting += part.values()


def refusal(part: Node, tables: Collection[str]) -> str | None:
    """Reason why a part of a tree is not allowed, None if it is."""
    kind = part.get("type")
    if part.get("sample"):
        return "a sample is not allowed in a condition"
    if "class" in part:
        return refused_expression(part["class"], part)
    if kind == "BASE_TABLE":
        return refused_table(part, tables)
    if kind == "TABLE_FUNCTION":
        return f"the table function {part['function']['function_name']} is not allowed"
    if isinstance(kind, str) and kind not in QUERY_PARTS and not kind.endswith(TYPE_INFO):
        return f"{NAMES.get(kind, kind)} is not allowed in a condition"
    # Names defined by WITH could equal those of the allowed tables.
    return "WITH is not allowed in a condition" if part.get("map") else None


def refused_expression(kind: str, part: Node) -> str | None:
    """Reason why an expression of this class is not allowed, None if it is."""
    name = REFUSED_OPERATORS.get(str(part.get("type")))
    if name is not None or kind not in EXPRESSIONS:
        return f"{name or NAMES.get(kind, kind)} is not allowed in a condition"
    if kind == "FUNCTION":
        return refused_call(part)
    return refused_type(part) if kind == "TYPE" else None


def refused_call(part: Node) -> str | None:
    """Reason why a function may not be called, None if it may."""
    names = path_of(part, "function_name")
    if names[-1].lower() not in FUNCTIONS or names[:-1] not in ([], [MAIN]):
        return refused_function(".".join(names))
    return None


def refused_type(part: Node) -> str | None:
    """Reason why a value may not be cast to a type, None if it may; ``ATTACH 'file'`` is a cast."""
    names = path_of(part, "type_name")
    if len(names) == 1 and names[0].lower() in TYPES:
        return None
    return f"the type {'.'.join(names)} is not allowed in a condition"


def refused_table(part: Node, tables: Collection[str]) -> str | None:
    """Reason why a table is not allowed, None if it is."""
    names = path_of(part, "table_name")
    if names[0] in tables and len(names) == 1 and not part.get("at_clause"):
        return None
    there = f"there are {', '.join(tables)}" if tables else "it has the columns of one table only"
    return f"a condition cannot ask {'.'.join(names)!r}; {there}"


def path_of(part: Node, key: str) -> list[str]:
    """Name of a function or table after its catalog and schema.

    DuckDB 2 has it a second time, as one path; if the two differ, the result includes both.
    """
    schema = part.get("schema_name", part.get("schema"))
    catalog = part.get("catalog_name", part.get("catalog"))
    names = [name for name in (catalog, schema, part[key]) if name]
    path = part.get("qualified_name", {}).get("path", names)
    return names if path == names else [*path, *names]


def serialized(*queries: str) -> list[str]:
    """Syntax trees of queries from DuckDB, in JSON; for anything but a query, its error."""
    trees = []
    with locked_connection(settings={"threads": "1"}) as connection:
        for query in queries:
            try:
                rows = connection.execute("SELECT json_serialize_sql($1)", [query]).fetchall()
                trees.append(str(rows[0][0]))
            except engine_failures() as error:
                message = reason_of(error)
                trees.append(
                    json.dumps({"error": True, "error_type": "parser", "error_message": message})
                )
    return trees


def first_line(text: str) -> str:
    """First line of a DuckDB message."""
    return text.strip().splitlines()[0]
