"""Anonymized slices: no name, address or payload is left; all else is as in anonymized tables."""

import random
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.capture.files import open_captures
from kdissect.cli.program import run
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import flow_of
from kdissect.slicing.slices import write_slice
from kdissect.tables.pseudonyms import BROKERS, NOT_SHOWN, PUBLIC, RELEASE, Pseudonyms
from kdissect.tables.schemas import TABLES
from tests.capture.writers import make_pcapng
from tests.captures import secrets
from tests.report.test_numbers import CAPTURES
from tests.secret_conversations import SECRETS, secret_talks
from tests.seeds import SEED
from tests.slicing.test_redacting import content, in_fragments, packets_of, with_faults

HERE = Path(__file__).parents[2] / "captures"
KEY = b"a key of the tests"
NETWORKS = sorted((HERE / "networks").glob("*.pcapng"))
KAFKA = [*CAPTURES, *NETWORKS, HERE / "other" / "proxied.pcapng"]
NEEDS_TSHARK = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is the oracle")
# What an anonymized slice does not have as an anonymized table has it: see docs/privacy.md.
LOST = {
    "connections": {"sasl_user"},  # of a bearer token: only those, see `check_user`
    "batches": {"crc"},  # of blanked records
    "errors": {"message"},  # withheld in tables
    "members": {"reason"},
    "problems": {"message"},
}
# Numbers of packets, and of what they begin: a slice has its own, as every slice.
OF_THE_FILE = {
    "capture", "connection_id", "exchange_id", "request_packet", "response_packet", "first_packet",
    "packet_number",
}  # fmt: skip
# Exchanges that do not decode in full keep these columns only: their bodies are zeros.
OF_THE_FRAMES = (
    "api", "api_version", "correlation_id", "client_id", "outcome", "request_start",
    "request_end", "response_start", "response_end", "latency_ns", "request_size", "response_size",
)  # fmt: skip
# In the packets of both: Kafka's words, within words of the wire, and the codecs' own.
TCP_FIELDS = ("tcp.len", "tcp.seq", "tcp.flags", "tcp.analysis.retransmission")
WORD = re.compile(rb"[A-Za-z0-9._/:-]{6,}")
SHORT = 4
OWN = {"SNAPPY", "PROXY", "UNKNOWN"}


def anonymous(source: Path, directory: Path, **options: Any) -> Path:
    target = directory / "sliced.pcapng"
    write_slice(source, target, connections=True, anonymize=KEY, force=True, **options)
    return target


def rows(path: Path, table: str, **options: Any) -> list[dict[str, Any]]:
    lost = LOST.get(table, set()) | OF_THE_FILE
    found = kdissect.read(path, table=table, **options).to_arrow()
    kept = found.select([name for name in found.column_names if name not in lost]).to_pylist()
    if table == "connections":
        return [row for row in kept if row["exchanges"]]
    ids = kdissect.read(path, columns=["exchange_id"], **options).to_arrow()["exchange_id"]
    numbers = {one: number for number, one in enumerate(ids.to_pylist())}
    own = found["exchange_id"].to_pylist()
    return [{**row, "exchange": numbers.get(one)} for row, one in zip(kept, own, strict=True)]


def is_sound(row: dict[str, Any]) -> bool:
    return row["decode_status"] == "ok"


def check_user(source: Path, sliced: Path) -> None:
    """Users have their pseudonyms; only those within a bearer token are not known any more."""
    of = {"table": "connections", "columns": ["sasl_mechanism", "sasl_user"]}
    before = kdissect.read(source, **of, where="exchanges > 0", anonymize=KEY).to_arrow()
    after = kdissect.read(sliced, **of, where="exchanges > 0").to_arrow()
    for old, new in zip(before.to_pylist(), after.to_pylist(), strict=True):
        if old["sasl_mechanism"] == "OAUTHBEARER" and new["sasl_user"] is None:
            continue
        assert new == old


