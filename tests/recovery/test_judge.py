"""The judge finds planted errors: an exchange too many, too few, with wrong values or bytes."""

from collections import Counter

import pytest

from tests.exchange_builders import Found
from tests.recovery.cases import make_case
from tests.recovery.judge import Finding, Verdict, judge
from tests.recovery.seen import Case
from tests.recovery.talks import (
    BROKER,
    BROKER_PORT,
    CLIENT,
    Talk,
    dissect,
    frames_of,
    merged,
    packets_of,
    talks_in,
)

CAPTURE = "retries-4.3.1.pcapng"


def talk() -> Talk:
    """The one with the most exchanges."""
    return max(talks_in(CAPTURE), key=lambda talk: len(talk.truth))


def clean() -> Case:
    return Case([talk()], merged([talk()], [0]), BROKER_PORT, loses=False)


def found_in_case(case: Case) -> Found:
    return dissect(packets_of(case.wires, case.broker_port))


def kinds(verdict: Verdict) -> set[str]:
    return {finding.kind for finding in verdict.findings}


def test_the_frames_of_a_stream_are_counted_by_their_size_fields() -> None:
    stream = b"\0\0\0\x02ab\0\0\0\0\0\0\0\x03cde\0\0\0\x09fg"
    assert [(frame.position, frame.size, frame.end) for frame in frames_of(stream)] == [
        (0, 2, 6),
        (6, 0, 10),
        (10, 3, 17),
    ]


def test_every_talk_is_whole() -> None:
    for one in talks_in(CAPTURE):
        for side in (CLIENT, BROKER):
            assert one.frames[side][-1].end == len(one.streams[side])
        assert {true.row["outcome"] for true in one.truth} <= {
            "answered", "unanswered", "no_response_expected",
        }  # fmt: skip


def test_clean_capture_yields_only_correct_rows() -> None:
    verdict = judge(clean(), found_in_case(clean()))
    count = len(talk().truth)
    assert verdict == Verdict([], Counter(true=count, right=count))


def test_an_exchange_that_is_not_found_is_unexplained() -> None:
    found = found_in_case(clean())
    found.exchanges.pop(3)
    verdict = judge(clean(), found)
    assert kinds(verdict) == {"unexplained"}
    assert verdict.counts["unexplained"] == 1
    assert verdict.counts["right"] == len(talk().truth) - 1


def test_an_exchange_that_is_found_twice_is_a_phantom() -> None:
    found = found_in_case(clean())
    found.exchanges.append(found.exchanges[3])
    assert kinds(judge(clean(), found)) == {"phantom"}


def test_a_request_with_the_response_of_another_is_a_phantom() -> None:
    found = found_in_case(clean())
    one, other = found.exchanges[3:5]
    one.response_frame, other.response_frame = other.response_frame, one.response_frame
    verdict = judge(clean(), found)
    assert kinds(verdict) == {"phantom", "unexplained"}
    assert len(verdict.findings) == 4


def test_a_request_that_starts_elsewhere_is_a_phantom() -> None:
    found = found_in_case(clean())
    frame = found.exchanges[3].request_frame
    assert frame is not None
    frame.data = frame.data[:-1] + b"!"
    assert kinds(judge(clean(), found)) == {"phantom", "unexplained"}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("api_version", 99),
        ("client_id", "nobody"),
        ("response_size", 1),
        ("error_count", 7),
        ("request_packet", 1),
        ("latency_ns", 1),
        ("decode_status", "damaged"),
    ],
)
def test_a_wrong_value_is_found(column: str, value: object) -> None:
    found = found_in_case(clean())
    found.rows[3][column] = value
    verdict = judge(clean(), found)
    assert kinds(verdict) == {"wrong"}
    assert column.split("_")[0] in verdict.findings[0].text


def test_a_missing_row_of_another_table_is_found() -> None:
    found = found_in_case(clean())
    found.tables["partitions"].pop()
    assert kinds(judge(clean(), found)) == {"wrong"}


def test_bytes_that_are_not_accounted_for_are_found() -> None:
    found = found_in_case(clean())
    found.tables["connections"][0]["framed_bytes_to_broker"] -= 1
    payload = found.tables["connections"][0]["payload_bytes_to_broker"]
    verdict = judge(clean(), found)
    parts = [payload - 1, 0, 0, 0, 0, 0]
    assert verdict.findings == [Finding("balance", 0, f"to_broker: {payload} are not {parts}")]


def test_holes_that_are_not_counted_are_found() -> None:
    wires = clean().wires
    case = clean()._replace(wires=[*wires[:9], *wires[12:]], loses=True)
    found = found_in_case(case)
    for way in ("to_broker", "to_client"):
        found.tables["connections"][0][f"missing_bytes_{way}"] = 0
    assert kinds(judge(case, found)) == {"balance"}


def test_lost_packet_affects_only_its_own_exchanges() -> None:
    true = talk().truth[3]
    assert true.response is not None
    wires = [
        wire
        for wire in clean().wires
        if wire.side == CLIENT or not wire.position <= true.response.position < wire.end
    ]
    case = clean()._replace(wires=wires, loses=True)
    verdict = judge(case, found_in_case(case))
    assert verdict.findings == []
    assert verdict.counts == {
        "true": len(talk().truth),
        "right": len(talk().truth) - 1,
        "in part": 1,
    }


def test_a_case_is_the_same_every_time() -> None:
    one, two = make_case("combined", 7), make_case("combined", 7)
    assert (one.wires, one.broker_port) == (two.wires, two.broker_port)
    assert [talk.name for talk in one.talks] == [talk.name for talk in two.talks]


def test_the_last_byte_of_a_frame_makes_it_damaged() -> None:
    # The last byte of the last response is cut off, all of its header is there.
    last = max(
        (wire for wire in clean().wires if wire.side == BROKER and wire.payload),
        key=lambda wire: wire.end,
    )
    cut = last._replace(captured=len(last.payload) - 1)
    case = clean()._replace(
        wires=[cut if wire == last else wire for wire in clean().wires], loses=True
    )
    verdict = judge(case, found_in_case(case))
    assert verdict.findings == []
    assert verdict.counts["in part"] == 1
