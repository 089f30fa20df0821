"""Spans of exchanges: their content, in files and over HTTP to a receiver made here."""

import base64
import gzip
import json
import struct
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import kdissect
from kdissect import KdissectError, OutputError
from kdissect.api import dissected
from kdissect.cli.program import run
from kdissect.slicing.slices import write_slice
from kdissect.spans.describing import LONGEST_TEXT, clean
from kdissect.spans.exporting import Spans, write_spans
from kdissect.spans.otlp_json import json_line
from kdissect.spans.sending import EndpointTarget, FileTarget, shortened
from kdissect.system.extras import missing_extra
from tests.cli.test_hostile_text import harmful_in, strings_of
from tests.conversation import conversation
from tests.exchange_builders import make_body, request, response, sized
from tools.record.scenarios.tracing import traceparent

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")

QUICKSTART = "captures/quickstart.pcapng"
SLOW = "latency_ns > 1e9"
CLIENT, INTERNAL = 3, 1
ERROR = 2
Span = dict[str, Any]


def spans_in(path: Path) -> list[Span]:
    """All spans of a file of OTLP's JSON, their attributes as a dict."""
    return [span for line in path.read_bytes().splitlines() for span in spans_of(json.loads(line))]


def spans_of(message: dict[str, Any]) -> list[Span]:
    found = []
    for resource in message["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            assert scope["scope"] == {"name": "kdissect", "version": kdissect.__version__}
            for span in scope["spans"]:
                pairs = {one["key"]: one["value"] for one in span.get("attributes", [])}
                found.append({**span, "attributes": {k: plain(v) for k, v in pairs.items()}})
    return found


def plain(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [plain(one) for one in content["values"]]
    return int(content) if kind == "intValue" else content


def exported(source: Any, path: Path, *words: str) -> list[Span]:
    assert run(["spans", str(source), "-o", str(path), "--force", *words]) == 0
    return spans_in(path)


def test_span_attributes_match_the_exchange(tmp_path: Path) -> None:
    (span,) = exported(QUICKSTART, tmp_path / "a.jsonl", "--where", SLOW)
    (row,) = kdissect.read(QUICKSTART, where=SLOW).to_arrow().to_pylist()
    attributes = span.pop("attributes")
    assert span.pop("events") == [
        {"name": "kdissect.request.sent", "timeUnixNano": str(row["request_end"].value)},
        {"name": "kdissect.response.started", "timeUnixNano": str(row["response_start"].value)},
    ]
    assert len(span.pop("traceId")) == 32
    assert len(span.pop("spanId")) == 16
    assert span == {
        "name": "Produce orders",
        "kind": CLIENT,
        "startTimeUnixNano": str(row["request_start"].value),
        "endTimeUnixNano": str(row["response_end"].value),
        "status": {},
        "flags": 256,
    }
    own = {name: attributes.pop(name) for name in list(attributes) if name.startswith("kdissect.")}
    assert attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "Produce",
        "messaging.operation.type": "send",
        "messaging.client.id": "slow-rd",
        "messaging.batch.message_count": 1,
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "server.address": "127.0.0.1",
        "server.port": 9092,
        "client.address": "127.0.0.1",
        "client.port": 45844,
        "network.peer.address": "127.0.0.1",
        "network.peer.port": 9092,
        "network.transport": "tcp",
        "network.type": "ipv4",
    }
    assert own.items() >= {"kdissect.outcome": "answered", "kdissect.acks": -1}.items()
    names = [name.removeprefix("kdissect.") for name in own]
    assert {name: own[f"kdissect.{name}"] for name in names} == {name: row[name] for name in names}


def test_there_is_a_span_for_every_exchange_and_no_id_twice(tmp_path: Path) -> None:
    spans = exported(QUICKSTART, tmp_path / "a.jsonl", "--parts")
    assert sum(span["kind"] == CLIENT for span in spans) == 331
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert len({span["traceId"] for span in spans}) == 331


def test_an_error_is_the_status_of_its_span(tmp_path: Path) -> None:
    where = "error = 'MESSAGE_TOO_LARGE' or outcome = 'unanswered'"
    spans = exported(QUICKSTART, tmp_path / "a.jsonl", "--where", where)
    assert {span["status"]["code"] for span in spans} == {ERROR}
    kinds = {(span["status"]["message"], span["attributes"]["error.type"]) for span in spans}
    assert kinds == {("MESSAGE_TOO_LARGE",) * 2, ("unanswered",) * 2}


def test_parts_lie_below_their_exchange_one_behind_the_other(tmp_path: Path) -> None:
    where = "api = 'Fetch' and wait_ns > 0 and work_ns > 0"
    whole, *parts = exported(QUICKSTART, tmp_path / "a.jsonl", "--where", where, "--parts")[:3]
    assert [part["name"] for part in parts] == ["wait", "work"]
    assert {(part["traceId"], part["parentSpanId"], part["kind"]) for part in parts} == {
        (whole["traceId"], whole["spanId"], INTERNAL)
    }
    edges = [part[side] for part in parts for side in ("startTimeUnixNano", "endTimeUnixNano")]
    assert edges[1] == edges[2]
    assert [edges[0], edges[3]] == [whole["startTimeUnixNano"], whole["endTimeUnixNano"]]


def test_exporting_again_gives_the_same_spans_and_so_does_a_slice(tmp_path: Path) -> None:
    first = exported(QUICKSTART, tmp_path / "a.jsonl")
    again = exported(QUICKSTART, tmp_path / "b.jsonl")
    assert again == first
    write_slice(QUICKSTART, tmp_path / "x.pcapng", SLOW)
    ids = {(span["traceId"], span["spanId"]) for span in first}
    sliced = exported(tmp_path / "x.pcapng", tmp_path / "c.jsonl", "--where", SLOW)
    assert {(span["traceId"], span["spanId"]) for span in sliced} <= ids


def test_protobuf_has_the_same_content(tmp_path: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = exported(QUICKSTART, tmp_path / "a.jsonl")
    assert run(["spans", QUICKSTART, "--format", "proto", "-o", str(tmp_path / "a.pb")]) == 0
    content = (tmp_path / "a.pb").read_bytes()
    found = []
    while content:
        (size,) = struct.unpack_from(">I", content)
        message = ExportTraceServiceRequest.FromString(content[4 : 4 + size])
        content = content[4 + size :]
        found += [span.span_id.hex() for span in message.resource_spans[0].scope_spans[0].spans]
    assert found == [span["spanId"] for span in spans]


@pytest.mark.parametrize("name", ["quickstart", "tracing-4.3.1", "networks/ipv6-4.3.1"])
def test_our_json_is_that_of_protobuf_with_ids_in_hex(name: str) -> None:
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    spans = list(Spans(f"captures/{name}.pcapng", has_parts=True))
    expected = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for span in expected["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for holder in (span, *span.get("links", [])):
            for key in {"traceId", "spanId", "parentSpanId"} & holder.keys():
                holder[key] = base64.b64decode(holder[key]).hex()
    assert json.loads(json_line(spans)) == expected


class Receiver(BaseHTTPRequestHandler):
    """An OTLP receiver: keeps its input; responds as the server was configured, then with 200."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        server: Any = self.server
        status = server.answers.pop(0) if server.answers else 200
        server.received.append((self.path, status, body))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002  # the base class's name
        pass


@pytest.fixture
def receiver() -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        made: Any = server
        made.received, made.answers = [], []
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def address_of(receiver: Any) -> str:
    return f"http://127.0.0.1:{receiver.server_address[1]}"


def test_an_endpoint_gets_the_same_spans(
    receiver: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    assert run(["spans", QUICKSTART, "--parts", "--endpoint", address_of(receiver)]) == 0
    assert f"331 exchanges sent to {address_of(receiver)}" in capsys.readouterr().err
    assert {(path, status) for path, status, _ in receiver.received} == {("/v1/traces", 200)}
    found = [
        span.span_id.hex()
        for _, _, body in receiver.received
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for span in resource.scope_spans[0].spans
    ]
    # In batches, so that memory is bounded.
    assert len(receiver.received) > 1
    assert found == [span["spanId"] for span in exported(QUICKSTART, tmp_path / "a", "--parts")]


def test_batches_are_retried_while_the_receiver_is_unavailable(receiver: Any) -> None:
    receiver.answers = [503]
    assert write_spans(QUICKSTART, EndpointTarget(address_of(receiver)), SLOW) == 1
    (_, first, body), (_, second, again) = receiver.received
    assert (first, second) == (503, 200)
    assert again == body


def test_batches_rejected_by_the_receiver_are_an_error(receiver: Any) -> None:
    receiver.answers = [400]
    target = EndpointTarget(address_of(receiver) + "/else")
    with pytest.raises(OutputError, match="/else did not take the spans"):
        write_spans(QUICKSTART, target, SLOW)
    assert [path for path, _, _ in receiver.received] == ["/else"]


def test_a_receiver_that_is_not_there_is_an_error(receiver: Any) -> None:
    address = address_of(receiver)
    receiver.shutdown()
    receiver.server_close()
    with pytest.raises(OutputError, match="did not take"):
        write_spans(QUICKSTART, EndpointTarget(address, timeout_seconds=0.5), SLOW)


@pytest.mark.parametrize("url", ["localhost:4318", "grpc://localhost:4317", "http://", "x"])
def test_invalid_endpoints_are_rejected(url: str) -> None:
    with pytest.raises(KdissectError, match="is no endpoint"):
        EndpointTarget(url)


def test_without_the_sdk_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert run(["spans", QUICKSTART]) == 2
    text = missing_extra("OpenTelemetry export", "otel")
    assert capsys.readouterr().err == f"kdissect: {text}\n"


def test_no_matching_exchange_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spans", QUICKSTART, "--where", "api = 'Vote'"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "no exchanges for spans: read 1" in told.err


def test_a_file_and_an_endpoint_are_one_too_many(tmp_path: Path) -> None:
    words = ["spans", QUICKSTART, "--endpoint", "http://localhost:1", "-o", str(tmp_path / "a")]
    assert run(words) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["-o", "made.json"], ["--endpoint", "localhost:4318"]])
def test_a_target_that_cannot_be_had_opens_no_capture(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = str(Path(QUICKSTART).absolute())
    monkeypatch.chdir(tmp_path)
    Path("made.json").write_text("kept")
    opened = []
    monkeypatch.setattr(dissected, "open_captures", opened.append)
    assert run(["spans", capture, *words]) == 2
    assert opened == []
    assert Path("made.json").read_text() == "kept"


def test_names_from_the_wire_are_made_fit() -> None:
    assert clean("orders") == "orders"
    assert clean("a\0\x1b[2J\u202eb\ud800") == r"a\x00\e[2J\u202eb\ud800"
    assert clean("b" * 1024) == "b" * 1024
    assert clean("b" * 1025) == "b" * 1023 + "…"
    assert clean("\ud800" * 1024) == r"\ud800" * 170 + r"\ud…"


# No UTF-8 (half a character, a byte alone), NUL, controls, direction overrides; and long.
HOSTILE = (
    b"\xed\xa0\x80", b"a\xff\xfeb", b"a\0b", b"\x1b]0;title\x07", "\u202eevil\u2066".encode(),
    b"line\nend", b"x" * 30_000, "\U0001f389".encode() * 2_000, b"\x9b" * 2_000,
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Exchanges with such names of clients, groups and topics."""
    talk = conversation().open().client(request("ApiVersions", 3, 999, "plain"))
    talk = talk.broker(response("ApiVersions", 3, 999))
    for number, name in enumerate(HOSTILE):
        topics = [{"name": name, "partitions": [{"committed_offset": 5}]}]
        header = struct.pack(">hhih", 8, 7, number, len(name)) + name
        body = make_body("OffsetCommit", 7, "request", {"group_id": name, "topics": topics})
        talk = talk.client(sized(header + body))
        answered = [{"name": name, "partitions": [{"error_code": 25}]}]
        talk = talk.broker(response("OffsetCommit", 7, number, topics=answered))
    path = tmp_path / "hostile.pcap"
    path.write_bytes(talk.close().pcap())
    return path


def texts_in(path: Path, format_: str) -> list[str]:
    """The texts of all spans in a file of either format."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    content = path.read_bytes()
    if format_ == "json":
        return [text for line in content.splitlines() for text in strings_of(json.loads(line))]
    found: list[str] = []
    while content:
        (size,) = struct.unpack_from(">I", content)
        message = ExportTraceServiceRequest.FromString(content[4 : 4 + size])
        found += strings_of(MessageToDict(message))
        content = content[4 + size :]
    return found


@pytest.mark.parametrize("format_", ["json", "proto"])
def test_hostile_names_are_escaped_and_bounded_in_every_format(
    format_: str, hostile: Path, tmp_path: Path
) -> None:
    path = tmp_path / "spans"
    assert run(["spans", str(hostile), "--format", format_, "-o", str(path)]) == 0
    found = texts_in(path, format_)
    assert not harmful_in("".join(found), "")
    assert max(map(len, found)) == LONGEST_TEXT
    names = {clean(name.decode("utf-8", "surrogateescape")) for name in HOSTILE[2:-1]}
    assert names <= set(found)
    assert sum(text.startswith("OffsetCommit ") for text in found) == len(HOSTILE)


def test_an_endpoint_takes_hostile_names(receiver: Any, hostile: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    assert write_spans(hostile, EndpointTarget(address_of(receiver))) == len(HOSTILE) + 1
    ((_, status, body),) = receiver.received
    assert status == 200
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert not harmful_in("".join(span.name for span in resource.scope_spans[0].spans), "")


@pytest.mark.parametrize("scope", ["", "SPAN_"])
def test_the_environment_limits_the_length_of_values(
    scope: str, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"OTEL_{scope}ATTRIBUTE_VALUE_LENGTH_LIMIT", "20")
    spans = exported(hostile, tmp_path / "a.jsonl")
    values = [value for span in spans for value in span["attributes"].values()]
    assert max(len(value) for value in values if isinstance(value, str)) == 20
    # Of values only, as the specification has it.
    assert max(len(span["name"]) for span in spans) == LONGEST_TEXT


def test_lists_of_topics_are_bounded_too() -> None:
    assert shortened(["orders", "a"], 3) == ["ord", "a"]
    assert shortened(["orders", "a"], None) == ["orders", "a"]
    assert shortened(123456, 3) == 123456
    assert shortened(True, 3) is True


def test_a_limit_that_is_no_number_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "long")
    assert run(["spans", QUICKSTART]) == 2
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT must be" in capsys.readouterr().err


def test_the_library_writes_files_too(tmp_path: Path) -> None:
    with (tmp_path / "a.jsonl").open("wb") as file:
        assert write_spans(QUICKSTART, FileTarget(file), SLOW, has_parts=True) == 1
    assert [span["name"] for span in spans_in(tmp_path / "a.jsonl")] == ["Produce orders", "work"]


TRACING = Path("captures/tracing-4.3.1.pcapng")
# Of the records in the order they were sent: alone, together, without a context (see the scenario).
ALONE, TOGETHER = (0, 1, 2, 10, 11, 12), ((3, 4, 5, 6, 7, 8), (13, 14, 15, 16, 17, 18))


def context(number: int) -> tuple[str, str]:
    _, trace_id, span_id, _ = traceparent(number).split("-")
    return trace_id, span_id


def links_of(span: Span) -> list[tuple[str, str]]:
    return [(link["traceId"], link["spanId"]) for link in span.get("links", [])]


def test_a_produce_in_one_trace_lies_in_it_and_one_in_several_links_to_them(tmp_path: Path) -> None:
    spans = exported(TRACING, tmp_path / "a.jsonl", "--where", "api = 'Produce'")
    below = [(one["traceId"], one["parentSpanId"]) for one in spans if "parentSpanId" in one]
    assert below == [context(number) for number in ALONE]
    others = [one for one in spans if "parentSpanId" not in one]
    linked = [sorted(links_of(span)) for span in others if links_of(span)]
    assert linked == [sorted(map(context, numbers)) for numbers in TOGETHER]
    # And the two without a context in their record.
    assert len(others) == len(linked) + 2
    assert {one["traceId"] for one in others}.isdisjoint(trace_id for trace_id, _ in below)


def test_fetch_span_links_to_the_spans_of_its_records(tmp_path: Path) -> None:
    spans = exported(TRACING, tmp_path / "a.jsonl", "--where", "api = 'Fetch'", "--parts")
    linked = {link for span in spans for link in links_of(span)}
    numbers = [*ALONE, *[number for some in TOGETHER for number in some]]
    assert linked == {context(number) for number in numbers}
    assert not any(span["kind"] == CLIENT and "parentSpanId" in span for span in spans)


def test_records_are_left_alone_when_no_links_are_wanted(tmp_path: Path) -> None:
    spans = exported(TRACING, tmp_path / "a.jsonl", "--no-links")
    assert not any("links" in span or "parentSpanId" in span for span in spans)


def test_records_export_nothing_but_the_trace_context(tmp_path: Path) -> None:
    exported(TRACING, tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_bytes()
    assert b"0af7651916cd43dd8448eb211c80" in text
    assert not any(word in text for word in (b"north", b"shop", b"order 1", b'"k1"'))
