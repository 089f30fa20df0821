"""Sentences that were once false, made from packets: true, nearly true, and false cases."""

from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding
from tests.analysis.made_incidents import fetched, rejoin, rejoin_newly
from tests.analysis.taps import MS, Talk, Tap
from tests.exchange_builders import request
from tests.messages.record_builders import make_batch, make_record

Values = dict[str, Any]


def written(topic: str = "orders", acks: int = -1, partition: int = 0) -> Values:
    records = make_batch([make_record(b"value")])
    part = {"index": partition, "records": records}
    return {"acks": acks, "topic_data": [{"name": topic, "partition_data": [part]}]}


def stored(topic: str = "orders", offset: int = 0, error: int = 0, partitions: int = 1) -> Values:
    parts = [
        {"index": number, "base_offset": offset, "error_code": error}
        for number in range(partitions)
    ]
    return {"responses": [{"name": topic, "partition_responses": parts}]}


def beats(talk: Talk, times_ms: list[float], took_ms: float = 0.5) -> None:
    for at_ms in times_ms:
        asked = {"group_id": "crew", "generation_id": 1, "member_id": "m"}
        talk.call(at_ms, took_ms, "Heartbeat", 3, asked)


def worse(found: dict[str, Finding]) -> dict[str, str]:
    return {id_: one.severity for id_, one in found.items() if one.severity != NOTICE}


@pytest.mark.parametrize(
    ("answered_at_ms", "acks", "said"),
    [
        # Another client is answered all the time: acks=all waits for a follower.
        ([2_100.0 + 100 * number for number in range(14)], -1, {}),
        # Once in between: no half second is silent.
        ([2_450.0, 2_900.0, 3_350.0], -1, {}),
        ([], -1, {"broker-stalls": WARNING}),
        ([], 1, {"broker-stalls": PROBLEM}),
    ],
)
def test_a_broker_stalls_when_it_answers_no_client(
    answered_at_ms: list[float], acks: int, said: dict[str, str], tmp_path: Path
) -> None:
    tap = Tap()
    writers = [Talk(tap, f"till-{number}", number) for number in (1, 2)]
    for writer in writers:
        for number in range(20):
            asked, told = written(acks=acks), stored(offset=number)
            writer.call(100 + 50 * number, 2, "Produce", 8, asked, told)
        writer.call(2_010, 1_600, "Produce", 8, written(acks=acks), stored(offset=20))
    beats(Talk(tap, "clerk", 9), [500.0, 1_000.0, 1_500.0, *answered_at_ms, 3_800.0])
    assert worse(tap.findings(tmp_path)) == said


@pytest.mark.parametrize(
    ("directions", "said"),
    [((True, False), {"broker-refuses-connections": PROBLEM}), ((True,), {}), ((False,), {})],
)
def test_connections_are_refused_where_both_directions_were_captured(
    directions: tuple[bool, ...], said: dict[str, str], tmp_path: Path
) -> None:
    """SYNs without an answer, or the resets that they got."""
    tap = Tap(directions=directions)
    for number in range(6):
        talk = Talk(tap, "till", number, broker=2, at_ms=2_000.0 * number, opens=False)
        talk._packet(2_000.0 * number, True, 2)
        talk._packet(2_000.0 * number + 0.1, False, 4)
    writer = Talk(tap, "till", 77)
    for number in range(30):
        writer.call(100 + 400 * number, 2, "Produce", 8, written(), stored(offset=number))
    found = tap.findings(tmp_path)
    assert {id_: one for id_, one in worse(found).items() if id_ != "capture-loses-packets"} == said
    assert "requests-unanswered" not in found


AGAIN_MS = (2_000.0, 2_200.0, 2_600.0, 3_400.0, 5_000.0)


