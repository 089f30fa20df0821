"""Findings about clients: their connections, requests and versions."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.rules.conditions import among, least, some
from kdissect.rules.context import Context, number
from kdissect.rules.evidence_rows import CLIENT, Chosen, Row, Rows
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from kdissect.rules.formatting import (
    client_of,
    clients_of,
    column_of,
    counted_list,
    listed,
    named,
    their,
    up_to,
)
from kdissect.rules.latency_rules import MOVED
from kdissect.text.human import count, counted, duration, share

FEW: Final = 3
# A capture that is shorter does not show whether a broker was just starting.
STARTING_NS: Final = 10 * SECOND_NS
NAMED: Final = 2  # old clients that are reported one by one
GREETED: Final = 0.8  # share of resets
CHURN: Final = 20
SHORT_NS: Final = 10 * SECOND_NS
OFTEN: Final = 100
METADATA_SHARE: Final = 0.2
POLLS_PER_SECOND: Final = 20
BATCHES_PER_SECOND: Final = 20  # of fewer, those of a few milliseconds are one each
EMPTY: Final = 0.9
SINGLE: Final = 0.8
SKEWED: Final = 0.5
SKEWED_PARTITIONS: Final = 3
SKEWED_BYTES: Final = 1_000_000
FAILED: Final = some("refused", "no_answer")  # connections of a client to a broker
VERDICTS: Final = {"breaks": "client-breaks-on-4.0", "may break": "client-may-break-on-4.0"}


def refusals(seen: Context) -> Iterator[Finding]:
    """Brokers that are unreachable, temporarily or permanently."""
    by_broker = seen.grouped("health", lambda row: str(row["broker"]), FAILED)
    failing = [
        broker
        for broker, rows in by_broker.items()
        if rows.total("refused") + rows.total("no_answer") >= FEW
    ]
    served = seen.largest("health", "exchanges", "broker", failing) if failing else {}
    for is_there in (False, True):
        brokers = [broker for broker in failing if is_there == (broker in served)]
        if brokers:
            rows = seen.chosen("health", FAILED & among("broker", brokers))
            is_sure = not is_there and seen.span_ns >= STARTING_NS
            yield _refused(brokers, rows, is_there, PROBLEM if is_sure else WARNING)


def _refused(brokers: list[str], rows: Chosen, is_there: bool, severity: str) -> Finding:
    refused, silent = rows.total("refused"), rows.total("no_answer")
    parts = [f"refused {counted(refused, 'connection')}"] if refused else []
    parts += [f"did not answer {counted(silent, 'connection attempt')}"] if silent else []
    addresses = list(dict.fromkeys(str(row["client_ip"]) for row in rows))
    number = rows.distinct("client_ip", len(addresses))
    ending = "; other connections succeeded" if is_there else "; no connection succeeded"
    return Finding(
        "broker-refuses-connections",
        severity,
        f"{listed(brokers, 'broker')} {' and '.join(parts)} from "
        f"{listed(addresses, 'address', number)}"
        f"{ending}",
        {"refused": refused, "no_answer": silent},
        {"brokers": brokers} | counted_list("client_ips", addresses, number),
    )


def churn(seen: Context) -> Iterator[Finding]:
    """Clients that reconnect repeatedly, to a broker that accepts connections."""
    rows = seen.chosen_named(
        "health",
        least(reconnects=CHURN),
        lambda row: (
            number(row, "life_p50_ns") <= SHORT_NS
            and (number(row, "exchanges") or seen.signs.is_one_way)
        ),
    )
    if rows:
        yield Finding(
            "connection-churn",
            WARNING,
            f"{clients_of(rows)} reconnected {counted(rows.total('reconnects'), 'time')}; the "
            f"median connection lasted {up_to(rows)}{duration(rows.largest('life_p50_ns'))}",
            {
                "reconnects": rows.total("reconnects"),
                "life_p50_ns": rows.largest("life_p50_ns"),
            },
            their(rows) | column_of("brokers", "broker", rows),
        )


def resets(seen: Context) -> Iterator[Finding]:
    """Connections reset by brokers."""
    rows = seen.chosen("health", some("reset_by_broker"))
    cut = rows.total("reset_by_broker")
    if cut >= FEW:
        brokers = list(dict.fromkeys(str(row["broker"]) for row in rows))
        text = f"{listed(brokers, 'broker', rows.distinct('broker', len(brokers)))} reset "
        text += f"{counted(cut, 'connection')} of {clients_of(rows)}"
        greetings = unanswered_greetings(seen)
        is_turned_away = greetings >= max(FEW, GREETED * cut)
        if is_turned_away:
            text += (
                f"; {counted(greetings, 'first request')} (ApiVersions) got no response: it may "
            )
            text += "have reached its connection limit, or speak another protocol"
        yield Finding(
            "connections-reset",
            PROBLEM if is_turned_away else WARNING,
            text,
            {"reset_by_broker": cut, "unanswered": greetings if is_turned_away else 0},
            their(rows) | column_of("brokers", "broker", rows),
        )


def unanswered_greetings(seen: Context) -> int:
    """Requests without an answer with which a client begins a connection."""
    greeting = seen.apis.get("ApiVersions")
    in_flight = seen.signs.in_flight(seen.summary.totals.last_time_ns or 0)["ApiVersions"]
    return 0 if greeting is None or seen.signs.is_one_way else greeting.unanswered - in_flight


def metadata(seen: Context) -> Iterator[Finding]:
    """Clients that request metadata too often."""
    asked = refused_elsewhere(seen)
    rows = seen.chosen_named(
        "traffic", least(metadata=OFTEN), lambda row: _is_storm(seen, row, asked)
    )
    if rows:
        times = rows.total("metadata")
        yield Finding(
            "metadata-storm",
            WARNING,
            f"{clients_of(rows)} requested metadata {counted(times, 'time')} "
            f"({_rate(seen, times)}), compared with "
            f"{counted(rows.total('produces'), 'produce request')} and "
            f"{counted(rows.total('fetches'), 'fetch')}",
            {"metadata": times},
            their(rows),
        )


def refused_elsewhere(seen: Context) -> Counter[tuple[str | None, str | None]]:
    """Client at address → its requests to a broker that does not lead, after which it must look."""
    found: Counter[tuple[str | None, str | None]] = Counter()
    for row in seen.every("errors", among("error", MOVED)):
        if row["api"] != "Metadata":
            found[row["client"], row["client_ip"]] += number(row, "exchanges")
    return found


def _is_storm(seen: Context, row: Row, asked: Counter[tuple[str | None, str | None]]) -> bool:
    rest = number(row, "produces") + number(row, "fetches")
    times = number(row, "metadata") - asked[row["client"], row["client_ip"]]
    is_often = times >= OFTEN and times * SECOND_NS >= seen.span_ns
    return is_often and times >= METADATA_SHARE * rest


def empty_polls(seen: Context) -> Iterator[Finding]:
    """Consumers in a busy loop of empty fetches."""
    rows = seen.chosen_named(
        "traffic",
        least(empty=EMPTY, fetches=OFTEN),
        lambda row: number(row, "fetches") * SECOND_NS >= POLLS_PER_SECOND * seen.span_ns,
    )
    if rows:
        times, empty = rows.total("fetches"), weighted(rows, "empty", "fetches")
        yield Finding(
            "empty-polls",
            NOTICE,
            f"{clients_of(rows)} fetched {counted(times, 'time')} ({_rate(seen, times)}); "
            f"{share(empty, 1)} of the responses were empty",
            {"fetches": times, "empty": empty},
            their(rows),
        )


def _rate(seen: Context, times: int) -> str:
    return f"{times * SECOND_NS / seen.span_ns:,.1f}/s" if seen.span_ns else "at once"


def weighted(rows: Rows, of: str, by: str) -> float:
    """The share `of` of kept rows together: the average, weighted by the column `by`."""
    return sum((row[of] or 0) * number(row, by) for row in rows) / sum(
        number(row, by) for row in rows
    )


def lonely_records(seen: Context) -> Iterator[Finding]:
    """Producers that do not batch."""
    rows = seen.chosen_named(
        "traffic",
        least(batches=OFTEN, single=SINGLE),
        lambda row: number(row, "batches") * SECOND_NS >= BATCHES_PER_SECOND * seen.span_ns,
    )
    if rows:
        single = weighted(rows, "single", "batches")
        yield Finding(
            "single-record-batches",
            NOTICE,
            f"{clients_of(rows)} sent {share(single, 1)} of "
            f"{counted(rows.total('batches'), 'batch')} with a single record",
            {"batches": rows.total("batches"), "single": single},
            their(rows),
        )


def skew(seen: Context) -> Iterator[Finding]:
    """Topics with a hot partition."""
    for row in seen.rows("skew"):
        top, partitions = row["top_share"] or 0, row["partitions"] or 0
        is_large = (row["produced_bytes"] or 0) >= SKEWED_BYTES and partitions >= SKEWED_PARTITIONS
        if is_large and top >= SKEWED and top * partitions >= 2:
            yield Finding(
                "partition-skew",
                NOTICE,
                f"{row['top_partition']} received {share(top, 1)} of the bytes produced to "
                f"{row['topic']} ({counted(partitions, 'partition')})",
                {"share": top, "partitions": partitions},
                {"topic": row["topic"], "partition": row["top_partition"]},
            )


def recompressed(seen: Context) -> Iterator[Finding]:
    """Topics with records that brokers recompress."""
    rows = seen.chosen("skew", wanted=is_recompressed)
    if rows:
        first = rows[0]
        topics = list(dict.fromkeys(named(row["topic"]) for row in rows))
        yield Finding(
            "broker-recompresses",
            NOTICE,
            f"Brokers recompress {listed(topics, 'topic', rows.distinct('topic', len(topics)))}"
            f": produced with {first['produced_codecs']}, fetched with "
            f"{first['fetched_codecs']}",
            {},
            {"topics": topics},
        )


def is_recompressed(row: Row) -> bool:
    """Return whether a topic was produced and fetched with entirely different codecs."""
    produced = set((row["produced_codecs"] or "").split(", ")) - {""}
    fetched = set((row["fetched_codecs"] or "").split(", ")) - {""}
    return bool(produced and fetched) and not produced & fetched


def upgrades(seen: Context) -> Iterator[Finding]:
    """Clients that Kafka 4.0 does not support."""
    for verdict, id_ in VERDICTS.items():
        if rows := seen.chosen("upgrade", among("verdict", [verdict])):
            yield _upgrade(id_, rows, verdict == "breaks")


def _upgrade(id_: str, rows: Chosen, is_certain: bool) -> Finding:
    by_client: dict[str, Rows] = {}
    for row in rows:
        by_client.setdefault(client_of(row), Rows()).append(row)
    clients = rows.distinct(CLIENT, len(by_client))
    parts = [_old(client, those) for client, those in list(by_client.items())[:NAMED]]
    word = "break" if is_certain else "may break"
    if clients == 1:
        text = f"{parts[0]} and {'breaks' if is_certain else word} on Kafka 4.0"
    else:
        rest = f"; and {count(clients - NAMED)} more" if clients > NAMED else ""
        text = f"{counted(clients, 'client')} {word} on Kafka 4.0: {'; '.join(parts)}{rest}"
    # Brokers without the version close the connection: they run that release already.
    refused = rows.total("unanswered")
    is_refused = is_certain and refused >= FEW
    if is_refused:
        text += f"; {counted(refused, 'request')} of these clients and versions already got no "
        text += "response: brokers closed their connections"
    return Finding(
        id_,
        PROBLEM if is_refused else WARNING if is_certain else NOTICE,
        text,
        {
            "clients": clients,
            "exchanges": rows.total("exchanges"),
            "unanswered": refused if is_refused else 0,
        },
        their(rows) | {"versions": [f"{row['api']} v{row['api_version']}" for row in rows[:20]]},
        rows.earliest("first_time"),
        rows.latest("last_time"),
    )


def _old(client: str, rows: Rows) -> str:
    software = " ".join(part for part in (rows[0]["software"], rows[0]["software_version"]) if part)
    versions = [f"{named(row['api'])} v{row['api_version']}" for row in rows]
    return f"{client}{f' ({software})' if software else ''} uses {listed(versions, 'version')}"


RULES: Final = (
    refusals, churn, resets, metadata, empty_polls, lonely_records, skew, recompressed, upgrades,
)  # fmt: skip
