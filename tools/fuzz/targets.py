"""Fuzz targets: each takes any bytes and raises only when a promise is broken.

A target's docstring says how its input is laid out. Promises: values or DecodeError, never another
exception; `read`, `skip` and projected decodes end at the same offset; every byte is accounted for;
what is given can be written as JSON.
"""

import json
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Final

import kdissect
from kdissect.capture.packet import Packet
from kdissect.cli.program import run
from kdissect.dissection.dissector import Dissector
from kdissect.errors import CaptureError, CorruptRecords, DecodeError
from kdissect.messages.bodies import REQUEST, RESPONSE, decode, decode_request
from kdissect.messages.compression import CODECS, decompress
from kdissect.messages.embedded import decode_forwarded, decode_forwarded_answer, decode_principal
from kdissect.messages.extracted import FieldSink
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.full_bodies import body_json, full_body
from kdissect.messages.group_protocols import ASSIGNMENT, SUBSCRIPTION, opened_member
from kdissect.messages.headers import (
    is_plausible_request,
    read_request_header,
    response_body_offset,
)
from kdissect.messages.internal_topics import CONTROL_VALUES, COORDINATORS, METADATA, opened_record
from kdissect.messages.interner import Interner
from kdissect.messages.layout_choice import body_readers
from kdissect.messages.memberships import memberships
from kdissect.messages.message_set_values import decode_set
from kdissect.messages.message_sets import check_set_crc, read_set, scan_set
from kdissect.messages.old_bodies import decode_old, full_old_body
from kdissect.messages.old_protocols import OLD_APIS, PROTOCOLS
from kdissect.messages.old_recognition import is_request_07
from kdissect.messages.records import check_crc, decode_records, read_records, scan_batches
from kdissect.messages.telemetry import decode_metrics
from kdissect.pipeline import Options, make_dissector
from kdissect.protocol.apis import APIS
from kdissect.protocol.plans import GeneratedRead, Plan, read_generated
from kdissect.protocol.readers import FAILED
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.packets.builders import BROKER, CLIENT, make_tcp_packet
from tests.protocol.projected import by_tree, facts_of
from tools.fuzz import faulty_captures, faulty_tls

__all__ = ["TARGETS"]

GROUP_APIS: Final = (11, 12, 13, 14, 68, 76, 88)
UNPACKED_LIMIT: Final = 1 << 20  # of records here, so that memory reflects use
PLANS: Final = fact_plans()
ASSIGNORS: Final = ("range", "sticky", "cooperative-sticky", "stream", "default", "sessioned", None)
GROUP_TYPES: Final = ("consumer", "connect", "sr", "", None)
TOPICS: Final = (*COORDINATORS, *METADATA)


def fuzz_requests(data: bytes) -> None:
    """A byte each for API key and version, then a body."""
    fuzz_body(data, REQUEST)


def fuzz_responses(data: bytes) -> None:
    """A byte each for API key and version, then a body."""
    fuzz_body(data, RESPONSE)


def fuzz_body(data: bytes, direction: str) -> None:
    if len(data) < 2:
        return
    api = APIS[data[0] % len(APIS)]
    version = api.lowest + data[1] % (api.highest - api.lowest + 1)
    body = data[2:]
    check_readers(api.key, version, direction, body)
    with suppress(DecodeError):
        values = decode(api.key, version, direction, body)
        json.dumps(body_json(values, True)).encode()
        if api.key in GROUP_APIS and direction == REQUEST:
            list(memberships(api.key, values, None))
        elif api.key in GROUP_APIS:
            list(memberships(api.key, group_request(api.key, version), values))
    frame = frame_of(api.key, version, direction, body)
    with suppress(DecodeError):
        opened = full_body(api.key, version, frame, direction == RESPONSE, b"", {})
        body_json(opened, True).encode()
        body_json(opened, False).encode()


def check_readers(key: int, version: int, direction: str, body: bytes) -> None:
    """All layouts of the version read, skip and project to the same offset."""
    name = APIS[key].name
    is_response = direction == RESPONSE
    plans = [*PLANS.variants(key, version, is_response)]
    readers = [layout.reader for layout in body_readers(f"apis/{name}", name, direction, version)]
    if len(readers) > len(plans):
        plans.insert(0, PLANS.get(key, version, is_response))
    sink = FieldSink(Interner(), {})
    for reader, plan in zip(readers, plans, strict=True):
        sink.begin()
        read = ended(lambda reader=reader: reader.read(body, 0)[1])
        skipped = ended(lambda reader=reader: reader.skip(body, 0))
        projected = ended(lambda plan=plan: plan.run(body, 0, sink))
        sink.take_partial(plan, body, 0)
        if read is not None:
            assert read == skipped == projected, (name, version, read, skipped, projected)
        assert skipped == projected or None in (skipped, projected), (skipped, projected)
        generated = plan.generated_read()
        if generated is not None:
            check_generated(plan, generated, body)


