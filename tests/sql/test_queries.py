"""Queries of `kdissect sql`: rows of the tables, and nothing else."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import kdissect
from kdissect.api.querying import Queryable, opened_tables, query
from kdissect.errors import InvalidArgument, KdissectError
from kdissect.sql.queries import LONGEST, tables_of
from kdissect.tables.schemas import TABLES
from tests.seeds import SEED
from tests.sql.attacks import CANARY, Prey, drawn, made_prey

QUICKSTART = Path("captures/quickstart.pcapng").absolute()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables") / "quickstart"
    kdissect.write(QUICKSTART, made)
    return made


@pytest.fixture(scope="module")
def opened(directory: Path) -> Iterator[Queryable]:
    with opened_tables(directory, ["exchanges", "connections", "partitions"]) as tables:
        yield tables


@pytest.fixture
def prey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prey]:
    monkeypatch.setenv("KDISSECT_CANARY", CANARY)
    monkeypatch.chdir(tmp_path)
    with made_prey(tmp_path) as made:
        yield made


STATEMENTS = (
    "COPY exchanges TO '{text}'", "COPY (SELECT 1) TO 'made.csv'", "ATTACH '{text}'",
    "ATTACH 'made.db' AS other", "INSTALL httpfs", "LOAD httpfs", "PRAGMA version",
    "PRAGMA enable_external_access=true", "SET enable_external_access = true",
    "SET memory_limit = '100GB'", "RESET memory_limit", "CREATE TABLE made AS SELECT 1",
    "CREATE VIEW made AS SELECT 1", "CREATE MACRO f() AS 1", "DROP VIEW exchanges",
    "INSERT INTO exchanges SELECT * FROM exchanges", "UPDATE exchanges SET api = ''",
    "DELETE FROM exchanges", "EXPORT DATABASE 'made'", "IMPORT DATABASE 'made'",
    "CALL pragma_version()",
    "EXPLAIN SELECT 1", "DESCRIBE exchanges", "SHOW TABLES", "SUMMARIZE exchanges", "USE main",
    "PREPARE p AS SELECT 1", "EXECUTE p", "VACUUM", "CHECKPOINT", "BEGIN", "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW exchanges", "SELECT 1; COPY (SELECT 1) TO 'made.csv'", "", " ", ";",
    "--",
    "SELECT", "SELECT * FROM", "PIVOT exchanges ON api USING count(*)",
    "UNPIVOT exchanges ON api",
)  # fmt: skip
QUERIES = (
    "SELECT * FROM read_text('{text}')", "SELECT * FROM read_csv('{text}')",
    "SELECT * FROM '{text}'",
    "SELECT * FROM \"{text}\"", "FROM read_blob('{text}')", "FROM read_parquet('{text}')",
    "SELECT * FROM glob('*')", "SELECT * FROM duckdb_settings()",
    "SELECT * FROM pragma_version()",
    "SELECT * FROM sniff_csv('{text}')", "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('exchanges')", "SELECT * FROM range(1000000000000)",
    "SELECT * FROM generate_series(1, 1000000000000)", "SELECT * FROM repeat(1, 1000000000000)",
    "SELECT * FROM all_exchanges", "SELECT * FROM main.exchanges",
    "SELECT * FROM memory.main.exchanges",
    "SELECT * FROM information_schema.tables", "SELECT * FROM sqlite_master",
    "SELECT * FROM pg_catalog.pg_tables", "SELECT * FROM exchanges AT (VERSION => 1)",
    "SELECT {env}", "SELECT current_setting('memory_limit')", "SELECT getvariable('x')",
    "SELECT nextval('x')", "SELECT error('x')", "SELECT sleep_ms(100000)",
    "SELECT write_log('x')",
    "SELECT $1", "SELECT ?", "SELECT #1 FROM exchanges",
    "SELECT api FROM exchanges TABLESAMPLE 10%",
    "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n FROM r) SELECT max(n) FROM r",
    "FROM exchanges WHERE api IN (WITH RECURSIVE r AS (SELECT '' UNION FROM r) FROM r)",
    "WITH \"{text}\" AS (SELECT 1) SELECT * FROM \"{text}\"",
    "WITH a AS (FROM read_text('{text}')) FROM a",
    "SELECT (SELECT content FROM read_text('{text}'))",
    "SELECT lead({env}) OVER () FROM exchanges",
    "SELECT count(*) FILTER (WHERE {env} = '') FROM exchanges",
    "SELECT api FROM exchanges ORDER BY {env}",
    "SELECT api FROM exchanges LIMIT (SELECT length({env}))",
    "SELECT * REPLACE ({env} AS api) FROM exchanges",
    "SELECT api FROM exchanges QUALIFY {env} = ''",
    "SELECT api FROM exchanges UNION SELECT {env}",
    "SELECT DISTINCT ON ({env}) api FROM exchanges",
    "SELECT api FROM exchanges JOIN connections ON {env} = ''",
    "VALUES ({env})", "SELECT CAST('{text}' AS main.exchanges)",
    "SELECT list_transform([1], x -> {env})",
)  # fmt: skip


@pytest.mark.parametrize("text", [*STATEMENTS, *QUERIES])
def test_nothing_but_a_select_over_the_tables_is_run(
    text: str, opened: Queryable, prey: Prey
) -> None:
    before = prey.state()
    text = text.replace("{text}", str(prey.text)).replace("{env}", "getenv('KDISSECT_CANARY')")
    with pytest.raises(InvalidArgument) as caught:
        opened.query(text)
    assert CANARY not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert prey.state() == before
    assert not prey.was_called()


def test_a_drawn_attack_in_any_place_of_a_query_is_refused(opened: Queryable, prey: Prey) -> None:
    chance = random.Random(SEED)
    before = prey.state()
    places = (
        "SELECT {}", "SELECT api FROM exchanges WHERE {}", "SELECT api FROM exchanges ORDER BY {}",
        "SELECT count(*) FROM exchanges HAVING {}", "WITH a AS (SELECT {}) FROM a",
        "SELECT sum(latency_ns) OVER (ORDER BY {}) FROM exchanges", "VALUES ({})", "{}",
    )  # fmt: skip
    for _ in range(16):
        attack = drawn(chance, prey)
        with pytest.raises(KdissectError) as caught:
            opened.query(chance.choice(places).format(attack))
        assert CANARY not in str(caught.value).replace(attack, ""), attack
    assert prey.state() == before
    assert not prey.was_called()


@pytest.mark.parametrize("depth", [300, 3_000, 40_000])
@pytest.mark.parametrize(
    ("begin", "middle", "end"),
    [("(", "1", ")"), ("1+", "1", ""), ("NOT ", "true", ""), ("[", "1", "]"),
     ("(SELECT ", "1", ")"), ("abs(", "1", ")"), ("CASE WHEN ", "true", " THEN 1 END")],
)  # fmt: skip
def test_deep_nesting_is_answered_or_refused(
    begin: str, middle: str, end: str, depth: int, opened: Queryable
) -> None:
    text = f"SELECT {begin * depth}{middle}{end * depth}"
    said = ""
    try:
        rows = opened.query(text).num_rows
    except InvalidArgument as error:
        rows, said = 1, str(error)
    assert (rows, len(said) < 400) == (1, True)


def test_queries_over_the_memory_limit_are_an_error(
    opened: Queryable,
) -> None:
    long = "SELECT length(string_agg(repeat(a.api, 100000), '')) FROM exchanges a, exchanges b"
    with pytest.raises(KdissectError, match="memory"):
        opened.query(long)


def test_a_query_has_a_longest_length() -> None:
    with pytest.raises(InvalidArgument, match="longer than"):
        tables_of(f"SELECT '{'a' * LONGEST}'", TABLES)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT 1", []),
        ("FROM exchanges", ["exchanges"]),
        ("SELECT * FROM exchanges e JOIN connections c USING (connection_id)",
         ["exchanges", "connections"]),
        ("WITH errors AS (SELECT 1 AS one) SELECT one FROM errors", []),
        ("SELECT (SELECT count(*) FROM batches) FROM members", ["batches", "members"]),
        ("FROM exchanges SEMI JOIN errors USING (exchange_id)", ["exchanges", "errors"]),
        ("SELECT api FROM exchanges UNION ALL BY NAME SELECT name AS api FROM errors",
         ["exchanges", "errors"]),
    ],
)  # fmt: skip
def test_the_tables_of_a_query_are_found(text: str, tables: list[str]) -> None:
    assert sorted(tables_of(text, TABLES)) == sorted(tables)


def test_an_answer_is_that_of_the_table_itself(opened: Queryable) -> None:
    table = kdissect.read(QUICKSTART).to_arrow()
    rows = opened.query("SELECT api, count(*) n, sum(latency_ns) s FROM exchanges GROUP BY api")
    by_hand: dict[str, list[int]] = {}
    for row in table.select(["api", "latency_ns"]).to_pylist():
        one = by_hand.setdefault(row["api"], [0, 0])
        one[0] += 1
        one[1] += row["latency_ns"] or 0
    assert {row["api"]: [row["n"], row["s"] or 0] for row in rows.to_pylist()} == by_hand
    again = query(QUICKSTART, "SELECT count(*) AS n FROM exchanges").to_pylist()
    assert again == [{"n": table.num_rows}]


def test_duplicate_names_are_numbered_and_other_types_are_text(
    opened: Queryable,
) -> None:
    text = (
        "SELECT a.api, b.api, [1, 2] AS l, {'a': 1} AS s, DATE '2020-01-02' AS d, "
        "1.5::DECIMAL(4, 2) AS x, NULL AS n FROM exchanges a JOIN exchanges b USING (exchange_id) "
        "LIMIT 1"
    )
    (row,) = opened.query(text).to_pylist()
    assert row["api"] == row["api_2"]
    rest = {name: row[name] for name in ("l", "s", "d", "x", "n")}
    assert rest == {"l": "[1, 2]", "s": '{"a": 1}', "d": "2020-01-02", "x": 1.5, "n": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT latncy_ns FROM exchanges", "no column 'latncy_ns'; did you mean 'latency_ns'?"),
        ("SELECT e.latncy FROM exchanges e", "did you mean 'latency_ns'?"),
        ("SELECT api FROM exchnges", "no table 'exchnges'; did you mean 'exchanges'?"),
        (
            "SELECT coutn(*) FROM exchanges",
            "the function coutn is not allowed; did you mean count?",
        ),
        ("SELECT * FROM errors", "table errors was not made; there are: exchanges, connections"),
        ("SELEC 1", "Parser Error"),
    ],
)
def test_a_mistake_is_reported_with_the_right_word(text: str, said: str, opened: Queryable) -> None:
    with pytest.raises(InvalidArgument) as caught:
        opened.query(text)
    assert said in str(caught.value)
