"""The notebooks run from top to bottom, and their results match the recorder's notes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kdissect.protocol.apis import find_api
from kdissect.protocol.error_codes import error_name
from tests.analysis.from_sidecars import tables_of_sidecar
from tests.spark.conftest import java  # noqa: F401  # a fixture
from tools.notebooks import DIRECTORY, run

LARGEST = 200_000  # bytes; plots are small
NAMES = ("errors", "latency", "rebalances", "spark", "upgrade")


def found(name: str, expression: str) -> Any:
    """Value of an expression at the end of a notebook, through JSON."""
    cell = f"import json\nprint(json.dumps({expression}))"
    notebook = run(DIRECTORY / f"{name}.ipynb", cell)
    return json.loads(notebook.cells[-1].outputs[0].text)


@pytest.mark.slow
def test_latency_finds_the_broker_that_was_stopped() -> None:
    told = found(
        "latency",
        '{"client": worst["client_id"], "api": worst["api"], "silence_ms": silence_ms,'
        ' "sent": worst["request_start"].value, "end": end.value}',
    )
    ((start, end),) = [tuple(row.values()) for row in tables_of_sidecar("quickstart")["pauses"]]
    assert (told["client"], told["api"]) == ("slow-rd", "Produce")
    assert start <= told["sent"] < end
    assert end < told["end"] < end + 50_000_000
    assert told["silence_ms"] > 0.95 * (end - told["sent"]) / 1e6


@pytest.mark.slow
def test_errors_are_those_that_the_broker_logged() -> None:
    told = found("errors", 'errors.groupby("error")["errors"].sum().astype(int).to_dict()')
    logged: Counter[str] = Counter()
    for exchange in tables_of_sidecar("quickstart")["exchanges"]:
        logged.update(error_name(code) for _, code in exchange["errors"])
    assert told == dict(logged)


@pytest.mark.slow
def test_rebalances_are_the_generations_that_the_broker_gave() -> None:
    told = found(
        "rebalances",
        'rebalances.dropna(subset="generation")[["group_id", "generation"]].values.tolist()',
    )
    given = {
        (row["group"], row["generation"])
        for row in tables_of_sidecar("groups-4.3.1")["memberships"]
        if find_api("JoinGroup").key == row["api_key"] and row["error_code"] == 0
    }
    assert {(group, int(generation)) for group, generation in told} == given


@pytest.mark.slow
def test_upgrade_finds_clients_that_use_removed_versions() -> None:
    told = found(
        "upgrade",
        '[upgrade[upgrade["verdict"] != "broker"][["client_id", "api", "api_version", "oldest",'
        ' "verdict"]].fillna("").values.tolist()]',
    )[0]
    oldest = {api: first for _, api, _, first, _ in told}
    sent = {
        (row["client_id"] or "", find_api(row["api_key"]).name, row["api_version"])
        for row in tables_of_sidecar("basics-0.10.2.2")["exchanges"]
    }
    # They were recorded by sarama 1.61 and librdkafka 2.16, whose versions 4.0 keeps.
    known = ("sarama-", "librdkafka-")
    expected = {
        one for one in sent if one[2] < oldest.get(one[1], 0) and not one[0].startswith(known)
    }
    gone = {tuple(row[:3]) for row in told if row[4] in ("breaks", "may break")}
    assert expected
    assert gone == expected


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_spark_finds_the_broker_that_was_stopped_and_when() -> None:
    told = found(
        "spark",
        '{"finding": worst.id, "text": worst.text, "slowest": stalls["capture"].tolist(),'
        ' "sent": stalls["request_start"].map(lambda one: one.value).tolist(),'
        ' "work": stalls["work_ns"].tolist(), "waits": waits.iloc[0]["tap"]}',
    )
    notes = tables_of_sidecar("incident-slow-leader-4.3.1")
    pauses = sorted(tuple(row.values()) for row in notes["pauses"])
    assert told["finding"] == "broker-stalls"
    assert told["text"].startswith("Broker 127.0.0.3:39092 stalled for up to 1 s: ")
    assert {path.split("/")[0] for path in told["slowest"]} == {"broker-3"} == {told["waits"]}
    # Each of the three was answered when one of the pauses ended.
    ends = [sent + work for sent, work in zip(told["sent"], told["work"], strict=True)]
    assert len(pauses) == 3
    for (_, end), answered in zip(pauses, sorted(ends), strict=True):
        assert abs(answered - end) < 50_000_000


def test_there_are_no_others() -> None:
    assert sorted(path.stem for path in DIRECTORY.glob("*.ipynb")) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_small_and_has_its_plots(name: str) -> None:
    text = Path(DIRECTORY, f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert len(text) <= LARGEST
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_imports_no_stage(name: str) -> None:
    notebook = json.loads(Path(DIRECTORY, f"{name}.ipynb").read_text(encoding="utf-8"))
    code = "".join("".join(cell["source"]) for cell in notebook["cells"])
    assert "import kdissect\n" in code
    assert "kdissect." in code
    assert "from kdissect" not in code.replace("from kdissect import plot\n", "")
    assert "import kdissect." not in code
