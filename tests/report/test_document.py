"""A page is small whatever its data, and no text of them ends the script element they are in."""

import json
import random
from io import BytesIO
from typing import Any

import pytest

from kdissect.report.document import DATA_LIMIT, LIBRARY, NAME_LENGTH, VENDOR, page
from tests.report.test_numbers import data_of
from tests.seeds import SEED

WIDEST = ["\u202e", "\U000e0041", "<", "&", "\x00", "\u2028", "'", "\\"]


def content(names: int, cells: int) -> dict[str, Any]:
    """Data of a capture with so many names, all as long and as widely escaped as can be."""
    chance = random.Random(SEED)
    name = "".join(chance.choices(WIDEST, k=NAME_LENGTH * 2))
    rows = [[f"{number}{name}", number, None, 1.5] for number in range(names)]
    tables = [{"name": one, "title": one, "columns": [], "rows": list(rows)} for one in "abcdefgh"]
    maps = [
        {"by": "client", "name": f"{n}{name}", "cells": {"latency": [149, 71, 12_345] * cells}}
        for n in range(30)
    ]
    finding = {"text": name * 10, "next": name, "concerns": {"clients": [name] * 50}}
    return {
        "findings": [dict(finding) for _ in range(100)],
        "evidence": [{"total": 20, "rows": [{"client_id": name}] * 20} for _ in range(20)],
        "sequences": [{"exchanges": [{"client_id": name}] * 40} for _ in range(12)],
        "bands": [{"kind": "failover", "names": [name[:80]] * 3} for _ in range(300)],
        "lag": [{"name": name, "values": [1_000_000_000] * 600} for _ in range(10)],
        "heat": {"maps": maps},
        "tables": tables,
        "folded": [],
    }


@pytest.mark.parametrize(("names", "cells"), [(5, 10), (200, 10_000)])
def test_a_page_stays_below_2_mb_and_says_what_was_folded(names: int, cells: int) -> None:
    html = page("x" * 100_000, content(names, cells)).html
    data = data_of(html)
    assert len(html) < 2_000_000
    assert len(json.dumps(data, separators=(",", ":"))) <= DATA_LIMIT
    said = " ".join(data["folded"])
    for table in data["tables"]:
        whole = f"the first {len(table['rows'])} of {names} rows of {table['title']}"
        assert len(table["rows"]) == names or whole in said
    assert len(data["heat"]["maps"]) == 30 or "heat maps" in said
    assert len(data["findings"]) == 100 or f"first {len(data['findings'])} of 100 findings" in said


def test_a_small_page_loses_nothing() -> None:
    small = content(3, 1)
    small |= {"findings": small["findings"][:2], "evidence": [], "sequences": [], "bands": []}
    data = data_of(page("small", small).html)
    assert data["folded"] == []
    assert [len(table["rows"]) for table in data["tables"]] == [3] * 8
    assert len(data["heat"]["maps"]) == 30


def test_what_is_written_is_the_page() -> None:
    """The library is copied from its file, wherever names have the mark of its place."""
    made, file = page("%%library%%", content(2, 1) | {"folded": ["%%library%%"]}), BytesIO()
    made.write(file)
    assert file.getvalue() == made.html
    assert made.size == len(made.html)
    assert made.html.count((VENDOR / LIBRARY).read_bytes()) == 1
    assert b"<title>%%library%% " in made.before
    assert data_of(made.html)["folded"][0] == "%%library%%"


def test_no_text_ends_the_script_element() -> None:
    hostile = content(1, 1) | {"findings": [], "evidence": [], "sequences": []}
    hostile["tables"][0]["rows"] = [["</script><img src=x>", "<!--<script>", "]]>", "%%data%%"]]
    html = page("</title><script>alert(1)</script>", hostile).html
    assert html.count(b"</script>") == 3
    assert b"<img src=x>" not in html
    assert b"<!--" not in html.split(b'id="data">')[1].split(b"</script>")[0]
    assert data_of(html)["tables"][0]["rows"][0][3] == "%%data%%"
