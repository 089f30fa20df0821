"""Snapshots as they would be of a broker with much to do, and of clients that mean harm."""

from dataclasses import replace

from kdissect.live.counting.snapshot import (
    ConnectionRate,
    CurrentFinding,
    DegradedConnection,
    Failing,
    Focus,
    Grouped,
    PartitionLag,
    ProblemMessage,
    Slow,
    Snapshot,
    Timed,
)
from kdissect.live.listener import Status
from kdissect.pipeline import Balance
from kdissect.sources.packet_source import Counts
from kdissect.text.escape import escaped

NOW_NS = 1_795_327_200_000_000_000  # 2026-11-22 06:00:00Z
MS = 1_000_000
S = 1_000_000_000
HOSTILE = (
    "\x1b]0;owned\x07\x1b[31mred\x1b[2J",
    "two\r\nlines\tand a tab",
    "[bold red]markup[/] [@click=app.quit]quit[/]",
    "注文サービス" * 6,
    "reads \u202egpj.exe",
    "lone \udcff surrogate",
    "x" * 500,
    "",
)


def timed(name: str, rate: float, p50_ns: int = 2 * MS, errors: float = 0.0) -> Timed:
    return Timed(
        name, rate, errors, rate * 1234, rate * 9876, p50_ns, p50_ns * 3, p50_ns * 8, p50_ns * 20
    )