def check_generated(plan: Plan, generated: GeneratedRead, body: bytes) -> None:
    """A generated reader agrees with the tree of readers, or leaves the body to it."""
    interner = Interner()
    sink, tree_sink = FieldSink(interner, {}), FieldSink(interner, {})
    end = read_generated(generated, body, 0, sink)
    tree_end = by_tree(plan, body, tree_sink, 0)
    if end != FAILED:
        assert end == tree_end, (end, tree_end)
        assert facts_of(sink) == facts_of(tree_sink)


def ended(decode_one: Callable[[], int]) -> int | None:
    try:
        return decode_one()
    except DecodeError as error:
        check_error(error)
        return None


def check_error(error: DecodeError) -> None:
    """Check that it can be shown, and points into its bytes."""
    str(error)
    error.hexdump()
    assert error.offset <= len(error.data), (error.offset, len(error.data))


def frame_of(key: int, version: int, direction: str, body: bytes) -> bytes:
    """The body behind a header without client id and tags."""
    flexible = 0 <= APIS[key].first_flexible <= version
    if direction == RESPONSE:
        return bytes(4) + (b"\0" if flexible and key != 18 else b"") + body
    start = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4)
    if (key, version) == (7, 0):
        return start + body
    return start + b"\xff\xff" + (b"\0" if flexible else b"") + body


def group_request(key: int, version: int) -> dict[str, Any]:
    """Some request of a group API, to interpret its response."""
    for size in range(400):
        with suppress(DecodeError):
            return decode(key, version, REQUEST, bytes(size))
    raise AssertionError(f"no request of zeros for {key} v{version}")


def fuzz_headers(data: bytes) -> None:
    """A frame: of a client, and of a broker that answers any request."""
    is_plausible_request(data)
    is_plausible_request(data, is_whole=False)
    with suppress(DecodeError):
        header = read_request_header(data)
        assert 8 <= header.body_offset <= len(data)
        assert header.client_id_start + max(header.client_id_size, 0) <= header.body_offset
        json.dumps(str(decode_request(data))).encode()
    if len(data) > 3:
        key, version = data[0] % 100, data[1] % 20
        with suppress(DecodeError):
            assert 4 <= response_body_offset(key, version, data[2:]) <= len(data) - 2
        with suppress(DecodeError):
            full_body(key, version, data[2:], True, b"")


def fuzz_records(data: bytes) -> None:
    """A records field of any formats."""
    scan = scan_batches(data, 0, len(data))
    accounted = sum(batch.size for batch in scan.batches)
    assert accounted + scan.corrupt_size + scan.partial_size == len(data)
    position = 0
    for batch in scan.batches:
        assert position <= batch.start < batch.end <= len(data)
        assert batch.records_start + batch.compressed_size <= batch.end
        position = batch.end
        check_crc(data, batch)
        declared = batch.record_count
        found = read_records(data, batch, UNPACKED_LIMIT)
        if batch.magic == 2:
            assert len(found.records) + found.lost_count == declared
        assert (found.error is None) == (found.lost_count == 0) or found.error is not None
        for record in found.records:
            assert 0 <= record.start <= record.end <= len(record.payload)
            assert len(record.headers()) == record.header_count
            assert len(record.key() or b"") == max(record.key_size, 0)
            assert len(record.value() or b"") == max(record.value_size, 0)
            record.control_type()
    for batch_values in decode_records(data, UNPACKED_LIMIT):
        for record_values in batch_values.get("records", ()):  # type: ignore[attr-defined]
            for topic in (None, *TOPICS):
                json.dumps(str(opened_record(record_values, topic)))


def fuzz_packed_records(data: bytes) -> None:
    """A byte for magic and codec, then the data to compress into one batch or wrapper."""
    from tests.messages.record_builders import make_batch, make_wrapper

    if len(data) < 2:
        return
    magic, codec = data[0] % 3, data[0] // 3 % 5
    if magic == 2:
        count = data[1]
        fuzz_records(make_batch([data[2:]], codec=codec, record_count=count, attributes=0))
    elif 0 < codec < 4:
        fuzz_records(make_wrapper(magic, codec, [data[2:]], offset=data[1]))


