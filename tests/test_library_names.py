"""The library as notebooks and shells use it: names, units, one name for a list, HTML."""

import inspect
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import kdissect
from kdissect.rules.finding import PROBLEM, Finding
from kdissect.tables.html_rows import SHOWN, html_of

CAPTURE = Path("captures/quickstart.pcapng")
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e&\"'"


class Tags(HTMLParser):
    """The tags and the text of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_all_names_are_listed_and_can_be_had() -> None:
    assert set(kdissect.__all__) <= set(dir(kdissect))
    for name in kdissect.__all__:
        found = getattr(kdissect, name)
        # mypyc's functions have no docstring at run time.
        assert found.__doc__ or inspect.isbuiltin(found), name


def test_one_name_groups_as_a_list_of_it_does() -> None:
    one, several = (kdissect.analyse("latency", CAPTURE, by=by) for by in ("client", ["client"]))
    assert one.to_arrow().equals(several.to_arrow())
    with pytest.raises(kdissect.KdissectError, match="cannot group by 'clients'"):
        kdissect.analyse("latency", CAPTURE, by="clients")


def test_durations_are_timedeltas_where_they_are_asked_for() -> None:
    numbers = kdissect.read(CAPTURE, columns=["api", "latency_ns", "throttle_ms", "request_size"])
    plain, timed = numbers.to_pandas(), numbers.to_pandas(units="timedelta")
    for name, unit in (("latency_ns", "ns"), ("throttle_ms", "ms")):
        assert timed[name].dtype == f"timedelta64[{unit}]"
        # Without the absent ones: pandas multiplies whatever was in memory in their places.
        expected = pd.to_timedelta(plain[name].dropna().astype("int64"), unit=unit)
        assert (timed[name].isna() == plain[name].isna()).all()
        assert (timed[name].dropna() == expected).all()
    assert timed["request_size"].equals(plain["request_size"])
    answer = kdissect.analyse("latency", CAPTURE, units="timedelta").to_pandas()
    assert answer["p99_ns"].dtype == np.dtype("timedelta64[ns]")
    assert answer["exchanges"].dtype == np.dtype("int64")
    with pytest.raises(kdissect.KdissectError, match="no units 'seconds'"):
        kdissect.read(CAPTURE, units="seconds")


def test_names_from_the_wire_are_text_in_html() -> None:
    rows = pa.table({"client": [HOSTILE] * (SHOWN + 1), "number": range(SHOWN + 1)})
    finding = Finding("latencies", PROBLEM, HOSTILE)
    for text in (html_of("rows", rows), finding._repr_html_()):
        found = Tags(text)
        assert found.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
        assert "<script>alert(1)</script>\\e[31m\\u202e&\"'" in found.text
        assert "\x1b" not in text
    assert f"rows; {SHOWN} shown" in html_of("rows", rows)


def test_answers_and_readings_have_html() -> None:
    found = Tags(kdissect.analyse("errors", CAPTURE)._repr_html_())
    assert "UNKNOWN_TOPIC_OR_PARTITION" in found.text
    assert "2026-11-21" in Tags(kdissect.read(CAPTURE)._repr_html_()).text
