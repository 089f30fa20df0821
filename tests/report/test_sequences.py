"""Sequence diagrams of a page: those that were asked for, of rebalances; their exchanges."""

from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.cli.program import MISUSED, run
from kdissect.report.asked import Asked
from kdissect.report.sequences import MESSAGES
from kdissect.report.writing import make_report
from tests.report.test_happenings import EVENTFUL, answer
from tests.report.test_numbers import CAPTURES, data_of
from tests.seeds import SEED

CAPTURE = CAPTURES[SEED % len(CAPTURES)]


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kdissect.read(path).to_arrow().to_pylist()
    return rows


def titled(data: dict[str, Any], title: str) -> dict[str, Any]:
    (found,) = (one for one in data["sequences"] if one["title"] == title)
    assert isinstance(found, dict)
    return found


def test_a_connection_that_was_asked_for_is_drawn_from_its_first_exchange() -> None:
    rows = rows_of(CAPTURE)
    one = rows[SEED % len(rows)]["connection_id"]
    data = data_of(make_report(CAPTURE, sequences=Asked(connections=(one,))).html)
    own = [row for row in rows if row["connection_id"] == one]
    times = ("request_start", "request_end", "response_start", "response_end")
    own.sort(key=lambda row: next(row[name] for name in times if row[name] is not None))
    found = titled(data, f"connection {one}")
    drawn = {row["exchange_id"] for row in found["exchanges"]}
    assert len(drawn) == min(len(own), MESSAGES)
    assert found["left_out"] == len(own) - len(drawn)
    if len(own) <= MESSAGES:
        assert drawn == {row["exchange_id"] for row in own}
    else:
        assert own[0]["exchange_id"] in drawn
        assert any(f"of connection {one}, " in text for text in data["folded"])


def test_an_exchange_is_drawn_with_what_overlaps_on_its_connection() -> None:
    rows = [row for row in rows_of(CAPTURE) if row["request_packet"] is not None]
    one = rows[SEED % len(rows)]
    asked = Asked(packets=(one["request_packet"],))
    found = titled(
        data_of(make_report(CAPTURE, sequences=asked).html), f"packet {one['request_packet']}"
    )
    (main,) = (row for row in found["exchanges"] if row["exchange_id"] == found["main"])
    assert one["request_packet"] in (main["request_packet"], main["response_packet"])


def test_what_is_not_in_the_capture_is_said() -> None:
    asked = Asked(connections=(1 << 60,), packets=(1 << 40,))
    folded = data_of(make_report(CAPTURE, sequences=asked).html)["folded"]
    assert f"no exchange has packet {1 << 40}: it has no sequence diagram" in folded
    assert f"connection {1 << 60} has no exchanges: it has no sequence diagram" in folded


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", EVENTFUL, ids=lambda path: path.name)
def test_the_longest_rebalance_of_a_group_is_drawn(path: Path) -> None:
    data = data_of(make_report(path, asks_all=True).html)
    lasted = {
        row["group_id"]: max((row["end"] or row["start"]) - row["start"], 0)
        for row in sorted(answer("rebalances", path), key=lambda row: row["end"] or row["start"])
    }
    drawn = [one for one in data["sequences"] if one["title"].startswith("rebalance of ")]
    assert len(drawn) <= min(len(lasted), 4)
    assert bool(drawn) == bool(lasted)
    groups = {row["exchange_id"]: row["group_id"] for row in rows_of(path)}
    for one in drawn:
        own = {groups[row["exchange_id"]] for row in one["exchanges"]}
        assert own == {one["title"].removeprefix("rebalance of ")}


def test_sequences_are_about_one_page(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["report", str(CAPTURE), "--by", "day", "-o", "x", "--packet", "1"]
    assert run(words) == MISUSED
    assert "without --by" in capfd.readouterr().err
