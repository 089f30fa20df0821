"""Verdicts of the soak on correct and incorrect tables."""

import time

import pyarrow as pa
from pyarrow import parquet

import kdissect
from tests.conversation import conversation
from tools.soak import requests
from tools.soak.journal import Asked, Session, read_journal, to_line
from tools.soak.judge import Finding, Outage, Row, judged, summary
from tools.soak.looking import Looking

SECOND = 1_000_000_000


def session(number, begin_s, asked=4, answered=4, seconds=4):
    """One request a second, each answered after half of it."""
    every = tuple(
        Asked(
            at + 1,
            3,
            int((begin_s + at) * SECOND),
            int((begin_s + at + 0.5) * SECOND) if at < answered else 0,
        )
        for at in range(asked)
    )
    begin, end = int(begin_s * SECOND), int((begin_s + seconds) * SECOND)
    return Session(f"soak-0-{number}", begin, end, every)


def rows_of(*sessions, outcome="answered"):
    return [
        Row(one.client_id, asked.correlation_id, outcome)
        for one in sessions
        for asked in one.answered
    ]


FIRST, SECOND_ONE = session(1, 100), session(2, 110)
BOTH = [FIRST, SECOND_ONE]
OUTAGE = Outage("kill -9", 111 * SECOND, 112 * SECOND)


def test_tables_with_all_that_was_answered_hold():
    verdict = judged(BOTH, rows_of(*BOTH), [OUTAGE])
    assert verdict.holds
    assert dict(verdict.counts) == {
        "sessions": 2, "clear sessions": 1, "answered": 8, "answered in clear sessions": 4,
        "in the tables": 8,
    }  # fmt: skip


def test_a_row_that_lacks_is_found():
    verdict = judged(BOTH, rows_of(*BOTH)[1:], [])
    told = (
        "soak-0-1 1 of 4, api 3, sent where no outage was, answered after 0.500 s; "
        "a clear session; in the tables it is not at all"
    )
    assert verdict.findings == [Finding("lost", told)]


def test_a_row_that_lacks_during_an_outage_is_excused():
    rows = rows_of(*BOTH)
    # Sent at 110, 111, 112 and 113, each answered after half a second.
    assert judged(BOTH, [*rows[:5], *rows[7:]], [OUTAGE]).holds
    verdict = judged(BOTH, rows[:-1], [OUTAGE])
    told = (
        "soak-0-2 4 of 4, api 3, sent +1.000 s after the end of an outage (kill -9), answered "
        "after 0.500 s; a session cut by kill -9; in the tables it is not at all"
    )
    assert verdict.findings == [Finding("lost", told)]


def test_a_row_twice_is_found_also_during_an_outage():
    rows = rows_of(*BOTH)
    verdict = judged(BOTH, [*rows, rows[5]], [OUTAGE])
    assert verdict.findings == [
        Finding("twice", "soak-0-2 2 is in the tables 2 times: answered and answered")
    ]


def test_a_row_answered_and_once_more_without_an_answer_is_found():
    rows = rows_of(*BOTH)
    verdict = judged(BOTH, [*rows, rows[0]._replace(outcome="unanswered")], [])
    assert verdict.findings == [
        Finding("twice", "soak-0-1 1 is in the tables 2 times: answered and unanswered")
    ]


def test_a_row_without_the_answer_is_not_enough():
    verdict = judged([FIRST], rows_of(FIRST, outcome="unanswered"), [])
    assert [finding.kind for finding in verdict.findings] == ["lost"] * 4


def test_unacknowledged_operations_may_have_any_outcome_but_duplication():
    cut = session(3, 120, answered=2)
    unanswered = Row("soak-0-3", 3, "unanswered")
    assert judged([cut], rows_of(cut), []).holds
    assert judged([cut], [*rows_of(cut), unanswered], []).holds
    assert not judged([cut], [*rows_of(cut), unanswered, unanswered], []).holds


def test_row_without_a_request_is_detected():
    rows = [*rows_of(*BOTH), Row("soak-0-1", 99, "answered"), Row("another", 1, "answered")]
    verdict = judged(BOTH, rows, [])
    assert verdict.findings == [Finding("never asked", "soak-0-1 99 was never asked")]


def test_the_summary_counts_and_shows_findings():
    lines = summary(judged(BOTH, rows_of(*BOTH)[:-1], []))
    assert lines == [
        "sessions                                       2",
        "clear sessions                                 2",
        "answered                                       8",
        "answered in clear sessions                     8",
        "in the tables                                  7",
        "missing                                        1",
        "FINDINGS: lost                                 1",
        "  lost: soak-0-2 4 of 4, api 3, sent where no outage was, answered after 0.500 s; "
        "a clear session; in the tables it is not at all",
    ]


def test_a_journal_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(to_line(one) for one in BOTH))
    assert read_journal(path) == BOTH


def test_requests_of_the_clients_are_decoded(tmp_path):
    bodies = {
        requests.PRODUCE: requests.produce("soak", 100),
        requests.FETCH: requests.fetch("soak", 7, 100, 1000),
        requests.METADATA: requests.metadata("soak"),
        requests.API_VERSIONS: b"",
    }
    frames = [
        requests.framed(api, requests.VERSIONS[api], number, "soak-0-1", body)
        for number, (api, body) in enumerate(bodies.items(), 1)
    ]
    path = tmp_path / "requests.pcap"
    path.write_bytes(conversation().open().client(*frames).close().pcap())
    columns = ["api", "api_version", "correlation_id", "client_id", "topic_count", "decode_status"]
    found = kdissect.read(path, columns=columns).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("Produce", 3, 1, "soak-0-1", 1, "ok"),
        ("Fetch", 4, 2, "soak-0-1", 1, "ok"),
        ("Metadata", 4, 3, "soak-0-1", 1, "ok"),
        ("ApiVersions", 0, 4, "soak-0-1", 0, "ok"),
    ]


def rotation(output, name, tables):
    directory = output / "20261122T060000Z" / name
    directory.mkdir(parents=True)
    for table in tables:
        parquet.write_table(pa.table({"a": [1]}), directory / f"{table}.parquet")
    return directory


def test_a_look_finds_files_that_are_not_whole(tmp_path):
    looking = Looking(tmp_path)
    rotation(tmp_path, "000001-20261122T060000Z", ["exchanges", "problems"])
    rotation(tmp_path, ".making-000002-20261122T060100Z", ["exchanges"])
    looking.look()
    assert (looking.files, looking.broken) == (2, [])
    broken = rotation(tmp_path, "000002-20261122T060100Z", ["exchanges"]) / "problems.parquet"
    broken.write_bytes(b"PAR1")
    looking.look()
    assert looking.files == 4
    assert [str(broken) in text for text in looking.broken] == [True]


def test_a_look_finds_rotations_that_came_table_by_table(tmp_path):
    looking = Looking(tmp_path)
    directory = rotation(tmp_path, "000001-20261122T060000Z", ["exchanges"])
    looking.start()
    deadline = time.monotonic() + 10
    while not looking.files and time.monotonic() < deadline:
        time.sleep(0.01)
    parquet.write_table(pa.table({"a": [1]}), directory / "problems.parquet")
    looking.stop()
    had, has = ["exchanges.parquet"], ["exchanges.parquet", "problems.parquet"]
    assert looking.broken == [f"{directory}: had {had}, has {has}"]