@pytest.mark.sweep(3)
@pytest.mark.parametrize("path", KAFKA, ids=lambda path: path.name)
def test_tables_of_the_slice_are_the_anonymized_tables_of_the_capture(
    path: Path, tmp_path: Path
) -> None:
    """All columns of all tables, except for `LOST`; of what does not decode, `OF_THE_FRAMES`."""
    sliced = anonymous(path, tmp_path)
    olds, news = rows(path, "exchanges", anonymize=KEY), rows(sliced, "exchanges")
    assert len(news) == len(olds)
    for old, new in zip(olds, news, strict=True):
        columns = old if is_sound(old) else OF_THE_FRAMES
        assert {name: new[name] for name in columns} == {name: old[name] for name in columns}
    check_user(path, sliced)
    sound = {number for number, row in enumerate(olds) if is_sound(row)}
    for table in set(TABLES) - {"bodies", "exchanges"}:
        before, after = rows(path, table, anonymize=KEY), rows(sliced, table)
        if table == "connections":
            assert after == before
            continue
        ours = [[row for row in found if row["exchange"] in sound] for found in (before, after)]
        assert ours[1] == ours[0], table
        if len(sound) == len(olds):
            assert after == before, table


def bytes_of(path: Path) -> bytes:
    """TCP payload, in the packets and joined by connection, and contents of records, unpacked."""
    parts, streams = [], {}
    decoder = PacketDecoder()
    for packet in packets_of(path):
        segment = decoder.decode_next(packet)
        if segment is not None:
            payload = bytes(segment.data[segment.start : segment.end])
            parts.append(payload)
            streams.setdefault(flow_of(segment), []).append(payload)
    parts += [b"".join(stream) for stream in streams.values()]
    records = kdissect.read(path, table="records", payload=True).to_arrow()
    for name in ("key", "value", "headers"):
        for value in records[name].unique().to_pylist():
            if value is not None:
                parts.append(value if isinstance(value, bytes) else str(value).encode())
    return b"\n".join(parts)


def words_left(source: Path, sliced: Path) -> set[str]:
    """Words in the bytes of a capture that are in those of its slice; brokers keep their ids."""
    words = {word.decode() for word in WORD.findall(without_public(bytes_of(source)))}
    assert words
    made = bytes_of(sliced) + sliced.read_bytes()
    made = without_public(re.sub(BROKERS.pattern.encode(), b" ", made))
    return {word for word in words if word.encode() in made and not is_public(word)}


def without_public(content: bytes) -> bytes:
    """The bytes without Kafka's words: with the length behind them they look like another word."""
    known = sorted((word for word in PUBLIC if len(word) > SHORT), key=len, reverse=True)
    return re.sub(b"|".join(re.escape(word.encode()) for word in known), b" ", content)


def is_public(word: str) -> bool:
    if word in OWN or RELEASE.fullmatch(word):
        return True
    return any(word in known or known in word for known in PUBLIC if len(known) > SHORT)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_words_are_found_where_a_slice_is_not_anonymized(path: Path, tmp_path: Path) -> None:
    """Control: names of clients and topics, or what is left of them without Kafka's words."""
    sliced = tmp_path / "sliced.pcapng"
    write_slice(path, sliced, connections=True)
    found = "\n".join(words_left(path, sliced)).encode()
    exchanges = kdissect.read(path, table="exchanges").to_arrow()
    partitions = kdissect.read(path, table="partitions").to_arrow()
    names = {*exchanges["client_id"].to_pylist(), *partitions["topic"].to_pylist()} - {None}
    for name in names:
        for word in WORD.findall(without_public(name.encode())):
            assert word in found or is_public(word.decode()) or BROKERS.search(name), name


