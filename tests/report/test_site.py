"""Sites: a page for each day, of which only those with new rows are made again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.capture.pcap import NANOSECONDS
from kdissect.cli.program import ANSWERED, MISUSED, run
from kdissect.errors import DatasetError
from kdissect.report.site import write_site
from kdissect.spark.pipeline import dissect
from kdissect.tables.pseudonyms import Pseudonyms
from kdissect.tables.rotations import rotations_in, runs_in
from tests.capture.writers import make_pcap
from tests.live.replays import replay
from tests.report.test_browser import OF_PLOT, Opens, serious
from tests.report.test_happenings import table_of
from tests.report.test_numbers import data_of
from tests.spark.rotated import link_type_of, packets_of

CAPTURE = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
DAYS = ["2026-11-21", "2026-11-22"]
DAY_NS = 86_400 * 1_000_000_000
DEADLINE_S = 60


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A live capture with its last rotations on the next day."""
    directory = tmp_path / "live"
    replay(CAPTURE, directory, count=50, every_s=4)
    for rotation in rotations_of(directory)[2:]:
        to_next_day(rotation)
    return directory


def rotations_of(live: Path) -> list[Path]:
    (run_directory,) = runs_in(live)
    return rotations_in(run_directory)


def to_next_day(rotation: Path) -> None:
    rotation.rename(rotation.with_name(rotation.name.replace("20261121", "20261122")))


def exchanges_of(site: Path) -> int:
    rows = table_of(data_of((site / "index.html").read_bytes()), "days")
    assert [row["day"] for row in rows] == DAYS[::-1]
    for row in rows:
        totals = data_of((site / f"{row['day']}.html").read_bytes())["totals"]
        assert (row["exchanges"], row["errors"]) == (totals["exchanges"], totals["with_errors"])
    return sum(row["exchanges"] for row in rows)


