import io

from benchmarks import generate, instructions

BUILT = {"Python": "3.11.7", "compiler": "GCC: (Debian) 12.2.0"}


def test_more_instructions_than_tolerated_are_reported():
    accepted = {"small": 1000, "bulk": 1000}
    assert instructions.compared({"small": 1020, "bulk": 900}, accepted) == []
    assert instructions.compared({"small": 1021}, accepted) == [
        "small: 1021 instructions, accepted are 1000 (+2.1%)"
    ]
    assert instructions.compared({"wide": 1}, accepted) == ["wide: never accepted"]


def test_slower_path_is_reported_with_other_differences():
    accepted = {"counts": {"small": 1000}, "built_with": BUILT}
    here = BUILT | {"Python": "3.13.1"}
    assert instructions.check({"small": 1000}, here, accepted) == ""
    assert instructions.check({"small": 1100}, BUILT, accepted) == (
        "small: 1100 instructions, accepted are 1000 (+10.0%)"
    )
    assert instructions.check({"small": 1100}, here, accepted) == (
        "small: 1100 instructions, accepted are 1000 (+10.0%)\n"
        "Python is 3.13.1, the counts were accepted with 3.11.7\n"
        "that may be why: make bench-accept on the accepted revision first"
    )


def test_packets_of_a_generated_capture_are_counted(tmp_path):
    file = io.BytesIO()
    wire = generate.Wire(file, 100)
    generate.Conversation(wire, [generate.Message(True, bytes(250), 0)], 0).step()
    wire.flush()
    target = tmp_path / "made.pcap"
    target.write_bytes(file.getvalue())
    # Three of the handshake, three segments, two ACKs.
    assert instructions.packet_count(target) == 8


def test_the_compiler_is_that_of_the_own_library(tmp_path):
    for name, said in (("a1b2__mypyc", b"GCC: (GNU) 15.2.1"), ("kdissect__mypyc", b"GCC: (X) 9.1")):
        (tmp_path / f"{name}.so").write_bytes(b"\0" + said + b"\0")
    assert instructions.built_with(str(tmp_path))["compiler"] == "GCC: (X) 9.1"
    assert instructions.built_with(str(tmp_path))["profile"] == "none"
