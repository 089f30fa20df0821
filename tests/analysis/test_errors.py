"""Errors: counted by any dimensions, with advice for each."""

import json
from collections import Counter
from pathlib import Path

import pytest

import kdissect
from kdissect.analysis.error_advice import ADVICE
from kdissect.errors import KdissectError
from kdissect.protocol.apis import APIS
from kdissect.protocol.error_codes import error_codes
from tests.analysis.made_tables import START, Row, asked, connection, exchange, write_tables

NOT_LEADER = {"code": 6, "name": "NOT_LEADER_OR_FOLLOWER", "is_retriable": True}
TOO_LARGE = {"code": 10, "name": "MESSAGE_TOO_LARGE", "is_retriable": False}


def error(number: int, kind: Row, topic: str | None = None, **more: object) -> Row:
    partition = None if topic is None else 0
    row = {"exchange_id": number, "path": "error_code", "topic": topic, "partition": partition}
    return row | dict(kind) | more


def test_every_code_has_advice_and_nothing_else_has() -> None:
    assert set(ADVICE) == {known.name for known in error_codes().values()} - {"NONE"}


@pytest.mark.parametrize("name", ADVICE)
def test_advice_is_a_sentence(name: str) -> None:
    text = ADVICE[name]
    assert text.endswith(".")
    assert "  " not in text
    assert 20 < len(text) < 200


def test_errors_are_counted_with_when_they_were_seen(tmp_path: Path) -> None:
    exchanges = [
        exchange(1, "Produce", client_id="one"),
        exchange(2, "Produce", at_s=5, client_id="two"),
        exchange(3, "Fetch", at_s=6, client_id="two"),
    ]
    errors = [
        error(1, NOT_LEADER, "a"),
        error(1, NOT_LEADER, "b"),
        error(2, NOT_LEADER, "a", message="gone"),
        error(3, TOO_LARGE, "a"),
    ]
    rows = asked("errors", tmp_path, exchanges=exchanges, errors=errors)
    seen = [((row["first_seen"].timestamp()), row["last_seen"].timestamp()) for row in rows]
    for row in rows:
        del row["first_seen"], row["last_seen"]
    assert seen == [(START / 1e9 + 0.001, START / 1e9 + 5.001), (START / 1e9 + 6.001,) * 2]
    assert rows == [
        {
            "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "errors": 3, "exchanges": 2,
            "clients": 2, "is_retriable": True, "partitions": 2, "first_packet": 3,
            "message": "gone", "advice": ADVICE["NOT_LEADER_OR_FOLLOWER"],
        },
        {
            "error": "MESSAGE_TOO_LARGE", "api": "Fetch", "errors": 1, "exchanges": 1,
            "clients": 1, "is_retriable": False, "partitions": 1, "first_packet": 7,
            "message": None, "advice": ADVICE["MESSAGE_TOO_LARGE"],
        },
    ]  # fmt: skip


def test_a_row_of_several_errors_has_no_advice(tmp_path: Path) -> None:
    errors = [error(1, NOT_LEADER), error(1, TOO_LARGE)]
    (row,) = asked(
        "errors", tmp_path, {"by": ["api"]}, exchanges=[exchange(1, "Produce")], errors=errors
    )
    assert (row["errors"], row["is_retriable"], row["advice"]) == (2, None, None)


def test_errors_of_single_records_do_not_count(tmp_path: Path) -> None:
    path = "responses[].partition_responses[].record_errors[].batch_index_error_message"
    errors = [error(1, TOO_LARGE, "a"), error(1, TOO_LARGE, "a", path=path, resource="record 0")]
    (row,) = asked("errors", tmp_path, exchanges=[exchange(1, "Produce")], errors=errors)
    assert row["errors"] == 1


def test_the_topic_is_that_of_the_error_and_the_group_that_of_the_request(tmp_path: Path) -> None:
    exchanges = [exchange(1, "OffsetCommit", group_id="g"), exchange(2, "Fetch")]
    errors = [
        error(1, NOT_LEADER, "a"),
        error(2, NOT_LEADER, topic_id="QXWPCYXXRCmUircSH47GkQ", partition=7),
        error(2, NOT_LEADER, group_id="h"),
    ]
    options = {"by": ["topic", "partition", "group", "broker"]}
    rows = asked(
        "errors", tmp_path, options, exchanges=exchanges, errors=errors, connections=[connection()]
    )
    found = {(row["topic"], row["partition"], row["group"], row["broker"]) for row in rows}
    assert found == {
        ("a", 0, "g", "10.0.0.9:9092"),
        ("QXWPCYXXRCmUircSH47GkQ", 7, None, "10.0.0.9:9092"),
        (None, None, "h", "10.0.0.9:9092"),
    }


def test_windows_come_in_the_order_of_time(tmp_path: Path) -> None:
    exchanges = [exchange(number, "Fetch", at_s=number) for number in (1, 2, 3)]
    errors = [error(number, kind) for number, kind in ((3, NOT_LEADER), (1, NOT_LEADER))]
    options = {"by": ["window", "code"], "window": 1_000_000_000}
    rows = asked("errors", tmp_path, options, exchanges=exchanges, errors=errors)
    assert [(row["window"].timestamp() - START / 1e9, row["code"]) for row in rows] == [
        (1, 6), (3, 6),
    ]  # fmt: skip


def test_a_condition_over_exchanges_chooses_errors(tmp_path: Path) -> None:
    exchanges = [exchange(1, "Fetch"), exchange(2, "Produce")]
    tables = write_tables(
        tmp_path, exchanges=exchanges, errors=[error(1, NOT_LEADER), error(2, TOO_LARGE)]
    )
    found = kdissect.analyse("errors", tables, where="api = 'Produce'", by=["error"])
    assert found.to_arrow()["error"].to_pylist() == ["MESSAGE_TOO_LARGE"]


def test_dimensions_of_errors_are_not_those_of_latency(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    with pytest.raises(KdissectError, match="cannot group by 'path'; there are: api"):
        kdissect.analyse("latency", tables, by=["path"])
    with pytest.raises(KdissectError, match="cannot group by 'colour'; there are: error, code"):
        kdissect.analyse("errors", tables, by=["colour"])


@pytest.mark.parametrize("name", ["quickstart", "topic-configs-4.3.1", "transactions-2.8.2"])
def test_the_brokers_log_has_the_same_errors(name: str) -> None:
    sidecar = json.loads(Path(f"captures/{name}.json").read_text())
    rows = sidecar["exchanges"]["rows"]
    columns = sidecar["exchanges"]["columns"]
    logged: Counter[tuple[str, int]] = Counter()
    for row in (dict(zip(columns, row, strict=True)) for row in rows):
        logged.update({(APIS[row["api_key"]].name, code) for _, code in row["errors"]})
    found = kdissect.analyse("errors", f"captures/{name}.pcapng", by=["api", "code"]).to_arrow()
    assert logged
    assert {(row["api"], row["code"]): row["exchanges"] for row in found.to_pylist()} == logged
