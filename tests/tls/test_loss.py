"""The same plaintext for every delivery; after loss no wrong bytes."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdissect.streams.events import Chunk, Event, Gap
from kdissect.tls.stage import Tls
from tests.conversation import DELIVERIES, Conversation
from tests.exchange_builders import request, response
from tests.tls.reading import Plain, feed, key_log, read_plain
from tests.tls.talks import Setup, Talk, make_talk

SETUPS = {
    "1.3": Setup("TLS 1.3"),
    "1.2 GCM": Setup("TLS 1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    "1.2 ChaCha20": Setup("TLS 1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    "1.2 CBC": Setup("TLS 1.2", "ECDHE-ECDSA-AES128-SHA256"),
    "1.2 CBC, MAC inside": Setup("TLS 1.2", "ECDHE-ECDSA-AES128-SHA256", is_mac_outside=False),
    "1.0": Setup("TLS 1.0", "ECDHE-ECDSA-AES128-SHA"),
}
EXACT = ("1.3", "1.2 GCM", "1.2 ChaCha20")


@cache
def made(name: str) -> Talk:
    """Forty exchanges, some of them large; all bytes different enough to tell where they are."""
    source = random.Random(1)
    turns: list[tuple[bool, bytes]] = []
    for number in range(40):
        filling = source.randbytes(source.choice((5, 40, 700, 3_000)))
        if number % 13 == 5:
            filling = source.randbytes(40_000)
        turns.append((True, request("SyncGroup", 0, number, group_id="g", assignments=[
            {"member_id": "m", "assignment": filling}])))  # fmt: skip
        turns.append((False, response("SyncGroup", 0, number, assignment=filling[::-1])))
    return make_talk(SETUPS[name], turns)


def handshake_packets(talk: Conversation) -> int:
    """Number of packets before the first application data of the client."""
    for index, sent in enumerate(talk.packets_sent):
        if sent.is_client and sent.payload[:3] == b"\x17\x03\x03":
            return index
    return 12


def first_data(talk: Conversation, is_client: bool) -> int:
    """The number of the packet in which a side's hello begins, which may take several."""
    return next(
        number
        for number, sent in enumerate(talk.packets_sent, 1)
        if sent.payload and sent.is_client is is_client
    )


def assert_true_parts(plain: Plain, talk: Talk) -> None:
    """Each run of bytes belongs to the stream, in order; an exact gap is as long as the loss."""
    for direction, full in enumerate(talk.sent):
        at = 0
        is_known = True
        position = None
        for event in plain.events:
            if not isinstance(event, Chunk | Gap) or event.direction != direction:
                continue
            assert position is None or event.position == position
            if isinstance(event, Gap):
                position = event.position + event.length
                assert event.length > 0
                at += event.length
                is_known = is_known and event.is_exact
                continue
            data = event.data[event.start : event.end]
            position = event.position + len(data)
            found = at if is_known else full.find(data, 0)
            if not is_known and len(data) >= 16:
                assert full.count(data) == 1
                at, is_known = found, True
            if is_known:
                assert full[at : at + len(data)] == data
                at += len(data)


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("name", ["1.3", "1.2 GCM", "1.0"])
def test_every_delivery_gives_the_same_plaintext(name: str, delivery: str) -> None:
    talk = make_talk(SETUPS[name], [
        (True, request("Heartbeat", 4, 1, group_id="g")), (False, response("Heartbeat", 4, 1)),
        (True, request("Heartbeat", 4, 2, group_id="h")), (False, response("Heartbeat", 4, 2)),
    ])  # fmt: skip
    stage = Tls(key_log(talk.keylog))
    plain = feed(stage, DELIVERIES[delivery](talk.conversation()))
    assert plain.streams == talk.sent
    assert plain.gaps == []
    assert plain.problems == []
    assert stage.held == 0


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(SETUPS)), st.integers(0, 1 << 32), st.sampled_from([0.01, 0.05, 0.3]))
def test_loss_costs_only_the_records_it_hit(name: str, seed: int, share: float) -> None:
    talk = made(name)
    source = random.Random(seed)
    whole = talk.conversation()
    start = handshake_packets(whole)
    lost = [
        number for number in range(start + 1, len(whole.packets_sent) + 1)
        if source.random() < share and whole.packets_sent[number - 1].payload
    ]  # fmt: skip
    plain = feed(Tls(key_log(talk.keylog)), whole.lose(*lost))
    assert plain.problems == []
    assert_true_parts(plain, talk)
    # The record after the damaged ones is lost with them: its position, or the one it is chained
    # to.
    missing = sum(
        len(full) - len(part) for full, part in zip(talk.sent, plain.streams, strict=True)
    )
    assert missing <= sum(size_of_hit(whole, number) for number in lost), lost


