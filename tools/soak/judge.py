"""Compares the counts of clients with the rows of a live capture that was disturbed.

Each response that a client received must be an answered row of its own, once. It may be missing
only where it happened, at least in part, during an outage of the capture.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tools.soak.journal import Asked, Session

ANSWERED = "answered"
SHOWN = 20


class Outage(NamedTuple):
    """Times in which packets were not seen or may be lost; ns since 1970."""

    kind: str
    begin_ns: int
    end_ns: int


class Row(NamedTuple):
    """Columns compared of a row of `exchanges`."""

    client_id: str
    correlation_id: int
    outcome: str


class Finding(NamedTuple):
    """A violation."""

    kind: str
    text: str


class Verdict(NamedTuple):
    """Counts of sessions and exchanges, by name, and the violations."""

    counts: Counter[str]
    findings: list[Finding]

    @property
    def holds(self) -> bool:
        return not self.findings


Key = tuple[str, int]  # client id, correlation id
Seen = dict[Key, list[str]]  # the outcomes of its rows


def judged(sessions: Sequence[Session], rows: Iterable[Row], outages: Sequence[Outage]) -> Verdict:
    """Judge everything. Rows of clients outside the soak are ignored."""
    seen: Seen = {}
    for row in rows:
        seen.setdefault((row.client_id, row.correlation_id), []).append(row.outcome)
    verdict = Verdict(Counter(), [])
    for session in sessions:
        _judge(session, seen, outages, verdict)
    _judge_strangers(seen, sessions, verdict)
    return verdict


def _judge(session: Session, seen: Seen, outages: Sequence[Outage], verdict: Verdict) -> None:
    counts = verdict.counts
    is_clear = not _overlapping(outages, session.opened_ns, session.closed_ns)
    counts["sessions"] += 1
    counts["clear sessions"] += is_clear
    for asked in session.asked:
        outcomes = seen.get((session.client_id, asked.correlation_id), [])
        if len(outcomes) > 1:
            name = f"{session.client_id} {asked.correlation_id}"
            text = f"{name} is in the tables {len(outcomes)} times: {' and '.join(outcomes)}"
            verdict.findings.append(Finding("twice", text))
        if not asked.answered_ns:
            continue
        counts["answered"] += 1
        counts["answered in clear sessions"] += is_clear
        if ANSWERED in outcomes:
            counts["in the tables"] += 1
        else:
            _judge_missing(session, asked, outcomes, outages, verdict)


def _judge_missing(
    session: Session,
    asked: Asked,
    outcomes: list[str],
    outages: Sequence[Outage],
    verdict: Verdict,
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
    told = "where no outage was"
    if nearest is not None:
        after = (asked.sent_ns - nearest.end_ns) / 1e9
        told = f"{after:+.3f} s after the end of an outage ({nearest.kind})"
    took = (asked.answered_ns - asked.sent_ns) / 1e9
    text = (
        f"{session.client_id} {asked.correlation_id} of {len(session.asked)}, api {asked.api}, "
        f"sent {told}, answered after {took:.3f} s; {cuts(session, outages)}; "
        f"in the tables it is {' and '.join(outcomes) or 'not at all'}"
    )
    verdict.findings.append(Finding("lost", text))


def cuts(session: Session, outages: Sequence[Outage]) -> str:
    """Outages during a session."""
    found = _overlapping(outages, session.opened_ns, session.closed_ns)
    kinds = " and ".join(outage.kind for outage in found)
    return f"a session cut by {kinds}" if found else "a clear session"


def _judge_strangers(seen: Seen, sessions: Sequence[Session], verdict: Verdict) -> None:
    """Rows of exchanges that no client made."""
    asked = {
        (session.client_id, one.correlation_id) for session in sessions for one in session.asked
    }
    names = {session.client_id for session in sessions}
    for client_id, number in seen:
        if client_id in names and (client_id, number) not in asked:
            text = f"{client_id} {number} was never asked"
            verdict.findings.append(Finding("never asked", text))


def _overlapping(outages: Sequence[Outage], begin_ns: int, end_ns: int) -> list[Outage]:
    return [one for one in outages if one.begin_ns <= end_ns and begin_ns <= one.end_ns]


def summary(verdict: Verdict) -> list[str]:
    """A table, and its first violations."""
    lines = [f"{name:<36}{count:>12,}".replace(",", " ") for name, count in verdict.counts.items()]
    kinds = Counter(finding.kind for finding in verdict.findings)
    lines += [f"{'FINDINGS: ' + kind:<36}{count:>12}" for kind, count in kinds.items()]
    lines += [f"  {finding.kind}: {finding.text}" for finding in verdict.findings[:SHOWN]]
    return lines
