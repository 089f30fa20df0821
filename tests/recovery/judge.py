"""Judge: compares the results of a faulty capture with the truth, byte by byte.

Everything is decided by stream positions. A byte *survives* when the capture holds it, before its
acknowledgment is old: nothing waits longer. A frame is *intact* when all its bytes survive. Where
a frame starts is *known* when the stream's SYN was captured and all size fields before it survive,
or the frame before it is known or shows itself; a frame *shows itself* when it is intact and a
request with a client id or a body of more than 8 bytes, or the response to a request that was
found. Of a connection whose requests neither have a client id nor show themselves nothing is due:
it could be anything. The verdict has a finding for

- phantom: an exchange that is not there, twice there, or made of two that are;
- wrong: a value that the surviving bytes do not say (`columns` asks it of every column, by what
  the whole capture has there);
- unexplained: a request with known start and surviving header that is not found, a response with
  known start and surviving header that does not answer its request;
- balance: captured bytes that are neither framed, skipped nor duplicate, or holes not counted.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kdissect.protocol.readers import NULL
from kdissect.streams.acknowledged import REORDER_NS
from kdissect.tables.schemas import TABLES as SCHEMAS
from kdissect.tables.schemas import TIME
from tests.exchange_builders import Found, Row
from tests.recovery.matching import Match, brief, match
from tests.recovery.seen import Case, Seen, seen_of
from tests.recovery.talks import (
    BROKER,
    CLIENT,
    FIRST_PORT,
    TABLES,
    Talk,
    TrueExchange,
    TrueFrame,
)

REQUEST_COLUMNS = ("api_key", "api", "api_version", "correlation_id", "client_id", "request_size")
# Values that depend on when and where packets were captured, beside times and durations.
PLACES = {
    "capture", "connection_id", "exchange_id", "request_packet", "response_packet", "retransmits",
}  # fmt: skip
# Values of a fetch session depend on its earlier requests and responses.
SESSION_COLUMNS = {"fetch_offset", "fetch_class"}
PARTS = ("framed", "skipped", "tls", "encrypted", "retransmitted", "duplicate_packet")
REQUEST_HEADER = 8  # bytes: key, version, correlation id
CLIENT_ID_END = 14  # bytes up to the length of the client id, size field included
SMALL_BODY = 8  # bytes; smaller frames may look like a request by chance


class Finding(NamedTuple):
    """A violation; `talk` is the number of the talk, -1 for the whole."""

    kind: str
    talk: int
    text: str


@dataclass
class Verdict:
    """Judgement: true exchanges found, and the findings."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, talk: int, text: str) -> None:
        self.findings.append(Finding(kind, talk, text))


def judge(case: Case, found: Found) -> Verdict:
    """Compare the results with the truth."""
    verdict = Verdict()
    seen = seen_of(case)
    matched, phantoms = match(case, found)
    for number, text in phantoms:
        verdict.add("phantom", number, text)
    for number, talk in enumerate(case.talks):
        judge_talk(number, talk, seen[number], matched[number], case.skips_sessions, verdict)
    judge_balance(case, seen, found, verdict)
    if not case.loses:
        for problem in found.tables["problems"]:
            verdict.add("wrong", -1, f"a problem where nothing is lost: {problem}")
    return verdict


# Required results


def known_frames(
    talk: Talk, side: int, seen: Seen, shows_itself: set[int], has_start: bool
) -> set[int]:
    """Positions of the frames with a known start; `shows_itself` are positions of frames."""
    known = set()
    is_known = has_start
    for frame in talk.frames[side]:
        is_known = is_known or frame.position in shows_itself
        if is_known:
            known.add(frame.position)
        is_known = is_known and seen.survives(frame.position, frame.position + 4)
    return known


def judge_talk(
    number: int,
    talk: Talk,
    seen: tuple[Seen, Seen],
    matches: Iterable[Match],
    skips_sessions: bool,
    verdict: Verdict,
) -> None:
    by_request = {match.true.request: match for match in matches if not match.is_orphan}
    orphans = {match.true.request: match for match in matches if match.is_orphan}
    due = Due(talk, seen, set(by_request))
    for true in talk.truth:
        verdict.counts["true"] += 1
        match = by_request.get(true.request)
        state, texts = (
            judge_missing(true, orphans.get(true.request), due)
            if match is None
            else judge_found(match, due, skips_sessions)
        )
        verdict.counts[state] += 1
        for kind, text in texts:
            verdict.add(kind, number, text)


Judged = tuple[str, list[tuple[str, str]]]
"""What an exchange counts as, and its findings: kind and text."""


def judge_missing(true: TrueExchange, orphan: Match | None, due: "Due") -> Judged:
    """An exchange whose request was not found, perhaps its response."""
    texts = []
    if orphan is not None:
        texts = [("wrong", text) for text in orphan_differences(orphan, due.answered)]
    if due.has_request(true):
        return "unexplained", [*texts, ("unexplained", f"not found: {brief(true.row)}")]
    return "lost" if orphan is None else "orphan", texts


