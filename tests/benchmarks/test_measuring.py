import io

import pytest

import kdissect
from benchmarks import generate, instructions, peers
from benchmarks.workloads import ROOT, WORKLOADS, chosen


def test_generated_captures_have_the_exchanges_of_the_seed_over_and_over(tmp_path):
    seed = ROOT / "captures" / "quickstart.pcapng"
    found = generate.sessions(seed, frozenset(), 0)
    target = tmp_path / "made.pcap"
    with target.open("wb") as file:
        count = generate.replay(generate.Wire(file, 200), found, 300, 2)
    told = [
        int.from_bytes(message.data[4:8], "big") if not message.is_request else None
        for session in found[:count]
        for message in session
    ]
    exchanges = list(kdissect.dissect(str(target)))
    answered = [one.correlation_id for one in exchanges if one.outcome == "answered"]
    assert count == 2
    assert sorted(answered) == sorted(one for one in told if one is not None)


def test_workloads_are_chosen_by_name_and_others_are_refused():
    assert chosen("") == list(WORKLOADS)
    assert [one.name for one in chosen("small,bulk")] == ["bulk", "small"]
    with pytest.raises(SystemExit, match="no such workload: large"):
        chosen("large")


def test_the_table_gives_medians_ratios_and_the_highest_peak(capsys):
    runs = {
        "tshark": [peers.Run(4.0, 10_000_000)] * 3,
        "kdissect": [peers.Run(seconds, 20_000_000) for seconds in (0.5, 0.25, 9.0)],
    }
    lines = [
        "| bulk, 100 MB | tshark | 4.00 s | 4.00-4.00 s | 25 | 1.0 | 10 MB |",
        "| bulk, 100 MB | kdissect | 0.50 s | 0.25-9.00 s | 200 | 8.0 | 20 MB |",
    ]
    assert peers.rows("bulk", 100_000_000, runs) == lines
    assert capsys.readouterr().out.splitlines() == lines


def test_only_the_text_between_the_marks_is_written_anew():
    page = f"above\n{peers.START}\nold\n{peers.STOP}\nbelow\n"
    new = peers.written(page, ["| row |"], 5)
    assert new.startswith("above\n")
    assert new.endswith("\nbelow\n")
    assert "| row |" in new
    assert "old" not in new
    assert peers.written(new, ["| row |"], 5) == new


def test_more_instructions_than_tolerated_are_told():
    accepted = {"small": 1000, "bulk": 1000}
    assert instructions.compared({"small": 1030, "bulk": 900}, accepted) == []
    assert instructions.compared({"small": 1031}, accepted) == [
        "small: 1031 instructions, accepted are 1000"
    ]


def test_packets_of_a_generated_capture_are_counted(tmp_path):
    file = io.BytesIO()
    wire = generate.Wire(file, 100)
    generate.Conversation(wire, [generate.Message(True, bytes(250), 0)], 0).step()
    wire.flush()
    target = tmp_path / "made.pcap"
    target.write_bytes(file.getvalue())
    # Three of the handshake, three segments, two ACKs.
    assert instructions.packet_count(target) == 8