@pytest.mark.parametrize(
    ("again_ms", "acknowledged_ms", "is_told"),
    [
        (AGAIN_MS, 0, True),
        # One retransmission less; or acknowledged before the last.
        (AGAIN_MS[:4], 0, False),
        (AGAIN_MS, 3_500.0, False),
        # A paused process: its host acknowledges at once, and it answers late or never.
        (AGAIN_MS[:1], 2_000.1, False),
    ],
)
def test_a_host_that_acknowledges_nothing_is_told_from_a_process_that_is_silent(
    again_ms: tuple[float, ...], acknowledged_ms: float, is_told: bool, tmp_path: Path
) -> None:
    tap = Tap()
    other, talk = Talk(tap, "till", 1), Talk(tap, "till", 1_000, broker=2)
    for number in range(30):
        other.call(100 + 300 * number, 2, "Produce", 8, written(), stored(offset=number))
    talk.call(500, 2, "Produce", 8, written(partition=1), stored(offset=7))
    asked = request("Produce", 8, 2, "till", **written(partition=1))
    first = [each for each in again_ms if not acknowledged_ms or each < acknowledged_ms]
    talk.say_again(True, asked, *first, acknowledged_ms=acknowledged_ms)
    talk.say_again(True, b"", *again_ms[len(first) :])
    found = tap.findings(tmp_path)
    assert ("broker-unreachable" in found) is is_told
    if is_told:
        said = found["broker-unreachable"].text
        assert said.startswith("10.0.0.2:9092 acknowledged nothing for 3 s, while till at 10.0.1.")


@pytest.mark.parametrize("is_reported", [True, False])
def test_what_came_twice_was_not_lost_by_the_network(is_reported: bool, tmp_path: Path) -> None:
    """A broker waits for a follower, and its host has the requests, and delays its ACKs."""
    tap = Tap()
    talk = Talk(tap, "till", 1)
    for number in range(200):
        at_ms = 100.0 + 1_000 * number
        if number % 20:
            talk.call(at_ms, 2, "Produce", 8, written(), stored(offset=number))
            continue
        talk.correlation += 1
        asked = request("Produce", 8, talk.correlation, "till", **written())
        talk.say_again(True, asked, at_ms, at_ms + 20)
        if is_reported:
            talk.report_twice(at_ms + 20.1, False, len(asked))
        talk.answer(at_ms + 700, "Produce", 8, talk.correlation, **stored(offset=number))
    found = tap.findings(tmp_path)
    assert ("network-makes-p99" in found) is not is_reported
    assert "broker-stalls" in found


@pytest.mark.parametrize(
    ("is_broker", "id_"), [(True, "broker-slow"), (False, "receiver-does-not-read")]
)
def test_whose_windows_are_full_says_who_does_not_read(
    is_broker: bool, id_: str, tmp_path: Path
) -> None:
    tap = Tap()
    talk = Talk(tap, "till", 1)
    for number in range(200):
        at_ms = 100.0 + 1_000 * number
        asked = written(acks=1)
        if number % 20:
            talk.call(at_ms, 2, "Produce", 8, asked, stored(offset=number))
            continue
        told = talk.ask(at_ms, "Produce", 8, **asked)
        talk._packet(at_ms + 1, not is_broker, 16, window=0)
        talk._packet(at_ms + 400, not is_broker, 16)
        talk.answer(at_ms + 401, "Produce", 8, told, **stored(offset=number))
    said = worse(tap.findings(tmp_path))
    assert id_ in said
    assert len(said.keys() & {"broker-slow", "receiver-does-not-read"}) == 1


@pytest.mark.parametrize(
    ("tries", "ends_by", "is_told"),
    [(1, "client", False), (9, "client", False), (9, "broker", True), (2, "broker", False)],
)
def test_old_clients_are_refused_already_where_the_broker_hangs_up(
    tries: int, ends_by: str, is_told: bool, tmp_path: Path
) -> None:
    """Unanswered requests of a newer client are not those of the old one."""
    tap = Tap()
    for number in range(tries):
        at_ms = 1_000.0 * number
        old = Talk(tap, "old", number, at_ms=at_ms)
        old.ask(at_ms + 1, "Produce", 2, **written())
        old.end(at_ms + 2, ends_by == "client")
        new = Talk(tap, "new", 100 + number, at_ms=at_ms)
        new.call(at_ms + 1, 1, "ApiVersions", 3)
        new.ask(at_ms + 5, "Produce", 8, **written())
        new.end(at_ms + 6, is_client=True)
    found = tap.findings(tmp_path)
    said = found["client-breaks-on-4.0"]
    assert said.severity == (PROBLEM if is_told else WARNING)
    words = f"{tries} requests of these clients and versions already got no response"
    assert (words in said.text) is is_told


@pytest.mark.parametrize("partitions", [1, 20])
def test_the_errors_of_a_response_are_one_error(partitions: int, tmp_path: Path) -> None:
    tap = Tap()
    talk = Talk(tap, "clerk", 1)
    places = [{"partition_index": number} for number in range(partitions)]
    asked = {"group_id": "crew", "topics": [{"name": "orders", "partitions": places}]}
    failed = [place | {"error_code": 12} for place in places]
    told = {"topics": [{"name": "orders", "partitions": failed}]}
    talk.call(10, 2, "OffsetCommit", 5, asked, told)
    one = tap.findings(tmp_path)["error-OFFSET_METADATA_TOO_LARGE"]
    assert one.text.startswith("OFFSET_METADATA_TOO_LARGE 1 time to clerk at 10.0.1.2 (OffsetC")
    assert (one.numbers["exchanges"], one.numbers["errors"]) == (1, partitions)


