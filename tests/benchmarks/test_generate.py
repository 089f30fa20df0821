import kdissect
from benchmarks import generate
from benchmarks.generate import Wanted
from benchmarks.workloads import ROOT

QUICKSTART = ROOT / "captures" / "quickstart.pcapng"


def correlation_ids(messages):
    """Sizes of the responses, in order."""
    return [int.from_bytes(one.data[4:8], "big") for one in messages if not one.is_request]


def answered(capture):
    """Correlation ids of the exchanges in a capture, by connection."""
    found = {}
    for one in kdissect.dissect(str(capture)):
        if one.outcome == "answered":
            found.setdefault(one.connection_id, []).append(one.correlation_id)
    return sorted(found.values())


def test_generated_captures_have_the_exchanges_of_the_seed_over_and_over(tmp_path):
    found = generate.sessions(QUICKSTART, Wanted())
    target = tmp_path / "made.pcap"
    with target.open("wb") as file:
        count = generate.replay(generate.Wire(file, 200), found, 300, 2)
    assert count == 2
    assert answered(target) == sorted(correlation_ids(one) for one in found[:2])


def test_only_selected_apis_of_the_seed_are_replayed():
    produce = generate.seed_exchanges(QUICKSTART, Wanted(frozenset({"Produce"})))
    java = generate.seed_exchanges(
        QUICKSTART, Wanted(frozenset({"Produce"}), clients=frozenset({"java-none"}))
    )
    large = generate.seed_exchanges(QUICKSTART, Wanted(frozenset({"Produce", "Fetch"}), 4000))
    assert len(java) == 1
    assert java[0] in produce
    keys = {int.from_bytes(one[0][1].data[4:6], "big") for session in large for one in session}
    assert keys == {0, 1, 18}
    assert min(
        sum(len(message.data) for _, message in one)
        for session in large
        for one in session
        if one[0][1].data[4:6] != bytes((0, 18))
    ) > 4000  # fmt: skip


def test_portions_go_on_where_the_one_before_ended_through_all_connections_and_anew():
    def exchange(number):
        return [(number * 10 + side, generate.Message(side == 0, b"%d" % number, 0))
                for side in range(2)]  # fmt: skip

    first, second = [exchange(number) for number in range(3)], [exchange(7)]
    told = [
        [one.data for one in messages if one.is_request]
        for messages in generate.portions([first, second], 2, 4)
    ]
    assert told == [[b"0", b"1"], [b"2", b"7"], [b"0", b"1"], [b"2", b"7"]]


def test_as_many_connections_as_asked_have_as_many_exchanges_as_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "OPEN_AT_ONCE", 3)
    found = generate.seed_exchanges(QUICKSTART, Wanted(frozenset({"Metadata"})))
    messages = list(generate.portions(found, 4, 10))
    target = tmp_path / "made.pcap"
    with target.open("wb") as file:
        generate.play_together(generate.Wire(file, 1448), iter(messages))
    assert answered(target) == sorted(correlation_ids(one) for one in messages)
    assert len(answered(target)) == 10


def test_each_connection_has_fetch_sessions_of_its_own(tmp_path):
    found = generate.sessions(QUICKSTART, Wanted(frozenset({"Fetch"})))
    target = tmp_path / "made.pcap"
    with target.open("wb") as file:
        generate.replay(generate.Wire(file, 1448), found, 200_000, 5)
    sessions, sizes = {}, {}
    for one in kdissect.dissect(str(target)):
        if one.api == "Fetch":
            for body in (one.request, one.response):
                if body and body["session_id"]:
                    sessions.setdefault(one.connection_id, set()).add(body["session_id"])
        sizes.setdefault(one.connection_id, []).append((one.request_size, one.response_size))
    in_all = [session for each in sessions.values() for session in each]
    assert len(sessions) > len(found)
    assert len(set(in_all)) == len(in_all)
    # Nothing else has changed: a replay has the sizes of what it is a copy of.
    originals = [[len(message.data) - 4 for message in one if message.is_request] for one in found]
    assert all(
        [size for size, _ in each] in originals for each in sizes.values() if None not in each
    )