@pytest.mark.sweep(3)
@pytest.mark.parametrize("path", KAFKA, ids=lambda path: path.name)
def test_no_word_of_the_capture_is_in_the_slice(path: Path, tmp_path: Path) -> None:
    """Whatever looks like a word in the bytes of the capture, not what kdissect took for a name."""
    sliced = tmp_path / "sliced.pcapng"
    write_slice(path, sliced, connections=True, anonymize=True)
    assert words_left(path, sliced) == set()
    assert path.name.encode() not in sliced.read_bytes()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", KAFKA, ids=lambda path: path.name)
def test_no_id_or_address_of_the_capture_is_in_the_slice(path: Path, tmp_path: Path) -> None:
    from base64 import urlsafe_b64decode

    sliced = tmp_path / "sliced.pcapng"
    write_slice(path, sliced, connections=True, anonymize=True)
    made = sliced.read_bytes()
    ids = kdissect.read(path, table="partitions", columns=["topic_id"]).to_arrow()
    for text in set(ids["topic_id"].to_pylist()) - {None}:
        data = urlsafe_b64decode(text + "==")
        assert data not in made or int.from_bytes(data, "big") < 100
    assert addresses_of(path).isdisjoint(addresses_of(sliced) - {"::1"})
    hardware = {content(packet)[at : at + 6] for packet in packets_of(path) for at in (0, 6)}
    assert not any(mac in made for mac in hardware if any(mac[3:]))


def addresses_of(path: Path) -> set[str]:
    found = kdissect.read(path, table="connections").to_arrow()
    return set(found["client_ip"].to_pylist()) | set(found["broker_ip"].to_pylist())


def blocks_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        yield kind, data[at + 8 : at + size - 4]
        at += size


