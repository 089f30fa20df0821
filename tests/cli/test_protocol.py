import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kdissect.cli.program import run
from kdissect.protocol.apis import APIS


def test_every_api_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = [row["name"] for row in rows if row["vendor"] is None]
    assert names == [api.name for api in APIS.values()]
    assert rows[1] == {
        "key": 1,
        "name": "Fetch",
        "vendor": None,
        "versions": f"0-{APIS[1].highest}",
        "first_release": "0.8.0",
        "newest_since": "4.1",
        "flexible_from": 12,
        "headers": "1-2/0-1",
        "unstable": None,
        "listeners": "zkBroker broker controller",
        "former_names": None,
    }


def test_the_layout_of_a_version_is_in_wire_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", "heartbeat", "4"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["Heartbeat", "(API", "key", "12)", "version", "4,", "flexible"],
        [],
        ["request", "(header", "v2)"],
        ["group_id", "string"],
        ["generation_id", "int32"],
        ["member_id", "string"],
        ["group_instance_id", "string", "may", "be", "null,", "default", "null"],
        [],
        ["response", "(header", "v1)"],
        ["throttle_time_ms", "int32"],
        ["error_code", "int16"],
    ]


def test_an_api_is_found_by_its_former_name_and_key(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("ListOffset", "2"):
        assert run(["protocol", word]) == 0
        assert capsys.readouterr().out.startswith("ListOffsets (API key 2)\n")


def test_vendor_apis_are_named_after_the_vendor(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(row["key"], row["vendor"], row["name"]) for row in rows if row["vendor"]]
    assert (501, "AutoMQ", "AutoMQ-CreateStreams") in told
    assert (501, "Inkless", "Inkless-AlterDisklessSwitch") in told
    assert all(name.startswith(f"{vendor}-") for _, vendor, name in told)
    assert run(["protocol", "501"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "AutoMQ-CreateStreams (API key 501 of AutoMQ); no layout is known",
        "Inkless-AlterDisklessSwitch (API key 501 of Inkless); no layout is known",
    ]
    assert run(["protocol", "inkless-RepairDisklessLog"]) == 0
    assert capsys.readouterr().out.startswith("Inkless-RepairDisklessLog (API key 502 of Inkless)")
    assert run(["protocol", "499"]) == 2


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: str(api.name))
def test_every_layout_can_be_printed(api: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", str(api.key)]) == 0  # type: ignore[attr-defined]
    assert run(["protocol", str(api.key), str(api.highest)]) == 0  # type: ignore[attr-defined]
    assert capsys.readouterr().err == ""


def test_an_unknown_api_or_version_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", "Fletch"]) == 2
    assert capsys.readouterr().err == (
        "kdissect: no API 'Fletch'; did you mean 'Fetch'? all are listed by: kdissect protocol\n"
    )
    assert run(["protocol", "Fetch", "99"]) == 2
    assert "has versions 0-" in capsys.readouterr().err


def test_the_list_goes_into_files_of_every_format(tmp_path: Path) -> None:
    assert run(["protocol", "-o", str(tmp_path / "apis.parquet")]) == 0
    assert run(["protocol", "-o", str(tmp_path / "apis.csv")]) == 0
    names = pq.read_table(tmp_path / "apis.parquet")["name"].to_pylist()
    assert "Produce" in names
    assert len((tmp_path / "apis.csv").read_text().splitlines()) == len(names) + 1


def test_formats_are_of_the_list_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["protocol", "Fetch", "--format", "json"]) == 2
    assert "--format and -o are for the list of all APIs" in capsys.readouterr().err