@pytest.mark.slow
def test_pages_of_days_have_all_rows_and_only_new_ones_are_made(live: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert write_site(live, site).made == DAYS
    number = kdissect.read(live).to_arrow().num_rows
    assert exchanges_of(site) == number
    before = {path.name: path.stat().st_mtime_ns for path in site.iterdir()}
    assert sorted(before) == ["2026-11-21.html", "2026-11-22.html", "days.json", "index.html"]
    again = write_site(live, site)
    assert (again.made, again.kept) == ([], DAYS)
    assert before == {path.name: path.stat().st_mtime_ns for path in site.iterdir()}
    # The first day has lost rows, which stay on its page; the second has new ones.
    to_next_day(rotations_of(live)[1])
    again = write_site(live, site)
    assert (again.made, again.kept) == (DAYS[1:], DAYS[:1])
    shutil.rmtree(rotations_of(live)[0])
    assert write_site(live, site).made == []
    assert write_site(live, site, force=True).made == DAYS[1:]


@pytest.mark.slow
def test_pages_are_made_anew_with_other_options(live: Path, tmp_path: Path) -> None:
    site, key = tmp_path / "site", b"k" * 16
    write_site(live, site)
    assert write_site(live, site, pseudonyms=Pseudonyms(key)).made == DAYS
    assert write_site(live, site, pseudonyms=Pseudonyms(key)).made == []
    assert write_site(live, site, pseudonyms=Pseudonyms(b"other" * 4)).made == DAYS
    for path in site.glob("*.html"):
        assert b"worker-java" not in path.read_bytes()
        assert b"live" not in path.read_bytes().split(b"<h1>")[1].split(b"</h1>")[0]


def test_connections_of_another_day_are_on_the_page_of_their_exchanges(tmp_path: Path) -> None:
    """A capture in two files, the second from midnight on: connections continue."""
    packets = packets_of(CAPTURE)
    half = len(packets) // 2
    later = DAY_NS - packets[half].time_ns % DAY_NS
    packets = [one._replace(time_ns=one.time_ns + later) for one in packets]
    for number, part in enumerate((packets[:half], packets[half:])):
        content = make_pcap(part, magic=NANOSECONDS, link_type=link_type_of(CAPTURE))
        (tmp_path / f"ring.pcap{number}").write_bytes(content)
    dissect(None, [tmp_path], tmp_path / "dataset")
    site = tmp_path / "site"
    write_site(tmp_path / "dataset", site)
    assert exchanges_of(site) == kdissect.read(tmp_path / "dataset").to_arrow().num_rows
    connections = []
    for day in DAYS:
        data = data_of((site / f"{day}.html").read_bytes())
        assert {row["to"] for row in table_of(data, "clients_brokers")} == {"127.0.0.1:9092"}
        connections.append({row["connection_id"] for row in table_of(data, "connections")})
    assert connections[0] & connections[1]


@pytest.mark.parametrize(
    "state",
    [
        b"", b"{}", b"[1]", b'{"version": 1, "options": {}, "days": {"x": 1}}',
        json.dumps({"version": 1, "options": {}, "days": {"javascript:alert(1)": {
            "names": [], "row": {"day": "javascript:alert(1)", **dict.fromkeys((
                "exchanges", "errors", "bytes", "problems", "warnings", "first", "last", "worst",
            ), 0)}}}}).encode(),
    ],
)  # fmt: skip
def test_another_state_is_an_error(state: bytes, live: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "days.json").write_bytes(state)
    with pytest.raises(DatasetError, match=r"days\.json"):
        write_site(live, tmp_path / "site")


def test_mistakes_are_said(live: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_bytes(b"")
    assert run(["report", str(live), "--by", "day", "-o", str(tmp_path / "full")]) == MISUSED
    assert "is not empty; --force writes into it" in capfd.readouterr().err
    for words in (["--by", "day"], ["--every", "1s"]):
        assert run(["report", str(CAPTURE), *words, "-o", str(tmp_path / "new")]) == MISUSED
        assert "are for datasets and directories of live captures" in capfd.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_document_says_what_was_made(
    live: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(live), "--by", "day", "-o", str(tmp_path / "site"), "--json"]
    assert run(words) == ANSWERED
    said: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert (said["made"], said["kept"]) == (DAYS, [])
    assert said["exchanges"] == kdissect.read(live).to_arrow().num_rows


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--by", "day"], []])
def test_pages_are_renewed_until_a_signal(words: list[str], live: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    last = rotations_of(live)[-1]
    shutil.move(last, hidden)
    target = tmp_path / "made"
    page = target / "2026-11-22.html" if words else target
    command = ["report", str(live), *words, "-o", str(target), "--every", "200ms"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kdissect", *command],
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        first = changed(page, 0)
        shutil.move(hidden, last)
        assert changed(page, first) > first
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == ANSWERED
    finally:
        process.kill()
        process.communicate()
    number = kdissect.read(live).to_arrow().num_rows
    if words:
        assert exchanges_of(target) == number
    else:
        assert data_of(target.read_bytes())["totals"]["exchanges"] == number


def changed(path: Path, before: int) -> int:
    """When a file was written, once it was after another time."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if path.exists() and (now := path.stat().st_mtime_ns) > before:
            return now
        time.sleep(0.02)
    raise AssertionError(f"{path} has not changed")


@pytest.mark.slow
def test_the_calendar_leads_to_the_days_and_back(live: Path, tmp_path: Path, opened: Opens) -> None:
    site = tmp_path / "site"
    write_site(live, site, title="<b>x</b>")
    shown = opened(site / "index.html")
    assert serious(shown.page) == []
    (series,) = shown.page.evaluate(OF_PLOT, "calendar")["series"]
    rows = table_of(data_of((site / "index.html").read_bytes()), "days")
    drawn = {one["value"][0]: one["value"][1] for one in series["data"]}
    assert drawn == {row["day"]: row["exchanges"] for row in rows}
    place = shown.page.evaluate(
        "echarts.getInstanceByDom(document.getElementById('calendar'))"
        ".convertToPixel({calendarIndex: 0}, '2026-11-22')"
    )
    shown.page.locator("#calendar").click(position={"x": place[0], "y": place[1]})
    shown.page.wait_for_url((site / "2026-11-22.html").as_uri())
    shown.page.get_by_role("link", name="All days").click()
    shown.page.locator("#table-days a", has_text="2026-11-21").click()
    shown.page.wait_for_url((site / "2026-11-21.html").as_uri())
    assert shown.page.locator("h1 b").count() == 0
    assert shown.said == []
    assert all(url.startswith("file:") for url in shown.requests)
