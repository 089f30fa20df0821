"""The answer of `upgrade` in a sentence, with advice for each client."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kdissect.analysis import releases
from kdissect.analysis.question import Overview
from kdissect.text.human import counted

Row = Mapping[str, Any]

# Libraries beside the Java client, from the release on of which KIP-896 took the versions that 4.0
# keeps; they ask brokers for versions and take the newest of both.
LIBRDKAFKA: Final = "librdkafka"
LIBRARIES: Final = {
    LIBRDKAFKA: (1, 8, 2), "sarama": (1, 30, 1), "kafka-python": (2, 0, 2),
    "kafkajs": (1, 15, 0),
}  # fmt: skip
BASELINE: Final = "4.0"
JAVA: Final = "apache-kafka-java"
BREAKS: Final = "breaks"
MAY_BREAK: Final = "may break"
BROKER: Final = "broker"
DEPRECATED: Final = "deprecated"
OLD_FORMAT: Final = "old format"
VERDICTS: Final = (BREAKS, MAY_BREAK, BROKER, DEPRECATED, OLD_FORMAT)  # worst first
MOST_CALLS: Final = 4  # that a line names


def overview_of(rows: Sequence[Row], total: int, by: Sequence[str], to: str) -> Overview:
    """The number of clients that break, and a row for each client with the advice for it."""
    clients: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["verdict"] != BROKER:
            clients.setdefault(tuple(row[name] for name in by), []).append(row)
    lines = []
    for key, own in clients.items():
        verdict = min((row["verdict"] for row in own), key=VERDICTS.index)
        those = [row for row in own if row["verdict"] == verdict]
        lines.append(
            dict(zip(by, key, strict=True)) | {"verdict": verdict, "advice": advice(those, to)}
        )
    lines.sort(key=lambda line: VERDICTS.index(line["verdict"]))
    return Overview(sentence([line["verdict"] for line in lines], total, to), lines)


def sentence(verdicts: Sequence[str], total: int, to: str) -> str:
    """The number of clients that break.

    >>> sentence(["breaks", "breaks", "may break", "deprecated"], 18, "4.0")
    '2 of 18 clients break on 4.0, 1 more may'
    >>> sentence([], 1, "4.0")
    '0 of 1 client break on 4.0'
    """
    breaking, possible = verdicts.count(BREAKS), verdicts.count(MAY_BREAK)
    said = f"{breaking} of {counted(total, 'client')} break{'s' * (breaking == 1)} on {to}"
    if possible:
        said += f", {possible} more may" if breaking else f", {possible} may"
    return said


def advice(rows: Sequence[Row], to: str) -> str:
    """The advice for a client, from its rows with its worst verdict."""
    verdict = rows[0]["verdict"]
    calls = named([f"{row['api']} {row['api_version']}" for row in rows])
    if verdict == OLD_FORMAT:
        return f"nothing: it reads old segments ({calls})"
    if verdict == DEPRECATED:
        return f"after the brokers, {upgraded(rows, to)}: a later release may lack {calls}"
    start = f"try it on {to}, or first" if verdict == MAY_BREAK else "before the brokers,"
    if missing := [row["api"] for row in rows if row["oldest"] is None]:
        return f"{start} change what it does with {named(missing)}: {to} does not have it"
    if all(row["api_version"] > row["oldest"] for row in rows) and verdict == MAY_BREAK:
        return f"try it on {to}: {calls} may be too new for it"
    if all(row["api_version"] >= row["oldest"] for row in rows):
        return f"{start} {upgraded(rows, to)}: {to} takes message format 2 only"
    return f"{start} {upgraded(rows, to)}: {to} lacks {calls}"


def upgraded(rows: Sequence[Row], to: str) -> str:
    """``upgrade librdkafka (1.6.0) to 1.8.2 or newer``, as far as the library is known."""
    software, version = rows[0]["software"], rows[0]["software_version"]
    name = software or "its library"
    name += f" ({version})" if software and version else ""
    known = LIBRARIES.get(software)
    if known is not None and releases.numbers(to) >= releases.numbers(BASELINE):
        return f"upgrade {name} to {'.'.join(map(str, known))} or newer"
    release = releases.RELEASES[max(map(place_needed, rows))]
    if software == JAVA:
        return f"upgrade {name} to {release} or newer"
    setting = ", or end the setting that keeps it at old ones" if all(map(had_newer, rows)) else ""
    return f"upgrade {name} to one with the versions of Kafka {release}{setting}"


def place_needed(row: Row) -> int:
    """Index of the first release with a version that the target release has, not deprecated."""
    keep = row["api_version"] + 1 if row["verdict"] == DEPRECATED else row["oldest"] or 0
    return releases.first_places().get(f"{row['api']} {keep}", 0)


def had_newer(row: Row) -> bool:
    """Return whether the broker of a client is known to support what the target release needs."""
    at = row["broker_release"]
    return at is not None and releases.RELEASES.index(at) >= place_needed(row)


def named(names: Sequence[str]) -> str:
    """Names as a list that fits on a line.

    >>> named(["Fetch 3", "Produce 1", "Produce 2", "Metadata 0", "JoinGroup 0", "Heartbeat 0"])
    'Fetch 3, Produce 1, Produce 2, Metadata 0 and 2 more'
    """
    kept = list(dict.fromkeys(names))
    more = f" and {len(kept) - MOST_CALLS} more" if len(kept) > MOST_CALLS else ""
    return ", ".join(kept[:MOST_CALLS]) + more
