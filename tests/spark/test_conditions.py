"""Conditions on Spark: translated, checked again in Spark's own words, and never more than that."""

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlglot

from kdissect import KdissectError, analyse
from kdissect.analysis.engines.ibis_tables import askable
from kdissect.spark.conditions import FUNCTIONS, condition_of, refused_names
from kdissect.spark.spark_tables import LITERAL, configured
from kdissect.sql.files import quoted
from tests.spark.conftest import Tables
from tests.sql.attacks import CANARY, VARIABLE, drawn, made_prey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("latency_ns > 1e9 and api = 'Fetch'", "latency_ns > 1e9 AND api = 'Fetch'"),
        ("latency_ns // 1000000 > 3 -- ms", "latency_ns DIV 1000000 > 3"),
        ("regexp_matches(client_id, '^a')", "client_id RLIKE '^a'"),
        ("client_id = 'current_user'", "client_id = 'current_user'"),
        (
            "request_start > '2026-11-01'::timestamptz",
            "request_start > CAST('2026-11-01' AS TIMESTAMP)",
        ),
        (
            "exchange_id in (select exchange_id from errors where errors.code = 3)",
            "exchange_id IN (SELECT exchange_id FROM `p_errors` AS errors WHERE errors.code = 3)",
        ),
    ],
)
def test_a_condition_is_translated(where: str, said: str) -> None:
    assert condition_of(where, "p_", ["errors"]) == said


@pytest.mark.parametrize(
    "where",
    [
        "latency_ns >",
        "true) or (true",
        "1 = 1; drop table x",
        "",
        "reflect('java.lang.System', 'exit', 0) = 1",
        "java_method('java.lang.System', 'getenv', 'PATH') = 'x'",
        'api in (select content from text."/etc/hostname")',
        "current_user = 'root'",
        "\"session_user\" = 'root'",
        "api = format('{}', \"user\")",
        "list_transform([1], x -> x) = [1]",
        "parse_filename(api) = 'x'",
    ],
)
def test_disallowed_conditions_are_a_one_line_error(where: str) -> None:
    with pytest.raises(KdissectError) as caught:
        condition_of(where, "p_")
    text = str(caught.value)
    assert text.startswith(f"--where {where!r}: ")
    assert "\n" not in text


@pytest.mark.parametrize("where", ["regexp_extract(api, 'f', 0, 'i') = 'F'"])
def test_untranslatable_conditions_are_a_one_line_error(where: str) -> None:
    with pytest.raises(KdissectError, match=r"cannot be said in Spark's SQL: [^\n]+$"):
        condition_of(where, "p_")


@pytest.mark.parametrize(
    "sql",
    [
        "reflect('java.lang.System', 'getProperty', 'user.home') = 'x'",
        "`reflect`('java.lang.System', 'getProperty', 'user.home') = 'x'",
        "api = REFLECT ('a', 'b')",
        "api = reflect /* ( */ ('a', 'b')",
        "api = (java_method('a', 'b'))",
        "api = CASE WHEN try_reflect('a', 'b') = 'c' THEN 'd' END",
        "api = input_file_name()",
        "api = current_user",
        "api = `user`",
        "api = system.builtin.version()",
        "api = my_own_function(api)",
        "api IN (SELECT TRANSFORM(api) USING 'cat /etc/hostname' FROM t)",
        "api = aes_decrypt(a, b)",
    ],
)
def test_the_second_check_knows_the_words_of_spark(sql: str) -> None:
    assert list(refused_names(sqlglot.tokenize(sql, dialect="spark")))


@pytest.mark.slow
def test_the_functions_that_are_allowed_are_those_of_spark(spark: "SparkSession") -> None:
    there = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert FUNCTIONS - there == {"try_cast"}  # a word of its parser


@pytest.mark.slow
def test_constants_have_equal_values_on_spark_and_duckdb(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, CANARY)
    seed = 11
    chance = random.Random(seed)
    parts = ["'", '"', "\\", "\\'", "${env:PATH}", "${system:user.home}", "$", "{", "\n", "ü", "\t"]
    parts += ["\\n", "\\u0041", "%", "--", "/*", ";", "`", "x", "\\x41", "''"]
    texts = ["".join(chance.choices(parts, k=chance.randrange(1, 7))) for _ in range(60)]
    texts += [f"${{env:{VARIABLE}}}", "${spark.app.name}", "\\"]
    said = [condition_of(f"hex({quoted(text)}) = 'x'", "p_") for text in texts]
    columns = [f"{sql.removesuffix(' = ' + quoted('x'))} AS c{at}" for at, sql in enumerate(said)]
    with configured(spark, LITERAL):
        (row,) = spark.sql(f"SELECT {', '.join(columns)}").collect()
    assert list(row) == [text.encode().hex().upper() for text in texts], seed


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        "reflect('java.lang.System', 'getProperty', 'user.home') <> ''",
        "java_method('java.lang.System', 'getenv', 'KDISSECT_CANARY') <> ''",
        "CAST('${env:PATH}' AS BIGINT) = exchange_id",
        "api = current_user",
        "'a' IN (SELECT value FROM text.\"{prey}\")",
    ],
)
def test_spark_shows_nothing_of_the_machine(
    where: str,
    spark_both: "SparkSession",
    tables: Tables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, CANARY)
    prey = tmp_path / "prey.txt"
    prey.write_text(CANARY)
    condition = where.replace("{prey}", str(prey))
    with pytest.raises(KdissectError) as caught:
        analyse("slowest", tables.of("retries-4.3.1"), session=spark_both, where=condition)
    assert CANARY not in str(caught.value)
    assert os.environ["PATH"] not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "name", "where"),
    [
        ("cluster-2.4.1", "latency", "client_ip = '127.0.0.1' and broker like '127.0.0.2:%'"),
        ("quickstart", "traffic", "topic = 'orders' and partition % 2 = 0"),
        ("sasl-2.8.2", "clients", "sasl_user like '%a%' or broker = 'none'"),
    ],
)
def test_dimensions_of_other_tables_choose_duckdbs_rows(
    capture: str, name: str, where: str, spark_both: "SparkSession", tables: Tables
) -> None:
    place = tables.of(capture)
    expected = analyse(name, place, where=where).to_arrow()
    assert expected.num_rows > 0
    assert expected != analyse(name, place).to_arrow()
    found = analyse(name, place, session=spark_both, where=where).to_arrow()
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


@pytest.mark.slow
def test_variables_of_the_driver_stay_text(spark_both: "SparkSession", tables: Tables) -> None:
    """Spark has replaced ${...} by settings where this is not switched off."""
    where = "'${spark.app.name}' = '$' || '{spark.app.name}'"
    place = tables.of("retries-4.3.1")
    found = analyse("clients", place, session=spark_both, where=where).to_arrow()
    assert found.to_pylist() == analyse("clients", place).to_arrow().to_pylist()
    assert spark_both.conf.get("spark.sql.variable.substitute") == "true"


def test_drawn_attacks_are_refused_on_spark_too(tmp_path: Path) -> None:
    seed = 3
    chance = random.Random(seed)
    with made_prey(tmp_path) as prey:
        for _ in range(20):
            attack = drawn(chance, prey)
            with pytest.raises(KdissectError) as caught:
                condition_of(attack, "p_", askable(["exchanges"]))
            assert len(str(caught.value).splitlines()) == 1, (seed, attack)
