"""Conditions: one expression, its permitted parts, and refusals."""

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from kdissect.errors import KdissectError
from kdissect.sql.conditions import check_condition, refusal_of
from kdissect.sql.functions import FUNCTIONS
from tests.seeds import SEED
from tests.sql.attacks import Prey, drawn, harmless, made_prey

ASKABLE = ["all_exchanges", "all_partitions"]

ALLOWED = [
    "api = 'Produce' -- the end",
    "api = 'a;b' /* ; */",
    "$$;$$ = api",
    "client_id LIKE 'svc-%' AND NOT api ILIKE 'f_tch' ESCAPE '!'",
    "client_id SIMILAR TO 'a+' OR client_id GLOB 'a*' OR regexp_matches(client_id, '^a')",
    "latency_ns > 1e9 AND latency_ns // 1000 % 7 IN (1, 2)",
    "request_start >= TIMESTAMPTZ '2023-11-14 22:13:25' - INTERVAL 5 MINUTE",
    "request_start AT TIME ZONE 'UTC' > now()::TIMESTAMP",
    "extract(hour FROM request_start) BETWEEN 8 AND 17",
    "date_trunc('minute', request_start) = TIMESTAMPTZ '2023-11-14 22:13:00Z'",
    "CASE api WHEN 'Fetch' THEN latency_ns > 5 ELSE error_code <> 0 END",
    "coalesce(error_code, 0) <> 0 AND nullif(api, '') IS NOT NULL",
    "error_code IS DISTINCT FROM 0",
    "len(string_split(client_id, '-')) > 2 AND client_id[1] = 'a' AND client_id[1:2] = 'ab'",
    "list_contains(['a', 'b'], client_id)",
    "len([x FOR x IN ['a'] IF x = client_id]) > 0",
    "list_transform([1], x -> x + 1) = [latency_ns]",
    "exchange_id IN (SELECT exchange_id FROM all_partitions WHERE topic = 'payments')",
    "EXISTS (SELECT * FROM all_partitions p WHERE p.exchange_id = exchanges.exchange_id)",
    "latency_ns > (SELECT quantile_cont(latency_ns, 0.99) FROM all_exchanges)",
    "api IN (SELECT api FROM all_exchanges JOIN all_partitions USING (exchange_id) "
    "GROUP BY api HAVING count(*) > 3 ORDER BY 1 LIMIT 5)",
    "(api, api_version) IN (VALUES ('Fetch', 4))",
    "try_cast(client_id AS DECIMAL(10, 2)) > 1.5",
    "client_id COLLATE nocase = 'A'",
    "DATE '2023-11-14' < request_start::DATE AND [1::UBIGINT] = []::BIGINT[]",
    "{'a': client_id}::STRUCT(a TEXT) = {'a': 'b'} AND latency_ns::DOUBLE PRECISION > 1",
    "request_start::TIMESTAMP WITH TIME ZONE > TIMESTAMP_NS '2023-11-14 22:13:25'",
    "request_body ->> '$.topic' = 'orders'",
    "(" * 500 + "true" + ")" * 500,
]
REFUSED = {
    "": "Parser Error: SELECT clause without selection list",
    "-- nothing": "Parser Error: SELECT clause without selection list",
    "api =": "Parser Error: syntax error",
    "api = 'open": "Parser Error: unterminated ",
    "true) OR (true": "Parser Error: syntax error",
    "true,": "a condition is one SQL expression",
    "true, false": "a condition is one SQL expression",
    "api AS a": "a condition is one SQL expression",
    "api a": "a condition is one SQL expression",
    "DISTINCT api": "a condition is one SQL expression",
    "true; DROP VIEW exchanges": "a condition is one SQL expression",
    "true; SELECT true": "a condition is one SQL expression",
    "true FROM all_exchanges": "a condition is one SQL expression",
    "true WHERE true": "a condition is one SQL expression",
    "true UNION SELECT true": "a condition is one SQL expression",
    "api ORDER BY api": "a condition is one SQL expression",
    "api LIMIT 1": "a condition is one SQL expression",
    "api = $1": "a parameter is not allowed in a condition",
    "#1 = api": "a column by its position is not allowed in a condition",
    "row_number() OVER () = 1": "a window function is not allowed in a condition",
    "lowr(api) = 'a'": "the function lowr is not allowed in a condition; did you mean lower?",
    "getenv('HOME') = api": "the function getenv is not allowed in a condition",
    "system.main.lower(api) = ''": "the function system.main.lower is not allowed in a condition",
    "api IN (SELECT a FROM all_errors)": "a condition cannot ask 'all_errors'; there are all_ex",
    "api IN (FROM memory.main.all_exchanges)": "a condition cannot ask 'memory.main.all_exch",
    "api IN (FROM '/etc/hostname')": "a condition cannot ask '/etc/hostname'; there are all_",
    "api IN (FROM read_text('a'))": "the table function read_text is not allowed",
    "ATTACH 'made.db'": "the type ATTACH is not allowed in a condition",
    "client_id::main.varchar = ''": "the type main.varchar is not allowed in a condition",
    "[client_id]::Made[] = []": "the type Made is not allowed in a condition",
    "api IN (SHOW TABLES)": "SHOW is not allowed in a condition",
    "api IN (WITH all_exchanges AS (SELECT 1) FROM all_exchanges)": "WITH is not allowed",
    "api IN (SELECT api FROM all_exchanges USING SAMPLE 5)": "a sample is not allowed",
    "NOT " * 900 + "true": "the condition is nested too deeply",
    "NOT " * 100_000 + "true": "",
    "(" * 100_000 + "true" + ")" * 100_000: "",
    "api = '\ud800'": "a condition is UTF-8 without NUL",
    "api = '\0'": "a condition is UTF-8 without NUL",
}