APIS = (
    timed("Produce", 8123.4, 3 * MS),
    timed("Fetch", 3201.0, 502 * MS),
    timed("OffsetCommit", 120.5, 4 * MS, 0.75),
    timed("Heartbeat", 44.2, MS // 2),
    timed("Metadata", 3.1, MS),
    timed("JoinGroup", 0.4, 3 * S),
    timed("ConsumerGroupHeartbeat", 0.0667, 180 * MS),
    Timed("ControlledShutdown", 0.0167, 0.0, 2.0, 0.0, -1, -1, -1, -1),
)
CLIENTS = (
    timed("orders-service-producer-1", 5100.0),
    timed("payments", 1210.0, 11 * MS),
    timed("rdkafka", 310.0, 700 * MS, 0.2),
    timed("", 2.0, MS),
)
TOPICS = (
    timed("orders", 5100.0),
    timed("payments.dead-letters.retry-5m", 12.0, 240 * MS, 0.2),
    timed("__consumer_offsets", 120.0),
)
ERRORS = (
    Failing(
        "NOT_LEADER_OR_FOLLOWER", "Produce", 42, 0.7, True, NOW_NS - 3 * S, "payments", "orders"
    ),
    Failing("GROUP_AUTHORIZATION_FAILED", "JoinGroup", 3, 0.05, False, NOW_NS - 40 * S, "bi", ""),
)
CONNECTIONS = (
    DegradedConnection(
        7, "payments", "10.0.0.7:51812", "10.0.0.1:9092", 12, 1, 0, 0, 3, 2300 * MS, "Produce"
    ),
    DegradedConnection(
        9, "bi", "[2001:db8::9]:40022", "[2001:db8::1]:9092", 0, 0, 14_480, 2, 0, -1, ""
    ),
)
GROUPS = (
    Grouped("billing", 18, 4, 71, "JoinGroup", NOW_NS - S, True, 48_211, 12),
    Grouped("reports", 3, 2, 5, "LeaveGroup", NOW_NS - 31 * S, False),
)
PARTITIONS = (
    PartitionLag("orders", 3, 9_120_441, 412.5, "billing", 9_072_230, 48_211, 2),
    PartitionLag("orders", 0, 8_004_002, 407.1, "reports", 8_004_002, 0, 2),
    PartitionLag("payments.dead-letters.retry-5m", 11, 12, 0.2, "", -1, -1, 0),
)
RATES = (
    ConnectionRate(7, "payments", "10.0.0.7:51812", "10.0.0.1:9092", 1210.0, 0.2, 1.5e6, 1.2e4,
                   88 * MS, NOW_NS - MS),
    ConnectionRate(11, "", "10.0.0.9:40999", "10.0.0.1:9092", 0.0, 0.0, 0.0, 0.0, -1, 0),
)  # fmt: skip
MESSAGES = (
    ProblemMessage("skipped-bytes", "framing", "skipped 1 448 bytes until the next frame of "
                   "10.0.0.7:51812 → 10.0.0.1:9092", NOW_NS - 4 * S, 7),
)  # fmt: skip
FINDINGS = (
    CurrentFinding("produce-latency-slow-follower", "problem", "produce requests with acks=all "
                   "wait 1.8 s for a follower of orders-3", NOW_NS - 95 * S),
)  # fmt: skip
SLOWEST = tuple(
    Slow(
        4_200_000 + number,
        NOW_NS - number * 700 * MS,
        "Produce" if number % 3 else "Fetch",
        CLIENTS[number % 4].name,
        TOPICS[number % 3].name,
        (2500 - 40 * number) * MS,
        12 * MS * (number % 5),
        0 if number % 3 else 400 * MS,
        16_384 + number,
        58,
        "" if number % 7 else "REQUEST_TIMED_OUT",
        f"10.0.0.{number}:5{number:04}",
    )
    for number in range(50)
)
BALANCE = Balance(
    packets=12_000_000,
    captured_bytes=9_000_000_000,
    payload_bytes=8_000_000_000,
    framed_bytes=8_000_000_000,
    skipped_bytes=0,
    duplicate_bytes=0,
    tls_bytes=0,
    encrypted_bytes=0,
    missing_bytes=14_480,
    connections=900,
    encrypted_connections=0,
    exchanges=4_200_000,
    packets_by_reason={},
    protocols={"kafka": 900},
    problems={"lost-packets": 3},
)
STANDING = Status(
    NOW_NS, BALANCE, Counts(12_000_000, 0), 0.02, 312, memory=190_000_000, cpu_seconds=100.0
)
SNAPSHOT = Snapshot(
    status=STANDING,
    focus=Focus(),
    window_s=60.0,
    is_sampled=False,
    whole=timed("", 11_492.7, 3 * MS, 0.95),
    packets_rate=40_210.0,
    apis=APIS,
    clients=CLIENTS,
    topics=TOPICS,
    errors=ERRORS,
    connections=CONNECTIONS,
    groups=GROUPS,
    slowest=SLOWEST,
    problems=(),
    partitions=PARTITIONS,
    connection_rates=RATES,
    connections_seen=312,
)
TROUBLED = SNAPSHOT._replace(
    status=STANDING._replace(
        packet_source=Counts(12_000_000, 45_300), backlog=0.83, level=2, shed={"records": 120_000}
    ),
    is_sampled=True,
    window_s=12.0,
    problems=(("dropped-packets", 3), ("skipped-bytes", 1)),
    problem_messages=MESSAGES,
    current_findings=FINDINGS,
)


def hostile() -> Snapshot:
    """Every name is one that clients may send and that would do harm where it is printed."""
    names = HOSTILE
    return SNAPSHOT._replace(
        apis=tuple(timed(name, 9.0 - number) for number, name in enumerate(names)),
        clients=tuple(timed(name, 9.0 - number) for number, name in enumerate(names)),
        topics=tuple(timed(name, 9.0 - number) for number, name in enumerate(names)),
        errors=tuple(row._replace(error=name, api=name, client=name, topic=name)
                     for row in ERRORS[:1] for name in names),
        connections=tuple(
            row._replace(connection_id=number, client=name, client_address=name, waiting_api=name)
            for row in CONNECTIONS[:1]
            for number, name in enumerate(names)
        ),
        groups=tuple(row._replace(group_id=name, last_event=name)
                     for row in GROUPS[:1] for name in names),
        slowest=tuple(
            row._replace(api=name, client=name, topic=name, error=name, client_address=name)
            for row, name in zip(SLOWEST, names, strict=False)
        ),
        problems=tuple((name, 1) for name in names),
        partitions=tuple(row._replace(topic=name, group=name)
                         for row in PARTITIONS[:1] for name in names),
        connection_rates=tuple(
            row._replace(connection_id=number, client=name, client_address=name)
            for row in RATES[:1]
            for number, name in enumerate(names)
        ),
        problem_messages=tuple(ProblemMessage(name, "live", name, 0, -1) for name in names),
        current_findings=tuple(CurrentFinding(name, name, name, NOW_NS) for name in names),
    )  # fmt: skip


def is_harmless(text: str) -> bool:
    """Nothing is in it that a terminal would act on."""
    return escaped(text) == text


def focused(snapshot: Snapshot, focus: Focus) -> Snapshot:
    """The snapshot with those rows alone that the focus names."""
    return snapshot._replace(
        focus=focus,
        apis=tuple(row for row in snapshot.apis if focus.api in ("", row.name)),
        clients=tuple(row for row in snapshot.clients if focus.client in ("", row.name)),
        topics=tuple(row for row in snapshot.topics if focus.topic in ("", row.name)),
        slowest=tuple(
            row
            for row in snapshot.slowest
            if focus.client in ("", row.client) and focus.api in ("", row.api)
        ),
    )


NOTHING = Snapshot(
    status=STANDING._replace(
        balance=replace(BALANCE, exchanges=0, packets=1200),
        open_connections=3,
        packet_source=Counts(),
    ),
    focus=Focus(),
    window_s=1.0,
    is_sampled=False,
    whole=Timed("", 0.0, 0.0, 0.0, 0.0, -1, -1, -1, -1),
    packets_rate=0.0,
    apis=(),
    clients=(),
    topics=(),
    errors=(),
    connections=(),
    groups=(),
    slowest=(),
    problems=(),
)
