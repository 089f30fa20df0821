"""One name for a dimension in grouping, filtering, column choice and sorting, in every analysis."""

import json
import random
from typing import Any

import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.compare.comparison import QUESTION as COMPARE
from kdissect.analysis.dimensions import COLUMNS, column_name, short_name
from kdissect.analysis.engines.chosen_rows import condition_columns
from kdissect.cli.program import run
from kdissect.tables.schemas import TABLES
from tests.seeds import IS_EVERY_CASE, SEED

CAPTURE = "captures/quickstart.pcapng"
# Dimensions of an answer that are no column of an exchange.
OF_ANSWERS = {"window", "code", "resource", "path"}
OF_DATASETS = {"tap", "date"}
DRAWN = 2
JOINED = """
    SELECT topic, partition, count(DISTINCT exchanges.exchange_id) AS requests
    FROM exchanges JOIN partitions USING (exchange_id)
    JOIN connections ON connections.connection_id = exchanges.connection_id
    WHERE {} GROUP BY ALL
    HAVING count(*) FILTER (outcome = 'answered' AND latency_ns IS NOT NULL) > 0
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("vocabulary") / "tables"
    kdissect.write(CAPTURE, directory)
    return str(directory)


def dimensions_of(name: str) -> list[str]:
    """All dimensions of a question, or some that are drawn."""
    choices = next((one.choices for one in QUESTIONS[name].options if one.name == "by"), ())
    names = [one for one in choices if one not in OF_DATASETS]
    if IS_EVERY_CASE:
        return names
    return random.Random(f"{SEED} {name}").sample(names, min(DRAWN, len(names)))


def document(words: list[str], capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capfd.readouterr()
    code = run([*words, "--json"])
    said = capfd.readouterr()
    assert code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


CASES = [(name, one) for name in QUESTIONS for one in dimensions_of(name)]


@pytest.mark.sweep
@pytest.mark.parametrize(("question", "name"), CASES, ids=[" by ".join(one) for one in CASES])
def test_a_dimension_has_one_name(
    question: str, name: str, tables: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """--by, --columns, --sort, the header, JSON, --having, and --where.

    Quoted in SQL, where `window` is a word.
    """
    words = [question, tables, "--by", name, "--columns", name, "--sort", f"{name}:desc"]
    found = document([*words, "--having", f'"{name}" is not null'], capfd)
    assert [column["name"] for column in found["columns"]] == [name]
    values = [row[name] for row in found["rows"]]
    assert None not in values
    assert values == sorted(values, reverse=True)
    is_refused = run([question, tables, "--by", name, "--where", f'"{name}" is not null']) == 2
    said = capfd.readouterr().err
    is_lost = name in QUESTIONS[question].derived
    assert is_refused == (name in OF_ANSWERS or is_lost), said
    if is_refused:
        assert "--having" in said if is_lost else "there are: " in said


def test_names_are_those_of_columns_of_tables() -> None:
    columns = {column.name for table in TABLES.values() for column in table.columns}
    options = [one for question in (*QUESTIONS.values(), COMPARE) for one in question.options]
    named = {choice for one in options if one.name == "by" for choice in one.choices}
    assert named - columns == {"broker", "window", "tap", "date"}
    own = {column.name for question in QUESTIONS.values() for column in question.columns}
    assert not own & set(COLUMNS), "a short name in an answer"
    assert named - OF_ANSWERS <= set(condition_columns())


@pytest.mark.parametrize("short", COLUMNS)
def test_a_short_name_is_understood_and_printed_in_full(
    short: str, tables: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = document(
        ["latency", tables, "--by", short, "--columns", f"{short},p99_ns", "--sort", short], capfd
    )
    assert [column["name"] for column in found["columns"]] == [column_name(short), "p99_ns"]


def test_a_program_has_the_name_that_it_used(tables: str) -> None:
    for by in ("client", "client_id"):
        assert kdissect.analyse("latency", tables, by=by).to_arrow().column_names[0] == by
    changes = kdissect.compare(tables, at="+5s", by=["client", "group_id"], unchanged=True)
    assert changes.to_arrow().column_names[:2] == ["client", "group_id"]


GROUPED = [name for name, one in QUESTIONS.items() if "by" in {each.name for each in one.options}]


@pytest.mark.parametrize("name", GROUPED)
def test_a_repeated_name_counts_once(
    name: str, tables: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = random.Random(f"{SEED} {name}")
    (choices,) = (one.choices for one in QUESTIONS[name].options if one.name == "by")
    names = source.sample([one for one in choices if one not in OF_DATASETS], 2)
    repeated = names + source.choices([*names, *map(short_name, names)], k=3)
    expected = kdissect.analyse(name, tables, by=names).to_arrow()
    assert kdissect.analyse(name, tables, by=repeated).to_arrow().equals(expected)
    assert kdissect.analyse(name, tables, by=",".join(repeated)).to_arrow().equals(expected)
    printed = []
    for by in (repeated, names):
        assert run([name, tables, "--by", ",".join(by), "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


@pytest.mark.parametrize("name", GROUPED)
def test_no_name_is_an_error(name: str, tables: str) -> None:
    with pytest.raises(kdissect.KdissectError, match=r"^'by' has no names$"):
        kdissect.analyse(name, tables, by=[])


def test_a_repeated_column_is_read_once() -> None:
    found = kdissect.read(CAPTURE, columns=["api", "outcome", "api"]).to_arrow()
    assert found.column_names == ["api", "outcome"]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("topic = 'orders'", "topic = 'orders'"),
        ("topic <> 'orders' and api = 'Produce'", "topic <> 'orders' and api = 'Produce'"),
        ("partition = 0 or client_ip is null", "partition = 0"),
        ("broker like '%:9092'", "broker_port = 9092"),
        ("sasl_user is not null", "sasl_user is not null"),
    ],
)
def test_a_condition_over_other_tables_chooses_the_rows_that_a_join_has(
    condition: str, rows: str, tables: str
) -> None:
    """The oracle is an SQL query over the tables."""
    from kdissect.api.querying import query

    asked = kdissect.analyse("latency", tables, by=["topic", "partition"], where=condition)
    joined = query(tables, JOINED.format(rows)).to_pylist()
    found = [
        (row["topic"], row["partition"], row["requests"]) for row in asked.to_arrow().to_pylist()
    ]
    assert sorted(found, key=str) == sorted(
        [(row["topic"], row["partition"], row["requests"]) for row in joined], key=str
    )


def test_both_sides_of_a_comparison_may_be_chosen_by_other_tables(tables: str) -> None:
    found = kdissect.compare(tables, before="topic = 'orders'", after="topic = 'payments'")
    assert found.before.exchanges > found.after.exchanges > 0


def test_other_rows_of_a_chosen_exchange_go_by_its_partition(tables: str) -> None:
    whole = kdissect.analyse("traffic", tables).to_arrow().to_pylist()
    (own,) = kdissect.analyse("traffic", tables, where="topic = 'orders'").to_arrow().to_pylist()
    (same,) = (row for row in whole if row["topic"] == "orders")
    assert own == same
