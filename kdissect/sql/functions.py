"""Functions that a condition may call: those that depend on their arguments only.

Excluded are functions that read files, settings or variables, reveal the machine or the session,
wait, write a log, call another function by name, or raise an error. Names are in lower case.
"""

from difflib import get_close_matches
from typing import Final


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Types that a value may be cast to, with their aliases.
TYPES: Final = words(
    "array bigint binary bit bitstring blob bool boolean bpchar bytea char date datetime dec "
    "decimal double enum float float4 float8 guid hugeint int int1 int128 int16 int2 int32 int4 "
    "int64 int8 integer integral interval json list logical long map null numeric nvarchar oid "
    "real row short signed smallint string struct text time time_ns timestamp timestamp_ms "
    "timestamp_ns timestamp_s timestamp_us timestamptz timestamptz_ns timetz tinyint tuple "
    "ubigint uhugeint uint128 uint16 uint32 uint64 uint8 uinteger union usmallint utinyint uuid "
    "varbinary varchar varint"
) | {"time with time zone", "timestamp with time zone"}
# Names in DuckDB's parser: the operators, and the translation of its notation for lists and so on.
OPERATORS: Final = words(
    "! !~~ !~~* % & && * ** + - -> ->> / // <-> << <=> <@ >> @ @> ^ ^@ | || ~ ~~ ~~* ~~~ "
    "!__postfix ilike_escape like_escape not_ilike_escape not_like_escape"
)
NUMBERS: Final = words(
    "abs acos acosh add asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot "
    "degrees divide even exp factorial fdiv floor fmod gamma gcd greatest greatest_common_divisor "
    "isfinite isinf isnan lcm least least_common_multiple lgamma ln log log10 log2 mod multiply "
    "nextafter pi pow power radians random round round_even roundbankers sign signbit sin sinh "
    "sqrt subtract tan tanh trunc xor"
)
TEXTS: Final = words(
    "array_to_string ascii bar base64 bin bit_length char_length character_length chr concat "
    "concat_ws contains damerau_levenshtein decode editdist3 encode ends_with format "
    "format_bytes formatreadabledecimalsize formatreadablesize from_base64 from_binary from_hex "
    "hamming hash hex instr jaccard jaro_similarity jaro_winkler_similarity lcase left "
    "left_grapheme length length_grapheme levenshtein lower lpad ltrim md5 md5_number mismatches "
    "nfc_normalize octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_path "
    "position prefix printf regexp_escape regexp_extract regexp_extract_all regexp_full_match "
    "regexp_matches regexp_replace regexp_split_to_array repeat replace reverse right "
    "right_grapheme rpad rtrim sha1 sha256 split split_part starts_with str_split str_split_regex "
    "string_split string_split_regex string_to_array strip_accents strlen strpos substr substring "
    "substring_grapheme suffix to_base to_base64 to_binary to_hex translate trim typeof ucase "
    "unbin unhex unicode upper url_decode url_encode"
)
TIMES: Final = words(
    "age ago century current_date current_localtime current_localtimestamp date_add date_diff "
    "date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth "
    "dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era "
    "get_current_time get_current_timestamp hour isodow isoyear julian last_day make_date "
    "make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz microsecond "
    "millennium millisecond minute month monthname nanosecond normalized_interval now quarter "
    "second strftime strptime time_bucket timezone timezone_hour timezone_minute to_centuries "
    "to_days to_decades to_hours to_microseconds to_millennia to_milliseconds to_minutes "
    "to_months to_quarters to_seconds to_timestamp to_weeks to_years today try_strptime week "
    "weekday weekofyear year yearweek"
)
CHOICES: Final = words("coalesce if ifnull isnull nullif")
LISTS: Final = words(
    "apply array_append array_apply array_cat array_concat array_contains array_distinct "
    "array_extract array_filter array_has array_has_all array_has_any array_indexof "
    "array_intersect array_length array_position array_prepend array_reverse array_slice "
    "array_sort array_transform array_unique array_value array_where array_zip cardinality "
    "element_at filter flatten len list_any_value list_append list_apply list_avg list_bool_and "
    "list_bool_or list_cat list_concat list_contains list_count list_distinct list_element "
    "list_extract list_filter list_first list_has list_has_all list_has_any list_indexof "
    "list_intersect list_last list_max list_median list_min list_mode list_pack list_position "
    "list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort list_select "
    "list_slice list_sort list_string_agg list_sum list_transform list_unique list_value "
    "list_where list_zip map map_concat map_contains map_entries map_extract map_extract_value "
    "map_from_entries map_keys map_values reduce row struct_concat struct_extract "
    "struct_extract_at struct_insert struct_pack struct_values unnest"
)
JSON: Final = words(
    "json json_array json_array_length json_contains json_exists json_extract json_extract_path "
    "json_extract_path_text json_extract_string json_keys json_object json_quote json_structure "
    "json_type json_valid json_value to_json"
)
# In subqueries.
AGGREGATES: Final = words(
    "any_value approx_count_distinct approx_quantile arbitrary arg_max arg_min argmax argmin "
    "array_agg avg bit_and bit_or bit_xor bool_and bool_or count count_if count_star countif "
    "entropy favg first fsum geomean geometric_mean group_concat histogram kurtosis last list "
    "listagg mad max max_by mean median min min_by mode product quantile quantile_cont "
    "quantile_disc skewness stddev stddev_pop stddev_samp string_agg sum var_pop var_samp "
    "variance"
)
FUNCTIONS: Final = OPERATORS | NUMBERS | TEXTS | TIMES | CHOICES | LISTS | JSON | AGGREGATES


def refused_function(name: str) -> str:
    """Error text for a function that is not allowed."""
    words = [known for known in FUNCTIONS if known[0].isalpha()]
    near = get_close_matches(name.lower(), sorted(words), 1, 0.8)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"the function {name} is not allowed in a condition{meant}"
