"""User conditions in DuckDB's SQL, translated for Spark and restricted to safe functions.

A condition is checked twice: as `sql.conditions` does it for DuckDB, and again in the text passed
to Spark, since translation may introduce other functions, and a session may define functions with
the names of DuckDB's. There, every name in front of a parenthesis must be in `FUNCTIONS`.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any, Final

from kdissect.errors import InvalidArgument
from kdissect.spark.statements import DIALECT, said
from kdissect.sql.conditions import check_condition
from kdissect.sql.functions import words

# Functions of Spark that depend on their arguments only. Generators are excluded, and also
# `transform`, which is also the keyword for running a program on rows.
FUNCTIONS: Final = words(
    "abs acos acosh add_months aggregate any any_value approx_count_distinct approx_percentile "
    "array array_agg array_append array_compact array_contains array_distinct array_except "
    "array_intersect array_join array_max array_min array_position array_prepend array_remove "
    "array_sort array_union arrays_overlap ascii asin asinh atan atan2 atanh avg base64 bin "
    "bit_and bit_count bit_length bit_or bit_xor bool_and bool_or btrim cardinality cast cbrt ceil "
    "ceiling char char_length character_length chr coalesce collect_list collect_set concat "
    "concat_ws contains conv cos cosh cot count count_if current_date current_time "
    "current_timestamp date date_add date_diff date_format date_part date_sub date_trunc dateadd "
    "datediff datepart day dayname dayofmonth dayofweek dayofyear decode degrees element_at elt "
    "encode endswith equal_null every exists exp extract factorial filter first first_value "
    "flatten floor forall format_number format_string from_unixtime get get_json_object greatest "
    "hash hex hour hypot if ifnull initcap instr isnan isnotnull isnull json_array_length "
    "json_object_keys kurtosis last last_day last_value lcase least left len length levenshtein "
    "ln localtimestamp locate log log10 log1p log2 lower lpad ltrim make_date make_interval "
    "make_timestamp map map_concat map_contains_key map_entries map_from_arrays map_from_entries "
    "map_keys map_values max max_by md5 mean median min min_by minute mod mode month monthname "
    "months_between named_struct nanvl negative now nullif nvl nvl2 octet_length overlay "
    "percentile percentile_approx percentile_cont percentile_disc pi pmod position positive pow "
    "power printf quarter radians rand random regexp regexp_count regexp_extract "
    "regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace "
    "reverse right rint rlike round rpad rtrim second sha sha1 sha2 shiftleft shiftright sign "
    "signum sin sinh size skewness slice some sort_array soundex split split_part sqrt startswith "
    "std stddev stddev_pop stddev_samp string string_agg struct substr substring substring_index "
    "sum tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds to_date to_json "
    "to_timestamp to_unix_timestamp translate trim trunc try_add try_cast try_divide "
    "try_element_at try_multiply try_subtract try_to_date try_to_timestamp typeof ucase unbase64 "
    "unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode "
    "url_encode var_pop var_samp variance weekday weekofyear xxhash64 year"
)
# Other words that may precede a parenthesis.
WORDS: Final = words(
    "all and any as between by case char decimal distinct div else except exists from having "
    "ilike in intersect interval is join like not on or rlike select some then union using values "
    "varchar when where"
)
# Names that are not columns, but become functions of the session.
SESSION_NAMES: Final = frozenset({"current_user", "session_user", "user"})


def condition_of(where: str, prefix: str, tables: Collection[str] = ()) -> str:
    """Translate a condition from DuckDB's SQL to Spark's; KdissectError if that is not possible.

    `tables` are those allowed in its subqueries; `prefix` is prepended to their names.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    check_condition(where, "--where", tables)
    try:
        tree = sqlglot.condition(where, dialect="duckdb")
        check_tables(tree, where, tables)
        text = said(tree, prefix)
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except SqlglotError as error:
        what = " ".join(str(error).split())
        raise InvalidArgument(f"--where {where!r} cannot be said in Spark's SQL: {what}") from error
    for name in refused_names(tokens):
        raise InvalidArgument(f"--where {where!r}: {name} is not allowed in a condition on Spark")
    return text


def check_tables(tree: Any, where: str, tables: Collection[str]) -> None:
    """Raise KdissectError for other tables; Spark would also read ``parquet.`/path` ``."""
    from sqlglot import exp

    for table in tree.find_all(exp.Table):
        if table.name not in tables or table.db or table.catalog:
            raise InvalidArgument(f"--where {where!r}: no table {table.sql()} in a condition")


def refused_names(tokens: list[Any]) -> Iterator[str]:
    """Functions in Spark's SQL that a condition may not call."""
    from sqlglot import TokenType

    literals = (TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING)
    named = [token for token in tokens if token.token_type not in literals]
    for token in named:
        if token.text.lower() in SESSION_NAMES:
            yield token.text
    for token, following in pairwise(tokens):
        if following.token_type != TokenType.L_PAREN or token.token_type in literals:
            continue
        is_quoted = token.token_type == TokenType.IDENTIFIER
        is_word = is_quoted or token.text[:1].isalpha() or token.text.startswith("_")
        if is_word and token.text.lower() not in (FUNCTIONS if is_quoted else FUNCTIONS | WORDS):
            yield f"the function {token.text}"
