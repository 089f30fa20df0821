import click
import pytest

from kdissect.cli.live.options import (
    Address,
    Rotation,
    address_of,
    bytes_of,
    capturing,
    rotation_of,
    seconds_of,
)
from kdissect.cli.program import run
from kdissect.errors import KdissectError
from kdissect.live import source_choice
from kdissect.live.source_choice import Asked, filter_text, wanted_ports
from kdissect.pipeline import Options
from kdissect.sources.delay_buffer import DelayBuffer
from kdissect.sources.recorded_source import RecordedSource
from kdissect.sources.tail import TailSource


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("10m", 600), ("1.5h", 5400), ("2d", 172_800)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "0s", "-1s", "1w", "1 s", "1e3s", "١s"])
def test_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration; write it like 30s, 10m, 1h or 2d"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("64K", 65_536), ("256MB", 256 << 20), ("1GiB", 1 << 30), ("2T", 2 << 40)],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "0", "10m", "1.5G", "-1", "MB"])
def test_invalid_size_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is no size; write it like 64M, 256MB or 10G"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9123", Address("127.0.0.1", 9123)),
        ("10.0.0.1:80", Address("10.0.0.1", 80)),
        ("broker:1", Address("broker", 1)),
        ("[fe80::1]:0", Address("fe80::1", 0)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["", "9123", ":", ":65536", "::1:9123", "[::1]", "a:b:1"])
def test_invalid_address_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="write it like :9123 or"):
        address_of(text)


def test_files_rotate_by_time_and_size() -> None:
    assert rotation_of(()) == Rotation()
    assert rotation_of(("10m",)) == Rotation(600, None)
    assert rotation_of(("1G", "1h")) == Rotation(3600, 1 << 30)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (("60s", "1h"), "two durations"),
        (("1G", "1M"), "two sizes"),
        (("0.5s",), "whole seconds"),
        (("sixty",), "neither a duration nor a size, like 60s or 256MB"),
    ],
)
def test_a_wrong_rotation_is_an_error(texts: tuple[str, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        rotation_of(texts)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-i", "lo", "x.pcap"], "either an interface or a capture: there are -i lo and x.pcap"),
        (["-i", "lo", "--follow"], "--follow is for captures; interfaces have no end anyway"),
        (["--follow"], "--follow wants one file, directory or glob; quote a glob"),
        (["a.pcap", "b.pcap", "--follow"], "--follow wants one file"),
        (["a.pcap", "-"], "a pipe is read by itself"),
        (["a.pcap", "--filter", "tcp"], "--all-ports and --promiscuous are for"),
        (["-i", "lo", "--rotate", "1h"], "--rotate is about files: name their directory, -o DIR"),
        (["-i", "lo", "--disk", "1G"], "--disk is about files"),
        (["-i", "lo", "--payload"], "--payload is about files"),
        (["-i", "lo", "--tables", "nix", "-o", "x"], "no table 'nix'; there are connections,"),
        (["-i", "lo", "--buffer", "big"], "'big' is no size; write it like 64M"),
        (["-i", "lo", "--duration", "long"], "'long' is no duration"),
        (["-i", "lo", "--metrics", "9123"], "'9123' is no [ADDRESS]:PORT"),
        (["-i", "lo", "--snaplen", "10"], "10 is not in the range"),
        (["-i", "lo", "--user", "no-such-user"], "no user 'no-such-user' on this host"),
        (["-i", "lo", "--max", "nix=1"], "no limit 'nix'"),
        (["no-such.pcap"], "no-such.pcap: no such file"),
        (["no-such.pcap", "--follow"], "no-such.pcap: no such file"),
    ],
)
def test_contradicting_options_are_rejected_before_opening_anything(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    is_about_host = told.startswith(("no-such.pcap", "no user"))  # not the command line's
    assert run(["live", *words]) == (1 if is_about_host else 2)
    assert told in capsys.readouterr().err


def test_source_is_passed_as_one_value() -> None:
    found: list[Asked] = []

    @click.command()
    @capturing
    def command(asked: Asked) -> None:
        found.append(asked)

    words = ["-i", "eth0", "-i", "lo", "--filter", "host 10.0.0.1", "--buffer", "1G"]
    command.main([*words, "--through", "scapy", "--snaplen", "200"], standalone_mode=False)
    command.main(["-"], standalone_mode=False)
    assert found == [
        Asked((), ("eth0", "lo"), False, "host 10.0.0.1", False, 200, 1 << 30, "scapy"),
        Asked(("-",)),
    ]
    assert [(asked.is_live, asked.ring_bytes) for asked in found] == [(True, 1 << 30), (True, 0)]


def test_the_filter_is_described_in_words() -> None:
    options = Options(ports=[9192])
    ports = "TCP ports 9092, 9093, 9094, 9192, 19092, 29092"
    assert filter_text(Asked(), options) == ports
    assert filter_text(Asked(expression="net 10"), options) == f"{ports}, and net 10"
    assert filter_text(Asked(all_ports=True), options) == "all of TCP"


def test_endpoints_with_a_protocol_of_their_own_are_let_pass() -> None:
    found = wanted_ports(Options(decode_as=["10.0.0.1:7000=kafka", "7001=tls", "9094=none"]))
    assert set(found) - {9092, 9093, 19092, 29092} == {7000, 7001}


def test_each_source_has_its_wire(quickstart: str, tmp_path: object) -> None:
    keylog = tmp_path / "keys"  # type: ignore[operator]
    keylog.touch()
    with source_choice.open_source(Asked([quickstart])) as packet_source:
        assert isinstance(packet_source, RecordedSource)
    with source_choice.open_source(Asked([quickstart], follow=True)) as packet_source:
        assert isinstance(packet_source, TailSource)
    with source_choice.open_source(
        Asked([quickstart], follow=True), Options(keylog=keylog)
    ) as packet_source:
        assert isinstance(packet_source, DelayBuffer)
    with source_choice.open_source(Asked([quickstart]), Options(keylog=keylog)) as packet_source:
        assert isinstance(packet_source, RecordedSource)
    with pytest.raises(KdissectError, match="neither an interface nor a capture"):
        source_choice.open_source(Asked())
