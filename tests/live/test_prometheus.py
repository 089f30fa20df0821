"""Every panel of the dashboard, and every rule, asked of a Prometheus that scrapes kdissect."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from kdissect.live.counting.metric_declarations import METRICS
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.watcher import Watcher
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import exchange, given, handed, status
from tests.live.replays import CAPTURES
from tests.live.test_alerts import ROOT, RULES
from tests.live.test_metrics import served

LISTENS = "0A"  # state of a socket in /proc/net/tcp
POLL_S = 0.05
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: kdissect
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
CAPTURE = "cluster-3.9.1.pcapng"
# What that capture has not: throttled and failing clients, TLS, a generation, zero windows.
ROWS = {
    "exchanges": [exchange(1, throttle_ms=50, error_count=1)],
    "errors": [{"exchange_id": 1, "name": "NOT_LEADER_OR_FOLLOWER", "topic": "orders"}],
    "members": [{"exchange_id": 1, "group_id": "g", "event": "join", "generation": 1}],
    "problems": [{"kind": "tls-alert",
                  "message": "the client ended TLS by the alert unknown_ca (48)"}],
    "connections": [{"connection_id": 1, "zero_windows_to_broker": 9,
                     "retransmitted_segments_to_client": 9}],
}  # fmt: skip


def busy() -> MetricsListener:
    """Metrics of a capture, and of rows with whatever it has not."""
    metrics = MetricsListener(labels=1_000)
    metrics.findings = lambda: [("broker-slow", "problem")]
    with RecordedSource(CAPTURES / CAPTURE) as packet_source:
        Watcher(packet_source, [metrics]).run()
    given(metrics, handed(ROWS))
    metrics.tick(status(10**6, problems={"late": 1}, shed={"records": 1}))
    return metrics


@contextmanager
def prometheus(
    directory: Path, port: int, *words: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Prometheus that scrapes that port, after its own address."""
    config = directory / "prometheus.yml"
    config.write_text(CONFIG.format(rules=RULES, port=port))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}",
               "--web.listen-address=127.0.0.1:0", *words]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            address = f"127.0.0.1:{port_of(running)}"
            while not is_ready(address):
                wait(running)
            yield address, running
        finally:
            running.terminate()


def port_of(running: subprocess.Popen[bytes]) -> int:
    """The port that a process listens on, as soon as it does."""
    while True:
        own = sockets_of(running.pid)
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and f"socket:[{fields[9]}]" in own:
                return int(fields[1].rpartition(":")[2], 16)
        wait(running)


def is_ready(address: str) -> bool:
    """Return whether it answers queries: it listens earlier."""
    try:
        with urlopen(f"http://{address}/-/ready", timeout=60):  # loopback
            return True
    except HTTPError as error:
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            return False
        raise


def wait(running: subprocess.Popen[bytes]) -> None:
    """Wait for a moment, in which the process is not to end."""
    with suppress(subprocess.TimeoutExpired):
        raise AssertionError(f"Prometheus ended with {running.wait(POLL_S)}")


def sockets_of(process: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(link.readlink()))
    return found


def ask(address: str, path: str, **values: str) -> Any:
    with urlopen(
        f"http://{address}/api/v1/{path}?{urlencode(values)}", timeout=60
    ) as answer:  # loopback
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]


def panels() -> list[tuple[str, str]]:
    """Title and expression of each query."""
    board = json.loads((ROOT / "docs" / "grafana" / "kdissect.json").read_text())
    return [
        (panel["title"], target["expr"])
        for panel in board["panels"]
        for target in panel.get("targets", [])
    ]


def values_of(address: str, expression: str) -> list[Any]:
    asked = expression.replace("$instance", ".*").replace("$__rate_interval", "1m")
    found: list[Any] = ask(address, "query", query=asked)["result"]
    return found


@pytest.mark.slow
@pytest.mark.prometheus
def test_prometheus_answers_each_panel_and_loads_each_rule(tmp_path: Path) -> None:
    """From its second page of kdissect on, which has more than zeros."""
    with served(busy()) as server, prometheus(tmp_path, server.port) as (address, running):
        counted = "sum(increase(kdissect_exchanges_total[1m])) > 0"
        while not values_of(address, counted) or "unknown" in healths(address):
            wait(running)
        silent = {title for title, expression in panels() if not values_of(address, expression)}
        found = healths(address)
        names = set(ask(address, "label/__name__/values"))
    assert silent == set()
    assert found == ["ok"] * RULES.read_text().count("- alert:")
    assert {series for metric in METRICS for series in metric.series} <= names


def healths(address: str) -> list[str]:
    """State of each rule: ok, err, or unknown before it was evaluated."""
    (group,) = ask(address, "rules")["groups"]
    return [rule["health"] for rule in group["rules"]]
