"""Redacted slices: nothing in them logs in, and all else is as without redacting."""

import importlib.util
import random
import re
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.cli.program import run
from kdissect.exchanges.sasl_masking import masked_token
from kdissect.slicing.redacting import make_plan
from kdissect.slicing.rewriting import Rewriter
from kdissect.slicing.slices import write_slice
from kdissect.tables.schemas import TABLES
from tests.capture.writers import Captured, make_pcapng
from tests.captures import secrets
from tests.captures.flipped import RAW_LOGINS, Search, changed, sampled
from tests.captures.test_flipped_headers import talks_of
from tests.captures.test_secrets import NAMES
from tests.secret_conversations import CONFIGS, DESCRIBED, SECRETS, secret_talks
from tests.seeds import SEED
from tests.slicing.test_slices import in_fragments

CAPTURES = Path(__file__).parents[2] / "captures"
NEEDS_SCAPY = pytest.mark.skipif(
    importlib.util.find_spec("scapy") is None, reason="scapy computes the checksums"
)
HEADERS = 54  # Ethernet, IPv4 and TCP of made packets
WITHHELD = {"connections": {"sasl_user"}}  # of a token, where it is not in clear


def both(source: Path, directory: Path, **options: Any) -> tuple[Path, Path]:
    """A slice of all exchanges, as captured and redacted."""
    plain, redacted = directory / "plain.pcapng", directory / "redacted.pcapng"
    write_slice(source, plain, connections=True, **options)
    write_slice(source, redacted, connections=True, redacts=True, **options)
    return plain, redacted


def packets_of(path: Path) -> list[Packet]:
    with open_captures(str(path)) as capture:
        return [packet for packets in capture for packet in packets]


def content(packet: Packet) -> bytes:
    return packet.data[packet.start : packet.end]


def rows(path: Path, table: str) -> list[dict[str, Any]]:
    lost = WITHHELD.get(table, set()) | {"capture"}
    found = kdissect.read(str(path), table=table).to_arrow().to_pylist()
    return [{name: value for name, value in row.items() if name not in lost} for row in found]


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_the_same_and_no_secret_is_there(name: str, tmp_path: Path) -> None:
    source = CAPTURES / f"{name}.pcapng"
    plain, redacted = both(source, tmp_path)
    known = secrets.secrets_of(source)
    on_the_wire = secrets.found_in(known, plain.read_bytes())
    assert on_the_wire
    assert secrets.found_in(known, redacted.read_bytes()) == set()
    for table in TABLES:
        assert rows(redacted, table) == rows(plain, table), table


@pytest.mark.parametrize("name", NAMES)
def test_packets_differ_in_tcp_payload_and_checksum_only(name: str, tmp_path: Path) -> None:
    pairs = zip(*map(packets_of, both(CAPTURES / f"{name}.pcapng", tmp_path)), strict=True)
    count = 0
    for plain, redacted in pairs:
        assert (plain.time_ns, plain.original_length) == (
            redacted.time_ns, redacted.original_length,
        )  # fmt: skip
        before, after = content(plain), content(redacted)
        assert len(before) == len(after)
        count += before != after
    assert count