def judge_found(match: Match, due: "Due", skips_sessions: bool) -> Judged:
    """An exchange whose request was found, perhaps with its response."""
    true = match.true
    is_intact = due.is_intact(true)
    wrong = list(differences(match, due.asked, due.answered, is_intact, skips_sessions))
    texts = [("wrong", f"{brief(match.row)}: {text}") for text in wrong]
    if due.has_response(true) and match.row["outcome"] != "answered":
        text = f"{brief(match.row)} was answered"
        return "unexplained", [*texts, ("unexplained", text)]
    if is_intact and match.row["outcome"] == true.row["outcome"]:
        return "wrong" if wrong else "right", texts
    return "in part", texts


class Due:
    """Exchanges that must be found of a talk: see the top of the module."""

    def __init__(self, talk: Talk, seen: tuple[Seen, Seen], found: set[TrueFrame]) -> None:
        self.asked, self.answered = seen
        self.found = found
        self.ids = Counter(true.row["correlation_id"] for true in talk.truth)
        evident = {
            true.request.position
            for true in talk.truth
            if self.asked.is_intact(true.request) and is_evident(true)
        }
        awaited = {
            true.response.position
            for true in talk.truth
            if true.response and true.request in found and self.answered.is_intact(true.response)
        }
        asked, answered = self.asked, self.answered
        self.requests = known_frames(talk, CLIENT, asked, evident, asked.has_syn)
        self.responses = known_frames(talk, BROKER, answered, awaited, answered.has_syn)
        if not is_proved(talk, asked):
            self.requests.clear()
            self.responses.clear()

    def is_intact(self, true: TrueExchange) -> bool:
        """Return whether all bytes of request and response survive."""
        response = true.response
        return self.asked.is_intact(true.request) and (
            response is None or self.answered.is_intact(response)
        )

    def has_request(self, true: TrueExchange) -> bool:
        """Return whether the start and the header, up to the client id, survive."""
        start = true.request.position
        end = start + min(4 + REQUEST_HEADER, 4 + true.request.size)
        return start in self.requests and self.asked.survives(start, end)

    def has_response(self, true: TrueExchange) -> bool:
        """Return whether the response's start is known and its header survives."""
        if true.response is None:
            return False
        start = true.response.position
        overtaken_ns = self.overtaken_ns(true)
        if overtaken_ns >= REORDER_NS:
            # Nothing waits so long: later bytes are retransmissions.
            return False
        if overtaken_ns >= 0 and self.ids[true.row["correlation_id"]] > 1:
            # Which of the requests with the same id it answers cannot be known.
            return False
        return start in self.responses and self.answered.survives(start, start + 8)

    def overtaken_ns(self, true: TrueExchange) -> int:
        """Lead of a response before the end of its request; less than 0: after it."""
        assert true.response is not None
        asked = self.asked.packet_of(true.request.end - 1)
        answer = self.answered.packet_of(true.response.position)
        if asked is None or answer is None or asked[0] < answer[0]:
            return -1
        return asked[1].time_ns - answer[1].time_ns


def is_proved(talk: Talk, asked: Seen) -> bool:
    """Return whether the requests show that the connection speaks Kafka: a client id, or whole
    and evident."""
    for true in talk.truth:
        start = true.request.position
        has_client = bool(true.row["client_id"]) and asked.survives(start, start + CLIENT_ID_END)
        if has_client or (asked.is_intact(true.request) and is_evident(true)):
            return True
    return False


def is_evident(true: TrueExchange) -> bool:
    """Return whether a request shows by itself that it is one."""
    row = true.row
    if row["decode_status"] != "ok":
        return False
    return row["client_id"] is not None or true.request.size > 10 + SMALL_BODY


# Values


def differences(
    match: Match, asked: Seen, answered: Seen, is_intact: bool, skips_sessions: bool
) -> Iterable[str]:
    """Values of the row that the surviving bytes do not support."""
    row, true = match.row, match.true.row
    yield from compared(row, true, REQUEST_COLUMNS, may_be_null=not is_intact)
    yield from timed(match, "request", asked, match.true.request)
    # Null: where responses may be missing, their absence is unknown.
    if row["outcome"] not in ("answered", true["outcome"], "unanswered", None):
        yield f"outcome {row['outcome']} was {true['outcome']}"
    if row["outcome"] == "answered":
        assert match.true.response is not None
        yield from compared(row, true, ("response_size",), may_be_null=False)
        yield from timed(match, "response", answered, match.true.response)
        if row["request_end"] is not None:
            latency = match.found.response_start - match.found.request_end
            # Where the response was captured first, the latency is not known.
            if row["latency_ns"] != (latency if latency >= 0 else None):
                yield f"latency {row['latency_ns']} is not {latency}"
    if is_intact and row["outcome"] == true["outcome"]:
        skipped = PLACES | TIMES | (SESSION_COLUMNS if skips_sessions else set())
        columns = [name for name in row if name not in skipped and not name.endswith("_ns")]
        if not answered.wires:
            # A response that was not captured proves nothing about the request.
            columns.remove("decode_status")
        if row["api"] == "ShareFetch" and "fetch_class" in columns:
            # Whether it waited is known from the records' own times, which are not those of the
            # talk.
            columns.remove("fetch_class")
        yield from compared(row, true, columns, may_be_null=False)
        for table in TABLES:
            mine, its = (
                plain(match.rows, table, skips_sessions),
                plain(match.true.rows, table, skips_sessions),
            )
            if mine != its:
                yield f"rows of {table}: {mine} are not {its}"
    else:
        for table in ("batches", "records", "errors"):
            its = plain(match.true.rows, table, skips_sessions)
            for mine in plain(match.rows, table, skips_sessions):
                if not any(is_part(mine, one) for one in its):
                    yield f"a row of {table} that is not true: {mine} in {its}"


