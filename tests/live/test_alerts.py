"""Alerts for Prometheus, tested by promtool, and panels of the dashboard while all is well."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from kdissect.live.counting.metric_declarations import METRICS

ROOT = Path(__file__).parent.parent.parent
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
CASES = RULES.with_name("rules-test.yml")
# A healthy host: totals without labels, and no series with a label of an error or problem.
HEALTHY = (
    "kdissect_build_info", "kdissect_all_errors_total", "kdissect_all_unanswered_total",
)  # fmt: skip
QUIET = {
    "Error codes", "Without an answer", "Errors by API", "Errors by client", "Errors by topic",
    "Problems", "Not made", "Topics by bytes produced", "Topics by bytes fetched",
    "Topics by records", "Throttle time by client", "Rebalances by group", "Findings",
    "Lag by group", "Who loses packets, or does not read",
}  # fmt: skip


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def alerts(text: str) -> list[str]:
    return re.findall(r"- alert: (\w+)", text)


@pytest.mark.promtool
def test_rules_are_valid() -> None:
    assert f"{len(alerts(RULES.read_text()))} rules found" in promtool("check", "rules", str(RULES))


@pytest.mark.promtool
def test_each_alert_fires_in_its_incident_alone_and_is_silent_in_a_healthy_hour() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(CASES))


def test_each_alert_has_an_incident_a_runbook_and_metrics_that_exist() -> None:
    rules = RULES.read_text()
    names = alerts(rules)
    assert names == re.findall(r"- name: (K\w+)", CASES.read_text())
    assert names == re.findall(r"^### (\w+)$", (ROOT / "docs" / "metrics.md").read_text(), re.M)
    assert [name.lower() for name in names] == re.findall(
        r"runbook_url: docs/metrics\.md#(\w+)", rules
    )
    known = {series for metric in METRICS for series in metric.series}
    assert set(re.findall(r"kdissect_\w+", rules)) <= known


@pytest.mark.promtool
def test_panels_of_errors_show_0_while_all_is_well(tmp_path: Path) -> None:
    board = json.loads((ROOT / "docs" / "grafana" / "kdissect.json").read_text())
    expressions = {
        panel["title"]: panel["targets"][0]["expr"].replace("$instance", ".*").replace(
            "$__rate_interval", "5m")
        for panel in board["panels"] if panel["title"] in QUIET
    }  # fmt: skip
    assert expressions.keys() == QUIET
    asked = [
        {"expr": one, "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": 0}]}
        for one in expressions.values()
    ]
    values = {"kdissect_build_info": "1x10"}
    series = [
        {"series": f'{name}{{instance="broker"}}', "values": values.get(name, "0x10")}
        for name in HEALTHY
    ]
    case = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    path = tmp_path / "panels.yml"  # JSON is YAML
    path.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [case]}))
    assert "SUCCESS" in promtool("test", "rules", str(path))
