"""Real traffic beside Kafka's: each port has the protocol in its side-car; nothing is a problem."""

import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.analysis.summary.summary import TABLES, summarise

OTHER = Path(__file__).parents[2] / "captures" / "other"
NAMES = ["beside", "proxied"]


def capture(name: str) -> Path:
    return OTHER / f"{name}.pcapng"


def sidecar(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((OTHER / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def connections(name: str) -> list[dict[str, Any]]:
    columns = ["broker_port", "protocol", "proxied_client_ip", "proxied_client_port",
               "broker_side_by", "exchanges"]  # fmt: skip
    return kdissect.read(capture(name), table="connections", columns=columns).to_arrow().to_pylist()


def test_all_captures_are_described() -> None:
    assert sorted(path.stem for path in OTHER.glob("*.pcapng")) == NAMES
    readme = (OTHER / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}.pcapng]({name}.pcapng)" in readme for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_side_car_is_about_its_capture(name: str) -> None:
    data = capture(name).read_bytes()
    told = sidecar(name)["capture"]
    assert (told["sha256"], told["size"]) == (hashlib.sha256(data).hexdigest(), len(data))


def test_each_port_speaks_its_protocol() -> None:
    ports = {int(port): name for port, name in sidecar("beside")["ports"].items()}
    rows = connections("beside")
    assert {row["broker_port"]: row["protocol"] for row in rows} == ports
    assert Counter(row["protocol"] for row in rows) == {
        "none": 5, "zookeeper": 2, "http": 1, "ssh": 1, "redis": 1, "rmi": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_a_problem_or_a_trouble(name: str) -> None:
    options = kdissect.Options(tables=TABLES)
    summary = summarise(kdissect.Run(capture(name), options))
    assert (summary.problems, summary.troubled, summary.errors) == ([], [], [])


def test_a_broker_with_zookeeper_gives_no_exchange_wherever_the_capture_begins() -> None:
    told = sidecar("beside")["capture"]["packets"]
    data = capture("beside").read_bytes()
    blocks = pcapng_blocks(data)
    assert sum(kind == 6 for kind, _ in blocks) == told
    for start in range(0, told, 12):
        some = b"".join(block for kind, block in skip_packets(blocks, start))
        table = kdissect.read(io.BytesIO(some), ports=[19181, 18999]).to_arrow()
        assert table.num_rows == 0


def pcapng_blocks(data: bytes) -> list[tuple[int, bytes]]:
    """Type and bytes of each block; editcap writes little-endian."""
    blocks = []
    at = 0
    while at < len(data):
        kind = int.from_bytes(data[at : at + 4], "little")
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        blocks.append((kind, data[at : at + size]))
        at += size
    return blocks


def skip_packets(blocks: list[tuple[int, bytes]], count: int) -> list[tuple[int, bytes]]:
    """The blocks without the first `count` packets."""
    seen = 0
    kept = []
    for kind, block in blocks:
        seen += kind == 6
        if kind != 6 or seen > count:
            kept.append((kind, block))
    return kept


def test_kafka_is_found_behind_proxies_and_their_health_checks_are_counted() -> None:
    rows = connections("proxied")
    by_port = Counter((row["broker_port"], row["protocol"]) for row in rows)
    assert by_port == {
        (18102, "kafka"): 1, (18104, "kafka"): 1, (18102, "proxy"): 9, (18104, "proxy"): 7,
    }  # fmt: skip
    kafka = [row for row in rows if row["protocol"] == "kafka"]
    assert [row["exchanges"] for row in kafka] == [2, 2]
    assert [row["proxied_client_ip"] for row in kafka] == ["127.0.0.1"] * 2
    assert all(row["proxied_client_port"] > 1024 for row in kafka)
    clients = kdissect.read(capture("proxied"), columns=["client_id", "api", "outcome"]).to_arrow()
    assert Counter(tuple(row.values()) for row in clients.to_pylist()) == {
        (f"shop-{version}", api, "answered"): 1
        for version in ("v1", "v2")
        for api in ("ApiVersions", "Metadata")
    }


def test_without_handshakes_kafka_behind_proxies_is_found_by_its_content() -> None:
    kept = [
        (kind, block)
        for kind, block in pcapng_blocks(capture("proxied").read_bytes())
        if kind != 6 or not is_syn(block)
    ]
    found = kdissect.read(io.BytesIO(b"".join(block for _, block in kept))).to_arrow()
    assert sorted(found["api"].to_pylist()) == ["ApiVersions"] * 2 + ["Metadata"] * 2


def is_syn(block: bytes) -> bool:
    """Block header (28 bytes), Ethernet (14), IPv4 (20), TCP flags at 13."""
    return bool(block[28 + 14 + 20 + 13] & 2)