@pytest.fixture(scope="module")
def prey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prey]:
    with made_prey(tmp_path_factory.mktemp("prey")) as made:
        yield made


@pytest.mark.parametrize("text", ALLOWED)
def test_an_expression_over_the_rows_is_allowed(text: str) -> None:
    check_condition(text, "--where", ASKABLE)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:40].encode("ascii", "replace"))
def test_conditions_other_than_one_expression_are_rejected_in_one_line(text: str) -> None:
    with pytest.raises(KdissectError) as caught:
        check_condition(text, "--where", ASKABLE)
    told = str(caught.value)
    assert told.startswith(f"--where {text!r}: {REFUSED[text]}")
    assert "\n" not in told


def test_the_same_depth_is_refused_on_every_python() -> None:
    reasons = {refusal_of("NOT " * number + "true", ()) for number in range(0, 390, 10)}
    assert reasons == {None}
    reasons = {refusal_of("NOT " * number + "true", ()) for number in (400, 450, 600, 900)}
    assert reasons == {"the condition is nested too deeply"}


def test_without_tables_there_are_no_subqueries_of_tables() -> None:
    check_condition("latency_ns = (SELECT 1)", "--having")
    with pytest.raises(KdissectError, match=r"^--having .* cannot ask 'all_exchanges'"):
        check_condition("latency_ns IN (SELECT 1 FROM all_exchanges)", "--having")


def test_a_very_long_list_is_allowed() -> None:
    check_condition(f"exchange_id IN ({', '.join(map(str, range(20_000)))})", "--where")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_drawn_attacks_are_refused_and_their_texts_as_constants_are_not(
    number: int, prey: Prey
) -> None:
    chance = random.Random(f"{SEED} {number}")
    before = prey.state()
    for _ in range(40):
        attack = drawn(chance, prey)
        with pytest.raises(KdissectError) as caught:
            check_condition(attack, "--where", ASKABLE)
        assert len(str(caught.value).splitlines()) == 1, (SEED, attack)
        check_condition(harmless(chance, prey), "--where", ASKABLE)
    assert prey.state() == before
    assert not prey.was_called()


# Words of DuckDB's parser for functions with another name in its catalog, or with none.
OF_THE_PARSER = {"coalesce", "ifnull", "isnull", "unnest"}


def catalogued() -> dict[str, set[str]]:
    """DuckDB's own functions and how stable it calls them."""
    query = "SELECT function_name, stability FROM duckdb_functions()"
    known: dict[str, set[str]] = {}
    with duckdb.connect() as connection:
        for name, stability in connection.sql(query).fetchall():
            known.setdefault(name.lower(), set()).add(stability or "")
    return known


@pytest.mark.skipif(duckdb.__version__ < "2", reason="older releases have not all of them")
def test_the_functions_that_are_allowed_are_those_of_duckdb() -> None:
    words = {name for name in FUNCTIONS if name[0].isalpha()}
    unknown = words - catalogued().keys() - OF_THE_PARSER
    assert not unknown


def test_only_chance_and_the_clock_differ_from_call_to_call() -> None:
    known = catalogued()
    changing = {name for name in FUNCTIONS if "VOLATILE" in known.get(name, ())}
    assert changing <= {"random"}


def test_functions_that_see_more_than_their_arguments_are_not_among_them() -> None:
    # Of every kind of DuckDB's that is known to: files, settings, variables, session, logs, time.
    seeing = {
        "current_setting", "getenv", "getvariable", "read_text", "glob", "nextval", "currval",
        "setval", "setseed", "sleep_ms", "pg_sleep", "write_log", "error", "current_query",
        "current_database", "current_schema", "current_schemas", "txid_current", "query",
        "json_serialize_plan", "json_deserialize_sql", "add_parquet_key", "which_secret",
        "in_search_path", "assert_true", "invoke", "version",
    }  # fmt: skip
    assert not seeing & FUNCTIONS


def test_errors_name_the_rejected_construct_without_its_contents(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("secret-content\n")
    with pytest.raises(KdissectError) as caught:
        check_condition(f"api IN (FROM '{file}')", "--where")
    assert "secret-content" not in str(caught.value)
