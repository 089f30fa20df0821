"""No address or name of a capture is in a page with pseudonyms."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.report.pseudonyms import ANYWHERE, NAMES, PUBLIC, WITHHELD, WORDS, Pseudonyms
from kdissect.report.writing import make_report
from kdissect.tables.schemas import TABLES
from tests.report.test_numbers import CAPTURES, data_of

SECRET = (
    "client_ip",
    "client_id",
    "topic",
    "group_id",
    "transactional_id",
    "sasl_user",
    "member_id",
)
OF_BROKERS = re.compile(r"(broker|raft-client|AddPartitionsManager|ReplicaFetcherThread)[a-z\d-]*")
SHORTEST = 4  # shorter names are parts of other words


def sentences() -> set[str]:
    """Words of findings themselves: a topic may be called `retried`."""
    sources = (Path(kdissect.__path__[0]) / "rules").glob("*.py")
    return {word for path in sources for word in re.findall(r"[\w-]+", path.read_text())}


def values_of(path: Path) -> set[str]:
    found: set[str] = set()
    for table in ("connections", "exchanges", "partitions", "members", "errors"):
        rows = kdissect.read(path, table=table).to_arrow()
        for column in set(SECRET) & set(rows.column_names):
            found |= set(rows[column].unique().to_pylist()) - {None}
    return found


def shown(data: dict[str, Any]) -> str:
    """The page's data about a capture, without the meanings of columns and the advice."""
    tables = [one["rows"] for one in data["tables"]]
    findings = [{key: one[key] for key in one if key != "next"} for one in data["findings"]]
    maps = [one["name"] for one in data["heat"]["maps"]]
    drawn = [data["bands"], [one["name"] for one in data["lag"]]]
    said = [tables, findings, maps, drawn, data["evidence"], data["sequences"], data["folded"]]
    return json.dumps(said, ensure_ascii=False)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_no_name_of_a_capture_is_in_its_page(path: Path) -> None:
    report = make_report(path, pseudonyms=Pseudonyms())
    text = shown(data_of(report.html))
    names = {name for name in values_of(path) - PUBLIC - sentences() if len(name) >= SHORTEST}
    kept = {name for name in names if OF_BROKERS.fullmatch(name)}
    found = {
        name for name in names - kept if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text)
    }
    assert found == set()
    assert path.name.encode() not in report.html


def test_a_key_gives_the_same_pseudonyms_and_no_other_does() -> None:
    one, same, other = Pseudonyms(b"k" * 16), Pseudonyms(b"k" * 16), Pseudonyms()
    assert one.name("topic", "orders") == same.name("topic", "orders")
    assert one.name("topic", "orders") != other.name("topic", "orders")
    assert one.name("topic", "__consumer_offsets") == "__consumer_offsets"
    assert one.name("client", "broker-1-fetcher-0") == "broker-1-fetcher-0"


def test_every_column_of_text_is_replaced_withheld_or_a_word() -> None:
    named = {column for _, column in NAMES}
    for table in TABLES.values():
        for column in table.columns:
            if column.type == "text":
                assert column.name in named | WITHHELD | WORDS
    assert not named & WITHHELD
    assert {column for table, column in NAMES if table == ANYWHERE}.isdisjoint(WORDS | WITHHELD)
