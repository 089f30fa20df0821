"""Versions that a release offers only with unstable.api.versions.enable, and where that is shown.

The truth comes from Kafka's own classes: of each release's kafka-clients, the APIs for which
`ApiMessageType.highestSupportedVersion(true)` is not `highestSupportedVersion(false)`. Releases
before 3.5 have no such versions. 4.2, 4.3 and 4.4 agree.
"""

import json
from pathlib import Path

import pytest

from kdissect.cli.program import run
from kdissect.protocol.apis import APIS, find_api
from tests.protocol.test_import_messages import RESPONSE, count_file, write
from tests.protocol.test_import_messages import run as import_messages

DOCS = Path(__file__).parents[2] / "docs" / "protocol.md"
SHARE_GROUPS = {
    "ShareGroupHeartbeat": 0, "ShareGroupDescribe": 0, "ShareFetch": 0, "ShareAcknowledge": 0,
    "InitializeShareGroupState": 0, "ReadShareGroupState": 0, "WriteShareGroupState": 0,
    "DeleteShareGroupState": 0, "ReadShareGroupStateSummary": 0,
}  # fmt: skip
KAFKAS_OWN: dict[str, dict[str, int]] = {
    "3.5": {"AddPartitionsToTxn": 4, "ConsumerGroupHeartbeat": 0},
    "3.6": {"OffsetCommit": 9, "ConsumerGroupHeartbeat": 0},
    "3.7": {"ConsumerGroupDescribe": 0},
    "3.8": {},
    "3.9": SHARE_GROUPS,
    "4.0": SHARE_GROUPS,
    "4.1": {
        "OffsetCommit": 10, "OffsetFetch": 10, "InitProducerId": 6, "StreamsGroupHeartbeat": 0,
        "StreamsGroupDescribe": 0,
    },
    "4.2": {"InitProducerId": 6},
    "4.3": {"InitProducerId": 6},
    "4.4": {"InitProducerId": 6},
}  # fmt: skip
NEWEST = "4.4"
COUNT = """
{ "apiKey": 7, "type": "request", "name": "CountRequest", "validVersions": "0-%d",
  "flexibleVersions": "2+", %s "fields": [{"name": "Limit", "type": "int32", "versions": "0+"}] }
"""
UNSTABLE = '"latestVersionUnstable": true,'


def expected() -> dict[tuple[str, int], str]:
    """Expected printing of each unstable version."""
    releases: dict[tuple[str, int], list[str]] = {}
    for release, versions in KAFKAS_OWN.items():
        for version in versions.items():
            releases.setdefault(version, []).append(release)
    return {
        version: f"{known[0]}+" if NEWEST in known else ", ".join(known)
        for version, known in releases.items()
    }


def test_the_schema_knows_every_unstable_version_and_no_other() -> None:
    found = {
        (api.name, version): api.definition().unstable_in(version)
        for api in APIS.values()
        for version in range(api.lowest, api.highest + 1)
        if api.definition().unstable_in(version)
    }
    assert found == expected()


def test_every_unstable_version_is_printed_so(capsys: pytest.CaptureFixture[str]) -> None:
    for (name, version), releases in expected().items():
        assert run(["protocol", name]) == 0
        lines = capsys.readouterr().out.splitlines()
        line = next(line for line in lines if line.startswith(f"  version {version} "))
        assert line.endswith(f"; unstable in {releases}")
        assert run(["protocol", name, str(version)]) == 0
        second = capsys.readouterr().out.splitlines()[1]
        assert second.startswith(f"unstable in Kafka {releases}: ")


def test_versions_that_are_stable_are_printed_without_the_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for api in APIS.values():
        assert run(["protocol", api.name]) == 0
        unstable = [line for line in capsys.readouterr().out.splitlines() if "unstable" in line]
        assert len(unstable) == sum(name == api.name for name, _ in expected())
    assert run(["protocol", "InitProducerId", "5"]) == 0
    assert "unstable" not in capsys.readouterr().out


def test_the_list_and_the_page_have_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = {row["name"]: row["unstable"] for row in rows if row["unstable"]}
    assert told == {name: find_api(name).definition().unstable_versions() for name, _ in expected()}
    assert told["InitProducerId"] == "6: 4.1+"
    assert told["OffsetCommit"] == "9: 3.6; 10: 4.1"
    page = DOCS.read_text("utf-8")
    for name, text in told.items():
        row = next(line for line in page.splitlines() if f"| {name} | " in line)
        assert f" | {text} | " in row


def imported(path: Path, *releases: tuple[str, int, bool]) -> list[str]:
    """The lines about releases after directories of these were imported in turn."""
    for number, (release, newest, is_unstable) in enumerate(releases):
        request = COUNT % (newest, UNSTABLE if is_unstable else "")
        response = RESPONSE % f"0-{newest}"
        place = write(path / str(number), CountRequest=request, CountResponse=response)
        assert import_messages(path, place, "--release", release) == 0
    lines = count_file(path).splitlines()
    return [line.strip() for line in lines if line.split()[0] in ("unstable", "releases")]


def test_the_importer_keeps_in_which_releases_a_version_was_unstable(tmp_path: Path) -> None:
    first = ("9.0", 2, False)
    assert imported(tmp_path / "a", first, ("9.1", 3, True)) == [
        "unstable",
        "releases 0 9.0+, 1 9.0+, 2 9.0+, 3 9.1+ unstable 9.1",
    ]
    assert imported(
        tmp_path / "b", first, ("9.1", 3, True), ("9.2", 3, True), ("9.3", 3, False)
    ) == ["releases 0 9.0+, 1 9.0+, 2 9.0+, 3 9.1+ unstable 9.1 9.2"]


def test_an_older_release_that_is_imported_later_changes_nothing(tmp_path: Path) -> None:
    newer = ("9.1", 3, True)
    known = imported(tmp_path / "a", newer)
    assert imported(tmp_path / "b", newer, ("9.0", 2, False)) == known