def options_of(content: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(content):
        code, size = struct.unpack_from("<HH", content, at)
        if code == 0:
            break
        found[code] = content[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4
    return found


@pytest.mark.parametrize("name", ["quickstart", "tls/tls-sasl-4.3.1", "networks/vxlan-4.3.1"])
def test_the_file_has_packets_with_their_numbers_and_nothing_else(
    name: str, tmp_path: Path
) -> None:
    """No name of a file, host or interface, no secrets, no comment of the capture."""
    sliced = anonymous(HERE / f"{name}.pcapng", tmp_path, where="api_version >= 0")
    (head, section), (kind, interface), *packets = blocks_of(sliced.read_bytes())
    assert head == 0x0A0D0D0A
    assert options_of(section[16:]) == {
        1: b"kdissect: an anonymized slice",
        4: f"kdissect {kdissect.__version__}".encode(),
    }
    assert kind == 1
    assert struct.unpack_from("<H", interface)[0] == 101
    assert options_of(interface[8:]) == {9: b"\x09"}
    assert packets
    for kind, packet in packets:
        assert kind == 6
        size = struct.unpack_from("<I", packet, 12)[0]
        (comment,) = options_of(packet[20 + size + -size % 4 :]).values()
        assert re.fullmatch(rb"kdissect: frame \d+", comment)


def tshark(path: Path, ports: set[int], *words: str) -> list[str]:
    """What tshark prints, which dissects these ports as Kafka."""
    as_kafka = [word for port in sorted(ports) for word in ("-d", f"tcp.port=={port},kafka")]
    made = subprocess.run(
        ["tshark", "-r", str(path), *as_kafka, *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return made.stdout.splitlines()


def numbered(path: Path, ports: set[int], where: str) -> list[int]:
    found = tshark(path, ports, "-Y", where, "-T", "fields", "-e", "frame.number")
    return [int(number) for number in found]


# Versions that Wireshark does not know, and messages of before 0.11 that it does not read to their
# end: it takes any bytes for any fields, also those of payload.
NOT_READ = (
    "_ws.malformed || kafka.unsupported_api_version || kafka.pdu_length_mismatch || "
    "kafka.request_missing || kafka.truncated_content"
)


def not_read(path: Path, ports: set[int]) -> set[int]:
    """Frames that Wireshark does not read, and answers to requests in them."""
    frames = set(numbered(path, ports, NOT_READ))
    words = ("frame.number", "tcp.stream", "kafka.correlation_id")
    told = tshark(path, ports, "-T", "fields", *(word for one in words for word in ("-e", one)))
    ids = {
        int(number): {(stream, one) for one in found.split(",") if one}
        for number, stream, found in (line.split("\t") for line in told)
    }
    asked = {one for number in frames for one in ids[number]}
    return frames | {number for number, own in ids.items() if own & asked}


@NEEDS_TSHARK
@pytest.mark.slow
@pytest.mark.sweep(4)
@pytest.mark.parametrize("path", KAFKA, ids=lambda path: path.name)
def test_wireshark_reads_it_as_it_reads_the_capture(path: Path, tmp_path: Path) -> None:
    """The same messages in the same packets, valid checksums, and nothing newly malformed."""
    plain, sliced = tmp_path / "plain.pcapng", anonymous(path, tmp_path)
    write_slice(path, plain, connections=True)
    found = kdissect.read(path, table="connections").to_arrow()
    ports = set(found["broker_port"].to_pylist())
    numbers = numbers_of_kafka()
    assert len(numbers) > 100
    fields = [word for name in (*TCP_FIELDS, *numbers) for word in ("-e", name)]
    told = [tshark(one, ports, "-T", "fields", *fields) for one in (plain, sliced)]
    assert len(told[0]) == len(told[1])
    odd = not_read(plain, ports)
    for number, (old, new) in enumerate(zip(*told, strict=True), 1):
        assert number in odd or new == old
    assert any(line.strip() for line in told[1])
    assert set(numbered(sliced, ports, "_ws.malformed")) <= odd
    check = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    bad = "tcp.checksum.status == 0 || ip.checksum.status == 0"
    whole = "frame.cap_len == frame.len"
    assert tshark(sliced, ports, *check, "-Y", f"({bad}) && {whole}") == []


def numbers_of_kafka() -> list[str]:
    """All fields of Wireshark's dissector that are numbers, but checksums of what is blanked."""
    found = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in found.stdout.splitlines()]
    names = {
        row[2]
        for row in rows
        if row[0] == "F"
        and row[2].startswith("kafka.")
        and re.match(r"FT_U?INT|FT_BOOL|FT_ABS", row[3])
    }
    return sorted(names - {"kafka.batch_crc", "kafka.message_crc"})


def test_no_credential_is_left_also_of_messages_that_are_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages that are whole, cut, too long, of unknown versions; raw tokens; late starts."""
    path, target = tmp_path / "made.pcap", tmp_path / "sliced.pcapng"
    path.write_bytes(secret_talks().pcap())
    assert run(["slice", str(path), "--connections", "--anonymize", "-o", str(target)]) == 0
    said = capsys.readouterr().err
    assert "names and addresses are pseudonyms" in said
    assert re.search(r"\n\d+ frames that could not be read in full: zeros behind the header", said)
    assert secrets.found_in(set(SECRETS), bytes_of(target) + target.read_bytes()) == set()


@pytest.mark.parametrize("number", range(6))
def test_no_word_is_left_after_any_network_fault(number: int, tmp_path: Path) -> None:
    """Packets are lost, twice there, later than the next one, and cut by a snaplen; drawn."""
    chance = random.Random(f"{SEED} {number}")
    source = chance.choice(CAPTURES)
    path, target = tmp_path / "made.pcapng", tmp_path / "sliced.pcapng"
    path.write_bytes(make_pcapng(with_faults(packets_of(source), chance)))
    write_slice(path, target, connections=True, anonymize=True)
    assert words_left(path, target) == set(), (source, SEED)


@pytest.mark.parametrize("number", range(4))
def test_any_changed_bytes_leave_no_word_and_no_traceback(number: int, tmp_path: Path) -> None:
    """Bytes of the payload are others: lengths, headers, batches, compressed records; drawn."""
    chance = random.Random(f"{SEED} bytes {number}")
    source = chance.choice(CAPTURES)
    with open_captures(str(source)) as capture:
        packets = [packet for found in capture for packet in found]
    made, decoder = [], PacketDecoder()
    for packet in packets:
        segment, frame = decoder.decode_next(packet), bytearray(content(packet))
        start = 0 if segment is None else int(segment.start - packet.start)
        for _ in range(chance.randrange(3) if start and start < len(frame) else 0):
            frame[chance.randrange(start, len(frame))] = chance.randrange(256)
        made.append((bytes(frame), packet.time_ns))
    from tests.capture.writers import Captured

    path, target = tmp_path / "made.pcapng", tmp_path / "sliced.pcapng"
    path.write_bytes(make_pcapng([Captured(frame, time) for frame, time in made]))
    if not write_slice(path, target, connections=True, anonymize=True).packets:
        return
    assert words_left(path, target) == set(), (source, SEED)


def test_fragments_become_the_packet_that_they_were(tmp_path: Path) -> None:
    frames = [content(packet) for packet in packets_of(HERE / "quickstart.pcapng")]
    parts = []
    for number, frame in enumerate(frames):
        is_cut = number % 7 == 3 and frame[12:14] == b"\x08\0" and len(frame) > 200
        parts += in_fragments(frame, number) if is_cut else [frame]
    assert len(parts) > len(frames)
    from tests.capture.writers import Captured

    path = tmp_path / "made.pcapng"
    path.write_bytes(make_pcapng([Captured(part, n * 1000) for n, part in enumerate(parts)]))
    sliced = anonymous(path, tmp_path)
    assert not any(content(packet)[6] & 0x3F or content(packet)[7] for packet in packets_of(sliced))
    olds, news = rows(path, "exchanges", anonymize=KEY), rows(sliced, "exchanges")
    assert [row["client_id"] for row in news] == [row["client_id"] for row in olds]


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("tls/tls12-4.3.1", ["--keylog"], r"\n\d+ packets of TLS: without payload"),
        ("old/kafka-0.7", [], r"\n\d+ packets of connections without Kafka, or with that before"),
    ],
)
def test_what_cannot_be_anonymized_has_no_payload(
    name: str, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = HERE / f"{name}.pcapng", tmp_path / "sliced.pcapng"
    keys = [word for one in words for word in (one, str(source.with_suffix(".keys")))]
    command = ["slice", str(source), *keys, "--connections", "--anonymize", "-o", str(target)]
    assert run(command) == 0
    assert re.search(said, capsys.readouterr().err)
    assert not bytes_of(target).strip(b"\n")
    sizes = [packet.original_length for packet in packets_of(target)]
    assert max(sizes) > 400  # the packets say how long they were


def test_a_classic_file_and_one_key_give_the_same_names_as_tables(tmp_path: Path) -> None:
    key, target = tmp_path / "key", tmp_path / "sliced.pcap"
    key.write_bytes(KEY)
    source = HERE / "groups-4.3.1.pcapng"
    words = ["slice", str(source), "--anonymize-key", str(key), "-o", str(target)]
    assert run(words) == 0
    names = set(kdissect.read(source, columns=["group_id"]).to_arrow()["group_id"].to_pylist())
    made = set(kdissect.read(target, columns=["group_id"]).to_arrow()["group_id"].to_pylist())
    ours = Pseudonyms(KEY)
    assert made == {None if name is None else ours.name("group", name) for name in names}
    assert NOT_SHOWN not in made


def test_a_slice_of_a_slice_has_pseudonyms_of_pseudonyms(tmp_path: Path) -> None:
    """Blanked batches compress again to their size."""
    first = anonymous(HERE / "quickstart.pcapng", tmp_path)
    second = tmp_path / "second.pcapng"
    write_slice(first, second, connections=True, anonymize=KEY)
    assert rows(second, "batches") == rows(first, "batches", anonymize=KEY)
    assert rows(second, "records") == rows(first, "records", anonymize=KEY)
