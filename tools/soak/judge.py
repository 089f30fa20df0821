"""Compares what clients counted with the rows of a live capture that was disturbed.

What a client has an answer to must be a row of its own, answered, once. It may be missing only
where it happened, at least in part, during an outage of the capture.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tools.soak.journal import Asked, Session

ANSWERED = "answered"
SHOWN = 20


class Outage(NamedTuple):
    """When the capture could not see, or what it saw may be lost; ns since 1970."""

    kind: str
    begin_ns: int
    end_ns: int


class Row(NamedTuple):
    """What is asked of a row of `exchanges`."""

    client_id: str
    correlation_id: int
    outcome: str


class Finding(NamedTuple):
    """Something that must not be."""

    kind: str
    text: str


class Verdict(NamedTuple):
    """Counts of sessions and exchanges, by name, and what must not be."""

    counts: Counter[str]
    findings: list[Finding]

    @property
    def holds(self) -> bool:
        return not self.findings


def judged(sessions: Sequence[Session], rows: Iterable[Row], outages: Sequence[Outage]) -> Verdict:
    """All of it. Rows of clients that are nobody's of the soak's are left out of account."""
    seen = Counter(row for row in rows if row.client_id.startswith("soak-"))
    verdict = Verdict(Counter(), [])
    by_key = Counter[tuple[str, int]]()
    for row, count in seen.items():
        by_key[row.client_id, row.correlation_id] += count
    for session in sessions:
        _judge(session, seen, by_key, outages, verdict)
    _judge_strangers(by_key, sessions, verdict)
    return verdict


def _judge(
    session: Session,
    seen: Counter[Row],
    by_key: Counter[tuple[str, int]],
    outages: Sequence[Outage],
    verdict: Verdict,
) -> None:
    counts = verdict.counts
    is_clear = not _overlapping(outages, session.opened_ns, session.closed_ns)
    counts["sessions"] += 1
    counts["clear sessions"] += is_clear
    for asked in session.asked:
        key = (session.client_id, asked.correlation_id)
        if by_key[key] > 1:
            text = f"{key[0]} {key[1]} is in the tables {by_key[key]} times"
            verdict.findings.append(Finding("twice", text))
    for asked in session.answered:
        counts["answered"] += 1
        counts["answered in clear sessions"] += is_clear
        if seen[Row(session.client_id, asked.correlation_id, ANSWERED)]:
            counts["in the tables"] += 1
            continue
        _judge_missing(session, asked, outages, verdict)


def _judge_missing(
    session: Session, asked: Asked, outages: Sequence[Outage], verdict: Verdict
) -> None:
    excuses = _overlapping(outages, asked.sent_ns, asked.answered_ns)
    verdict.counts["missing"] += 1
    if excuses:
        verdict.counts[f"missing: {excuses[0].kind}"] += 1
        return
    nearest = min(
        (outage for outage in outages),
        key=lambda outage: abs(outage.end_ns - asked.sent_ns),
        default=None,
    )
    told = "no outage at all"
    if nearest is not None:
        after = (asked.sent_ns - nearest.end_ns) / 1e9
        told = f"{after:+.3f} s after the end of an outage ({nearest.kind})"
    text = f"{session.client_id} {asked.correlation_id}, api {asked.api}, sent {told}"
    verdict.findings.append(Finding("lost", text))


def _judge_strangers(
    by_key: Counter[tuple[str, int]], sessions: Sequence[Session], verdict: Verdict
) -> None:
    """Rows of what no client ever asked."""
    asked = {
        (session.client_id, one.correlation_id) for session in sessions for one in session.asked
    }
    names = {session.client_id for session in sessions}
    for client_id, number in by_key:
        if client_id in names and (client_id, number) not in asked:
            text = f"{client_id} {number} was never asked"
            verdict.findings.append(Finding("never asked", text))


def _overlapping(outages: Sequence[Outage], begin_ns: int, end_ns: int) -> list[Outage]:
    return [one for one in outages if one.begin_ns <= end_ns and begin_ns <= one.end_ns]


def summary(verdict: Verdict) -> list[str]:
    """A table, and the first of what must not be."""
    lines = [f"{name:<36}{count:>12,}".replace(",", " ") for name, count in verdict.counts.items()]
    kinds = Counter(finding.kind for finding in verdict.findings)
    lines += [f"{'FINDINGS: ' + kind:<36}{count:>12}" for kind, count in kinds.items()]
    lines += [f"  {finding.kind}: {finding.text}" for finding in verdict.findings[:SHOWN]]
    return lines