@pytest.mark.parametrize(("code", "is_kafkas"), [(5_120, False), (-1, True), (7_777, False)])
def test_codes_unknown_to_kafka_are_distinguished_from_known_ones(
    code: int, is_kafkas: bool, tmp_path: Path
) -> None:
    tap = Tap()
    talk = Talk(tap, "tool", 1)
    for number in range(3):
        talk.call(10 + number, 2, "FindCoordinator", 2, {"key": "crew"}, {"error_code": code})
    found = tap.findings(tmp_path)
    (error,) = [one for id_, one in found.items() if id_.startswith("error-")]
    assert error.severity == WARNING
    assert ("Apache Kafka has no such error code" in error.text) is not is_kafkas
    assert "healthy" not in found


@pytest.mark.parametrize("numbers", [1, 4])
def test_a_capture_in_which_no_request_is_answered_is_not_healthy(
    numbers: int, tmp_path: Path
) -> None:
    tap = Tap()
    talk = Talk(tap, "till", 1)
    for number in range(numbers):
        talk.ask(10 + number, "Metadata", 8, topics=[{"name": "orders"}])
    talk.end(9_000, is_client=True)
    assert list(worse(tap.findings(tmp_path))) == ["requests-unanswered"]


@pytest.mark.parametrize(("error", "work_ms"), [(15, 800), (24, 800), (0, 0)])
def test_a_join_that_is_refused_waited_for_no_member(
    error: int, work_ms: int, tmp_path: Path
) -> None:
    tap = Tap()
    talk = Talk(tap, "clerk", 1)
    asked = {"group_id": "crew", "member_id": "", "protocol_type": "consumer"}
    talk.call(10, 800, "JoinGroup", 4, asked, {"error_code": error, "generation_id": 1})
    tap.findings(tmp_path)
    frame = kdissect.read(tmp_path / "tap.pcap", table="exchanges", columns=["work_ns", "wait_ns"])
    (row,) = frame.to_arrow().to_pylist()
    assert (row["work_ns"] // MS, row["wait_ns"] // MS) == (work_ms, 800 - work_ms)


@pytest.mark.parametrize("error", [0, 6])
@pytest.mark.parametrize(("took_ms", "said"), [(601, {}), (1_250, {"broker-slow": PROBLEM})])
def test_a_long_poll_is_no_work_of_the_broker_however_it_ends(
    error: int, took_ms: float, said: dict[str, str], tmp_path: Path
) -> None:
    """Time beyond the wait that the client asked for, without an error, is the broker's."""
    tap = Tap()
    reader = Talk(tap, "reader", 1)
    for number in range(30):
        part = {"partition": 0, "fetch_offset": 5, "partition_max_bytes": 1000}
        asked: Values = {"max_wait_ms": 600, "min_bytes": 1, "max_bytes": 1000,
                         "topics": [{"topic": "orders", "partitions": [part]}]}  # fmt: skip
        told: Values = {"responses": [{"topic": "orders", "partitions": [
            {"partition_index": 0, "error_code": error, "high_watermark": 5, "records": b""},
        ]}]}  # fmt: skip
        reader.call(10 + 1_400 * number, took_ms, "Fetch", 6, asked, told)
    found = tap.findings(tmp_path)
    slow = {id_: one for id_, one in worse(found).items() if id_.startswith("broker-")}
    assert slow == ({} if error else said)


def generation(
    leader: Talk, number: int, at_ms: float, names: tuple[str, ...], beats_until_ms: float
) -> None:
    """A generation of a group whose first member is its leader, joined at `at_ms`."""
    join = {"group_id": "crew", "member_id": names[0], "protocol_type": "consumer"}
    members = [{"member_id": name, "metadata": b""} for name in names]
    led = {"generation_id": number, "leader": names[0], "member_id": names[0],
           "protocol_name": "range", "members": members}  # fmt: skip
    leader.call(at_ms, 30, "JoinGroup", 4, join, led)
    shares = [{"member_id": name, "assignment": b""} for name in names]
    sync = {"group_id": "crew", "generation_id": number, "member_id": names[0],
            "assignments": shares}  # fmt: skip
    leader.call(at_ms + 50, 5, "SyncGroup", 2, sync)
    for beat_ms in range(round(at_ms) + 100, round(beats_until_ms), 400):
        beat = {"group_id": "crew", "generation_id": number, "member_id": names[0]}
        leader.call(beat_ms, 1, "Heartbeat", 3, beat)


@pytest.mark.parametrize(
    ("is_captured", "leaves", "is_told"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_a_member_vanished_where_its_own_connection_shows_that_it_fell_silent(
    is_captured: bool, leaves: bool, is_told: bool, tmp_path: Path
) -> None:
    tap = Tap()
    leader = Talk(tap, "clerk-1", 1)
    generation(leader, 1, 100, ("m-1", "m-2"), 12_000)
    if is_captured:
        lost = Talk(tap, "clerk-2", 2)
        join = {"group_id": "crew", "member_id": "m-2", "protocol_type": "consumer"}
        joined = {"generation_id": 1, "leader": "m-1", "member_id": "m-2",
                  "protocol_name": "range"}  # fmt: skip
        lost.call(101, 30, "JoinGroup", 4, join, joined)
        own = {"group_id": "crew", "generation_id": 1, "member_id": "m-2"}
        lost.call(140, 16, "SyncGroup", 2, own)
        for number in range(4):
            lost.call(300 + 400 * number, 1, "Heartbeat", 3, own)
        if leaves:
            lost.call(2_000, 1, "LeaveGroup", 2, {"group_id": "crew", "member_id": "m-2"})
    generation(leader, 2, 12_100, ("m-1",), 16_000)
    assert ("session-timeout" in tap.findings(tmp_path)) is is_told


@pytest.mark.parametrize(
    ("silent_ms", "last", "others_beat", "is_told"),
    [
        (8_000, "Heartbeat", False, True),
        (8_000, "OffsetCommit", False, True),
        (5_000, "Heartbeat", False, False),  # shorter than a session timeout
        (8_000, "LeaveGroup", False, False),
        (8_000, "Heartbeat", True, False),  # of two members with one client id
    ],
)
def test_a_member_that_is_unknown_after_a_silence_was_lost_though_no_join_was_captured(
    silent_ms: int, last: str, others_beat: bool, is_told: bool, tmp_path: Path
) -> None:
    tap = Tap()
    talk = Talk(tap, "clerk", 1)
    beats(talk, [100, 3_100])
    own = {"group_id": "crew", "member_id": "m"}
    ids: Values = {"OffsetCommit": {"generation_id_or_member_epoch": 1},
                   "LeaveGroup": {}, "Heartbeat": {"generation_id": 1}}  # fmt: skip
    versions = {"OffsetCommit": 7, "LeaveGroup": 2, "Heartbeat": 3}
    talk.call(4_000, 1, last, versions[last], own | ids[last])
    if others_beat:
        beats(Talk(tap, "clerk", 2), [3_000, 6_000, 9_000])
    place = {"partition_index": 0}
    asked = own | ids["OffsetCommit"] | {"topics": [{"name": "orders", "partitions": [place]}]}
    told = {"topics": [{"name": "orders", "partitions": [place | {"error_code": 25}]}]}
    talk.call(4_000 + silent_ms, 2, "OffsetCommit", 7, asked, told)
    found = tap.findings(tmp_path)
    assert ("session-timeout" in found) is is_told
    if is_told:
        said = "Group crew lost clerk to a session timeout: it sent nothing to the coordinator for "
        assert found["session-timeout"].text == (
            f"{said}8 s, which then no longer knew it as a member"
        )


@pytest.mark.parametrize(
    ("waits_ms", "protocol", "told", "is_told"),
    [
        (2_400, "range", 27, True),
        (900, "range", 27, False),
        (2_400, "cooperative-sticky", 27, False),  # it keeps its partitions meanwhile
        (2_400, "range", 0, False),  # it may be new
    ],
)
def test_a_member_that_was_told_to_rejoin_waited_for_the_others(
    waits_ms: float, protocol: str, told: int, is_told: bool, tmp_path: Path
) -> None:
    tap = Tap()
    rejoin(tap, waits_ms, protocol, told)
    found = tap.findings(tmp_path)
    assert ("rebalance-stops-group" in found) is is_told
    if is_told:
        assert found["rebalance-stops-group"].text == (
            "Members of group crew waited up to 2.4 s for the others in 1 rebalance, longest "
            "reader: they had joined again, and held no partitions (range assigns all anew)"
        )


CONSUMER = "ConsumerGroupHeartbeat"
UNKNOWN_MEMBER, FENCED_EPOCH = 25, 110


@pytest.mark.parametrize(
    ("waits_ms", "refused", "how", "severity"),
    [
        (2_400, FENCED_EPOCH, {}, NOTICE),
        (5_400, UNKNOWN_MEMBER, {}, WARNING),
        (900, FENCED_EPOCH, {}, ""),
        (5_400, 0, {}, ""),  # it may be new
        (5_400, FENCED_EPOCH, {"is_assigned": True}, ""),  # by the response to its join
        (5_400, FENCED_EPOCH, {"api": "ShareGroupHeartbeat"}, ""),  # the others share its records
    ],
)
def test_a_fenced_member_has_no_partitions_until_it_is_assigned_some(
    waits_ms: float, refused: int, how: dict[str, Any], severity: str, tmp_path: Path
) -> None:
    tap = Tap()
    rejoin_newly(tap, waits_ms, refused, **how)
    found = tap.findings(tmp_path)
    assert "rebalance-stops-group" not in found
    assert (found["member-fenced"].severity if "member-fenced" in found else "") == severity
    if severity == NOTICE:
        assert found["member-fenced"].text == (
            "Members of group crew held no partitions for 2.4 s, longest reader: it had been "
            "refused (FENCED_MEMBER_EPOCH), joined again, and was assigned none until then"
        )


@pytest.mark.parametrize(
    ("silent_ms", "error", "epoch", "is_told"),
    [
        (12_000, UNKNOWN_MEMBER, 4, True),
        (8_000, UNKNOWN_MEMBER, 4, False),  # less than two intervals between heartbeats
        (12_000, FENCED_EPOCH, 4, False),  # the coordinator has it, at another epoch
        (12_000, UNKNOWN_MEMBER, -1, False),  # it had left
        (12_000, UNKNOWN_MEMBER, -2, False),  # a static member that was going to return
    ],
)
def test_a_silent_member_of_the_consumer_protocol_was_lost_when_it_is_unknown_afterwards(
    silent_ms: float, error: int, epoch: int, is_told: bool, tmp_path: Path
) -> None:
    tap = Tap()
    talk = Talk(tap, "clerk", 1)
    own = {"group_id": "crew", "member_id": "m"}
    for at_ms, sent in ((100, 4), (5_100, epoch)):
        asked = own | {"member_epoch": sent}
        talk.call(at_ms, 2, CONSUMER, 0, asked, {"member_id": "m", "member_epoch": sent})
    told = {"member_id": None, "error_code": error}
    talk.call(5_100 + silent_ms, 2, CONSUMER, 0, own | {"member_epoch": 4}, told)
    found = tap.findings(tmp_path)
    assert ("session-timeout" in found) is is_told
    if is_told:
        assert found["session-timeout"].text == (
            "Group crew lost clerk to a session timeout: it sent nothing to the coordinator for "
            "12 s, which then no longer knew it as a member"
        )
    elif error == FENCED_EPOCH:
        assert "error-FENCED_MEMBER_EPOCH" in found


@pytest.mark.parametrize(("commits", "is_told"), [(15, True), (50, False), (0, False)])
def test_a_member_whose_commits_are_later_each_time_is_slow(
    commits: int, is_told: bool, tmp_path: Path
) -> None:
    """It has fetched 1 000 records, 40 of which were written in the time between two commits."""
    tap = Tap()
    reader = Talk(tap, "reader", 1)
    batches = b"".join(
        make_batch([make_record(b"value")] * 10, base_offset=10 * number, base_time=written_ms,
                   max_time=written_ms + 99)
        for number in range(100)
        for written_ms in [1_699_999_990_000 + 100 * number]
    )  # fmt: skip
    reader.call(100, 2, "Fetch", 6, *fetched(0, 1_000, batches))
    for number in range(45):
        part = {"partition_index": 0, "committed_offset": min(1_000, commits * number)}
        asked = {"group_id": "crew", "generation_id_or_member_epoch": 1, "member_id": "m",
                 "topics": [{"name": "orders", "partitions": [part]}]}  # fmt: skip
        told = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]}
        reader.call(500 + 400 * number, 2, "OffsetCommit", 5, asked, told)
    found = tap.findings(tmp_path)
    assert ("consumer-lag-grows" in found) is is_told
    if is_told:
        assert "as far as the ends are known; the oldest has" in found["consumer-lag-grows"].text