def fuzz_compression(data: bytes) -> None:
    """A byte for codec and magic, then compressed bytes."""
    if not data:
        return
    codec, magic = data[0] % (len(CODECS) + 1), data[0] // 16 % 3
    with suppress(CorruptRecords):
        unpacked = decompress(codec, data[1:], UNPACKED_LIMIT, magic)
        assert codec == 0 or len(unpacked) <= UNPACKED_LIMIT


def fuzz_embedded(data: bytes) -> None:
    """Two bytes select what the rest is: members' bytes, own topics' records, forwarded frames."""
    if len(data) < 3:
        return
    choice, detail, rest = data[0] % 7, data[1], data[2:]
    with suppress(DecodeError):
        opened = open_embedded(choice, detail, rest)
        body_json({"opened": opened}, True).encode()


def open_embedded(choice: int, detail: int, rest: bytes) -> Any:
    if choice == 0:
        part = (SUBSCRIPTION, ASSIGNMENT)[detail & 1]
        kind = GROUP_TYPES[detail // 2 % len(GROUP_TYPES)]
        return opened_member(rest, part, kind, ASSIGNORS[detail // 16 % len(ASSIGNORS)])
    if choice == 1:
        key, value = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
        record = {"offset": 0, "time_ms": 0, "key": key, "value": value, "headers": []}
        return opened_record(record, TOPICS[detail % len(TOPICS)])
    if choice == 2:
        kinds = ("ABORT", "COMMIT", *CONTROL_VALUES, 9)
        record = {"offset": 0, "time_ms": 0, "key": b"", "value": rest, "headers": []}
        return opened_record(record | {"control_type": kinds[detail % len(kinds)]}, None)
    if choice == 3:
        return decode_forwarded(rest)
    if choice == 4:
        return decode_forwarded_answer(rest[detail:], rest[:detail])
    if choice == 5:
        return decode_principal(rest)
    return decode_metrics(rest, detail % len(CODECS))


def fuzz_old(data: bytes) -> None:
    """A byte each for protocol and API, then a frame of before 0.8; its bytes are a set, too."""
    if len(data) < 2:
        return
    protocol = 1 + data[0] % len(OLD_APIS)
    apis = list(OLD_APIS[protocol].values())
    api = apis[data[1] % len(apis)]
    frame = data[2:]
    for direction in (REQUEST, RESPONSE):
        with suppress(DecodeError):
            decode_old(PROTOCOLS[protocol], api.key, direction, frame)
        with suppress(DecodeError):
            opened = full_old_body(protocol, api.key, frame, direction == RESPONSE, frame)
            body_json(opened, True).encode()
    is_request_07(frame, len(frame))
    scan = scan_set(frame, 0, len(frame), 7)
    accounted = sum(batch.size for batch in scan.batches)
    assert accounted + scan.corrupt_size + scan.partial_size == len(frame)
    for batch in scan.batches:
        check_set_crc(frame, batch)
        for record in read_set(frame, batch, UNPACKED_LIMIT).records:
            assert 0 <= record.start <= record.end <= len(record.payload)
    body_json({"set": decode_set(frame)}, True).encode()


def fuzz_connections(data: bytes) -> None:
    """A byte of how the capture starts and of the protocol, then packets of one connection.

    Packet: a byte (bit 0 the broker's, bits 1-2 as it is, lost, doubled or late, bits 3-7 high
    bits of the size), a byte of the low bits of the size, that many bytes.
    """
    if not data:
        return
    dissector = new_dissector(("auto", *PROTOCOLS)[data[0] // 4 % (1 + len(PROTOCOLS))])
    packets = []
    sequences = [1001, 70001]
    ports = (50000, 9092 if data[0] & 2 else 40000)
    late: list[bytes] = []
    if data[0] & 1:
        packets += [tcp(0, ports, [1000, 0], b"", 0x02), tcp(1, ports, [1001, 70000], b"", 0x12)]
    at = 1
    while at + 2 <= len(data):
        side, how = data[at] & 1, data[at] >> 1 & 3
        size = (data[at] >> 3) << 8 | data[at + 1]
        payload = data[at + 2 : at + 2 + size]
        at += 2 + len(payload)
        packet = tcp(side, ports, sequences, payload, 0x18)
        packets += [[packet], [], [packet, packet], []][how]
        sequences[side] += len(payload)
        if how == 3:
            late.append(packet)
        elif late:
            packets.append(late.pop())
    dissect([packet_of(at, data) for at, data in enumerate(packets + late, 1)], dissector)


def packet_of(number: int, data: bytes) -> Packet:
    return Packet(number, number * 1000, 1, data, 0, len(data), len(data), number, 0)


def tcp(
    side: int, ports: tuple[int, int], sequences: list[int], payload: bytes, flags: int
) -> bytes:
    """A packet of the client (0) or the broker (1)."""
    addresses = (CLIENT, BROKER)
    return make_tcp_packet(
        payload,
        addresses[side],
        addresses[1 - side],
        ports[side],
        ports[1 - side],
        sequences[side],
        sequences[1 - side],
        flags,
    )


def new_dissector(protocol: str) -> Dissector:
    """One that makes every table."""
    options = Options(tables=tuple(TABLES), payload=True, verify_crc=True, protocol=protocol)
    dissector = make_dissector(options, collects=False, keeps_frames=False)
    dissector.unpacking.limit = UNPACKED_LIMIT
    dissector.exchanges.bodies.plans = PLANS
    return dissector


def check_balance(dissector: Dissector) -> None:
    """Captured payload is framed, skipped or was there before."""
    accounted = (
        dissector.totals.framed_bytes
        + dissector.totals.skipped_bytes
        + dissector.totals.duplicate_bytes
    )
    accounted += dissector.totals.tls_bytes + dissector.totals.encrypted_bytes
    assert accounted == dissector.totals.payload_bytes, (
        dissector.totals.payload_bytes,
        dissector.totals.framed_bytes,
        dissector.totals.skipped_bytes,
        dissector.totals.duplicate_bytes,
    )


def drain(dissector: Dissector) -> None:
    """All rows become Arrow batches that are valid."""
    for name in dissector.full_tables(1):
        builder = BatchBuilder(TABLES[name], ["-"], dissector.exchanges.names)
        builder.batch(dissector.take_rows(name)).validate(full=True)


def fuzz_captures(data: bytes) -> None:
    """A capture file of any format that is not compressed."""
    with suppress(CaptureError):
        run_ = kdissect.Run(BytesIO(data), Options(tables=tuple(TABLES), payload=True))
        run_.dissector.exchanges.bodies.plans = PLANS
        for _, batch in run_:
            batch.validate(full=True)


def fuzz_show(data: bytes) -> None:
    """A capture file as ``kdissect show`` prints it, as text and as JSON."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "mutated")
        path.write_bytes(data)
        for style in ("text", "jsonl"):
            out, err = StringIO(), StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                code = run(["show", "--payload", "--no-progress", "--format", style, str(path)])
            assert code in (0, 1, 2), err.getvalue()
            out.getvalue().encode()
            if style == "jsonl":
                for line in out.getvalue().splitlines():
                    json.loads(line)


def fuzz_packets(data: bytes) -> None:
    """Edits of captured packets, see `faulty_captures`."""
    dissect(faulty_captures.edited_packets(data), new_dissector("auto"))


def fuzz_segments(data: bytes) -> None:
    """Edits of the segments of a conversation, see `faulty_captures`."""
    dissect(faulty_captures.edited_segments(data), new_dissector("auto"))


def fuzz_tls(data: bytes) -> None:
    """Edits of the records of a TLS session with known secrets, see `faulty_tls`."""
    if not data:
        return
    said, talk, way = faulty_tls.edited_talk(data)
    faulty_tls.check_plaintext(said, talk, way)
    dissector = new_dissector("auto")
    dissector.tls.keys.add(faulty_tls.keylog_of(talk, way), "log")
    dissect(said.packets(), dissector)


def dissect(packets: list[Packet], dissector: Dissector) -> None:
    """All tables of the packets, and the balance of their bytes."""
    dissector.feed(packets)
    dissector.finish()
    check_balance(dissector)
    drain(dissector)


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "requests": fuzz_requests,
    "responses": fuzz_responses,
    "headers": fuzz_headers,
    "records": fuzz_records,
    "packed-records": fuzz_packed_records,
    "compression": fuzz_compression,
    "embedded": fuzz_embedded,
    "old": fuzz_old,
    "connections": fuzz_connections,
    "segments": fuzz_segments,
    "packets": fuzz_packets,
    "blocks": faulty_captures.fuzz_blocks,
    "tls": fuzz_tls,
    "captures": fuzz_captures,
    "show": fuzz_show,
}
