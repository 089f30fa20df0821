"""Pages written by the command, and a capture whose names would run, request or deceive."""

import json
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.program import ANSWERED, run
from tests.conversation import conversation
from tests.exchange_builders import request, response

QUICKSTART = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
# Names that would run, request or deceive, were they not text.
HOSTILE = (
    "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<!--<script>",
    "\" onmouseover=alert(3) x=\"", "javascript:alert(4)", "url(http://127.0.0.1:9/x)",
    "&lt;b&gt;&#0;", "{{7*7}}${7*7}", "]]>", "__proto__", "constructor", "%%data%%", "{b}{a|x}",
    "=1+1", "\u202egnp.exe", "a\u200bb\x1b[31m", "\u2028alert(5)", "x" * 32_000,
)  # fmt: skip


def written(path: Path, directory: Path, *words: str) -> Path:
    """The page of a capture."""
    target = directory / "report.html"
    assert run(["report", str(path), "-o", str(target), "--no-progress", *words]) == ANSWERED
    return target


def findings_of(path: Path, capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What `kdissect FILE --json` finds."""
    capfd.readouterr()
    assert run([str(path), "--json", "--no-progress"]) == ANSWERED
    found: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["findings"]
    return found


def hostile_capture(directory: Path) -> Path:
    """Commits of groups with hostile names, in a file with one."""
    talk = conversation().open()
    for number, name in enumerate(HOSTILE):
        topic = name[:200]
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        asked = {"group_id": topic, "topics": topics}
        talk = talk.client(request("OffsetCommit", 8, number, name, **asked))
        answered = [{"name": topic, "partitions": [{"partition_index": 0, "error_code": 25}]}]
        talk = talk.broker(response("OffsetCommit", 8, number, topics=answered))
    path = directory / "<b>\u202e&amp;.pcap"
    path.write_bytes(talk.close().pcap())
    return path