def size_of_hit(whole: Conversation, lost: int) -> int:
    """Bytes of the records that a packet has a part of, and of the one after them."""
    packet = whole.packets_sent[lost - 1]
    sent = [one for one in whole.packets_sent if one.is_client == packet.is_client]
    stream = b"".join(one.payload for one in sent)
    begin = sum(len(one.payload) for one in sent[: sent.index(packet)])
    hit, at, is_next = 0, 0, False
    while at < len(stream):
        end = at + 5 + int.from_bytes(stream[at + 3 : at + 5])
        if end > begin and not is_next:
            hit += end - at
            is_next = at >= begin + len(packet.payload)
        at = end
    return hit


@pytest.mark.parametrize("name", EXACT)
def test_a_gap_is_as_long_as_the_plaintext_that_is_missing(name: str) -> None:
    talk = made(name)
    whole = talk.conversation()
    with_data = [
        number for number, sent in enumerate(whole.packets_sent, 1)
        if sent.payload and number > handshake_packets(whole) + 8
    ]  # fmt: skip
    exact = 0
    for number in with_data[:-4:7]:
        plain = feed(Tls(key_log(talk.keylog)), whole.lose(number))
        assert_true_parts(plain, talk)
        (gap,) = plain.gaps
        exact += gap.is_exact
        if gap.is_exact:
            lost = sum(map(len, talk.sent)) - sum(map(len, plain.streams))
            assert gap.length == lost
    assert exact == len(with_data[:-4:7])


@pytest.mark.parametrize("name", SETUPS)
def test_a_lost_hello_leaves_everything_encrypted(name: str) -> None:
    """And the reason is reported; that there are secrets nevertheless is a problem."""
    talk = made(name)
    whole = talk.conversation()
    for is_client, reason, kinds in (
        (True, ("no ClientHello",), []), (False, ("no ServerHello",), ["tls-undecryptable"]),
    ):  # fmt: skip
        plain = feed(Tls(key_log(talk.keylog)), whole.lose(first_data(whole, is_client)))
        assert [problem.kind for problem in plain.problems] == kinds
        written = sum(len(data) for _, data in talk.flights)
        told = plain.facts
        if told is None:
            # Nothing in the rest begins with a record.
            continue
        assert told.undecrypted in reason
        assert plain.streams == (b"", b"") or sum(map(len, plain.streams)) < written
        assert sum(told.encrypted_bytes) > written / 2


def test_the_capture_may_begin_anywhere() -> None:
    talk = made("1.3")
    whole = talk.conversation()
    for count in range(3, 60, 5):
        plain = feed(Tls(key_log(talk.keylog)), whole.start_late(count))
        if count > 3:
            assert plain.facts is not None
            assert plain.facts.plaintext_bytes == 0
            assert plain.facts.undecrypted == ("no ClientHello" if count < 6 else "no hellos")
        assert plain.problems == []


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(SETUPS)), st.integers(0, 1 << 32))
def test_segments_of_any_size_give_the_same_plaintext(name: str, seed: int) -> None:
    talk = made(name)
    plain = feed(Tls(key_log(talk.keylog)), talk.conversation().resegment(random.Random(seed)))
    assert plain.streams == talk.sent
    assert plain.problems == []


def test_packets_cut_by_a_snaplen_give_no_plaintext_and_no_problem() -> None:
    for name in ("1.3", "1.2 GCM"):
        talk = made(name)
        for size in (40, 96, 600):
            plain = feed(Tls(key_log(talk.keylog)), talk.conversation().cut(size))
            assert plain.facts is None or plain.facts.undecrypted != "no secrets"
            assert_true_parts(plain, talk)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_bytes_give_values_or_problems(data: st.DataObject) -> None:
    """Records that are edited, and rubbish between them; nothing wrong is ever given out."""
    talk = made("1.3" if data.draw(st.booleans()) else "1.2 CBC, MAC inside")
    flights = list(talk.flights[:30])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(flights) - 1))
        is_client, content = flights[at]
        place = data.draw(st.integers(0, len(content)))
        junk = data.draw(
            st.binary(min_size=1, max_size=40)
            | st.sampled_from(
                [b"\x16\x03\x03\x00\x30", b"\x17\x03\x03\x48\x00", b"\x14\x03\x03\0\1\1"]
            )
        )
        cut = data.draw(st.integers(0, 40))
        flights[at] = (is_client, content[:place] + junk + content[place + cut :])
    edited = Talk(tuple(flights), talk.keylog, "", False, talk.sent)
    stage = Tls(key_log(talk.keylog))
    plain = feed(stage, edited.conversation())
    assert stage.held == 0
    events: list[Event] = plain.events
    assert {type(event).__name__ for event in events} <= {"Chunk", "Gap", "End"}
    if plain.facts is not None:
        facts = plain.facts
        taken = sum(len(content) for _, content in flights)
        counted = sum(facts.tls_bytes) + sum(facts.encrypted_bytes) + facts.plaintext_bytes
        clear = sum(map(len, plain.streams)) - facts.plaintext_bytes
        assert counted + clear == taken
        assert min(*facts.tls_bytes, *facts.encrypted_bytes) >= 0


def test_a_source_read_once_is_read_whole() -> None:
    """Control: the talks of these tests come out as they are when nothing is done to them."""
    for name in SETUPS:
        talk = made(name)
        assert read_plain(talk).streams == talk.sent