def timed(match: Match, name: str, seen: Seen, frame: TrueFrame) -> Iterable[str]:
    """Times and packets of a frame, which are those of its first and last byte."""
    exchange = match.found
    start, end = (
        (exchange.request_start, exchange.request_end)
        if name == "request"
        else (exchange.response_start, exchange.response_end)
    )
    first = seen.packet_of(frame.position)
    assert first is not None
    if (match.row[f"{name}_packet"], start) != (first[0], first[1].time_ns):
        here = f"{name}_packet {match.row[f'{name}_packet']} at {start}"
        yield f"{here}: packet {first[0]} had the first byte"
    last = seen.time_of(frame.end - 1)
    if end != (NULL if last is None else last) and not (
        end == NULL and seen.is_late(frame.end - 1)
    ):
        yield f"{name}_end {end} is not {last}"


def compared(row: Row, true: Row, columns: Iterable[str], may_be_null: bool) -> Iterable[str]:
    for name in columns:
        if row[name] != true[name] and not (may_be_null and row[name] is None):
            yield f"{name} {row[name]} was {true[name]}"


TIMES = {column.name for column in SCHEMAS["exchanges"].columns if column.type == TIME}


def plain(rows: dict[str, list[Row]], table: str, skips_sessions: bool) -> list[Row]:
    """Rows without position-dependent values, in an order independent of position."""
    skipped = PLACES | (SESSION_COLUMNS if skips_sessions else set())
    found = []
    for row in rows.get(table, []):
        kept = {name: value for name, value in row.items() if name not in skipped}
        if kept.get("topic_id"):
            # The name of an id may be learnt in another exchange.
            kept.pop("topic")
        found.append(kept)
    return sorted(found, key=repr)


def is_part(row: Row, true: Row) -> bool:
    """Return whether all values of a row are true."""
    return all(value is None or value == true[name] for name, value in row.items())


def orphan_differences(match: Match, answered: Seen) -> Iterable[str]:
    """Wrong values of a response without request."""
    row, true = match.row, match.true
    assert true.response is not None
    found = list(compared(row, true.row, ("correlation_id", "response_size"), may_be_null=False))
    found += compared(row, true.row, ("api_key", "api", "api_version"), may_be_null=True)
    found += candidate_differences(row, true.row)
    found += timed(match, "response", answered, true.response)
    return [f"orphan {brief(row)}: {text}" for text in found]


def candidate_differences(row: Row, true: Row) -> Iterable[str]:
    """Differences unless the candidates of a response without request include the true one."""
    named = row.get("candidates")
    if not named or true["decode_status"] != "ok":
        return
    for one in named.split(", "):
        api, _, versions = one.rpartition(" ")
        first, _, last = versions.partition("-")
        versions_of = (true["api_version"], 0) if api == "ApiVersions" else (true["api_version"],)
        # A broker that does not know the requested version answers in version 0.
        if api == true["api"] and any(int(first) <= v <= int(last or first) for v in versions_of):
            return
    yield f"{true['api']} {true['api_version']} is not among {named}"


# The balance


def judge_balance(
    case: Case, seen: list[tuple[Seen, Seen]], found: Found, verdict: Verdict
) -> None:
    sums: dict[int, Counter[str]] = {}
    counts: Counter[int] = Counter()
    for row in found.tables["connections"]:
        port = row["client_port"]
        number = (row["broker_port"] if port == case.broker_port else port) - FIRST_PORT
        counts[number] += 1
        for way in ("to_broker", "to_client"):
            parts = [row[f"{name}_bytes_{way}"] for name in PARTS]
            if sum(parts) != row[f"payload_bytes_{way}"]:
                text = f"{way}: {row[f'payload_bytes_{way}']} are not {parts}"
                verdict.add("balance", number, text)
            sums.setdefault(number, Counter())["payload"] += row[f"payload_bytes_{way}"]
            sums[number]["missing"] += row[f"missing_bytes_{way}"]
    for number, sides in enumerate(seen):
        payload = sum(side.payload for side in sides)
        mine = sums.get(number, Counter())
        if mine["payload"] != payload:
            verdict.add("balance", number, f"{mine['payload']} bytes counted of {payload}")
        least = sum(side.lost_inside() for side in sides)
        most = sum(side.lost() for side in sides)
        # Packets after the end of a connection form a connection of their own.
        if counts[number] == 1 and not least <= mine["missing"] <= most:
            text = f"{mine['missing']} bytes missing, which are {least} to {most}"
            verdict.add("balance", number, text)