@NEEDS_SCAPY
def test_checksums_that_were_right_are_right_and_others_stay(tmp_path: Path) -> None:
    """As scapy computes them, on a capture with checksums, half of them wrong in one case."""
    from scapy.layers.inet import TCP
    from scapy.layers.l2 import Ether

    path = tmp_path / "made.pcap"
    path.write_bytes(secret_talks().pcap())
    frames = [content(packet) for packet in packets_of(path)]
    wrong = []
    for number, frame in enumerate(frames):
        parsed = Ether(frame)
        del parsed[TCP].chksum
        right = bytes(parsed)
        wrong.append(right if number % 2 else right[:50] + b"\x12\x34" + right[52:])
    path.write_bytes(make_pcapng([Captured(frame, n * 1000) for n, frame in enumerate(wrong)]))
    _, redacted = both(path, tmp_path)
    count = 0
    for packet in packets_of(redacted):
        before, after = wrong[packet.time_ns // 1000], Ether(content(packet))
        said = after[TCP].chksum
        if said == 0x1234:
            assert before[50:52] == b"\x12\x34"
            continue
        del after[TCP].chksum
        assert Ether(bytes(after))[TCP].chksum == said
        count += content(packet) != before
    assert count > 5


def test_no_secret_of_any_kind_of_message_is_left_also_of_those_that_are_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages that are whole, cut, too long, of unknown versions; raw tokens; late starts."""
    path, target = tmp_path / "made.pcap", tmp_path / "redacted.pcapng"
    path.write_bytes(secret_talks().pcap())
    assert secrets.found_in(set(SECRETS), path.read_bytes()) == set(SECRETS)
    words = ["slice", str(path), "--connections", "--redact", "-o", str(target)]
    assert run(words) == 0
    said = capsys.readouterr().err
    assert re.search(r"\ncredentials are masked in \d+ frames; payload is as captured\n", said)
    assert re.search(
        r"\n\d+ frames in which they cannot be located: zeros behind the header\n", said
    )
    payloads = b"".join(content(packet)[HEADERS:] for packet in packets_of(target))
    names = b" ".join(config["name"].encode() for config in [*CONFIGS, *DESCRIBED])
    found = Search(frozenset(SECRETS)).found(payloads)
    assert {part for part in found if part not in names} == set()


def with_faults(packets: list[Packet], chance: random.Random) -> list[Captured]:
    """Lost, twice there, later than the next one, and cut by a snaplen."""
    made = []
    for packet in packets:
        frame, time = content(packet), packet.time_ns
        fate = chance.random()
        size = chance.randrange(60, 200) if 0.1 < fate < 0.15 else len(frame)
        delay = 2_000_000 if 0.15 < fate < 0.2 else 0
        if fate > 0.05:
            made.append(Captured(frame[:size], time + delay, len(frame)))
        if 0.2 < fate < 0.25:
            made.append(Captured(frame, time + 3_000_000))
    return sorted(made, key=lambda one: one.time_ns)


@pytest.mark.parametrize("number", range(8))
def test_no_secret_is_left_after_any_network_fault(number: int, tmp_path: Path) -> None:
    """Packets are lost, twice there, later than the next one, and cut by a snaplen; drawn."""
    chance = random.Random(f"{SEED} {number}")
    source = CAPTURES / f"{chance.choice(['sasl-4.3.1', 'tokens-2.8.2', 'admin-4.3.1'])}.pcapng"
    known = secrets.secrets_of(source)
    path = tmp_path / "made.pcapng"
    there: set[bytes] = set()
    while not there:  # the faults may have hit each of the few secrets
        path.write_bytes(make_pcapng(with_faults(packets_of(source), chance)))
        there = secrets.found_in(known, path.read_bytes())
    plain, redacted = both(path, tmp_path)
    assert secrets.found_in(known, plain.read_bytes()) == there
    assert secrets.found_in(known, redacted.read_bytes()) == set()


@pytest.mark.parametrize("name", ["made", "raw"])
def test_no_secret_is_left_where_a_byte_of_a_header_is_wrong(name: str, tmp_path: Path) -> None:
    names = b" ".join(config["name"].encode() for config in [*CONFIGS, *DESCRIBED])
    path = tmp_path / "made.pcap"
    for talk, at, value in sampled(talks_of(name), 60, random.Random(f"{SEED} {name}")):
        path.write_bytes(changed(talk, at, value))
        rewriter = Rewriter(make_plan([str(path)], {}))
        written = [rewriter.rewritten(packet, is_chosen=True) for packet in packets_of(path)]
        payloads = b"".join(frame[HEADERS:] for frame in written if frame)
        found = Search(talk.secrets).found(payloads)
        assert {part for part in found if part not in names} == set(), (name, at, value)


def test_fragments_of_ip_packets_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = [content(packet) for packet in packets_of(CAPTURES / "quickstart.pcapng")]
    parts = []
    for number, frame in enumerate(frames):
        is_cut = number % 7 == 3 and frame[12:14] == b"\x08\0" and len(frame) > 200
        parts += in_fragments(frame, number) if is_cut else [frame]
    path, target = tmp_path / "made.pcapng", tmp_path / "a.pcapng"
    path.write_bytes(make_pcapng([Captured(part, n * 1000) for n, part in enumerate(parts)]))
    assert run(["slice", str(path), "--connections", "--redact", "-o", str(target)]) == 0
    said = re.search(r"\n(\d+) fragments of IP packets cannot be redacted", capsys.readouterr().err)
    assert said
    assert not any(is_fragment(content(packet)) for packet in packets_of(target))


def is_fragment(frame: bytes) -> bool:
    return frame[12:14] == b"\x08\0" and bool(int.from_bytes(frame[20:22], "big") & 0x3FFF)


@pytest.mark.parametrize("mechanism", RAW_LOGINS)
def test_tokens_keep_their_length_and_lose_their_credentials(mechanism: str) -> None:
    for token in RAW_LOGINS[mechanism]:
        masked = masked_token(token)
        assert len(masked) == len(token)
        assert secrets.found_in(set(SECRETS), masked) == set()


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", RAW_LOGINS)
def test_they_lose_them_whichever_byte_is_another(mechanism: str) -> None:
    search = Search(frozenset(SECRETS))
    for token in RAW_LOGINS[mechanism]:
        for at in range(len(token)):
            for other in {*b",=\0\1{0nyaierspvc", *(token[at] ^ 1 << bit for bit in range(8))}:
                masked = masked_token(token[:at] + bytes([other]) + token[at + 1 :])
                assert len(masked) == len(token)
                assert search.found(masked) == set(), (at, other)


def test_packets_of_tls_stay_and_its_keys_are_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = CAPTURES / "tls" / "tls12-4.3.1.pcapng"
    plain, target = tmp_path / "plain.pcapng", tmp_path / "redacted.pcapng"
    words = ["slice", str(source), "--keylog", str(source.with_suffix(".keys")), "-o"]
    assert run([*words, str(plain)]) == run([*words, str(target), "--redact"]) == 0
    assert re.search(r"\n\d+ packets of TLS cannot be redacted", capsys.readouterr().err)
    assert list(map(content, packets_of(plain))) == list(map(content, packets_of(target)))


def test_keys_of_tls_in_a_capture_are_not_written(tmp_path: Path) -> None:
    source = CAPTURES / "tls" / "tls-sasl-4.3.1.pcapng"
    plain, redacted = both(source, tmp_path)
    secret = re.compile(b"CLIENT_RANDOM|TRAFFIC_SECRET")
    assert secret.search(plain.read_bytes())
    assert not secret.search(redacted.read_bytes())


def test_without_redacting_there_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["slice", str(CAPTURES / "sasl-4.3.1.pcapng"), "-o", str(tmp_path / "a.pcapng")]
    assert run(words) == 0
    assert "logins and payload are in the packets as captured" in capsys.readouterr().err
