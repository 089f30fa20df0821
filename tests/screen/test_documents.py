import re
from pathlib import Path

from kdissect.screen.keys import KEYS
from kdissect.screen.views import VIEWS

PAGE = (Path(__file__).parents[2] / "docs" / "top.md").read_text(encoding="utf-8")


def test_the_page_has_every_key() -> None:
    keys = {key for keys, _ in KEYS for key in re.split(r" or |[\s,…]+", keys) if key}
    assert {key for key in keys if f"`{key}`" not in PAGE} == set()


def test_the_page_has_every_table_and_every_column_with_a_short_name() -> None:
    for view in VIEWS:
        assert f"**{view.name}" in PAGE or f" {view.name}**" in PAGE or f", {view.name}," in PAGE
    # The content of the others is evident from their names.
    short = {"ex/s", "err/s", "in/s", "out/s", "produced/s", "fetched/s", "p50", "p95", "p99",
             "max", "retried", "ago", "waiting", "oldest", "waits for", "unanswered", "retrans",
             "0-window", "missing", "latency", "queue", "wait", "broker time",
             "request", "response"}  # fmt: skip
    headers = {field.column.header for view in VIEWS for field in view.fields}
    assert short <= headers
    assert {header for header in short if header not in PAGE} == set()
