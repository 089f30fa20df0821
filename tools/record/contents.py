"""The tables of captures in captures/README.md and the like below it, from the side-cars.

python -m tools.record.contents     put them there, between their two marks
"""

import json
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
DIRECTORIES = (CAPTURES, CAPTURES / "tls", CAPTURES / "networks")
BEGIN, END = "<!-- captures: begin -->\n", "<!-- captures: end -->\n"
SHOWS = {
    "quickstart": "a small shop's session; see below",
    "basics": "each client produces with every codec it has, consumes in a group and commits",
    "old-formats": "magic 0, 1 and 2, converted for old clients and old topics",
    "transactions": "commits, aborts, a relay of offsets, a fenced producer",
    "retries": "a broker that stops until requests time out, with and without idempotence",
    "groups": "classic groups: range, round robin, sticky, cooperative; static members; deletion",
    "consumer-groups": "groups of the consumer protocol (KIP-848): join, rebalance, leave",
    "share-groups": "share groups (KIP-932): fetched, accepted, released, rejected",
    "streams": "Kafka Streams in a classic group, two members",
    "streams-groups": "Kafka Streams in a streams group (KIP-1071), two members",
    "admin": "topics, configs, ACLs, quotas, SCRAM users, elections, log directories",
    "throttling": "quotas that throttle a producer and a consumer",
    "topic-configs": "log-append time, compaction, recompression, records refused",
    "telemetry": "subscriptions and pushes of client metrics (KIP-714)",
    "tracing": "records with trace contexts (traceparent) in their headers",
    "sasl": "every mechanism of each client; where Java is: every one refused, and a second login",
    "tokens": "a delegation token: made, described, renewed, used, expired",
    "cluster": "three brokers and the controllers: replication, reassignment, fail-over, markers",
    "quorum": "controllers: a snapshot of their log for a late broker, a leader that resigns",
    "voters": "controllers that join the quorum, and its leader that is removed",
    "incident-killed-member": "a member killed; its partitions wait for the session's end",
    "incident-static-member": "a static member comes back in time, and too late",
    "incident-slow-poller": "members busy for longer than max.poll.interval.ms; their lag",
    "incident-group-changes": "a join, more partitions, a new topic of the pattern, a leave",
    "incident-hanging-transaction": "a transactional producer killed; another one fenced",
    "incident-crashes": "consumers that lose or repeat records: commits too early, too late",
    "incident-old-clients": "clients of all ages, working or refused (KIP-896)",
    "client-latency": "a Java client that logs when it sent and received",
    "incident-slow-follower": "a follower that stands still: acks=all waits for it, acks=1 not",
    "incident-slow-leader": "one of three leaders stands still",
    "incident-leader-killed": "a leader is killed; no leader until its session expires",
    "incident-leader-stopped": "a leadership that is moved, then its new broker is shut down",
    "incident-lagging-follower": "a follower falls out of sync: who waits for it, who is refused",
    "incident-lost-answers": "answers to Produce get lost: written once or twice",
    "incident-lossy-network": "a switch that begins to lose packets",
    "tls12": "TLS 1.2, twelve suites: GCM, ChaCha20-Poly1305, CBC with SHA-1, 256 and 384",
    "tls12-old": "TLS 1.2 with session ids and without extended master secret",
    "tls13": "TLS 1.3, all its suites that Java has",
    "tls13-rekeyed": "TLS 1.3 with key updates, by the broker and in answer by the clients",
    "tls-sasl": "logins behind TLS, one of them refused; the keys are in the capture",
    "tls-resumed": "encrypt-then-MAC; sessions resumed by a ticket (1.2) and a PSK (1.3)",
    "tls-closed": "TLS 1.3 without keys",
    "ipv6": "IPv6 on the loopback",
    "bridged": "namespaces at a bridge; eight more views of the same session",
    "vxlan": "IPv6 in a VXLAN; a view from inside",
}
CLIENTS = ("kafka-clients", "kafka-streams", "librdkafka", "kafka-python", "aiokafka",
           "sarama", "franz-go", "kafkajs")  # fmt: skip


def table(directory: Path) -> str:
    """The rows of a directory's captures, quickstart first."""
    sidecars = [json.loads(path.read_text(encoding="utf-8")) for path in directory.glob("*.json")]
    sidecars.sort(key=lambda sidecar: (sidecar["scenario"] != "quickstart", order(sidecar)))
    lines = [
        "| capture | Kafka | clients | packets | what it shows |",
        "|---|---|---|---|---|",
        *map(row, sidecars),
    ]
    return "\n".join(lines) + "\n"


def order(sidecar: dict[str, Any]) -> tuple[str, list[int]]:
    """Sort key: scenario, then version."""
    return sidecar["scenario"], [int(part) for part in sidecar["software"]["kafka"].split(".")]


def row(sidecar: dict[str, Any]) -> str:
    """One line of the table."""
    name = sidecar["capture"]["file"].removesuffix(".pcapng")
    software, cluster = sidecar["software"], sidecar["cluster"]
    mode = {"kraft": "KRaft", "zookeeper": "ZooKeeper"}[cluster["mode"]]
    brokers = len(cluster["brokers"])
    kafka = f"{software['kafka']}, {mode}" + (f", {brokers} brokers" if brokers > 1 else "")
    clients = "; ".join(f"{name} {spoken(software[name])}" for name in CLIENTS if name in software)
    packets = sidecar["capture"]["packets"]
    return (
        f"| [{name}.pcapng]({name}.pcapng) | {kafka} | {clients} | {packets} "
        f"| {SHOWS[sidecar['scenario']]} |"
    )


def spoken(version: str | list[str]) -> str:
    """One version, or several."""
    return version if isinstance(version, str) else " and ".join(version)


def main() -> None:
    for directory in DIRECTORIES:
        readme = directory / "README.md"
        before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        text = before + BEGIN + table(directory) + END + after
        readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
